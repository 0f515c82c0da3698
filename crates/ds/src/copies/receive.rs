//! The member's end of the parts program: items of a primary, applied once and in the order of their lane (rule P6).
//!
//! # Ownership
//! [`Received`] has one entry for each data server that has opened a stream. The numbers of a stream begin anew with
//! another process of the primary, or a later stream of it.
//!
//! # Ordering
//! An item is applied while its lane is held; the next one has its turn then. What makes it durable comes after that. An
//! item that was applied already is answered when it is durable.
//!
//! # Failure
//! An item that cannot be applied keeps its number: the primary gives the member up, or sends it again when there was no
//! room for it. An item of a removed file does nothing.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use control::{Answer, Refusal, Status};
use layout::MemberState;
use nfs4::NfsTime;
use objects::ObjectId;
use parts::{
    BLOCK_BYTES, CHALLENGE_BYTES, FileGeneration, GreetOk, Opening, PARTS_MAX, PartsAsked,
    PartsProc, PassArgs, PassOk, StreamItem, StreamOpenArgs,
};
use rpc::AcceptError;
use rpc_service::{Call, Program, Seal};
use server::Nfsd;
use transport::{ConnHandle, Message};
use xdr::{Encode, Encoder};

use super::fill::sums_of;
use super::received::{Conn, turn};
use crate::apply::Change;
use crate::blocks::SUM_OF_ZEROS;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::own_stripes::Own;
use crate::part::Part;
use crate::part_keys::Which;

/// How long an item waits for those before it.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// The parts program of a data server.
pub struct PartsProgram {
    nfsd: Arc<Nfsd<Ds>>,
}

impl PartsProgram {
    /// The program beside NFS on the data listeners.
    #[must_use]
    pub fn new(nfsd: Arc<Nfsd<Ds>>) -> Arc<Self> {
        Arc::new(Self { nfsd })
    }
}

impl Program for PartsProgram {
    fn number(&self) -> u32 {
        parts::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        parts::VERSION..=parts::VERSION
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let ds = self.nfsd.role();
        let (conn, args) = (call.conn, call.args.rest());
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        match PartsProc::from_u32(call.header.procedure) {
            Some(PartsProc::Null) => {}
            Some(PartsProc::Greet) => say(&mut e, greet(ds, conn)),
            Some(PartsProc::Open) => match xdr::decode_all::<StreamOpenArgs>(args) {
                Ok(args) => say(&mut e, open(ds, conn, &args)),
                Err(_) => return call.refuse(AcceptError::GarbageArgs),
            },
            Some(PartsProc::Pass) => match xdr::decode_all::<PassArgs<'_>>(args) {
                Ok(args) => {
                    let passed = pass(ds, conn, call.record, args).await;
                    say(
                        &mut e,
                        passed.map(|answer| with_room(ds, &args.item, answer)),
                    );
                }
                Err(_) => return call.refuse(AcceptError::GarbageArgs),
            },
            None => return call.refuse(AcceptError::ProcUnavail),
        }
        Some(e.into())
    }
}

fn say<T: Encode>(e: &mut Encoder, result: Result<T, Status>) {
    let refusal = |status| Refusal::new(status, "the member does not take it");
    Answer::from(result.map_err(refusal)).encode(e);
}

fn greet(ds: &Ds, conn: &ConnHandle) -> Result<GreetOk, Status> {
    let membership = ds.gate.membership().ok_or(Status::NotReady)?;
    let mut challenge = [0; CHALLENGE_BYTES];
    for half in challenge.chunks_mut(8) {
        half.copy_from_slice(&(ds.random)().to_be_bytes());
    }
    ds.copies.received.note(conn, Conn::Greeted(challenge));
    Ok(GreetOk {
        ds_id: membership.ds_id,
        nonce: ds.copies.nonce,
        challenge,
    })
}

