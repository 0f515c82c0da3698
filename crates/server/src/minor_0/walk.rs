//! The walk over a COMPOUND of NFSv4.0 (RFC 7530 §14.2).
//!
//! # Ownership
//! [`Held`] counts the request among those of its clients until it ends, so that no lease ends meanwhile.
//!
//! # Ordering
//! A call is looked up among the kept replies before its first operation that must not be done twice. What comes before may.

use super::asked::{Asked, asked};
use super::context::{Minor0Context, NOBODY};
use super::status::status_of;
use super::turn::{Judged, Turn};
use crate::answers::effects_lost;
use crate::tables::{ERROR_RESULT_BYTES, effect_bytes, is_read_only};
use crate::user::User;
use crate::{Actor, Compound, Counters, Nfsd, Role};
use bytes::Bytes;
use client_table::ClientTable;
use nfs4::{ClientId, NfsStatus, OpNum, OpReader, ReplyWriter, Stateid};
use rpc::AcceptError;
use rpc_service::{CallKey, Heard, Replies, RunningCall, Seal, refusal, replay};
use state::{OwnerChange, OwnerReply, RemovedClient};
use std::sync::Arc;
use tokio::time::Instant;
use transport::{ConnHandle, Message};
use xxhash_rust::xxh3::xxh3_64;

/// Longest reply that is kept for a retry. Operations that change anything have short results.
const KEPT_REPLY_BYTES_MAX: usize = 8 * 1024;

/// A request of its clients, of which there is one but for odd requests.
struct Held<'a> {
    table: &'a ClientTable,
    clients: Vec<(ClientId, Arc<[u8]>)>,
}

impl Held<'_> {
    /// The request is one of this client from now on.
    fn hold(&mut self, client: ClientId) -> Result<Arc<[u8]>, NfsStatus> {
        if let Some((_, owner)) = self.clients.iter().find(|(id, _)| *id == client) {
            return Ok(Arc::clone(owner));
        }
        let now_ms = self.table.now_ms();
        let owner = self.table.lock().begin_minor_0(client, now_ms)?;
        self.clients.push((client, Arc::clone(&owner)));
        Ok(owner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        for (client, _) in &self.clients {
            table.end_minor_0(*client);
        }
    }
}

/// How a walk ends.
enum Walked {
    Done(NfsStatus),
    /// A retry: what was answered then.
    Replay(Arc<[u8]>),
    /// A retry of what runs, or of what nobody knows the end of.
    Retry(Option<Message>),
}

/// What a walk goes over.
pub(crate) struct Request<'r> {
    pub(crate) xid: u32,
    pub(crate) ops: OpReader<'r>,
    pub(crate) ops_count: u32,
    pub(crate) seal: Seal,
    pub(crate) header_bytes: usize,
}

/// Who asks, on what connection, by which record, and when it came.
type By<'r, R> = (&'r ConnHandle, &'r Bytes, <R as Role>::Actor, User, Instant);

