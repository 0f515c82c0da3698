//! What a client is told when a data server refuses a call for its file.

use cluster::DsError;
use control::Status;
use nfs4::NfsStatus;

/// The status for a client. What may be otherwise with the next try is DELAY: the data server comes back, or its place
/// is taken.
#[must_use]
pub const fn status_of(status: Status) -> NfsStatus {
    match status {
        Status::Removed => NfsStatus::Stale,
        Status::NoSpace => NfsStatus::NoSpc,
        Status::TooLarge => NfsStatus::FBig,
        Status::Unsupported => NfsStatus::NotSupp,
        Status::Io | Status::Invalid => NfsStatus::Io,
        Status::Ok
        | Status::Denied
        | Status::BadToken
        | Status::BadPublicKey
        | Status::UnsupportedVersion
        | Status::WrongCluster
        | Status::UnknownServer
        | Status::StoreSwapped
        | Status::StoreRolledBack
        | Status::Expelled
        | Status::NotReady
        | Status::TryLater
        | Status::NotFound
        | Status::NotPrimary
        | Status::TableFull => NfsStatus::Delay,
    }
}

/// The status for a client of a call that failed; what is out of the ordinary goes to the log.
#[must_use]
pub fn told(ds: u32, file: u64, error: &DsError) -> NfsStatus {
    let status = match error {
        DsError::Refused(refusal) => status_of(refusal.status),
        DsError::Down | DsError::Lost | DsError::Malformed => NfsStatus::Delay,
    };
    match status {
        // Ordinary answers: a file system without clones, a file that was removed meanwhile.
        NfsStatus::NotSupp | NfsStatus::Stale => {
            tracing::debug!(ds, file, %error, "call to a data server");
        }
        _ => tracing::warn!(ds, file, %error, "call to a data server"),
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_system_refuses_has_its_status() {
        for (refused, told) in [
            (Status::NoSpace, NfsStatus::NoSpc),
            (Status::TooLarge, NfsStatus::FBig),
            (Status::Io, NfsStatus::Io),
            (Status::Unsupported, NfsStatus::NotSupp),
            (Status::Removed, NfsStatus::Stale),
            (Status::TryLater, NfsStatus::Delay),
            (Status::NotReady, NfsStatus::Delay),
        ] {
            assert_eq!(status_of(refused), told, "{refused:?}");
        }
    }
}