fn open(ds: &Ds, conn: &ConnHandle, args: &StreamOpenArgs) -> Result<(), Status> {
    let received = &ds.copies.received;
    let challenge = match received.conns.lock().get(&conn.id()) {
        Some(Conn::Greeted(challenge)) => *challenge,
        _ => return Err(Status::Denied),
    };
    let (ring, membership) = ds.gate.keys().ok_or(Status::NotReady)?;
    let key = ring.verifier(args.key_id).ok_or(Status::TryLater)?;
    let opening = Opening {
        cluster_id: membership.cluster_id,
        from: args.from,
        from_nonce: args.from_nonce,
        to: membership.ds_id,
        to_nonce: ds.copies.nonce,
        stream: args.stream,
        challenge,
    };
    if !opening.is_proved(key, &args.mac) {
        return Err(Status::Denied);
    }
    let opened = received.opened(args)?;
    received.note(conn, Conn::Carries(opened));
    Ok(())
}

/// Whether the caller may pass on items of this place in this reign.
pub(crate) fn check_role(ds: &Ds, from: u32, args: &PassArgs<'_>) -> Result<(), Status> {
    let known = ds.gate.with_rows(|rows, ds_id| {
        let row = &rows.of(args.group, args.place)?.row;
        let is_member = matches!(
            row.state_of(ds_id),
            Some(MemberState::Sync | MemberState::Filling)
        );
        Some((row.primary, row.reign, is_member))
    });
    match known {
        Some(Some((primary, reign, true))) if (primary, reign) == (from, args.reign) => Ok(()),
        // A newer row is on its way, or the caller's is old.
        Some(_) => Err(Status::NotPrimary),
        None => Err(Status::NotReady),
    }
}

/// What makes an applied item durable.
enum Then {
    Nothing,
    Record(u64),
    Sync,
}

async fn pass(
    ds: &Ds,
    conn: &ConnHandle,
    record: &Bytes,
    args: PassArgs<'_>,
) -> Result<PassOk, Status> {
    let opened = ds.copies.received.carried(conn)?;
    let lane = opened
        .lanes
        .get(args.lane as usize)
        .ok_or(Status::Invalid)?;
    let place = u8::try_from(args.place).map_err(|_| Status::Invalid)?;
    let part = Part {
        id: ObjectId {
            file_id: args.file.file_id,
            generation: args.file.generation,
            place,
        },
        group: args.group,
    };
    let turn = tokio::time::timeout(TURN_WAIT, turn(lane, args.number));
    let turn = turn.await.map_err(|_| Status::TryLater)??;
    let Some(mut turn) = turn else {
        return again(ds, part, &args).await;
    };
    // Under the lane: a stream that has taken the place of this one applies nothing in between.
    ds.copies.received.check_current(&opened)?;
    let (answer, then) = match args.item {
        StreamItem::Nothing => (PassOk::default(), Then::Nothing),
        StreamItem::Fetch { block } => (fetch(ds, part, block).await, Then::Nothing),
        _ => {
            check_role(ds, opened.from, &args)?;
            let applied = apply(ds, part, record, &args).await;
            if matches!(applied, Err(Status::NoSpace)) {
                // Those after it cannot have their turn: they are not to wait for it.
                lane.is_full.store(true, Relaxed);
                lane.moved.notify_waiters();
            }
            applied?
        }
    };
    *turn += 1;
    lane.is_full.store(false, Relaxed);
    drop(turn);
    lane.moved.notify_waiters();
    let durable = match then {
        Then::Nothing => Ok(()),
        Then::Record(number) => ds.record_durable(number).await,
        Then::Sync => ds.sync(part.id).await,
    };
    durable.map_err(|fault| noted(ds, part.id, &fault))?;
    Ok(answer)
}

/// Tells with an answer how much more there is room for.
fn with_room(ds: &Ds, item: &StreamItem<'_>, answer: PassOk) -> PassOk {
    let room = &ds.copies.own_room;
    if let StreamItem::Write { data, .. } = item {
        room.take(data.len() as u64);
    }
    PassOk {
        room_bytes: room.bytes(&*ds.objects),
        ..answer
    }
}

