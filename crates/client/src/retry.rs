//! When a request may succeed later, or with another stateid.

use nfs4::{NfsStatus, OpError};

/// How often an open that the server does not know any more is opened again for one request.
pub(crate) const REOPENS_MAX: u32 = 4;

/// Whether the same request may succeed later without anybody doing something.
pub(crate) fn is_busy(status: NfsStatus) -> bool {
    matches!(status, NfsStatus::Delay | NfsStatus::Grace)
}

/// Statuses that say that an open stateid is no good any more, while the file may be.
pub(crate) fn is_stateid_gone(e: &OpError) -> bool {
    matches!(
        e.status(),
        Some(
            NfsStatus::BadStateid
                | NfsStatus::StaleStateid
                | NfsStatus::Expired
                | NfsStatus::AdminRevoked
        )
    )
}
