//! What the file service answers, as NFSv3 has it (RFC 1813 §2.6).

use nfs3::Nfs3Status;
use nfs4::NfsStatus;

/// The status of a failure. What has no number in version 3 is told as what comes next to it.
pub(crate) fn status3(status: NfsStatus) -> Nfs3Status {
    match status {
        NfsStatus::Perm => Nfs3Status::Perm,
        NfsStatus::NoEnt => Nfs3Status::NoEnt,
        NfsStatus::Io => Nfs3Status::Io,
        NfsStatus::NxIo => Nfs3Status::NxIo,
        // A deny mode of another client refuses it for as long as that has its open.
        NfsStatus::Access | NfsStatus::Locked | NfsStatus::ShareDenied => Nfs3Status::Access,
        NfsStatus::Exist => Nfs3Status::Exist,
        NfsStatus::XDev => Nfs3Status::XDev,
        NfsStatus::NotDir => Nfs3Status::NotDir,
        NfsStatus::IsDir => Nfs3Status::IsDir,
        NfsStatus::FBig => Nfs3Status::FBig,
        NfsStatus::NoSpc => Nfs3Status::NoSpc,
        NfsStatus::RoFs => Nfs3Status::RoFs,
        NfsStatus::MLink => Nfs3Status::MLink,
        NfsStatus::NameTooLong => Nfs3Status::NameTooLong,
        NfsStatus::NotEmpty => Nfs3Status::NotEmpty,
        NfsStatus::DQuot => Nfs3Status::DQuot,
        NfsStatus::Stale => Nfs3Status::Stale,
        NfsStatus::BadHandle => Nfs3Status::BadHandle,
        NfsStatus::BadCookie => Nfs3Status::BadCookie,
        NfsStatus::NotSupp => Nfs3Status::NotSupp,
        NfsStatus::TooSmall => Nfs3Status::TooSmall,
        NfsStatus::BadType => Nfs3Status::BadType,
        // The guard of a SETATTR.
        NfsStatus::NotSame => Nfs3Status::NotSync,
        NfsStatus::Delay | NfsStatus::Grace | NfsStatus::LayoutTryLater => Nfs3Status::Jukebox,
        NfsStatus::Inval
        | NfsStatus::BadName
        | NfsStatus::BadChar
        | NfsStatus::BadOwner
        | NfsStatus::Symlink
        | NfsStatus::WrongType => Nfs3Status::Inval,
        other => {
            tracing::error!(status = %other, "a status that NFSv3 does not have");
            Nfs3Status::ServerFault
        }
    }
}

/// Whether a status is a failure of the server's, and not news for the client: those of NFSv4 that are (`server::traces`).
pub(crate) const fn is_fault(status: Nfs3Status) -> bool {
    matches!(
        status,
        Nfs3Status::Io
            | Nfs3Status::NxIo
            | Nfs3Status::ServerFault
            | Nfs3Status::NoSpc
            | Nfs3Status::Stale
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_awaited_is_jukebox_and_a_deny_mode_is_an_error() {
        for (known, told) in [
            (NfsStatus::Delay, Nfs3Status::Jukebox),
            (NfsStatus::Grace, Nfs3Status::Jukebox),
            (NfsStatus::ShareDenied, Nfs3Status::Access),
            (NfsStatus::BadName, Nfs3Status::Inval),
            (NfsStatus::Stale, Nfs3Status::Stale),
        ] {
            assert_eq!(status3(known), told, "{known}");
        }
    }
}
