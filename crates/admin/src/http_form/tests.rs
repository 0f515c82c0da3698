//! Goal: each command has one HTTP form that leads back to it, and nothing else is taken.
use super::*;
use crate::openapi::variants;
use serde_json::json;

/// The request that an HTTP form leads to.
fn decoded(form: &HttpForm) -> Result<Request, Problem> {
    let (path, query) = match form.target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (form.target.as_str(), None),
    };
    let (route, values) = find(&form.method, path.strip_prefix(API_ROOT).unwrap())?;
    decode(route, &values, query, &form.body)
}

/// A value of the kind that a schema says.
fn example(schema: &Value) -> Value {
    let kind = schema["type"]
        .as_str()
        .or_else(|| schema["type"][0].as_str());
    match kind {
        Some("string") => match schema["enum"].as_array() {
            Some(all) => all[0].clone(),
            None => "a/b ?&=\u{fc}%".into(),
        },
        Some("integer") => 7.into(),
        Some("boolean") => true.into(),
        Some("array") => json!([example(&schema["items"]), example(&schema["items"])]),
        _ => match schema["oneOf"].as_array() {
            Some(all) => all[0]["const"].clone(),
            None => panic!("no example of {schema}"),
        },
    }
}

#[test]
fn each_command_has_one_route_that_leads_back_to_it() {
    let variants = variants();
    assert!(variants.len() > 20, "the schema has all commands");
    let mut routed: Vec<&str> = ROUTES.iter().map(|r| r.command).collect();
    routed.sort_unstable();
    let all: Vec<&str> = variants.keys().map(String::as_str).collect();
    assert_eq!(routed, all);
    for (command, schema) in &variants {
        let properties = schema["properties"].as_object().unwrap();
        let fields = properties.iter().filter(|(name, _)| *name != COMMAND);
        let mut fields: Map<String, Value> = fields.map(|(n, s)| (n.clone(), example(s))).collect();
        fields.insert(COMMAND.to_owned(), command.as_str().into());
        let request: Request = serde_json::from_value(Value::Object(fields)).unwrap();
        let form = encode(&request);
        assert_eq!(decoded(&form).unwrap(), request, "{form:?}");
    }
}

#[test]
fn no_two_routes_share_a_method_and_a_path() {
    for route in &*ROUTES {
        let asked: String = route.path.replace(['{', '}'], "");
        let found = find(&route.method, &asked).unwrap().0;
        assert_eq!(found.command, route.command);
        for param in route.params.iter().filter(|p| route.is_in_path(p.name)) {
            assert_ne!(param.kind, ParamKind::Numbers);
        }
    }
}

#[test]
fn what_is_no_request_is_refused_with_a_sentence() {
    let form = |method: Method, target: &str, body: &str| HttpForm {
        method,
        target: format!("{API_ROOT}{target}"),
        body: body.as_bytes().to_vec(),
    };
    for (form, status, word) in [
        (form(Method::GET, "/nothing", ""), 404, "openapi.json"),
        (form(Method::GET, "/clients/", ""), 404, "openapi.json"),
        (form(Method::PUT, "/clients", ""), 405, "GET, HEAD"),
        (form(Method::HEAD, "/scrub", ""), 405, "POST"),
        (form(Method::HEAD, "/clients", "{}"), 400, "no body"),
        (form(Method::GET, "/clients?limit=x", ""), 400, "`limit`"),
        (
            form(Method::GET, "/clients?limit=1&limit=2", ""),
            400,
            "twice",
        ),
        (
            form(Method::GET, "/clients?command=scrub", ""),
            400,
            "command",
        ),
        (form(Method::GET, "/clients", "{}"), 400, "no body"),
        (form(Method::GET, "/locks", ""), 400, "`path`"),
        (form(Method::GET, "/locks?path=%ff", ""), 400, "UTF-8"),
        (form(Method::POST, "/scrub", "[]"), 400, "JSON object"),
        (
            form(Method::POST, "/scrub", "{\"dry_run\":true}"),
            400,
            "`dry_run`",
        ),
        (
            form(Method::POST, "/scrub", "{\"command\":\"reload\"}"),
            400,
            "follows from the path",
        ),
        (form(Method::POST, "/rebalance", "{}"), 400, "`wanted`"),
        (
            form(Method::POST, "/rebalance", "{\"wanted\":1}"),
            400,
            "boolean",
        ),
        (
            form(Method::POST, "/data-servers/x/drain", ""),
            400,
            "`ds_id`",
        ),
        (
            form(Method::POST, "/data-servers/1/drain", "{\"ds_id\":2}"),
            400,
            "twice",
        ),
        (
            form(Method::POST, "/data-servers/1/drain", "{\"new\":2}"),
            400,
            "`new`",
        ),
    ] {
        let problem = decoded(&form).unwrap_err();
        assert_eq!(problem.status, status, "{form:?}: {problem:?}");
        assert!(problem.detail.contains(word), "{form:?}: {problem:?}");
    }
}
