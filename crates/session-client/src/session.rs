//! The session itself: made, used, repaired, lost.
//!
//! # Ownership
//! A running COMPOUND owns its slot. Connections belong to the session and are shared by all COMPOUNDs.
//!
//! # Ordering
//! A request keeps its slot and sequence id over all its tries; only an answered SEQUENCE uses the sequence id up.
//!
//! # Failure
//! A broken connection: connect again, bind, send the same request. Too long without an answer: the request fails and
//! leaves its slot in doubt; the session lives on. A server that does not know the session: it is lost for everybody,
//! those who wait included, and stays so until [`Session::establish`]. Only a request that must not be repeated and may
//! have been executed is asked for again even so. A server with persistent sessions still answers that (RFC 8881
//! §2.10.6.5).

use crate::bare::{Binding, bare};
use crate::callback::{BACK_SLOTS, CB_PROGRAM, Callbacks, RenewLease};
use crate::compound_call::{accepted, call_header, op_error, session_result};
use crate::config::{MESSAGE_BYTES_MAX, SessionConfig};
use crate::connections::{Connections, NewConn};
use crate::room::{Estimate, reply_room};
use crate::slots::{SlotGuard, Slots};
use crate::{Caller, SessionError};
use bytes::Bytes;
use nfs4::ops::{
    CREATE_SESSION_CONN_BACK_CHAN, CREATE_SESSION_PERSIST, CallbackSecParms, ChannelAttrs,
    CreateSessionArgs, CreateSessionRes, DestroyClientIdArgs, DestroyClientIdRes,
    DestroySessionArgs, DestroySessionRes, ExchangeIdArgs, ExchangeIdRes, SequenceArgs,
    SequenceRes, StateProtectArgs,
};
use nfs4::{ClientId, ClientOwner, CompoundBuilder, CompoundReply, NfsStatus, OpError, SessionId};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use transport::{
    CallError, CloseReason, ConnHandle, Connector, DynService, Message, NoService, Payload,
};
use xdr::{Decoder, List, Opaque};

/// Largest reply in bytes that we ask the server to keep.
const CACHED_BYTES_MAX: u32 = 4096;
/// Most operations of a COMPOUND that we ask for.
const OPERATIONS_MAX: u32 = 64;
/// Pause before another try, doubled up to the longest.
const PAUSE_MS: u64 = 20;
const PAUSE_MS_MAX: u64 = 1_000;
/// What the server said when the session was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// The client id. State stands only if this is the one that it was made under. `EXCHGID4_FLAG_CONFIRMED_R` is also
    /// set when the reply to an earlier CREATE_SESSION was lost.
    pub client: ClientId,
    /// The session.
    pub session: SessionId,
    /// `EXCHGID_*` flags of the server.
    pub flags: u32,
    /// `so_major_id`.
    pub server_owner: Vec<u8>,
    /// Largest request in bytes.
    pub request_bytes_max: u32,
    /// Largest reply in bytes.
    pub response_bytes_max: u32,
    /// Most operations of a COMPOUND, SEQUENCE included.
    pub operations_max: u32,
}

/// The reply of a COMPOUND.
#[derive(Debug, Clone)]
pub struct Outcome {
    record: Bytes,
    results_at: usize,
    /// `SEQ_STATUS_*` flags of the reply.
    pub status_flags: u32,
}

impl Outcome {
    /// A reader that stands behind the result of SEQUENCE. What it hands out borrows from the record.
    ///
    /// # Errors
    /// [`OpError`], which cannot happen for a reply that was accepted.
    pub fn results(&self) -> Result<CompoundReply<'_>, OpError> {
        let mut reply = CompoundReply::new(Decoder::new(&self.record[self.results_at..]))?;
        reply.take::<SequenceRes>()?;
        Ok(reply)
    }

    /// The record, to slice payloads from without copying.
    #[must_use]
    pub fn record(&self) -> &Bytes {
        &self.record
    }
}

