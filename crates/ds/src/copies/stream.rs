//! The queue of items for one member: numbers, what was sent, what was acknowledged (rule P6).
//!
//! # Ownership
//! A change pushes items; the one task of `send` takes and acknowledges them. An item is kept until it is acknowledged.
//!
//! # Failure
//! After a broken connection all that is not acknowledged is sent again, with its number. A closed stream takes nothing:
//! its member does not count any more.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use control::MemberLag;
use nfs4::NfsTime;
use parts::{AHEAD_MAX, FileGeneration, LANES, PassArgs, PassOk, StreamItem, encode_pass, lane_of};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;
use transport::{Message, Payload};

use crate::sync_time::SyncTime;

/// Bytes that wait for one member; above it clients are held back (rule P7).
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// What an item takes beside its data.
const ITEM_BYTES: usize = 256;
/// A member without progress for so long has failed (rule P11).
const NO_PROGRESS: Duration = Duration::from_secs(5);
/// So has one that has done nothing for so long, however many connections to it were opened meanwhile.
const NOTHING_DONE: Duration = Duration::from_secs(15);

/// Pause before a member that has no room for an item is sent it again, doubled up to the longest, which is below
/// [`NO_PROGRESS`].
const FULL_PAUSE: Duration = Duration::from_millis(100);
const FULL_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Items in a lane whose member has no room; above it no promise is queued.
const FULL_ITEMS_MAX: usize = 4096;
/// What a member has told of its room is asked for again after so long, before something is refused.
const ROOM_KNOWN_FOR: Duration = Duration::from_millis(200);

/// What became of an item that somebody waits for.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The member has done it.
    Done(PassOk),
    /// The member does not count any more, as the MDS says durably.
    Released,
    /// The member has no room for it, or for one before it. It stays queued.
    Full,
}

/// Which part an item is for, and when it was applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) group: u32,
    pub(super) place: u32,
    pub(super) reign: u32,
    pub(super) file: FileGeneration,
    pub(super) time: NfsTime,
}

/// An item that waits.
#[derive(Debug, Clone)]
pub(super) enum Owned {
    /// Bytes, in the buffer that they came in.
    Write {
        offset: u64,
        is_stable: bool,
        data: Bytes,
    },
    /// Any other.
    Plain(StreamItem<'static>),
}

impl Owned {
    fn item(&self) -> StreamItem<'_> {
        match self {
            Self::Write {
                offset,
                is_stable,
                data,
            } => StreamItem::Write {
                offset: *offset,
                is_stable: *is_stable,
                data,
            },
            Self::Plain(item) => *item,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Write { data, .. } => ITEM_BYTES + data.len(),
            Self::Plain(_) => ITEM_BYTES,
        }
    }

    /// Whether the answer of a member is part of a promise.
    pub(super) fn is_promised(&self) -> bool {
        !matches!(
            self,
            Self::Write {
                is_stable: false,
                ..
            }
        )
    }

    const fn is_sync(&self) -> bool {
        matches!(self, Self::Plain(StreamItem::Sync))
    }

    /// Whether the member answers when its disk has synced.
    const fn waits_for_disk(&self) -> bool {
        matches!(
            self,
            Self::Plain(StreamItem::Sync)
                | Self::Write {
                    is_stable: true,
                    ..
                }
        )
    }

    /// Whether any member may send it, to any other.
    const fn is_question(&self) -> bool {
        matches!(self, Self::Plain(StreamItem::Fetch { .. }))
    }

    /// Bytes of a block that a member lacks.
    pub(super) fn block(offset: u64, data: Bytes) -> Self {
        Self::Write {
            offset,
            is_stable: false,
            data,
        }
    }
}

struct Entry {
    head: Head,
    item: Owned,
    /// When it was queued.
    since: Instant,
    is_acknowledged: bool,
    waiting: Option<oneshot::Sender<Outcome>>,
}

#[derive(Default)]
struct Lane {
    /// Number of the first entry.
    first: u64,
    /// Entries that were sent on the present connection.
    sent: usize,
    entries: VecDeque<Entry>,
    /// The member has no room for an item of the lane.
    full: Option<Full>,
}

/// An item for which there is no room.
#[derive(Clone, Copy)]
struct Full {
    number: u64,
    /// Nothing of the lane is sent before.
    until: Instant,
    pause: Duration,
}

impl Lane {
    /// Whether this item is not sent for the moment. The one without room goes alone.
    fn is_held_at(&self, number: u64) -> bool {
        let is_held = |full: Full| Instant::now() < full.until || full.number < number;
        self.full.is_some_and(is_held)
    }
}

