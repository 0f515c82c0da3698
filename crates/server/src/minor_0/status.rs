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
        // None of the others is expected here, and no client of NFSv4.0 knows it.
        status if status as u32 > NfsStatus::CbPathDown as u32 => NfsStatus::ServerFault,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_is_one_that_came_later() {
        for status in NfsStatus::ALL {
            for op in OpNum::ALL {
                let said = status_of(*op, *status);
                assert!(
                    said as u32 <= NfsStatus::CbPathDown as u32,
                    "{op:?}: {status}"
                );
            }
        }
        let link = NfsStatus::Symlink;
        assert_eq!(status_of(OpNum::Lookup, link), link);
        assert_eq!(status_of(OpNum::Read, link), NfsStatus::Inval);
        let no_fh = NfsStatus::NoFileHandle;
        assert_eq!(status_of(OpNum::RestoreFh, no_fh), NfsStatus::RestoreFh);
    }
}