impl<R: Role> Nfsd<R> {
    /// Executes a COMPOUND whose header is read.
    pub(crate) async fn compound_0<'r>(
        &'r self,
        (conn, record, actor, user, began): By<'r, R>,
        request: Request<'r>,
        mut reply: ReplyWriter<OpNum>,
    ) -> Option<Message> {
        let mut cx = Compound::new(conn, record, actor, user, 0, began);
        cx.steps = self.traces().choose();
        cx.minor_0 = Some(Minor0Context::default());
        let (caller, owner) = self.caller_0(cx.conn.id());
        cx.enter_minor_0(caller, &owner);
        let mut held = Held {
            table: self.clients(),
            clients: Vec::new(),
        };
        let mut running = None;
        let walked = self.walk_0(&mut cx, &request, &mut reply, (&mut held, &mut running));
        let status = match walked.await {
            Walked::Done(status) => status,
            Walked::Replay(kept) => {
                Counters::add(&self.counters().replays);
                return Some(replay(request.seal, request.xid, &kept));
            }
            Walked::Retry(answer) => return answer,
        };
        let settled = self.settle(&mut cx).await;
        self.sweep_0(&held).await;
        self.note_end(&mut cx, request.xid, status);
        let message = Message::new(reply.finish(status), std::mem::take(&mut cx.payloads))
            .with_charge(cx.charge.take());
        if let Err(why) = settled {
            effects_lost(cx.conn, request.xid, why);
            return None;
        }
        if let Some(running) = running {
            running.complete(kept(&message, request.header_bytes));
        }
        Some(message)
    }

    /// Who calls on a connection, and its name, as far as that is known.
    fn caller_0(&self, connection: u64) -> (ClientId, Arc<[u8]>) {
        let known = self.minor_0().callers.of(connection).and_then(|client| {
            let clients = self.clients().lock();
            Some((client, Arc::from(clients.owner(client)?)))
        });
        known.unwrap_or_else(|| (NOBODY, Arc::default()))
    }

    /// A client that went while its request ran may have got state after that: it is removed once more.
    async fn sweep_0(&self, held: &Held<'_>) {
        for (client, owner) in &held.clients {
            if self.clients().lock().owner(*client).is_some() {
                continue;
            }
            let removed = RemovedClient {
                client: *client,
                owner: owner.to_vec(),
                sessions: Vec::new(),
                recorded: true,
            };
            self.role().client_removed(removed).await;
        }
    }

    async fn walk_0<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        request: &Request<'r>,
        reply: &mut ReplyWriter<OpNum>,
        (held, running): (&mut Held<'r>, &mut Option<RunningCall<&'r Replies>>),
    ) -> Walked {
        if request.ops_count > nfs4::OPS_MAX {
            return Walked::Done(NfsStatus::Resource);
        }
        let mut ops = request.ops.clone();
        while let Some(next) = self.next_op(cx, &mut ops, reply) {
            let op = match next {
                Ok(op) => op,
                Err(status) => return Walked::Done(status),
            };
            if running.is_none() && is_once(op) {
                match self.hear(cx, request).await {
                    Ok(new) => *running = Some(new),
                    Err(walked) => return walked,
                }
            }
            let before = reply.checkpoint();
            let payloads_count = cx.payloads.len();
            let begun = cx.check_size(reply.wire_len() + effect_bytes(op));
            let mut status = match begun {
                Ok(()) => self.operation_0(cx, op, &mut ops, reply, held).await,
                Err(_) => NfsStatus::Resource,
            };
            let is_last = !status.is_ok() || ops.left() == 0;
            let tail = if is_last { 0 } else { ERROR_RESULT_BYTES };
            if begun.is_err() {
                reply.error(op, status);
            } else if cx.check_size(reply.wire_len() + tail).is_err() {
                reply.rewind(before);
                cx.payloads.truncate(payloads_count);
                status = NfsStatus::Resource;
                reply.error(op, status);
            }
            if !status.is_ok() {
                return Walked::Done(status);
            }
        }
        Walked::Done(NfsStatus::Ok)
    }

    /// Looks a call up among those that were answered.
    async fn hear<'r>(
        &'r self,
        cx: &Compound<'r, R::Actor>,
        request: &Request<'_>,
    ) -> Result<RunningCall<&'r Replies>, Walked> {
        let key = CallKey {
            client: cx.conn.peer().socket().map(|a| a.ip()),
            xid: request.xid,
            sum: xxh3_64(cx.record()),
        };
        let replies = &self.minor_0().replies;
        match replies.hear_out(key).await {
            None => Ok(RunningCall::new(replies, key)),
            // It takes long, or has to wait long. Its client sends it again.
            Some(Heard::Running | Heard::Full) => Err(Walked::Retry(None)),
            Some(Heard::Done(Some(kept))) => Err(Walked::Replay(kept)),
            Some(Heard::Done(None)) => {
                let answer = refusal(request.xid, AcceptError::SystemErr.into());
                Err(Walked::Retry(Some(answer)))
            }
        }
    }

    /// Executes one operation and writes its result. Finds its client and waits for the turn of its owner first.
    async fn operation_0<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
        held: &mut Held<'r>,
    ) -> NfsStatus {
        let judged = match asked(op, ops) {
            Ok(asked) => self.judge_0(cx, op, &asked, held).await.map(|j| (j, asked)),
            Err(status) => Err(status),
        };
        match judged {
            Err(status) => {
                reply.error(op, status);
                status
            }
            Ok((None, _)) => self.perform_0(cx, op, ops, reply).await,
            Ok((Some(Judged::Replay(kept)), _)) => {
                Counters::add(&self.counters().replays);
                skip(op, ops);
                write_again(cx, op, kept, reply)
            }
            Ok((Some(Judged::Run(turn)), asked)) => {
                self.take_turn(cx, op, ops, reply, (turn, &asked)).await
            }
        }
    }

    async fn judge_0<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        asked: &Asked,
        held: &mut Held<'r>,
    ) -> Result<Option<Judged<'r>>, NfsStatus> {
        let of_state = match asked.stateid {
            Some(stateid) => self.client_of_stateid(stateid)?,
            None => None,
        };
        let Some(client) = asked.client.or(of_state) else {
            return Ok(None);
        };
        let owner = held.hold(client).map_err(|status| match status {
            // The state of a client that is gone.
            NfsStatus::StaleClientId if asked.client.is_none() => NfsStatus::Expired,
            status => status,
        })?;
        if cx.minor_0.is_some_and(|m| m.client != client) {
            let is_known = |other| self.clients().lock().owner(other).is_some();
            let callers = &self.minor_0().callers;
            callers.note(cx.conn.id(), client, is_known);
        }
        cx.enter_minor_0(client, &owner);
        if asked.seqs.is_empty() {
            return self.check_confirmed(asked).map(|()| None);
        }
        let now_ms = self.clients().now_ms();
        let minor_0 = self.minor_0();
        let judged = Turn::of(minor_0, client, asked, op == OpNum::Open, now_ms).await?;
        Ok(Some(judged))
    }

    /// An open that is not confirmed is good for nothing yet (RFC 7530 §16.18.5).
    fn check_confirmed(&self, asked: &Asked) -> Result<(), NfsStatus> {
        let Some(stateid) = asked.stateid.filter(|s| !s.is_special()) else {
            return Ok(());
        };
        let owners = self.minor_0().owners.lock();
        match owners.of_state(&stateid.other) {
            Some(name) if !owners.is_confirmed(name) => Err(NfsStatus::BadStateid),
            _ => Ok(()),
        }
    }

    /// The client of a stateid; none of one that stands for nobody's state.
    fn client_of_stateid(&self, stateid: Stateid) -> Result<Option<ClientId>, NfsStatus> {
        if stateid == Stateid::ANONYMOUS || stateid == Stateid::READ_BYPASS {
            return Ok(None);
        }
        // The other special ones came with NFSv4.1, as did "the newest".
        if stateid.is_special() || stateid.seqid == 0 {
            return Err(NfsStatus::BadStateid);
        }
        let owner = self
            .minor_0()
            .owners
            .lock()
            .of_state(&stateid.other)
            .cloned();
        match owner {
            Some(name) => Ok(Some(name.client)),
            None => {
                let client = self.role().client_of(&stateid.other)?;
                // A stateid of a client of NFSv4.1 says nothing here.
                let is_own = self.clients().lock().is_minor_0(client);
                is_own.then_some(Some(client)).ok_or(NfsStatus::BadStateid)
            }
        }
    }

    /// Executes what has its turn, and keeps the result for a retry.
    async fn take_turn<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
        (turn, asked): (Turn<'r>, &Asked),
    ) -> NfsStatus {
        let is_confirmed = turn.is_confirmed();
        // OPEN_CONFIRM is for what is not confirmed, and nothing but it and OPEN.
        let is_fit = match op {
            OpNum::Open => true,
            OpNum::OpenConfirm => !is_confirmed,
            _ => is_confirmed,
        };
        if !is_fit {
            reply.error(op, NfsStatus::BadStateid);
            return NfsStatus::BadStateid;
        }
        for other in &turn.abandoned {
            if let Some(owner) = turn.owner() {
                self.role().abandon_open(owner.client, other);
            }
        }
        let must_confirm = op == OpNum::Open && !is_confirmed && !asked.is_reclaim;
        if let Some(minor_0) = &mut cx.minor_0 {
            minor_0.must_confirm = must_confirm;
        }
        let start = reply.encoder().len();
        let status = self.perform_0(cx, op, ops, reply).await;
        let result = &reply.encoder().as_bytes()[start..];
        let change = change_of(op, status, result, must_confirm, asked);
        let kept = counts(status).then(|| OwnerReply {
            sum: asked.sum,
            result: Some(Arc::from(result)),
            status,
            made_current: (op == OpNum::Open && status.is_ok())
                .then(|| cx.current_fh.clone())
                .flatten(),
        });
        turn.end(kept.as_ref(), change);
        status
    }

    /// Executes an operation, whoever asks, and says how it ended in the words of NFSv4.0.
    async fn perform_0<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        let before = reply.checkpoint();
        let status = match op {
            OpNum::SetClientId
            | OpNum::SetClientIdConfirm
            | OpNum::Renew
            | OpNum::ReleaseLockOwner => self.client_op_0(cx, op, ops, reply).await,
            _ => self.execute(cx, op, ops, reply).await,
        };
        let said = status_of(op, status);
        if said != status {
            reply.rewind(before);
            reply.error(op, said);
        }
        said
    }
}

