//! One COMPOUND (RFC 8881 §16.2): what is current, who asks, and how large its reply may grow.
//!
//! # Ownership
//! A [`Compound`] lives as long as its request. The slot lies in the engine until the reply is cached.
//!
//! # Ordering
//! Results are written as operations end; nothing leaves before [`Role::settle`] has passed.
//!
//! # Failure
//! The first operation that fails is the last one; its predecessors keep their effects.

use crate::Role;
use crate::persist::Persist;
use bytes::Bytes;
use nfs4::{ClientId, FileHandle, NfsStatus, SessionId, Stateid};
use rpc::Credential;
use state::{Origin, Principal};
use std::sync::Arc;
use std::time::Duration;
use transport::{Charge, ConnHandle, Payload};

/// Payload in memory up to which a reply is not charged to the send budget: what all slots of a session hold then is little.
const UNCHARGED_BYTES_MAX: u32 = 16 * 1024;
/// How long a request waits for the send budget before it is answered `NFS4ERR_DELAY`.
const CHARGE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Bytes of the largest result that only says how an operation failed: number, status, and the empty
/// bitmap of SETATTR. Kept free behind each result, so that the next failure always fits.
pub(crate) const ERROR_RESULT_BYTES: usize = 12;

/// The session that SEQUENCE named.
#[derive(Debug, Clone)]
pub struct SessionContext {
    /// The session.
    pub id: SessionId,
    /// Slot of the request.
    pub slot: u32,
    /// Its sequence id.
    pub seqid: u32,
    /// Its client.
    pub client: ClientId,
    /// `co_ownerid` of the client: what signed handles are bound to (rule R5).
    pub owner: Arc<[u8]>,
    /// Largest reply in bytes, its RPC header included.
    pub response_bytes_max: u32,
    /// Largest reply in bytes that is kept when the client asks for caching.
    pub response_cached_bytes_max: u32,
    /// Whether it asked.
    pub cache_this: bool,
}

impl SessionContext {
    /// The name of this request, for callbacks about what it granted.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        Origin {
            session: self.id,
            slot: self.slot,
            seqid: self.seqid,
        }
    }

    /// Judges the size of a reply of `wire_len` bytes (RFC 8881 §2.10.6.4).
    pub(crate) fn check_size(&self, wire_len: usize) -> Result<(), NfsStatus> {
        if wire_len > self.response_bytes_max as usize {
            return Err(NfsStatus::RepTooBig);
        }
        if self.cache_this && wire_len > self.response_cached_bytes_max as usize {
            return Err(NfsStatus::RepTooBigToCache);
        }
        Ok(())
    }
}

/// One COMPOUND in execution.
pub struct Compound<'r, R: Role> {
    /// The connection that it came on.
    pub conn: &'r ConnHandle,
    /// The record that arguments are borrowed from.
    record: &'r Bytes,
    /// Who asks.
    pub caller: R::Caller,
    /// Who asks, as sent.
    pub credential: Credential<'r>,
    /// 1 or 2.
    pub minor_version: u32,
    /// The session; `None` for the operations that stand alone.
    pub session: Option<SessionContext>,
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
    /// For payloads in memory.
    pub(crate) charge: Option<Charge>,
    /// The newest transaction that any result depends on, in the role's own numbering.
    pub observed_seq: u64,
    /// Of a persistent session.
    pub(crate) persist: Option<Persist>,
}

impl<'r, R: Role> Compound<'r, R> {
    pub(crate) fn new(
        conn: &'r ConnHandle,
        record: &'r Bytes,
        caller: R::Caller,
        credential: Credential<'r>,
        minor_version: u32,
    ) -> Self {
        Self {
            conn,
            record,
            caller,
            credential,
            minor_version,
            session: None,
            current_fh: None,
            saved_fh: None,
            current_stateid: None,
            saved_stateid: None,
            payloads: Vec::new(),
            charge: None,
            observed_seq: 0,
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
    /// `Delay` when peers that do not read hold all there is, or when an earlier operation of the same request holds a
    /// charge already and more cannot be had at once.
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

    /// Who asks, for comparison with the owner of a client record: the flavour and what it proves. Groups are
    /// left out, since they may change under a running client.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal(match &self.credential {
            Credential::Sys(sys) => {
                let mut bytes = vec![1];
                bytes.extend(sys.uid.to_be_bytes());
                bytes.extend(&sys.machine);
                bytes
            }
            _ => vec![0],
        })
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

    /// The session's client.
    ///
    /// # Errors
    /// `OpNotInSession`.
    pub fn client(&self) -> Result<ClientId, NfsStatus> {
        self.session
            .as_ref()
            .map(|s| s.client)
            .ok_or(NfsStatus::OpNotInSession)
    }

    /// Notes that a result depends on transaction `seq`.
    pub fn observe(&mut self, seq: u64) {
        self.observed_seq = self.observed_seq.max(seq);
    }

    /// Bytes that a result may still add to a reply of `wire_len` bytes so far, when a failure of the next
    /// operation is to fit behind it.
    #[must_use]
    pub fn room(&self, wire_len: usize) -> usize {
        let max = self
            .session
            .as_ref()
            .map_or(usize::MAX, |s| s.response_bytes_max as usize);
        max.saturating_sub(wire_len)
            .saturating_sub(ERROR_RESULT_BYTES)
    }

    /// Judges the size of a reply of `wire_len` bytes.
    pub(crate) fn check_size(&self, wire_len: usize) -> Result<(), NfsStatus> {
        self.session
            .as_ref()
            .map_or(Ok(()), |s| s.check_size(wire_len))
    }
}
