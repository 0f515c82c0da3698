//! One COMPOUND (RFC 8881 §16.2): what is current, who asks, and how large its reply may grow.
//!
//! # Ownership
//! A [`Compound`] lives as long as its request. The slot lies in the engine until the reply is cached.
//!
//! # Ordering
//! Results are written as operations end; nothing leaves before [`crate::Role::settle`] has passed.
//!
//! # Failure
//! The first operation that fails is the last one; its predecessors keep their effects.

use crate::actor::{Actor, SessionContext};
use crate::kept::{Keeper, Persist};
use crate::minor_0::context::{Minor0Context, REPLY_BYTES_MAX};
use crate::tables::ERROR_RESULT_BYTES;
use crate::traces::Steps;
use crate::user::User;
use bytes::Bytes;
use nfs4::{ClientId, FileHandle, NfsStatus, OpNum, Stateid};
use std::time::Duration;
use tokio::time::Instant;
use transport::{Charge, ConnHandle, Payload};

/// Payload in memory up to which a reply is not charged to the send budget: what all slots of a session hold then is little.
const UNCHARGED_BYTES_MAX: u32 = 16 * 1024;
/// How long a request waits for the send budget before it is answered `NFS4ERR_DELAY`.
const CHARGE_WAIT_MAX: Duration = Duration::from_secs(10);

/// One COMPOUND in execution.
pub struct Compound<'r, A: Actor> {
    /// The connection that it came on.
    pub conn: &'r ConnHandle,
    /// The record that arguments are borrowed from.
    record: &'r Bytes,
    /// Whom the operations act for.
    pub actor: A,
    /// The identity as sent.
    pub user: User,
    /// 0, 1 or 2.
    pub minor_version: u32,
    /// The session; `None` for the operations that stand alone.
    pub session: Option<SessionContext>,
    /// Of NFSv4.0, which has no sessions.
    pub minor_0: Option<Minor0Context>,
    /// Current file handle.
    pub current_fh: Option<FileHandle>,
    /// Saved file handle.
    pub saved_fh: Option<FileHandle>,
    /// Current stateid (RFC 8881 §16.2.3.1.2).
    pub current_stateid: Option<Stateid>,
    /// Saved stateid.
    pub saved_stateid: Option<Stateid>,
    /// One for each payload span of the reply.
    pub payloads: Vec<Payload>,
    /// When its request came.
    pub(crate) began: Instant,
    /// The operation that names the request among the latencies.
    pub(crate) main_op: Option<OpNum>,
    /// Of a request that is traced.
    pub(crate) steps: Option<Box<Steps>>,
    /// For payloads in memory.
    pub(crate) charge: Option<Charge>,
    /// Of a persistent session.
    pub(crate) persist: Option<Persist>,
}

impl<'r, A: Actor> Compound<'r, A> {
    pub(crate) fn new(
        conn: &'r ConnHandle,
        record: &'r Bytes,
        actor: A,
        user: User,
        minor_version: u32,
        began: Instant,
    ) -> Self {
        Self {
            conn,
            record,
            actor,
            user,
            minor_version,
            session: None,
            minor_0: None,
            current_fh: None,
            saved_fh: None,
            current_stateid: None,
            saved_stateid: None,
            payloads: Vec::new(),
            began,
            main_op: None,
            steps: None,
            charge: None,
            persist: None,
        }
    }

    /// Bytes of an argument to keep or to send on, without a copy. They keep the whole record in memory
    /// ([`Compound::buffer_bytes`]).
    ///
    /// # Panics
    /// When `part` is not of this request.
    #[must_use]
    pub fn share(&self, part: &'r [u8]) -> Bytes {
        self.record.slice_ref(part)
    }