struct State {
    lanes: Vec<Lane>,
    /// The lane that is looked at first.
    turn: usize,
    queued_bytes: usize,
    /// What the member has told of its room, and when.
    room: Option<(u64, Instant)>,
    queued_items: u64,
    /// When the member last acknowledged, or the queue was last empty.
    done: Instant,
    /// When it was last connected to.
    connected: Instant,
    is_closed: bool,
}

/// An item on its way.
pub(super) struct Sent {
    pub(super) lane: u32,
    pub(super) number: u64,
    pub(super) message: Message,
    /// When a sync was sent; nothing for other items.
    pub(super) sync_begun: Option<Instant>,
}

/// See the module.
pub(super) struct Stream {
    /// The member.
    pub(super) ds: u32,
    /// The number of the stream in this process.
    pub(super) number: u64,
    /// The process of the member that has its first items.
    pub(super) peer_nonce: Mutex<Option<u64>>,
    /// Told when there is something to send, and at the end.
    pub(super) work: Notify,
    /// Of the member, the way there and back included.
    pub(super) sync_time: SyncTime,
    room: Notify,
    state: Mutex<State>,
}

impl Stream {
    pub(super) fn new(ds: u32, number: u64) -> Self {
        Self {
            ds,
            number,
            peer_nonce: Mutex::new(None),
            work: Notify::new(),
            sync_time: SyncTime::default(),
            room: Notify::new(),
            state: Mutex::new(State {
                lanes: (0..LANES).map(|_| Lane::default()).collect(),
                turn: 0,
                queued_bytes: 0,
                room: None,
                queued_items: 0,
                done: Instant::now(),
                connected: Instant::now(),
                is_closed: false,
            }),
        }
    }

    /// Queues an item. With `is_waited` returns what says what became of it; a closed stream releases at once.
    pub(super) fn push(
        &self,
        head: Head,
        item: Owned,
        is_waited: bool,
    ) -> Option<oneshot::Receiver<Outcome>> {
        let (waiting, waits) = match is_waited {
            true => {
                let (sender, receiver) = oneshot::channel();
                (Some(sender), Some(receiver))
            }
            false => (None, None),
        };
        let mut state = self.state.lock();
        if state.is_closed {
            waiting.map(|w| w.send(Outcome::Released));
            return waits;
        }
        let since = Instant::now();
        let at = lane_of(head.file.file_id) as usize;
        let lane = &state.lanes[at];
        if lane.full.is_some() && item.is_sync() && lane.entries.len() >= FULL_ITEMS_MAX {
            waiting.map(|w| w.send(Outcome::Full));
            return waits;
        }
        if state.queued_bytes == 0 {
            state.done = since;
        }
        state.queued_bytes += item.bytes();
        state.queued_items += 1;
        let lane = &mut state.lanes[at];
        lane.entries.push_back(Entry {
            head,
            item,
            since,
            is_acknowledged: false,
            waiting,
        });
        drop(state);
        self.work.notify_one();
        waits
    }

