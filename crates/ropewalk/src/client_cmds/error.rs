//! How a client command fails: one sentence that says what could not be done, and why.

use crate::failure::{EXIT_USAGE, Failure};
use client::{Error, NfsStatus};
use std::any::Any;
use std::fmt::Display;
use std::io;

/// Why root was refused: what people look for first, and no status says.
const ROOT_IS_SQUASHED: &str = "; the export squashes root: do it as the owner, as admin:/PATH on the metadata server, or set squash = \"none\" in the [[export]] of this machine";

/// A failed command. Its exit code is 1; wrong arguments have 2, as clap has.
#[derive(Debug)]
pub(crate) struct CliError {
    sentence: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failed,
    Usage,
    ClosedOutput,
    /// By the signal with this number.
    Interrupted(u8),
}

impl CliError {
    /// An operation failed.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            kind: Kind::Failed,
        }
    }

    /// The arguments make no sense.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self {
            kind: Kind::Usage,
            ..Self::new(sentence)
        }
    }

    /// For `map_err`: "cannot WHAT PLACE: REASON".
    pub(crate) fn cannot<E: Display + 'static>(
        what: &'static str,
        place: impl Display,
    ) -> impl FnOnce(E) -> Self {
        move |e| {
            let why = if rustix::process::geteuid().is_root() && is_denial(&e) {
                ROOT_IS_SQUASHED
            } else {
                ""
            };
            Self::new(format!("cannot {what} {place}: {e}{why}"))
        }
    }

    /// Standard output failed.
    pub(crate) fn output(e: &std::io::Error) -> Self {
        Self {
            kind: if e.kind() == std::io::ErrorKind::BrokenPipe {
                Kind::ClosedOutput
            } else {
                Kind::Failed
            },
            ..Self::new(format!("cannot write to standard output: {e}"))
        }
    }

    /// A signal ended the command.
    pub(crate) fn interrupted(signal: &str) -> Self {
        let number = if signal == "SIGINT" { 2 } else { 15 };
        Self {
            kind: Kind::Interrupted(number),
            ..Self::new(format!("interrupted by {signal}"))
        }
    }

    /// A signal had the command end by itself, with this to say.
    pub(crate) fn stopped(sentence: impl Into<String>) -> Self {
        Self {
            kind: Kind::Interrupted(2),
            ..Self::new(sentence)
        }
    }

    /// Whether a signal ended the command.
    pub(crate) fn is_interruption(&self) -> bool {
        matches!(self.kind, Kind::Interrupted(_))
    }

    /// Whoever read the output has seen enough: no failure.
    pub(crate) fn is_closed_output(&self) -> bool {
        self.kind == Kind::ClosedOutput
    }

    /// Exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::ClosedOutput => 0,
            Kind::Failed => 1,
            Kind::Usage => 2,
            // As shells count commands that a signal ended.
            Kind::Interrupted(signal) => 128 + signal,
        }
    }
}

/// Why a copy failed.
#[derive(Debug)]
pub(crate) enum CopyError {
    Local(io::Error),
    Remote(Error),
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(e) => write!(f, "{e}"),
            Self::Remote(e) => write!(f, "{e}"),
        }
    }
}

impl From<io::Error> for CopyError {
    fn from(e: io::Error) -> Self {
        Self::Local(e)
    }
}

impl From<Error> for CopyError {
    fn from(e: Error) -> Self {
        Self::Remote(e)
    }
}

/// Prints a sentence to standard error, above any progress bar.
pub(crate) fn complain(e: &CliError) {
    crate::out::say(e);
}

impl From<CliError> for Failure {
    fn from(e: CliError) -> Self {
        match e.exit_code() {
            EXIT_USAGE => Self::Usage(e.to_string()),
            code if e.is_interruption() => Self::Interrupted(code, e.to_string()),
            _ => Self::Failed(e.to_string()),
        }
    }
}

/// Whether the server refused for lack of rights. Root has all rights, unless it is squashed.
fn is_denial(reason: &dyn Any) -> bool {
    let error = match reason.downcast_ref::<CopyError>() {
        Some(CopyError::Remote(error)) => Some(error),
        _ => reason.downcast_ref::<Error>(),
    };
    matches!(
        error,
        Some(Error::Status(NfsStatus::Perm | NfsStatus::Access))
    )
}

impl Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Failures of a command that goes on with what is left: each is printed, the last word is their number.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
}

impl Failures {
    /// Prints a failure and goes on, unless nobody reads the output any more, or a signal ends the command.
    pub(crate) fn note(&mut self, result: Result<(), CliError>) -> Result<(), CliError> {
        match result {
            Err(e) if e.is_closed_output() || e.is_interruption() => return Err(e),
            Err(e) => {
                self.count += 1;
                complain(&e);
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// The result of the command.
    pub(crate) fn verdict(self, what: &str) -> Result<(), CliError> {
        match self.count {
            0 => Ok(()),
            1 => Err(CliError::new(format!("1 {what} failed"))),
            n => Err(CliError::new(format!("{n} {what}s failed"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_one_of_the_server() {
        for (status, denied) in [
            (NfsStatus::Perm, true),
            (NfsStatus::Access, true),
            (NfsStatus::RoFs, false),
            (NfsStatus::NoEnt, false),
        ] {
            assert_eq!(is_denial(&Error::Status(status)), denied);
            assert_eq!(is_denial(&CopyError::Remote(Error::Status(status))), denied);
        }
        let local = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(!is_denial(&local()));
        assert!(!is_denial(&CopyError::Local(local())));
    }
}
