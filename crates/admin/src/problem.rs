//! Problem documents: how a request that fails is answered (RFC 9457).

use crate::caller::{CallerRole, Denied};
use crate::desk::Refusal;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Media type of a problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

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
    /// With 405, what the path takes: the header `Allow` (RFC 9110 §15.5.6).
    #[serde(skip)]
    pub allow: Option<String>,
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
            allow: None,
        }
    }

    /// The path takes other methods.
    #[must_use]
    pub fn method_not_allowed(allow: impl Into<String>) -> Self {
        let allow = allow.into();
        let detail = format!("this path takes {allow}");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        }
    }

    /// The request makes no sense.
    #[must_use]
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// All places are taken.
    #[must_use]
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// The caller's role is too low.
    #[must_use]
    pub fn forbidden(has: CallerRole, needs: CallerRole) -> Self {
        let detail = format!("this token has the role {has}, and the request needs {needs}");
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// Its status code.
    #[must_use]
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let code = match denied {
            Denied::Missing | Denied::Unknown | Denied::Expired => StatusCode::UNAUTHORIZED,
            Denied::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(code, denied.text())
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
