//! What goes wrong with a log.

use std::sync::Arc;

/// A failure of the log. After the first one it takes no more records.
#[derive(Debug, Clone)]
pub enum LogError {
    /// The disk or file system failed.
    Io(Arc<std::io::Error>),
    /// The stored bytes are not what was written: file, position and what to do.
    Corrupt(String),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::Corrupt(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for LogError {}

impl From<std::io::Error> for LogError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(Arc::new(e))
    }
}
