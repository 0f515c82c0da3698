//! The OpenAPI document of the API: made from the table of routes, the schema of [`Request`] and the schemas of answers. What is
//! no route is written down here.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::request::Request;
use crate::route::{API_ROOT, ParamKind, Route};
use crate::routes::ROUTES;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Version of OpenAPI that the document is written in.
const OPENAPI_VERSION: &str = "3.1.0";
/// Where schemas of named types are.
const COMPONENTS: &str = "/components/schemas";
/// Where answers of what is not done are.
const RESPONSES: &str = "#/components/responses";
/// What each status of a refusal means, and the header that goes with it.
const FAILURES: [(&str, &str, Option<&str>); 13] = [
    ("400", "a value makes no sense", None),
    ("401", "no good token", Some("WWW-Authenticate")),
    ("403", "the role is too low", Some("WWW-Authenticate")),
    ("404", "what is named is not there", None),
    ("405", "the path takes other methods", Some("Allow")),
    ("408", "the body took too long", None),
    ("409", "refused as things are", None),
    ("413", "the body is too long", None),
    ("415", "the body is not JSON", None),
    ("426", "the connection must be upgraded", Some("Upgrade")),
    ("500", "the server failed", None),
    ("503", "busy", Some("Retry-After")),
    ("504", "not done in time; it goes on", None),
];
/// Statuses of refusals of every path.
const OF_ALL: &[&str] = &["401", "500", "503"];
/// Beside those, of what is looked at.
const OF_LOOKS: &[&str] = &["400", "403", "404", "504"];
/// Beside those, of orders.
const OF_ORDERS: &[&str] = &["408", "409", "413", "415"];

/// The schemas of answers, by command.
pub struct Answers {
    generator: SchemaGenerator,
    schemas: BTreeMap<&'static str, Schema>,
}

impl Default for Answers {
    fn default() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = COMPONENTS.into();
        Self {
            generator: settings.into_generator(),
            schemas: BTreeMap::new(),
        }
    }
}

impl Answers {
    /// A command is answered with a `T`.
    #[must_use]
    pub fn with<T: JsonSchema>(mut self, command: &'static str) -> Self {
        let schema = self.generator.subschema_for::<T>();
        self.schemas.insert(command, schema);
        self
    }
}

