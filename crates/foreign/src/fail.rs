//! Why a call for an object failed at one server, and what that means for the file.

use crate::refusals::FarError;
use nfs3::Nfs3Status;
use nfs3_client::{Nfs3Error, RpcError};
use nfs4::NfsStatus;

#[derive(Debug)]
pub(crate) enum Fail {
    /// The server is known to be down, so it was not called.
    Down,
    /// The server was removed, and what it had is lost.
    Removed,
    /// The file has a newer epoch than its caller knows.
    Newer,
    /// A call failed.
    Call(Nfs3Error),
    /// An object was made and is not there: its bytes are lost.
    Lost,
    /// The server answers what cannot be.
    Wrong(&'static str),
}

impl Fail {
    /// The status for a client. What may be otherwise with the next try is DELAY.
    pub(crate) const fn status(&self) -> NfsStatus {
        match self {
            Self::Down
            | Self::Newer
            | Self::Call(Nfs3Error::Rpc(RpcError::Unreachable(_) | RpcError::TimedOut)) => {
                NfsStatus::Delay
            }
            Self::Call(Nfs3Error::Status(status)) => match status {
                Nfs3Status::NoSpc => NfsStatus::NoSpc,
                Nfs3Status::DQuot => NfsStatus::DQuot,
                Nfs3Status::FBig => NfsStatus::FBig,
                Nfs3Status::Jukebox => NfsStatus::Delay,
                _ => NfsStatus::Io,
            },
            Self::Removed | Self::Lost | Self::Wrong(_) | Self::Call(_) => NfsStatus::Io,
        }
    }

    /// Whether the server does not know a handle any more.
    pub(crate) const fn is_stale(&self) -> bool {
        matches!(
            self,
            Self::Call(Nfs3Error::Status(Nfs3Status::Stale | Nfs3Status::BadHandle))
        )
    }

    /// Whether the server has surely not begun what was asked.
    pub(crate) const fn is_refusal(&self) -> bool {
        match self {
            Self::Down | Self::Removed | Self::Newer | Self::Lost => true,
            Self::Call(Nfs3Error::Status(status)) => matches!(
                status,
                Nfs3Status::NoSpc
                    | Nfs3Status::DQuot
                    | Nfs3Status::FBig
                    | Nfs3Status::Jukebox
                    | Nfs3Status::Access
                    | Nfs3Status::Perm
                    | Nfs3Status::RoFs
                    | Nfs3Status::NoEnt
                    | Nfs3Status::Stale
                    | Nfs3Status::BadHandle
            ),
            Self::Call(_) | Self::Wrong(_) => false,
        }
    }

    pub(crate) const fn is(&self, status: Nfs3Status) -> bool {
        matches!(self, Self::Call(Nfs3Error::Status(s)) if *s as u32 == status as u32)
    }
}

impl std::fmt::Display for Fail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Down => f.write_str("the server is down"),
            Self::Removed => f.write_str("the server was removed"),
            Self::Newer => f.write_str("the file has a newer epoch"),
            Self::Call(error) => write!(f, "{error}"),
            Self::Lost => f.write_str("an object is gone"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

/// Whether a status is of the file, whichever mirror answers it: there is no room for it, or it is too large.
pub(crate) const fn is_of_file(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::NoSpc | NfsStatus::DQuot | NfsStatus::FBig
    )
}

/// Failures of a call for a file, by mirror.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) mirrors: u32,
    worst: Option<NfsStatus>,
}

impl Failures {
    pub(crate) fn add(&mut self, mirror: u32, status: NfsStatus) {
        self.mirrors |= 1 << mirror;
        let rank = |status: NfsStatus| match status {
            status if is_of_file(status) => 2,
            NfsStatus::Delay => 1,
            _ => 0,
        };
        if self.worst.is_none_or(|worst| rank(status) > rank(worst)) {
            self.worst = Some(status);
        }
    }

    /// The one that tells most: a status of the file, then one that asks to try again, then the first.
    pub(crate) fn error(&self) -> FarError {
        FarError {
            status: self.worst.unwrap_or(NfsStatus::Io),
            failed_mirrors: self.mirrors,
        }
    }

    /// The mirrors that failed, if that is no failure of the whole: another one of `good` did it, and no failure is of the file.
    pub(crate) fn of_some(&self, good: u32) -> Result<u32, FarError> {
        match self.mirrors == good || self.worst.is_some_and(is_of_file) {
            true => Err(self.error()),
            false => Ok(self.mirrors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_mirrors_may_fail_but_not_all_and_a_full_one_is_told() {
        let failures = |of: &[(u32, NfsStatus)]| {
            let mut failures = Failures::default();
            of.iter().for_each(|(m, s)| failures.add(*m, *s));
            failures
                .of_some(0b11)
                .map_err(|e| (e.status, e.failed_mirrors))
        };
        use NfsStatus::{Delay, Io, NoSpc};
        assert_eq!(failures(&[]), Ok(0));
        assert_eq!(failures(&[(1, Io)]), Ok(0b10));
        assert_eq!(failures(&[(1, NoSpc)]), Err((NoSpc, 0b10)));
        assert_eq!(failures(&[(0, Io), (1, Delay)]), Err((Delay, 0b11)));
        assert_eq!(failures(&[(0, NoSpc), (1, Delay)]), Err((NoSpc, 0b11)));
    }
}
