//! What distinguishes a metadata server from a data server: who it is, whom it admits, and its table
//! of operations.

use crate::actor::Actor;
use crate::compound::Compound;
use crate::user::User;
use nfs4::{FileHandle, NfsStatus, OpNum, OpReader, ReplyWriter, SessionId};
use rpc::AuthStat;
use state::{Other, RemovedClient, SlotOf};
use std::future::Future;
use std::net::IpAddr;
use transport::ConnHandle;

/// Who a server says it is in EXCHANGE_ID (rule R17). It is stable over restarts, equal on all addresses and transports
/// of one server, and different for each server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// `so_major_id`, and the server scope.
    pub major_id: String,
    /// The one pNFS role flag of this server, `EXCHGID_USE_PNFS_MDS` or `EXCHGID_USE_PNFS_DS`.
    pub role_flag: u32,
}

/// A table from operations to what they do.
pub trait Role: Send + Sync + Sized + 'static {
    /// Whom the operations of a COMPOUND act for.
    type Actor: Actor;

    /// Who this server is.
    fn identity(&self) -> &ServerIdentity;

    /// Whether to accept this address. Peers that no export admits must not use a connection slot.
    fn admits(&self, _peer: IpAddr) -> bool {
        true
    }

    /// Learns what must be known of a credential before it is judged, such as a user's groups. Nothing by default.
    fn prepare(&self, _user: &User) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Judges the address and the credential of a call, before anything is executed.
    ///
    /// # Errors
    /// The `auth_stat` to refuse with.
    fn admit(&self, conn: &ConnHandle, user: &User) -> Result<Self::Actor, AuthStat>;

    /// The handle of PUTROOTFH and PUTPUBFH.
    ///
    /// # Errors
    /// The status of those operations where there is no root.
    fn root(&self) -> Result<FileHandle, NfsStatus>;

    /// Judges a handle of PUTFH: cheap checks only, the operations that use it check again.
    ///
    /// # Errors
    /// `BadHandle` or `Stale`.
    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus>;

    /// Executes one operation: decodes its arguments from `args` and writes its whole result to `reply`. Returns the
    /// status that was written. An operation that this role lacks is answered `NotSupp`.
    fn perform<'r>(
        &'r self,
        cx: &mut Compound<'r, Self::Actor>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> impl Future<Output = NfsStatus> + Send;

    /// Waits until everything that the actor observed is durable (rule R7).
    ///
    /// # Errors
    /// The status to answer instead; the connection is closed, since effects may not last.
    fn settle(&self, actor: &Self::Actor) -> impl Future<Output = Result<(), NfsStatus>> + Send;

    /// `SEQ_STATUS_*` flags of revoked state and changed devices that the client must hear of.
    fn sequence_flags(&self, _client: nfs4::ClientId) -> u32 {
        0
    }

    /// Whether it serves NFSv4.0. The following four are for that.
    fn serves_minor_0(&self) -> bool {
        false
    }

    /// The client that has an open, a lock state or a delegation.
    ///
    /// # Errors
    /// `StaleStateid` for one of an earlier run; `BadStateid` for what nobody has.
    fn client_of(&self, _state: &Other) -> Result<nfs4::ClientId, NfsStatus> {
        Err(NfsStatus::BadStateid)
    }

    /// Whether a client has delegations.
    fn holds_delegations(&self, _client: nfs4::ClientId) -> bool {
        false
    }

    /// Closes an open whose client never confirmed it (RFC 7530 §9.1.11).
    fn abandon_open(&self, _client: nfs4::ClientId, _open: &Other) {}

    /// Ends the lock states of a lock-owner (RFC 7530 §16.37).
    ///
    /// # Errors
    /// `LocksHeld`.
    fn release_lock_owner(
        &self,
        _client: nfs4::ClientId,
        _states: &[Other],
    ) -> Result<(), NfsStatus> {
        Ok(())
    }

    /// Whether sessions may be persistent: the role then keeps what [`crate::Keeper::kept`] gives it, in the same transaction as
    /// the effect, until the session goes.
    fn persists(&self) -> bool {
        false
    }

    /// Keeps the whole reply of a COMPOUND that made a change. Returns the transaction to wait for.
    ///
    /// # Errors
    /// What the store answers; the reply may leave all the same.
    fn keep(&self, _slot: SlotOf, _reply: &[u8]) -> Result<u64, NfsStatus> {
        Err(NfsStatus::NotSupp)
    }

    /// What an earlier run kept of a slot.
    ///
    /// # Errors
    /// `BadSession` when the session is not one of an earlier run; what a failed store is answered with.
    fn kept(&self, _slot: SlotOf) -> Result<Option<bytes::Bytes>, NfsStatus> {
        Err(NfsStatus::BadSession)
    }

    /// Whether what an earlier run has answered of this file is true by now.
    ///
    /// # Errors
    /// `Delay` while a change that was begun for good is being ended.
    fn is_ended(&self, _file: &nfs4::FileHandle) -> Result<(), NfsStatus> {
        Ok(())
    }

    /// A session, of this run or an earlier one, has been destroyed by its client: nothing of it need be kept.
    fn session_destroyed(&self, _session: SessionId) {}

    /// Whether a client holds opens, locks, layouts or delegations. Called with the client table locked.
    fn has_state(&self, client: nfs4::ClientId) -> bool;

    /// A client ceased to exist (expiry, replacement, `DESTROY_CLIENTID`): its state and its durable records go. Called before the
    /// reply of the operation that caused it. Called once more for each request of that client that was still running and may have
    /// made state afterwards.
    fn client_removed(&self, removed: RemovedClient) -> impl Future<Output = ()> + Send;

    /// A client said RECLAIM_COMPLETE (RFC 8881 §18.51); the engine has recorded it.
    fn reclaim_complete(
        &self,
        client: nfs4::ClientId,
    ) -> impl Future<Output = Result<(), NfsStatus>> + Send;
}