/// The document of the routes whose answers are known: what a server does not answer is left out.
#[must_use]
pub fn document(version: &str, mut answers: Answers) -> Value {
    let variants = variants();
    let caller = answers.generator.subschema_for::<Caller>();
    let problem = answers.generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    for route in &*ROUTES {
        let Some(answer) = answers.schemas.get(route.command) else {
            continue;
        };
        let variant = &variants[route.command];
        let operation = operation(route, variant, answer);
        insert(&mut paths, route.path, route.method.as_str(), operation);
    }
    for (path, operation) in beside_routes(&caller) {
        insert(&mut paths, path, "GET", operation);
    }
    json!({
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Ropewalk administration",
            "version": version,
            "description": "Each path of GET answers HEAD too. Other methods than those of a path are answered with 405.",
            "license": {"name": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": API_ROOT}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": answers.generator.definitions(),
            "responses": failures(&problem),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn insert(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    let item = paths.entry(path).or_insert_with(|| json!({}));
    item[method.to_ascii_lowercase()] = operation;
}

/// The answers of what is not done, by status.
fn failures(problem: &Schema) -> Map<String, Value> {
    let failure = |(status, meaning, header): &(&str, &str, Option<&str>)| {
        let mut response = json!({
            "description": meaning,
            "content": {crate::problem::PROBLEM_JSON: {"schema": problem}},
        });
        if let Some(name) = header {
            response["headers"] = json!({*name: {"schema": {"type": "string"}}});
        }
        ((*status).to_owned(), response)
    };
    FAILURES.iter().map(failure).collect()
}

/// The answers of an operation: when it is done, and by status when it is not.
fn responses(status: &str, done: &Value, failures: &[&[&str]]) -> Value {
    let mut all = Map::new();
    all.insert(status.to_owned(), done.clone());
    for code in failures.iter().copied().flatten() {
        let reference = json!({"$ref": format!("{RESPONSES}/{code}")});
        all.insert((*code).to_owned(), reference);
    }
    all.into()
}

/// What is answered with content of a media type.
fn content(media_type: &str, schema: &Value) -> Value {
    json!({"description": "done", "content": {media_type: {"schema": schema}}})
}

/// The paths that are no command's. Any caller may ask for them, but for the tunnel.
fn beside_routes(caller: &Schema) -> [(&'static str, Value); 4] {
    let caller = content("application/json", caller.as_value());
    let document = content("application/json", &json!({"type": "object"}));
    let stream = content("text/event-stream", &json!({"type": "string"}));
    let tunnel = json!({
        "description": "the connection carries ONC RPC records from here on",
        "headers": {"Upgrade": {"schema": {"const": crate::tunnel::PROTOCOL}}},
    });
    let follow =
        "Follow the state: `sample` each second (status and health), `log` for each event.";
    [
        (
            "/openapi.json",
            json!({
                "operationId": "openapi",
                "summary": "This document. It needs no token.",
                "tags": ["state"],
                "security": [],
                "responses": responses("200", &document, &[]),
            }),
        ),
        (
            "/session",
            json!({
                "operationId": "session",
                "summary": "Who the token is of.",
                "tags": ["state"],
                "responses": responses("200", &caller, &[OF_ALL]),
            }),
        ),
        (
            "/stream",
            json!({
                "operationId": "stream",
                "summary": follow,
                "description": "`missed` says that events after Last-Event-ID are gone.",
                "tags": ["state"],
                "parameters": [{
                    "name": "Last-Event-ID",
                    "in": "header",
                    "required": false,
                    "description": "The id of the last event that was seen: those after it come first.",
                    "schema": {"type": "integer", "minimum": 0},
                }],
                "responses": responses("200", &stream, &[OF_ALL, &["404"]]),
            }),
        ),
        (
            "/nfs",
            json!({
                "operationId": "nfs",
                "summary": "Turn the connection into a tunnel for NFS with the rights of an administrator.",
                "description": "Needs the role admin.",
                "tags": ["files"],
                "parameters": [{
                    "name": "Upgrade",
                    "in": "header",
                    "required": true,
                    "schema": {"const": crate::tunnel::PROTOCOL},
                }],
                "responses": responses("101", &tunnel, &[OF_ALL, &["403", "404", "426"]]),
            }),
        ),
    ]
}

fn operation(route: &Route, variant: &Value, answer: &Schema) -> Value {
    let fields = variant["properties"].as_object();
    let fields = fields.cloned().unwrap_or_default();
    let required: Vec<&str> = variant["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let of_body: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| *name != "command" && route.params.iter().all(|p| p.name != *name))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    let parameters: Vec<Value> = route
        .params
        .iter()
        .map(|param| {
            let field = &fields[param.name];
            let is_in_path = route.is_in_path(param.name);
            let mut parameter = json!({
                "name": param.name,
                "in": if is_in_path { "path" } else { "query" },
                "required": is_in_path || required.contains(&param.name),
                "description": field["description"],
                "schema": schema_of(param.kind),
            });
            if !field["default"].is_null() {
                parameter["schema"]["default"] = field["default"].clone();
            }
            if param.kind == ParamKind::Numbers {
                parameter["style"] = "form".into();
                parameter["explode"] = false.into();
            }
            parameter
        })
        .collect();
    let done = content("application/json", answer.as_value());
    let failures: &[&[&str]] = match route.is_safe() {
        true => &[OF_ALL, OF_LOOKS],
        false => &[OF_ALL, OF_LOOKS, OF_ORDERS],
    };
    let mut operation = json!({
        "operationId": route.command,
        "summary": variant["description"],
        "description": format!("Needs the role {}.", route.role),
        "tags": [route.tag],
        "parameters": parameters,
        "responses": responses("200", &done, failures),
    });
    if !of_body.is_empty() {
        let needed: Vec<&&str> = required
            .iter()
            .filter(|n| of_body.contains_key(**n))
            .collect();
        operation["requestBody"] = json!({
            "required": !needed.is_empty(),
            "content": {"application/json": {"schema": {
                "type": "object",
                "properties": of_body,
                "required": needed,
                "additionalProperties": false,
            }}},
        });
    }
    operation
}

fn schema_of(kind: ParamKind) -> Value {
    match kind {
        ParamKind::Text => json!({"type": "string"}),
        ParamKind::Number => json!({"type": "integer", "minimum": 0}),
        ParamKind::Bool => json!({"type": "boolean"}),
        ParamKind::Numbers => {
            json!({"type": "array", "items": {"type": "integer", "minimum": 0}})
        }
    }
}

/// The schema of each command's fields.
pub(crate) fn variants() -> BTreeMap<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<Request>();
    let schema = schema.to_value();
    let all = schema["oneOf"].as_array().cloned().unwrap_or_default();
    let named = all.into_iter().filter_map(|variant| {
        let name = variant["properties"]["command"]["const"].as_str()?;
        Some((name.to_owned(), variant))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    //! Goal: nothing that a caller may ask, or may be answered, is missing in the document.
    use super::*;

    #[test]
    fn refusals_are_described_and_defaults_are_those_of_the_requests() {
        let mut answers = Answers::default();
        for route in &*ROUTES {
            answers = answers.with::<()>(route.command);
        }
        let document = document("1", answers);
        let paths = document["paths"].as_object().unwrap();
        for path in ["/openapi.json", "/session", "/stream", "/nfs"] {
            assert!(paths[path]["get"].is_object(), "{path}");
        }
        for (path, item) in paths {
            for (method, operation) in item.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                let is_open = operation["security"] == json!([]);
                assert_eq!(responses.contains_key("401"), !is_open, "{path}");
                for of_orders in ["408", "409"] {
                    let has_it = responses.contains_key(of_orders);
                    assert_eq!(has_it, method != "get", "{path}");
                }
                for reference in responses.values().filter_map(|r| r["$ref"].as_str()) {
                    let found = document.pointer(reference.trim_start_matches('#'));
                    assert!(found.is_some(), "{path}: {reference}");
                }
            }
        }
        let not_allowed = &document["components"]["responses"]["405"];
        assert!(not_allowed["headers"]["Allow"].is_object());
        for (path, name, default) in [
            ("/events", "after", json!(0)),
            ("/events", "limit", json!(crate::EVENTS_MAX)),
            ("/clients", "limit", json!(1000)),
            ("/clients", "after", Value::Null),
        ] {
            let parameters = paths[path]["get"]["parameters"].as_array().unwrap();
            let parameter = parameters.iter().find(|p| p["name"] == name).unwrap();
            assert_eq!(parameter["schema"]["default"], default, "{path} {name}");
        }
        let removed = &paths["/data-servers/{ds_id}"]["delete"]["parameters"][1]["schema"];
        assert_eq!(removed["default"], json!(false));
        let upgrade = &paths["/nfs"]["get"]["parameters"][0];
        assert_eq!(upgrade["schema"]["const"], crate::tunnel::PROTOCOL);
    }
}
