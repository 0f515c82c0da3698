//! NFSv4.0 (RFC 7530): a COMPOUND without SEQUENCE, on the same operations and the same state as NFSv4.1.
//!
//! Operations name their client, by its id or by a stateid. [`walk`] finds it, renews its lease and judges the sequence ids of
//! owners; then the operation of NFSv4.1 runs as ever.
//!
//! | What NFSv4.1 has | What stands for it here |
//! |---|---|
//! | the session's client | the client of the last operation that named one; before, nobody ([`NOBODY`]) |
//! | the slot's reply cache | the replies of the last calls by address, transaction id and sum; the last reply of each owner |
//! | the session's sizes | [`REPLY_BYTES_MAX`] |
//! | persistent replies, layouts | nothing |
//!
//! # Ownership
//! [`Minor0`] has the owners and the kept replies of one server. Clients are in the client table.
//!
//! # Ordering
//! The table of owners is never locked by who holds the client table.

mod asked;
mod client_ids;
mod turn;
mod walk;

pub(crate) use walk::Request;

use nfs4::{ClientId, NfsStatus, OpNum};
use parking_lot::Mutex;
use rpc_service::Replies;
use state::{OwnerLimits, Owners};
use tokio::sync::Notify;

/// Who acts in operations that name no client. None has this id, and it holds nothing.
pub const NOBODY: ClientId = ClientId { value: 0 };
/// Largest reply in bytes: the largest READ and what goes around it.
pub(crate) const REPLY_BYTES_MAX: usize = (1 << 20) + (64 << 10);

/// What a COMPOUND of NFSv4.0 has in place of a session.
#[derive(Debug, Clone, Copy)]
pub struct Minor0Context {
    /// The client of the last operation that named one, or [`NOBODY`].
    pub client: ClientId,
    /// The OPEN in execution is the first one of its owner, which must confirm it (RFC 7530 §9.1.11).
    pub must_confirm: bool,
}

impl Default for Minor0Context {
    fn default() -> Self {
        Self {
            client: NOBODY,
            must_confirm: false,
        }
    }
}

/// What a server has for NFSv4.0 beside its clients.
#[derive(Debug)]
pub(crate) struct Minor0 {
    owners: Mutex<Owners>,
    replies: Replies,
    /// A request of an owner has ended.
    ended: Notify,
}

impl Default for Minor0 {
    fn default() -> Self {
        Self {
            owners: Mutex::new(Owners::new(OwnerLimits::default())),
            replies: Replies::default(),
            ended: Notify::new(),
        }
    }
}

/// What NFSv4.0 says in the place of a status that came after it (RFC 7530 §13).
fn status_of(op: OpNum, status: NfsStatus) -> NfsStatus {
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
