//! The OpenAPI document of the API: made from the table of routes, the schema of [`Request`] and the schemas of answers.

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
        let operation = operation(route, variant, answer, &problem);
        insert(&mut paths, route.path, route.method.as_str(), operation);
    }
    let session = plain(
        "session",
        "Who the token is of.",
        &caller,
        "application/json",
    );
    insert(&mut paths, "/session", "GET", session);
    let text = json!({"type": "string"}).try_into().unwrap_or_default();
    let about = "Follow the state: `sample` each second (status and health), `log` for each event.";
    let stream = plain("stream", about, &text, "text/event-stream");
    insert(&mut paths, "/stream", "GET", stream);
    json!({
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Ropewalk administration",
            "version": version,
            "license": {"name": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": API_ROOT}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": answers.generator.definitions(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn insert(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    let item = paths.entry(path).or_insert_with(|| json!({}));
    item[method.to_ascii_lowercase()] = operation;
}

/// An operation without parameters that any caller may ask for.
fn plain(id: &str, summary: &str, answer: &Schema, media_type: &str) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "tags": ["state"],
        "responses": {"200": {"description": "done", "content": {media_type: {"schema": answer}}}},
    })
}

fn operation(route: &Route, variant: &Value, answer: &Schema, problem: &Schema) -> Value {
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
            if param.kind == ParamKind::Numbers {
                parameter["style"] = "form".into();
                parameter["explode"] = false.into();
            }
            parameter
        })
        .collect();
    let mut operation = json!({
        "operationId": route.command,
        "summary": variant["description"],
        "description": format!("Needs the role {}.", route.role),
        "tags": [route.tag],
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": answer}}},
            "default": {
                "description": "not done",
                "content": {crate::problem::PROBLEM_JSON: {"schema": problem}},
            },
        },
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