    /// Waits until more may be queued.
    pub(super) async fn room(&self) {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let state = self.state.lock();
                if state.is_closed || state.queued_bytes < QUEUED_BYTES_MAX {
                    return;
                }
            }
            room.await;
        }
    }

    /// Another connection: all that is not acknowledged is to be sent again.
    pub(super) fn rewind(&self) {
        let mut state = self.state.lock();
        for lane in &mut state.lanes {
            lane.sent = 0;
        }
        state.connected = Instant::now();
    }

    /// The next item to send. `counts` says whether the member counts at the place of an item. Where it does not, the item is
    /// replaced by one that does nothing and has its number. Its waiters are released.
    pub(super) fn next(&self, counts: impl Fn(&Head) -> bool) -> Option<Sent> {
        let mut state = self.state.lock();
        for _ in 0..state.lanes.len() {
            let at = state.turn;
            state.turn = (at + 1) % state.lanes.len();
            let lane = &mut state.lanes[at];
            while lane
                .entries
                .get(lane.sent)
                .is_some_and(|e| e.is_acknowledged)
            {
                lane.sent += 1;
            }
            let number = lane.first + lane.sent as u64;
            if lane.sent as u64 >= AHEAD_MAX || lane.is_held_at(number) {
                continue;
            }
            let Some(entry) = lane.entries.get_mut(lane.sent) else {
                continue;
            };
            if !entry.item.is_question() && !counts(&entry.head) {
                entry.item = Owned::Plain(StreamItem::Nothing);
                let waiting = entry.waiting.take();
                waiting.map(|w| w.send(Outcome::Released));
            }
            lane.sent += 1;
            let lane = u32::try_from(at).expect("below LANES");
            let message = message(lane, number, entry);
            return Some(Sent {
                lane,
                number,
                message,
                sync_begun: entry.item.waits_for_disk().then(Instant::now),
            });
        }
        None
    }

    /// The member has done an item.
    pub(super) fn acknowledge(&self, lane: u32, number: u64, answer: PassOk) {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.done = now;
        state.room = Some((answer.room_bytes, now));
        let mut freed = 0;
        let lane = &mut state.lanes[lane as usize];
        if lane.full.is_some_and(|full| full.number <= number) {
            lane.full = None;
        }
        let Some(at) = number.checked_sub(lane.first) else {
            return;
        };
        let entry = usize::try_from(at)
            .ok()
            .and_then(|at| lane.entries.get_mut(at));
        let Some(entry) = entry.filter(|e| !e.is_acknowledged) else {
            return;
        };
        entry.is_acknowledged = true;
        freed += entry.item.bytes();
        entry.item = Owned::Plain(StreamItem::Nothing);
        let waiting = entry.waiting.take();
        waiting.map(|w| w.send(Outcome::Done(answer)));
        while lane.entries.front().is_some_and(|e| e.is_acknowledged) {
            lane.entries.pop_front();
            lane.first += 1;
            lane.sent = lane.sent.saturating_sub(1);
        }
        state.queued_bytes = state.queued_bytes.saturating_sub(freed);
        state.queued_items = state.queued_items.saturating_sub(1);
        drop(state);
        self.room.notify_waiters();
    }

    /// The member has no room for an item: it is sent again after a pause, with all that come after it. Waiters for these items are
    /// told. Returns which part it is for.
    pub(super) fn note_full(&self, lane: u32, number: u64) -> Option<Head> {
        let mut state = self.state.lock();
        let now = Instant::now();
        // It lives.
        state.done = now;
        state.room = Some((0, now));
        let lane = &mut state.lanes[lane as usize];
        let at = usize::try_from(number.checked_sub(lane.first)?).ok()?;
        let head = lane.entries.get(at).filter(|e| !e.is_acknowledged)?.head;
        lane.sent = lane.sent.min(at);
        lane.full = Some(match lane.full {
            Some(full) if now < full.until => Full {
                number: full.number.min(number),
                ..full
            },
            known => {
                let doubled = known.map_or(FULL_PAUSE, |full| full.pause * 2);
                let pause = doubled.min(FULL_PAUSE_MAX);
                Full {
                    number,
                    until: now + pause,
                    pause,
                }
            }
        });
        for entry in lane.entries.iter_mut().skip(at) {
            let waiting = entry.waiting.take();
            waiting.map(|w| w.send(Outcome::Full));
        }
        Some(head)
    }

    /// Whether so many bytes have room at the member beside those that are queued, as far as it has told. None have while
    /// it lacks something for want of room.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let state = self.state.lock();
        if state.lanes.iter().any(|lane| lane.full.is_some()) {
            return false;
        }
        let Some((room_bytes, _)) = state.room else {
            return true;
        };
        room_bytes.saturating_sub(state.queued_bytes as u64) >= bytes
    }

    /// The lane by which the member can be asked for its room; `None` when it was just told, or no lane moves.
    pub(super) fn lane_to_ask(&self) -> Option<u32> {
        let state = self.state.lock();
        if state.room?.1.elapsed() < ROOM_KNOWN_FOR {
            return None;
        }
        let lane = state.lanes.iter().position(|lane| lane.full.is_none())?;
        u32::try_from(lane).ok()
    }

    /// Whether the member had something to do for too long without doing any of it.
    pub(super) fn is_stalled(&self) -> bool {
        self.idle_for() >= NO_PROGRESS || self.since(|state| state.done) >= NOTHING_DONE
    }

    /// For how long the member has done nothing on this connection though it had something to do.
    pub(super) fn idle_for(&self) -> Duration {
        self.since(|state| state.done.max(state.connected))
    }

    /// How long ago that was; no time where the member has nothing to do.
    fn since(&self, when: impl Fn(&State) -> Instant) -> Duration {
        let state = self.state.lock();
        match state.queued_bytes {
            0 => Duration::ZERO,
            _ => when(&state).elapsed(),
        }
    }

    pub(super) fn has_work(&self) -> bool {
        self.state.lock().queued_bytes > 0
    }

    /// How far the member is behind.
    pub(super) fn lag(&self) -> MemberLag {
        let state = self.state.lock();
        // The first entry of a lane is never an acknowledged one.
        let firsts = state.lanes.iter().filter_map(|lane| lane.entries.front());
        let oldest = firsts.map(|entry| entry.since).min();
        let oldest_ms = oldest.map_or(0, |since| since.elapsed().as_millis());
        MemberLag {
            ds_id: self.ds,
            queued_bytes: state.queued_bytes as u64,
            queued_items: state.queued_items,
            oldest_ms: u32::try_from(oldest_ms).unwrap_or(u32::MAX),
            sync_us: self.sync_time.mean_us(),
        }
    }

    /// Whether a question waits.
    pub(super) fn has_questions(&self) -> bool {
        let state = self.state.lock();
        let mut entries = state.lanes.iter().flat_map(|lane| &lane.entries);
        entries.any(|entry| entry.item.is_question())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// The member does not count any more, durably: nobody waits for it.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.queued_bytes = 0;
        state.queued_items = 0;
        for lane in &mut state.lanes {
            for entry in lane.entries.drain(..) {
                entry.waiting.map(|w| w.send(Outcome::Released));
            }
        }
        drop(state);
        self.room.notify_waiters();
        self.work.notify_one();
    }
}

