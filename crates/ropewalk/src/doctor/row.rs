//! A row of `ropewalk doctor`: what was looked at, how it is, and what to do.
//!
//! The fields are those of `--json`: they are added to, never renamed.

use serde::Serialize;

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and somebody should see to it.
    Warning,
    /// It does not work.
    Failed,
    /// It could not be looked at.
    Unknown,
}

impl Verdict {
    /// The word for it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    /// The server that it is about: `mds`, `ds`, `ds-1`; none for this machine.
    pub(super) server: Option<String>,
    /// What was looked at.
    pub(super) check: &'static str,
    /// How it is.
    pub(super) verdict: Verdict,
    /// One sentence.
    pub(super) says: String,
    /// What to do about it, where something is to be done.
    pub(super) action: Option<String>,
}

impl Row {
    fn new(check: &'static str, verdict: Verdict, says: impl Into<String>) -> Self {
        Self {
            server: None,
            check,
            verdict,
            says: says.into(),
            action: None,
        }
    }

    /// As it should be.
    pub(super) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, says)
    }

    /// It works, and this should be done.
    pub(super) fn warning(
        check: &'static str,
        says: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self {
            action: Some(action.into()),
            ..Self::new(check, Verdict::Warning, says)
        }
    }

    /// It does not work until this is done.
    pub(super) fn failed(
        check: &'static str,
        says: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self {
            action: Some(action.into()),
            ..Self::new(check, Verdict::Failed, says)
        }
    }

    /// It could not be looked at, for this reason.
    pub(super) fn unknown(check: &'static str, says: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, says)
    }

    /// The same, about this server.
    pub(super) fn of(self, server: &str) -> Self {
        Self {
            server: Some(server.to_owned()),
            ..self
        }
    }
}