/// An item that was applied before: its answer was lost.
async fn again(ds: &Ds, part: Part, args: &PassArgs<'_>) -> Result<PassOk, Status> {
    let done = match args.item {
        StreamItem::Sync
        | StreamItem::Write {
            is_stable: true, ..
        } if !is_removed(ds, part.id) => ds.sync(part.id).await,
        // These ask; what they asked about may have changed, which their caller finds out.
        StreamItem::Sums { first, count } => return look(ds, part, first, count).await,
        StreamItem::Parts { after, which } => return parts_of(ds, part, after, which),
        StreamItem::Fetch { block } => return Ok(fetch(ds, part, block).await),
        _ => Ok(()),
    };
    done.map_err(|fault| noted(ds, part.id, &fault))?;
    Ok(PassOk::default())
}

fn is_removed(ds: &Ds, id: ObjectId) -> bool {
    ds.gate
        .with_floors(|floors| floors.is_removed(id.file_id, id.generation))
}

fn noted(ds: &Ds, id: ObjectId, fault: &Fault) -> Status {
    ds.note(id, fault);
    fault.status()
}

/// Applies an item in its turn.
async fn apply(
    ds: &Ds,
    part: Part,
    record: &Bytes,
    args: &PassArgs<'_>,
) -> Result<(PassOk, Then), Status> {
    match args.item {
        StreamItem::Sums { first, count } => {
            if first == 0 {
                let begun = begin_anew(ds, part).await;
                begun.map_err(|fault| noted(ds, part.id, &fault))?;
            }
            return Ok((look(ds, part, first, count).await?, Then::Nothing));
        }
        StreamItem::Parts { after, which } => {
            return Ok((parts_of(ds, part, after, which)?, Then::Nothing));
        }
        // Of a removed file too: a filling may have brought it back.
        StreamItem::Drop => {
            let dropped = ds.drop_part(part.id).await;
            dropped.map_err(|fault| noted(ds, part.id, &fault))?;
            return Ok((PassOk::default(), Then::Nothing));
        }
        _ => {}
    }
    let Some(_flight) = ds.gate.enter_item(part.id) else {
        return Ok((PassOk::default(), Then::Nothing));
    };
    if args.item == StreamItem::Settle {
        // The primary has asked for a sync before. Nothing else changes the part here: an item has its lane for itself.
        let quiet = ds.sums.quiet(part.id.file_id);
        let settled = quiet.map_or(Ok(false), |quiet| ds.settle(part, quiet));
        settled.map_err(|fault| noted(ds, part.id, &fault))?;
        return Ok((PassOk::default(), Then::Nothing));
    }
    let done = async {
        let state = || ds.gate.state_at(part.group, part.id.place);
        if ds.sums.has_damage() && state() == Some(MemberState::Filling) {
            // Each of its blocks is compared with the primary's.
            ds.forget_damage(part.id).await?;
        }
        change(ds, part, record, args).await
    };
    let done = done.await;
    let then = done.map_err(|fault| noted(ds, part.id, &fault))?;
    Ok((PassOk::default(), then))
}

async fn change(ds: &Ds, part: Part, record: &Bytes, args: &PassArgs<'_>) -> Result<Then, Fault> {
    let (id, time): (ObjectId, NfsTime) = (part.id, args.time);
    if args.item != StreamItem::Sync {
        ds.enter(part)?;
    }
    match args.item {
        StreamItem::Write {
            offset,
            is_stable,
            data,
        } => {
            let data = record.slice_ref(data);
            let write = Change::Write {
                offset,
                data: &data,
                buffer_bytes: record.len(),
                is_stable,
                is_reported: false,
            };
            let applied = ds.apply(id, write, time).await?;
            Ok(match applied.record {
                Some(number) => Then::Record(number),
                None if is_stable => Then::Sync,
                None => Then::Nothing,
            })
        }
        StreamItem::Cut { size_bytes } => {
            ds.apply(id, Change::Cut(size_bytes), time).await?;
            Ok(Then::Nothing)
        }
        StreamItem::Punch { range } => {
            ds.apply(id, Change::Punch(range), time).await?;
            Ok(Then::Nothing)
        }
        StreamItem::Reserve { stripes, range } => {
            let own = Own::of(stripes).map_err(|_| Fault::Lost)?;
            ds.apply(id, Change::Reserve { own, range }, time).await?;
            Ok(Then::Nothing)
        }
        StreamItem::Clone {
            src_file_id,
            src_generation,
            src_offset,
            range,
            size_bytes,
        } => {
            let source = part.of_file(src_file_id, src_generation);
            ds.clear(source)?;
            let src = source.id;
            let clone = Change::Clone {
                src,
                src_offset,
                range,
            };
            ds.apply(id, clone, time).await?;
            if ds.size_of(id)?.is_some_and(|now| now != size_bytes) {
                let resized = ds.blocking(move |objects| objects.set_size(id, size_bytes));
                resized.await.map_err(Fault::Object)?;
            }
            Ok(Then::Nothing)
        }
        StreamItem::Sync => then_sync(ds, part),
        StreamItem::Sums { .. }
        | StreamItem::Parts { .. }
        | StreamItem::Fetch { .. }
        | StreamItem::Drop
        | StreamItem::Settle
        | StreamItem::Nothing => Ok(Then::Nothing),
    }
}

