//! What a command ends with when it does not succeed: one sentence for people and an exit code for scripts.

use std::fmt::Display;

/// Exit code of a command that was right and did not work out.
const EXIT_FAILED: u8 = 1;
/// Exit code of a command line or a configuration that makes no sense (clap uses the same): the same again cannot help.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Exit code of a data server that has no place in the cluster any more: starting it again cannot help.
pub(crate) const EXIT_EXPELLED: u8 = 3;

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The arguments or a configuration contradict each other or what is there.
    Usage(String),
    /// The operation failed.
    Failed(String),
    /// The cluster has put this server out.
    Expelled(String),
    /// A signal ended the command; the exit code, and what is said.
    Interrupted(u8, String),
    /// A child process failed with this exit code and has said why.
    Told(u8),
}

/// Result of a command or a step of it.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Exit code of the process.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Failed(_) => EXIT_FAILED,
            Self::Expelled(_) => EXIT_EXPELLED,
            Self::Interrupted(code, _) | Self::Told(code) => *code,
        }
    }

    /// Whether somebody else has said why.
    pub(crate) const fn is_told(&self) -> bool {
        matches!(self, Self::Told(_))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(text)
            | Self::Failed(text)
            | Self::Expelled(text)
            | Self::Interrupted(_, text) => f.write_str(text),
            Self::Told(code) => write!(f, "a child process failed with exit code {code}"),
        }
    }
}

/// An operational failure.
pub(crate) fn failed(text: impl Into<String>) -> Failure {
    Failure::Failed(text.into())
}

/// A wrong command line, or a wrong configuration.
pub(crate) fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

/// For `map_err`: "cannot WHAT: REASON".
pub(crate) fn cannot<E: Display>(what: impl Display) -> impl FnOnce(E) -> Failure {
    move |e| Failure::Failed(format!("cannot {what}: {e}"))
}
