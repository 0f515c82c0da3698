//! What a LOCK asks for, by whichever version.

use nfs4::ClientId;

use crate::ranges::{LockKind, LockRange};

/// A lock that is wanted, by whom, where and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) client: ClientId,
    pub(crate) owner: &'a [u8],
    pub(crate) file: u64,
    pub(crate) range: LockRange,
    pub(crate) kind: LockKind,
}