impl<A: Actor> Compound<'_, A> {
    fn enter_minor_0(&mut self, client: ClientId, owner: &Arc<[u8]>) {
        self.actor.enter(client, owner);
        if let Some(minor_0) = &mut self.minor_0 {
            minor_0.client = client;
        }
    }
}

/// Whether an operation must not be done twice. WRITE and COMMIT may, as in NFSv3; they would push others out.
fn is_once(op: OpNum) -> bool {
    !is_read_only(op) && !matches!(op, OpNum::Renew | OpNum::Write | OpNum::Commit)
}

/// Whether a request with this end has used its sequence id (RFC 7530 §9.1.7).
fn counts(status: NfsStatus) -> bool {
    !matches!(
        status,
        NfsStatus::StaleClientId
            | NfsStatus::StaleStateid
            | NfsStatus::BadStateid
            | NfsStatus::BadSeqid
            | NfsStatus::BadXdr
            | NfsStatus::Resource
            | NfsStatus::NoFileHandle
            | NfsStatus::Moved
    )
}

/// What an operation has done to its owner, by its result: the number of the operation, the status, then a stateid.
fn change_of(
    op: OpNum,
    status: NfsStatus,
    result: &[u8],
    must_confirm: bool,
    asked: &Asked,
) -> OwnerChange {
    if !status.is_ok() {
        return OwnerChange::None;
    }
    let other = result.get(12..24).and_then(|b| b.try_into().ok());
    match (op, other) {
        (OpNum::Open, Some(other)) if must_confirm => OwnerChange::MustConfirm(other),
        (OpNum::Open | OpNum::Lock, Some(other)) => OwnerChange::Has(other),
        (OpNum::OpenConfirm, _) => OwnerChange::Confirmed,
        (OpNum::Close, _) => match asked.stateid {
            Some(stateid) => OwnerChange::Closed(stateid.other),
            None => OwnerChange::None,
        },
        _ => OwnerChange::None,
    }
}

