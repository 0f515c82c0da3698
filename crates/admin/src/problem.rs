//! Problem documents: how a request that fails is answered (RFC 9457).

use crate::caller::{CallerRole, Denied};
use crate::desk::Refusal;
use http::StatusCode;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// How a caller proves who it is (RFC 6750 §3).
const CHALLENGE: &str = "Bearer realm=\"ropewalk\"";
/// After so many seconds a caller that found the server busy may try again.
const RETRY_AFTER_S: &str = "5";

/// A problem document (RFC 9457 §3). Its type is `about:blank`: the status code says what kind it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The words of the status code.
    pub title: String,
    /// The status code.
    pub status: u16,
    /// One sentence: what is wrong, and what to do.
    pub detail: String,
    /// Headers that go with it, as `Allow` with 405 (RFC 9110 §15.5.6).
    #[serde(skip)]
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// The problem of a status code.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("Problem").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            headers: Vec::new(),
        }
    }

    /// The same with a header. One that is none is left out.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        let value = HeaderValue::from_str(value);
        self.headers.extend(value.map(|value| (name, value)));
        self
    }

    /// The path takes other methods.
    #[must_use]
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        let detail = format!("this path takes {allow}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail).with(ALLOW, allow)
    }

    /// The request makes no sense.
    #[must_use]
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// All places are taken.
    #[must_use]
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with(RETRY_AFTER, RETRY_AFTER_S)
    }

    /// The caller's role is too low.
    #[must_use]
    pub fn forbidden(has: CallerRole, needs: CallerRole) -> Self {
        let detail = format!("this token has the role {has}, and the request needs {needs}");
        let challenge = format!("{CHALLENGE}, error=\"insufficient_scope\", scope=\"{needs}\"");
        Self::new(StatusCode::FORBIDDEN, detail).with(WWW_AUTHENTICATE, &challenge)
    }

    /// Its status code.
    #[must_use]
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let text = denied.text();
        let challenge = match denied {
            // Who sends no token is told of no error (RFC 6750 §3.1).
            Denied::Missing => CHALLENGE.to_owned(),
            Denied::Unknown | Denied::Expired => {
                format!("{CHALLENGE}, error=\"invalid_token\", error_description=\"{text}\"")
            }
            Denied::Unavailable => return Self::busy(text),
        };
        Self::new(StatusCode::UNAUTHORIZED, text).with(WWW_AUTHENTICATE, &challenge)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
            Refusal::NotFound(_) => StatusCode::NOT_FOUND,
            Refusal::Refused(_) => StatusCode::CONFLICT,
            Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, refusal.text())
    }
}