    /// Most bytes of memory that stay taken as long as any share of an argument is kept.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        transport::record_buffer_bytes(self.record.len())
    }

    /// Waits until `bytes` of payload may be held in memory until the peer has read them. To be called before they are
    /// fetched, and without holding anything that others wait for.
    ///
    /// # Errors
    /// `Delay` when peers that do not read hold all there is. Also when an earlier operation of the same request holds
    /// a charge already and more cannot be had at once.
    pub async fn charge_reply(&mut self, bytes: u32) -> Result<(), NfsStatus> {
        if bytes <= UNCHARGED_BYTES_MAX {
            return Ok(());
        }
        match &mut self.charge {
            Some(charge) => {
                let more = self.conn.try_charge_reply(bytes);
                charge.merge(more.ok_or(NfsStatus::Delay)?);
            }
            None => {
                let charge = tokio::time::timeout(CHARGE_WAIT_MAX, self.conn.charge_reply(bytes));
                self.charge = Some(charge.await.map_err(|_| NfsStatus::Delay)?);
            }
        }
        Ok(())
    }

    /// The current file handle.
    ///
    /// # Errors
    /// `NoFileHandle`.
    pub fn fh(&self) -> Result<&[u8], NfsStatus> {
        self.current_fh
            .as_ref()
            .map(|fh| fh.0.as_slice())
            .ok_or(NfsStatus::NoFileHandle)
    }

    /// The saved file handle.
    ///
    /// # Errors
    /// `NoFileHandle`, which RFC 8881 prescribes for operations on both handles.
    pub fn saved(&self) -> Result<&[u8], NfsStatus> {
        self.saved_fh
            .as_ref()
            .map(|fh| fh.0.as_slice())
            .ok_or(NfsStatus::NoFileHandle)
    }

    /// Makes `fh` current; the current stateid goes (RFC 8881 §16.2.3.1.2).
    pub fn set_fh(&mut self, fh: FileHandle) {
        self.current_fh = Some(fh);
        self.current_stateid = None;
    }

    /// Replaces the special "current" stateid by the one it stands for.
    ///
    /// # Errors
    /// `BadStateid` when there is none.
    pub fn resolve(&self, stateid: Stateid) -> Result<Stateid, NfsStatus> {
        if stateid == Stateid::CURRENT {
            self.current_stateid.ok_or(NfsStatus::BadStateid)
        } else {
            Ok(stateid)
        }
    }

    /// The session's client; in NFSv4.0 the one that was named last, or [`crate::NOBODY`].
    ///
    /// # Errors
    /// `OpNotInSession`.
    pub fn client(&self) -> Result<ClientId, NfsStatus> {
        if let Some(minor_0) = &self.minor_0 {
            return Ok(minor_0.client);
        }
        self.session
            .as_ref()
            .map(|s| s.client)
            .ok_or(NfsStatus::OpNotInSession)
    }

    /// SEQUENCE has named the session.
    pub(crate) fn enter(&mut self, session: SessionContext) {
        self.actor.enter(session.client, &session.owner);
        self.session = Some(session);
    }

    /// The actor, and what makes kept replies beside it.
    pub fn split(&mut self) -> (&mut A, Keeper<'_>) {
        let keeper = Keeper {
            persist: self.persist.as_ref(),
            current_fh: self.current_fh.as_ref(),
            saved_fh: self.saved_fh.as_ref(),
        };
        (&mut self.actor, keeper)
    }

    /// What makes kept replies.
    pub fn keeper(&self) -> Keeper<'_> {
        Keeper {
            persist: self.persist.as_ref(),
            current_fh: self.current_fh.as_ref(),
            saved_fh: self.saved_fh.as_ref(),
        }
    }

    /// Notes that a result depends on transaction `seq`.
    pub fn observe(&mut self, seq: u64) {
        self.actor.observe(seq);
    }

    /// Bytes that a result may still add to a reply of `wire_len` bytes so far. A failure of the next operation must
    /// still fit after it.
    #[must_use]
    pub fn room(&self, wire_len: usize) -> usize {
        let max = self
            .session
            .as_ref()
            .map_or(self.minor_0_bytes_max(), |s| s.response_bytes_max as usize);
        max.saturating_sub(wire_len)
            .saturating_sub(ERROR_RESULT_BYTES)
    }

    /// Largest reply outside of sessions.
    fn minor_0_bytes_max(&self) -> usize {
        self.minor_0.map_or(usize::MAX, |_| REPLY_BYTES_MAX)
    }

    /// The whole request.
    pub(crate) fn record(&self) -> &'r Bytes {
        self.record
    }

    /// Judges the size of a reply of `wire_len` bytes.
    pub(crate) fn check_size(&self, wire_len: usize) -> Result<(), NfsStatus> {
        if wire_len > self.minor_0_bytes_max() {
            return Err(NfsStatus::RepTooBig);
        }
        self.session
            .as_ref()
            .map_or(Ok(()), |s| s.check_size(wire_len))
    }
}