/// Reads over the arguments of an operation that is not executed.
fn skip(op: OpNum, ops: &mut OpReader<'_>) {
    use nfs4::ops::{CloseArgs, LockArgs, LockUArgs, OpenArgs, OpenConfirmArgs, OpenDowngradeArgs};
    // They were decoded before, so they are sound.
    match op {
        OpNum::Open => drop(ops.args::<OpenArgs<'_>>()),
        OpNum::OpenConfirm => drop(ops.args::<OpenConfirmArgs>()),
        OpNum::OpenDowngrade => drop(ops.args::<OpenDowngradeArgs>()),
        OpNum::Close => drop(ops.args::<CloseArgs>()),
        OpNum::Lock => drop(ops.args::<LockArgs<'_>>()),
        OpNum::LockU => drop(ops.args::<LockUArgs>()),
        _ => {}
    }
}

/// Answers a retry as the request was answered.
fn write_again<A: Actor>(
    cx: &mut Compound<'_, A>,
    op: OpNum,
    kept: OwnerReply,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    let Some(result) = kept.result else {
        reply.error(op, NfsStatus::Resource);
        return NfsStatus::Resource;
    };
    reply.append(1, &result);
    if let Some(fh) = kept.made_current {
        cx.set_fh(fh);
    }
    kept.status
}

fn kept(message: &Message, header_bytes: usize) -> Option<Arc<[u8]>> {
    if message.wire_len() - header_bytes > KEPT_REPLY_BYTES_MAX {
        return None;
    }
    let flat = message.flatten().ok()?;
    Some(Arc::from(&flat[header_bytes..]))
}
