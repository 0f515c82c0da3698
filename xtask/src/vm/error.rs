//! The one error of the harness: what was being done and, if there is one, the system's reason.
//!
//! Nothing here is matched on: every error ends the command and is read by a person.

use std::fmt;
use std::io;

/// The result of a step of the harness.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why the harness could not go on. A scenario that fails is not a `Failure`; it is a result.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    source: Option<io::Error>,
}

impl Failure {
    /// A failure without an error of the system behind it.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Adds what was being done to an error of the system.
pub(crate) trait Context<T> {
    /// `what` reads as the start of a sentence that the error ends: "cannot start ip".
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Failure {
            what: what(),
            source: Some(source),
        })
    }
}