#[derive(Clone)]
struct Live {
    established: Arc<Established>,
    slots: Arc<Slots>,
    connections: Arc<Connections>,
    binding: Binding,
}

/// Appends the operations of a request, and returns one payload for each span that they recorded.
pub type Build<'a> = dyn Fn(&mut CompoundBuilder) -> Vec<Payload> + Send + Sync + 'a;

/// A session to one server. Shared by reference; every method may be called concurrently.
pub struct Session {
    config: Arc<SessionConfig>,
    connector: Arc<dyn Connector>,
    callbacks: Option<Arc<Callbacks>>,
    live: Mutex<Option<Live>>,
    establishing: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("addresses", &self.config.addresses)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(live) = self.live.get_mut().take() {
            live.connections.close();
        }
    }
}

impl Session {
    /// A session that is not made yet.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>, config: SessionConfig) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            callbacks: (config.callbacks.clone())
                .map(|handler| Callbacks::new(handler, renewing(this.clone()))),
            config: Arc::new(config),
            connector,
            live: Mutex::default(),
            establishing: tokio::sync::Mutex::new(()),
        })
    }

    /// What the server said, while the session lives.
    #[must_use]
    pub fn established(&self) -> Option<Arc<Established>> {
        let live = self.live.lock();
        live.as_ref().map(|l| Arc::clone(&l.established))
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Makes the session unless it lives: EXCHANGE_ID and CREATE_SESSION. Concurrent callers share one attempt.
    ///
    /// # Errors
    /// [`SessionError`] after [`SessionConfig::give_up`], or at once when the server refuses.
    pub async fn establish(&self) -> Result<Arc<Established>, SessionError> {
        let _one = self.establishing.lock().await;
        if let Some(established) = self.established() {
            return Ok(established);
        }
        // One for all tries: it knows which addresses have failed.
        let connections = Connections::new(
            Arc::clone(&self.connector),
            self.config.addresses.clone(),
            self.config.connections,
            self.reverse(),
        );
        let deadline = Instant::now() + self.config.give_up;
        let mut pause = Duration::from_millis(PAUSE_MS);
        loop {
            match self.try_establish(&connections).await {
                Ok(established) => return Ok(established),
                Err(e) if !e.is_transient() || Instant::now() >= deadline => return Err(e),
                Err(e) => tracing::debug!("no session yet: {e}"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(PAUSE_MS_MAX));
        }
    }

    async fn try_establish(
        &self,
        connections: &Arc<Connections>,
    ) -> Result<Arc<Established>, SessionError> {
        let conn = connections.connect().await?;
        let created = self.create(conn.handle()).await;
        if matches!(created, Err(SessionError::TimedOut)) {
            connections.pass_over(&conn);
        }
        let (established, slots_count) = created?;
        connections.add(conn);
        let binding = Binding {
            config: Arc::clone(&self.config),
            session: established.session,
        };
        let live = Live {
            slots: Slots::new(slots_count.min(self.config.slots)),
            established: Arc::new(established),
            connections: Arc::clone(connections),
            binding,
        };
        let established = Arc::clone(&live.established);
        if let Some(callbacks) = &self.callbacks {
            callbacks.bind(established.session, Arc::clone(&live.slots));
        }
        *self.live.lock() = Some(live);
        Ok(established)
    }

    fn reverse(&self) -> Arc<dyn DynService> {
        match &self.callbacks {
            Some(callbacks) => Arc::clone(callbacks) as Arc<dyn DynService>,
            None => NoService::shared(),
        }
    }

    /// EXCHANGE_ID and CREATE_SESSION; also returns how many slots were granted.
    async fn create(&self, conn: &ConnHandle) -> Result<(Established, u32), SessionError> {
        let id = self.exchange_id(conn).await?;
        let attrs = |requests_max: u32| ChannelAttrs {
            header_pad_bytes: 0,
            request_bytes_max: MESSAGE_BYTES_MAX,
            response_bytes_max: MESSAGE_BYTES_MAX,
            response_cached_bytes_max: CACHED_BYTES_MAX,
            operations_max: OPERATIONS_MAX,
            requests_max,
            rdma_ird: None,
        };
        let mut flags = CREATE_SESSION_PERSIST;
        if let Some(callbacks) = &self.callbacks {
            callbacks.unbind();
            flags |= CREATE_SESSION_CONN_BACK_CHAN;
        }
        let (client, sequence) = (id.client, id.sequence);
        let record = bare(&self.config, conn, &|b| {
            b.push(&CreateSessionArgs {
                clientid: client,
                sequence,
                flags,
                fore_chan_attrs: attrs(self.config.slots.max(1)),
                back_chan_attrs: ChannelAttrs {
                    request_bytes_max: 4096,
                    response_bytes_max: 4096,
                    operations_max: 8,
                    ..attrs(BACK_SLOTS)
                },
                cb_program: CB_PROGRAM,
                sec_parms: List(vec![CallbackSecParms::None]),
            });
        })
        .await?;
        let created = session_result::<CreateSessionRes>(&record)?;
        let fore = created.fore_chan_attrs;
        let established = Established {
            client,
            session: created.session_id,
            flags: id.flags,
            server_owner: id.server_owner,
            request_bytes_max: fore.request_bytes_max,
            response_bytes_max: fore.response_bytes_max,
            operations_max: fore.operations_max,
        };
        Ok((established, fore.requests_max))
    }

    async fn exchange_id(&self, conn: &ConnHandle) -> Result<Exchanged, SessionError> {
        let record = bare(&self.config, conn, &|b| {
            b.push(&ExchangeIdArgs {
                client_owner: ClientOwner {
                    verifier: self.config.verifier,
                    ownerid: Opaque(&self.config.owner),
                },
                flags: self.config.role_flag,
                state_protect: StateProtectArgs::None,
                client_impl_id: None,
            });
        })
        .await?;
        let mut reply = accepted(&record)?.0;
        let res = reply.take::<ExchangeIdRes<'_>>().map_err(op_error)?;
        Ok(Exchanged {
            client: res.clientid,
            sequence: res.sequence,
            flags: res.flags,
            server_owner: res.server_owner.major_id.0.to_vec(),
        })
    }

    /// Sends operations as `caller` after a SEQUENCE and returns the reply. `build` is called again for every try
    /// and must then append the very same. The server need not keep the reply: for operations that may be repeated, when
    /// the reply of the first time was lost.
    ///
    /// # Errors
    /// [`SessionError`]; failures of the operations are in the reply.
    pub async fn compound(
        &self,
        caller: &Caller,
        build: &Build<'_>,
    ) -> Result<Outcome, SessionError> {
        self.request(caller, false, build).await
    }

    /// As [`Session::compound`], for operations that must not be repeated: the server keeps the reply for retries.
    ///
    /// # Errors
    /// [`SessionError`]; failures of the operations are in the reply.
    pub async fn compound_once(
        &self,
        caller: &Caller,
        build: &Build<'_>,
    ) -> Result<Outcome, SessionError> {
        self.request(caller, true, build).await
    }

    async fn request(
        &self,
        caller: &Caller,
        cache_this: bool,
        build: &Build<'_>,
    ) -> Result<Outcome, SessionError> {
        let live = self.live.lock().clone().ok_or(SessionError::Lost)?;
        let mut slot = live.slots.acquire().await.ok_or(SessionError::Lost)?;
        let deadline = Instant::now() + self.config.give_up;
        // For all tries: a reply that had no room and was not kept would have none again.
        let mut estimate = Estimate::Usual;
        if slot.in_doubt {
            let probe: &Build<'_> = &|_| Vec::new();
            match self
                .tries(
                    &live,
                    &slot,
                    deadline,
                    (caller, false, probe),
                    &mut estimate,
                )
                .await
            {
                // Our own answer, or that of the forgotten request: in each case the sequence id is used up.
                Ok(_)
                | Err(SessionError::Status(
                    NfsStatus::RetryUncachedRep | NfsStatus::SeqFalseRetry,
                )) => slot.advance(),
                Err(e) => return Err(e),
            }
        }
        loop {
            let request = (caller, cache_this, build);
            match self
                .tries(&live, &slot, deadline, request, &mut estimate)
                .await
            {
                Ok(outcome) => {
                    slot.executed();
                    return Ok(outcome);
                }
                Err(SessionError::Status(NfsStatus::RetryUncachedRep)) if !cache_this => {
                    // Executed, its reply not kept: only requests that may be repeated are so.
                    slot.advance();
                }
                Err(e @ (SessionError::Status(_) | SessionError::Refused(_))) => {
                    slot.refused();
                    return Err(e);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends one request until its SEQUENCE is answered.
    async fn tries(
        &self,
        live: &Live,
        slot: &SlotGuard,
        deadline: Instant,
        request: (&Caller, bool, &Build<'_>),
        estimate: &mut Estimate,
    ) -> Result<Outcome, SessionError> {
        let mut pause = Duration::from_millis(PAUSE_MS);
        // Told once: every try must be the same request, or the server takes it for another (RFC 8881 §2.10.6.1.3.1).
        let highest_slot = live.slots.highest_busy();
        let mut is_sent = false;
        loop {
            // A lost session answers nothing but the retry of what changed something (RFC 8881 §2.10.6.5).
            let may_be_kept = is_sent && request.1;
            let is_lost = live.slots.is_closed();
            if is_lost && !may_be_kept {
                return Err(SessionError::Lost);
            }
            let tried = match self.reach(live, is_lost).await {
                Ok(reached) => {
                    is_sent = true;
                    let conn = &reached.conn;
                    self.one_try(live, conn, (slot, highest_slot), request, *estimate)
                        .await
                }
                Err(e) => Err(e),
            };
            let error = match tried {
                // A reply that was too long for its room is asked for again (RFC 8267 §4.1). The server either has not
                // executed the request or answers the retry as it answers every other.
                Err(SessionError::NotCarried) if *estimate == Estimate::Usual => {
                    *estimate = Estimate::Most;
                    continue;
                }
                Err(SessionError::Lost) => {
                    self.lose(live);
                    if may_be_kept && !is_lost {
                        continue;
                    }
                    return Err(SessionError::Lost);
                }
                Err(e) if e.is_transient() => e,
                ended => return ended,
            };
            if Instant::now() >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(PAUSE_MS_MAX));
        }
    }

    /// A connection for one try. A lost session has none: it is one of the request's own then.
    async fn reach(&self, live: &Live, is_lost: bool) -> Result<Reached, SessionError> {
        if is_lost {
            let own = live.connections.connect().await?;
            return Ok(Reached {
                conn: own.handle().clone(),
                _own: Some(own),
            });
        }
        let conn = live.connections.pick(&live.binding).await?;
        Ok(Reached { conn, _own: None })
    }

    async fn one_try(
        &self,
        live: &Live,
        conn: &ConnHandle,
        (slot, highest_slot): (&SlotGuard, u32),
        (caller, cache_this, build): (&Caller, bool, &Build<'_>),
        estimate: Estimate,
    ) -> Result<Outcome, SessionError> {
        let mut b = CompoundBuilder::new(
            call_header(caller.credential()),
            b"",
            self.config.minor_version,
        );
        b.push(&SequenceArgs {
            session_id: live.established.session,
            sequence_id: slot.seqid,
            slot_id: slot.slot,
            highest_slot_id: highest_slot,
            cache_this,
        });
        let payloads = build(&mut b);
        let room = reply_room(
            b.reply_bytes(),
            live.established.response_bytes_max,
            estimate,
        );
        let message = Message::new(b.finish(), payloads).with_reply_room(room);
        let record = match conn.call(message, self.config.try_timeout).await {
            Ok(record) => record,
            Err(CallError::Refused) => return Err(SessionError::NotCarried),
            Err(_) => {
                // A connection that does not answer may be half dead: do not wait for it again.
                conn.close(CloseReason::Asked);
                slot.unanswered();
                return Err(SessionError::TimedOut);
            }
        };
        let (mut reply, results_at) = accepted(&record)?;
        let res = reply.take::<SequenceRes>().map_err(op_error)?;
        if reply.status == NfsStatus::RetryUncachedRep {
            // Said by the operation after SEQUENCE (RFC 8881 §2.10.6.1.3).
            return Err(SessionError::Status(NfsStatus::RetryUncachedRep));
        }
        if res.session_id != live.established.session
            || res.slot_id != slot.slot
            || res.sequence_id != slot.seqid
        {
            return Err(SessionError::Malformed("SEQUENCE of another request"));
        }
        live.slots.set_target(res.target_highest_slot_id);
        Ok(Outcome {
            record,
            results_at,
            status_flags: res.status_flags,
        })
    }

    /// The session is gone for everybody, unless a newer one was made meanwhile.
    fn lose(&self, lost: &Live) {
        lost.slots.close();
        let mut live = self.live.lock();
        if live
            .as_ref()
            .is_some_and(|l| Arc::ptr_eq(&l.slots, &lost.slots))
        {
            *live = None;
        }
        drop(live);
        lost.connections.close();
    }

    /// Gives the session up, as if the server had forgotten it: for a caller that knows better.
    pub fn abandon(&self) {
        let live = self.live.lock().clone();
        if let Some(live) = live {
            self.lose(&live);
        }
    }

    /// Ends the session and the client id at the server; both may be made anew afterwards.
    ///
    /// # Errors
    /// [`SessionError`]; the server forgets both after the lease in any case.
    pub async fn destroy(&self) -> Result<(), SessionError> {
        let Some(live) = self.live.lock().take() else {
            return Ok(());
        };
        live.slots.close();
        let ended = self.destroy_at_server(&live).await;
        live.connections.close();
        ended
    }

    async fn destroy_at_server(&self, live: &Live) -> Result<(), SessionError> {
        let Some(conn) = live.connections.any() else {
            return Ok(());
        };
        let session_id = live.established.session;
        let clientid = live.established.client;
        let record = bare(&self.config, &conn, &|b| {
            b.push(&DestroySessionArgs { session_id });
        })
        .await?;
        session_result::<DestroySessionRes>(&record)?;
        let record = bare(&self.config, &conn, &|b| {
            b.push(&DestroyClientIdArgs { clientid });
        })
        .await?;
        session_result::<DestroyClientIdRes>(&record).map(drop)
    }

    /// Renews the lease: a SEQUENCE alone. Returns its status flags.
    ///
    /// # Errors
    /// [`SessionError`].
    pub async fn renew(&self) -> Result<u32, SessionError> {
        let caller = self.config.caller.clone();
        self.compound(&caller, &|_| Vec::new())
            .await
            .map(|o| o.status_flags)
    }
}

/// Renews the lease of a session that may be gone.
fn renewing(session: Weak<Session>) -> RenewLease {
    Arc::new(move || {
        let session = session.clone();
        Box::pin(async move {
            if let Some(session) = session.upgrade() {
                let _ = session.renew().await;
            }
        })
    })
}

/// Where a try goes.
struct Reached {
    conn: ConnHandle,
    /// Closed after the try.
    _own: Option<NewConn>,
}

struct Exchanged {
    client: ClientId,
    sequence: u32,
    flags: u32,
    server_owner: Vec<u8>,
}