fn message(lane: u32, number: u64, entry: &Entry) -> Message {
    let Head {
        group,
        place,
        reign,
        file,
        time,
    } = entry.head;
    let args = PassArgs {
        lane,
        number,
        group,
        place,
        reign,
        file,
        time,
        item: entry.item.item(),
    };
    let payloads = match &entry.item {
        Owned::Write { data, .. } => vec![Payload::Bytes(data.clone())],
        Owned::Plain(_) => Vec::new(),
    };
    Message::new(encode_pass(&args), payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(file_id: u64) -> Head {
        Head {
            group: 1,
            place: 0,
            reign: 1,
            file: FileGeneration {
                file_id,
                generation: 1,
            },
            time: NfsTime::default(),
        }
    }

    fn sync() -> Owned {
        Owned::Plain(StreamItem::Sync)
    }

    fn sent(stream: &Stream) -> Vec<(u32, u64)> {
        let next = || stream.next(|_| true).map(|s| (s.lane, s.number));
        let mut all: Vec<_> = std::iter::from_fn(next).collect();
        all.sort_unstable();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn items_have_numbers_by_lane_and_are_sent_again_until_acknowledged() {
        let stream = Stream::new(2, 1);
        let waits: Vec<_> = (0..3).map(|_| stream.push(head(8), sync(), true)).collect();
        let _other = stream.push(head(9), sync(), false);
        assert_eq!(sent(&stream), [(0, 0), (0, 1), (0, 2), (1, 0)]);
        stream.acknowledge(0, 1, PassOk::default());
        stream.rewind();
        assert_eq!(
            sent(&stream),
            [(0, 0), (0, 2), (1, 0)],
            "all but what is done"
        );
        stream.acknowledge(0, 0, PassOk::default());
        stream.acknowledge(0, 0, PassOk::default());
        stream.acknowledge(0, 2, PassOk::default());
        for wait in waits {
            assert!(matches!(wait.unwrap().await, Ok(Outcome::Done(_))));
        }
        let _next = stream.push(head(8), sync(), false);
        assert_eq!(sent(&stream), [(0, 3)]);
        tokio::time::advance(NO_PROGRESS).await;
        assert!(stream.is_stalled());
        stream.acknowledge(1, 0, PassOk::default());
        assert!(!stream.is_stalled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_only_takes_connections_has_failed() {
        let stream = Stream::new(2, 1);
        let _promise = stream.push(head(8), sync(), true);
        let begun = Instant::now();
        while !stream.is_stalled() {
            assert!(begun.elapsed() < NOTHING_DONE);
            tokio::time::advance(NO_PROGRESS - Duration::from_secs(1)).await;
            stream.rewind();
        }
        assert!(begun.elapsed() > NO_PROGRESS, "each may do better");
    }

    #[tokio::test(start_paused = true)]
    async fn the_lag_is_what_was_queued_and_not_acknowledged() {
        let stream = Stream::new(2, 1);
        let data = Bytes::from(vec![0; 1000]);
        let _first = stream.push(head(8), Owned::block(0, data), false);
        tokio::time::advance(Duration::from_secs(2)).await;
        let _second = stream.push(head(9), sync(), false);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(sent(&stream).len(), 2);
        let lag = |queued_bytes, queued_items, oldest_ms| MemberLag {
            ds_id: 2,
            queued_bytes,
            queued_items,
            oldest_ms,
            sync_us: 0,
        };
        assert_eq!(stream.lag(), lag(1512, 2, 3000));
        stream.acknowledge(0, 0, PassOk::default());
        stream.acknowledge(0, 0, PassOk::default());
        assert_eq!(stream.lag(), lag(256, 1, 1000));
        stream.acknowledge(1, 0, PassOk::default());
        assert_eq!(stream.lag(), lag(0, 0, 0));
        let _third = stream.push(head(8), sync(), false);
        stream.close();
        assert_eq!(stream.lag(), lag(0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_holds_back_and_a_closed_one_releases() {
        let stream = Stream::new(2, 1);
        let data = Bytes::from(vec![0; QUEUED_BYTES_MAX]);
        let big = Owned::block(0, data);
        assert!(stream.push(head(8), big, false).is_none());
        let wait = stream.push(head(8), sync(), true).unwrap();
        let room = tokio::time::timeout(Duration::from_secs(1), stream.room());
        assert!(room.await.is_err());
        assert_eq!(sent(&stream).len(), 2);
        stream.acknowledge(0, 0, PassOk::default());
        stream.room().await;
        stream.close();
        assert!(matches!(wait.await, Ok(Outcome::Released)));
        let late = stream.push(head(8), sync(), true).unwrap();
        assert!(matches!(late.await, Ok(Outcome::Released)));
        assert_eq!(sent(&stream), []);
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_without_room_fails_promises_and_is_sent_alone_with_growing_pauses() {
        let stream = Stream::new(2, 1);
        let write = Owned::block(0, Bytes::from_static(b"bytes"));
        assert!(stream.push(head(8), write, false).is_none());
        let promise = stream.push(head(16), sync(), true).unwrap();
        let other = stream.push(head(9), sync(), true).unwrap();
        assert_eq!(sent(&stream), [(0, 0), (0, 1), (1, 0)]);
        assert!(stream.note_full(0, 0).is_some());
        assert!(stream.note_full(0, 1).is_some());
        assert!(matches!(promise.await, Ok(Outcome::Full)));
        stream.acknowledge(1, 0, PassOk::default());
        assert!(matches!(other.await, Ok(Outcome::Done(_))));
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let since = Instant::now();
            while sent(&stream).is_empty() {
                tokio::time::advance(FULL_PAUSE).await;
            }
            pauses.push(since.elapsed().as_millis());
            stream.note_full(0, 0);
            assert!(!stream.is_stalled(), "it answers");
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        tokio::time::advance(FULL_PAUSE_MAX).await;
        assert_eq!(sent(&stream), [(0, 0)], "the one without room goes alone");
        stream.acknowledge(0, 0, PassOk::default());
        assert_eq!(sent(&stream), [(0, 1)]);
        tokio::time::advance(NO_PROGRESS).await;
        assert!(
            stream.is_stalled(),
            "one that is full and silent has failed"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_room_of_a_member_is_what_it_told_less_what_is_queued() {
        let stream = Stream::new(2, 1);
        assert!(stream.has_room(u64::MAX), "nothing is known");
        let room_bytes = 10_000;
        let told = PassOk {
            room_bytes,
            ..PassOk::default()
        };
        stream.push(head(8), sync(), false);
        stream.acknowledge(0, 0, told.clone());
        assert!(stream.has_room(room_bytes) && !stream.has_room(room_bytes + 1));
        let write = Owned::block(0, Bytes::from(vec![0; 4000]));
        let taken = write.bytes() as u64;
        stream.push(head(8), write, false);
        assert!(stream.has_room(room_bytes - taken) && !stream.has_room(room_bytes - taken + 1));
        assert_eq!(stream.lane_to_ask(), None, "it was just told");
        tokio::time::advance(ROOM_KNOWN_FOR).await;
        assert_eq!(stream.lane_to_ask(), Some(0));
        stream.note_full(0, 1);
        let other = stream.push(head(9), sync(), false);
        stream.acknowledge(1, 0, told);
        assert!(other.is_none() && !stream.has_room(1), "it lacks an item");
        tokio::time::advance(ROOM_KNOWN_FOR).await;
        assert_eq!(stream.lane_to_ask(), Some(1), "lane 0 does not move");
        stream.acknowledge(0, 1, PassOk::default());
        assert_eq!(stream.lane_to_ask(), None, "it has told just now");
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_member_does_not_count_nothing_is_done_and_nobody_waits() {
        let stream = Stream::new(2, 1);
        let wait = stream.push(head(8), sync(), true).unwrap();
        let next = stream.next(|_| false).unwrap();
        assert_eq!((next.lane, next.number), (0, 0));
        assert!(matches!(wait.await, Ok(Outcome::Released)));
    }
}
