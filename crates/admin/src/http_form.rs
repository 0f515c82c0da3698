//! From an HTTP request to a [`Request`] and back: one row of [`ROUTES`] for each command.
//!
//! A request is an object of its command's fields. The path has some of them, the query or the body the others. So the
//! HTTP form, the OpenAPI document and the client follow from the enum and the table.

use crate::problem::Problem;
use crate::request::Request;
use crate::route::{API_ROOT, Param, ParamKind, PathValues, Route, placeholder, segments};
use crate::routes::ROUTES;
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};

/// What stays as it is in a path segment or a query value (RFC 3986 §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Methods of a path that is only looked at.
pub(crate) const GET_AND_HEAD: &str = "GET, HEAD";

/// Field of a request that says which it is.
const COMMAND: &str = "command";

/// The route of a method and a path below [`API_ROOT`], and the values in the path.
///
/// # Errors
/// 404 where no route has the path, 405 where none has the method for it.
pub(crate) fn find<'a>(
    method: &Method,
    path: &'a str,
) -> Result<(&'static Route, PathValues<'a>), Problem> {
    let mut allowed = Vec::new();
    // HEAD is GET without its content (RFC 9110 §9.3.2).
    let wanted = match *method {
        Method::HEAD => &Method::GET,
        _ => method,
    };
    for route in &*ROUTES {
        let Some(values) = route.matched(path) else {
            continue;
        };
        if route.method == *wanted {
            return Ok((route, values));
        }
        allowed.push(match route.is_safe() {
            true => GET_AND_HEAD,
            false => route.method.as_str(),
        });
    }
    if allowed.is_empty() {
        let detail = format!("there is no {API_ROOT}{path}; see {API_ROOT}/openapi.json");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    }
    Err(Problem::method_not_allowed(&allowed.join(", ")))
}

/// The request of a route.
///
/// # Errors
/// 400: a field is missing, unknown, given twice or of another kind.
pub(crate) fn decode(
    route: &Route,
    path_values: &[(&'static str, &str)],
    query: Option<&str>,
    body: &[u8],
) -> Result<Request, Problem> {
    let mut fields = body_fields(route, body)?;
    let from_query = query.unwrap_or_default().split('&');
    let from_query = from_query.filter(|pair| !pair.is_empty());
    let from_query = from_query.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let from_path = path_values.iter().map(|(name, value)| (*name, *value));
    for (name, raw) in from_path.chain(from_query) {
        let param = route.params.iter().find(|p| p.name == name);
        let param = param
            .ok_or_else(|| Problem::bad_request(format!("there is no query parameter `{name}`")))?;
        let value = value_of(*param, raw)?;
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(Problem::bad_request(format!("`{name}` is given twice")));
        }
    }
    if fields.contains_key(COMMAND) {
        let detail = format!("`{COMMAND}` follows from the path");
        return Err(Problem::bad_request(detail));
    }
    fields.insert(COMMAND.to_owned(), route.command.into());
    let names: Vec<String> = fields.keys().cloned().collect();
    let request: Request = serde_json::from_value(Value::Object(fields))
        .map_err(|e| Problem::bad_request(e.to_string()))?;
    // serde passes over the fields of a command that has none.
    let known = serde_json::to_value(&request).unwrap_or_default();
    match names.iter().find(|name| known.get(name).is_none()) {
        Some(name) => Err(Problem::bad_request(format!("unknown field `{name}`"))),
        None => Ok(request),
    }
}

fn body_fields(route: &Route, body: &[u8]) -> Result<Map<String, Value>, Problem> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    if route.is_safe() {
        return Err(Problem::bad_request("a GET has no body"));
    }
    let wrong = |e: serde_json::Error| {
        Problem::bad_request(format!("the body must be a JSON object of fields: {e}"))
    };
    serde_json::from_slice(body).map_err(wrong)
}

fn value_of(param: Param, raw: &str) -> Result<Value, Problem> {
    let name = param.name;
    let text = percent_decode_str(raw).decode_utf8();
    let text = text.map_err(|_| Problem::bad_request(format!("`{name}` must be UTF-8")))?;
    let number = |text: &str| {
        let wrong = || Problem::bad_request(format!("`{name}` must be a whole number"));
        text.parse::<u64>().map(Value::from).map_err(|_| wrong())
    };
    match param.kind {
        ParamKind::Text => Ok(Value::from(text.into_owned())),
        ParamKind::Number => number(&text),
        ParamKind::Numbers => text.split(',').map(number).collect(),
        ParamKind::Bool => match &*text {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => {
                let detail = format!("`{name}` must be true or false");
                Err(Problem::bad_request(detail))
            }
        },
    }
}

/// A request as HTTP: the form that [`decode`] takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpForm {
    /// The method.
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    /// The body; empty for none.
    pub(crate) body: Vec<u8>,
}

/// The HTTP form of a request.
pub(crate) fn encode(request: &Request) -> HttpForm {
    let value = serde_json::to_value(request).expect("requests hold nothing that JSON cannot");
    let Value::Object(mut fields) = value else {
        unreachable!("a request is an object");
    };
    let command = fields.remove(COMMAND);
    let route = ROUTES.iter().find(|r| command == Some(r.command.into()));
    let route = route.expect("each command has a route, which a test checks");
    let mut target = API_ROOT.to_owned();
    for segment in segments(route.path) {
        target.push('/');
        match placeholder(segment) {
            Some(name) => {
                let value = fields.remove(name).unwrap_or_default();
                target.extend(utf8_percent_encode(&text_of(&value), ENCODED));
            }
            None => target += segment,
        }
    }
    let mut mark = '?';
    for param in route.params {
        match fields.remove(param.name) {
            None | Some(Value::Null) => {}
            Some(value) => {
                target.extend([mark.to_string().as_str(), param.name, "="]);
                target.extend(utf8_percent_encode(&text_of(&value), ENCODED));
                mark = '&';
            }
        }
    }
    let body = match fields.is_empty() {
        true => Vec::new(),
        false => Value::Object(fields).to_string().into_bytes(),
    };
    HttpForm {
        method: route.method.clone(),
        target,
        body,
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(text_of).collect();
            texts.join(",")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
