//! The words of NFSv4.0 for statuses that came after it.

use nfs4::{NfsStatus, OpNum};

/// What NFSv4.0 says in the place of a status that came after it (RFC 7530 §13).
pub(super) fn status_of(op: OpNum, status: NfsStatus) -> NfsStatus {
    match status {
        NfsStatus::WrongType if op == OpNum::Open => NfsStatus::Symlink,
        NfsStatus::WrongType => NfsStatus::Inval,
        NfsStatus::NoFileHandle if op == OpNum::RestoreFh => NfsStatus::RestoreFh,
        NfsStatus::RepTooBig | NfsStatus::RepTooBigToCache | NfsStatus::TooManyOps => {
            NfsStatus::Resource
        }
        NfsStatus::DelegRevoked => NfsStatus::BadStateid,
        // What needs a regular file hears of no type but directories.
        NfsStatus::Symlink if needs_file(op) => NfsStatus::Inval,
        status => status,
    }
}

const fn needs_file(op: OpNum) -> bool {
    matches!(
        op,
        OpNum::Close
            | OpNum::Commit
            | OpNum::Lock
            | OpNum::LockT
            | OpNum::LockU
            | OpNum::OpenConfirm
            | OpNum::OpenDowngrade
            | OpNum::Read
            | OpNum::Write
    )
}
