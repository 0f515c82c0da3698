//! Ends of connections.

use crate::CloseReason;

/// Why a connection ends, with words for the log.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) reason: CloseReason,
    pub(crate) detail: String,
}

impl From<CloseReason> for End {
    fn from(reason: CloseReason) -> Self {
        Self {
            reason,
            detail: String::new(),
        }
    }
}

impl End {
    pub(crate) fn with(reason: CloseReason, detail: impl std::fmt::Display) -> Self {
        Self {
            reason,
            detail: detail.to_string(),
        }
    }
}