/// What a crash has left must not become a part by a sync.
fn then_sync(ds: &Ds, part: Part) -> Result<Then, Fault> {
    if ds.is_there(part)? {
        return Ok(Then::Sync);
    }
    ds.clear(part)?;
    Ok(Then::Nothing)
}

/// Before a part is compared at a member that is filled: one of which a sync failed is emptied, with its redo records, since
/// nobody knows what the disk has of it. The primary sends all of it.
async fn begin_anew(ds: &Ds, part: Part) -> Result<(), Fault> {
    let state = || ds.gate.state_at(part.group, part.id.place);
    match ds.redo.is_in_doubt(part.id, true) && state() == Some(MemberState::Filling) {
        true => ds.empty_part(part.id).await,
        false => Ok(()),
    }
}

/// The sums of blocks.
async fn look(ds: &Ds, part: Part, first: u64, count: u32) -> Result<PassOk, Status> {
    let is_there = ds.is_there(part);
    if !is_there.map_err(|fault| noted(ds, part.id, &fault))? {
        return Ok(PassOk {
            next_data: u64::MAX,
            blocks: vec![*SUM_OF_ZEROS; count as usize].into(),
            ..PassOk::default()
        });
    }
    let summed = ds.blocking(move |objects| sums_of(objects, part.id, (first, count)));
    let sums = summed
        .await
        .map_err(|e| noted(ds, part.id, &Fault::Object(e)))?;
    Ok(PassOk {
        size_bytes: sums.size_bytes,
        next_data: sums.next_data,
        blocks: sums.blocks.into(),
        ..PassOk::default()
    })
}

/// The bytes of a block, none when they cannot be given. The member that asks compares them with its own sum.
async fn fetch(ds: &Ds, part: Part, block: u64) -> PassOk {
    let is_member = ds.gate.state_at(part.group, part.id.place).is_some();
    let is_there = ds.is_there(part).unwrap_or(false);
    if !is_member || !is_there {
        return PassOk::default();
    }
    let offset = block.saturating_mul(u64::from(BLOCK_BYTES));
    let read = ds.blocking(move |objects| objects.read_from_disk(part.id, offset, BLOCK_BYTES));
    PassOk {
        data: read.await.as_deref().unwrap_or_default().into(),
        ..PassOk::default()
    }
}

/// The parts of a place.
fn parts_of(
    ds: &Ds,
    part: Part,
    after: Option<FileGeneration>,
    which: PartsAsked,
) -> Result<PassOk, Status> {
    let which = match which {
        PartsAsked::All => Which::All,
        PartsAsked::Unsettled => Which::Unsettled,
    };
    let after = after.map(|file| (file.file_id, file.generation));
    let place = (part.group, part.id.place);
    let found = ds.index.parts_of(which, place, after, PARTS_MAX as usize);
    let found = found.map_err(|error| noted(ds, part.id, &Fault::Index(error)))?;
    let file = |(file_id, generation)| FileGeneration {
        file_id,
        generation,
    };
    let parts: Vec<_> = found.into_iter().map(file).collect();
    Ok(PassOk {
        parts: parts.into(),
        ..PassOk::default()
    })
}
