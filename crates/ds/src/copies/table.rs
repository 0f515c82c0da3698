//! What this process knows of copies: streams to members, members that are filled, streams of primaries.
//!
//! # Ordering
//! [`Copies::pass`] is called under the order lock of the file. The lock of all fillings is held over the queueing of an
//! item: see [`Fill::note`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use control::{FILLINGS_MAX, FillProgress, LAGS_MAX, MemberLag, NetAddr};
use layout::MemberState;
use nfs4::NfsTime;
use objects::ObjectError;
use parts::FileGeneration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use super::fill_rate::FillRate;
use super::fill_share::FillShare;
use super::levelled::Levelled;
use super::noted::{Fill, FillKey};
use super::own_room::OwnRoom;
use super::received::Received;
use super::stream::{Head, Outcome, Owned, Stream};
use crate::fault::Fault;
use crate::part::Part;
use crate::rows::OwnRow;

/// Order locks, by file.
const ORDERS: usize = 256;
/// How long a promise waits for members. Above it the client is told to try later.
const PROMISE_WAIT: Duration = Duration::from_secs(12);

/// See the module.
pub(crate) struct Copies {
    /// This process.
    pub(super) nonce: u64,
    pub(super) streams: Mutex<BTreeMap<u32, Arc<Stream>>>,
    streams_made: AtomicU64,
    pub(super) fills: Mutex<BTreeMap<FillKey, Arc<Fill>>>,
    /// By group and place that lacks a copy, its parts, and when they were counted.
    pub(super) counted_parts: Mutex<BTreeMap<(u32, u8), (u64, Instant)>>,
    orders: Box<[tokio::sync::Mutex<()>]>,
    /// Held while a part gets its entry; by file.
    entering: Box<[Mutex<()>]>,
    pub(super) addresses: Mutex<BTreeMap<u32, Vec<NetAddr>>>,
    pub(super) received: Received,
    pub(super) own_room: OwnRoom,
    pub(crate) fill_rate: FillRate,
    pub(super) fill_share: FillShare,
    pub(super) levelled: Levelled,
    /// Told when there is a stream, a member to fill, or another row.
    pub(super) wake: Notify,
}

/// What members say of one item, for those that it must wait for.
#[derive(Default)]
#[must_use = "a promise waits for it"]
pub(crate) struct Passed(Vec<oneshot::Receiver<Outcome>>);

impl Copies {
    pub(crate) fn new(nonce: u64) -> Self {
        Self {
            nonce,
            streams: Mutex::default(),
            streams_made: AtomicU64::new(0),
            fills: Mutex::default(),
            counted_parts: Mutex::default(),
            orders: (0..ORDERS).map(|_| tokio::sync::Mutex::new(())).collect(),
            entering: (0..ORDERS).map(|_| Mutex::new(())).collect(),
            addresses: Mutex::default(),
            received: Received::default(),
            own_room: OwnRoom::default(),
            fill_rate: FillRate::default(),
            fill_share: FillShare::default(),
            levelled: Levelled::default(),
            wake: Notify::new(),
        }
    }

    /// This server has lost some of a place that members may have.
    pub(crate) fn lost_some(&self, place: (u32, u8)) {
        self.levelled.lose(place);
    }

    /// How far members are filled.
    pub(crate) fn fillings(&self) -> Vec<FillProgress> {
        let fills = self.fills.lock();
        let told = fills.iter().map(|((group, place, ds_id), fill)| {
            let progress = fill.progress();
            FillProgress {
                group: *group,
                place: u32::from(*place),
                ds_id: *ds_id,
                parts: progress.parts,
                parts_done: progress.parts_done,
                bytes_sent: progress.bytes_sent,
            }
        });
        told.take(FILLINGS_MAX as usize).collect()
    }

    /// How far members are behind, those first that are so most.
    pub(crate) fn lags(&self) -> Vec<MemberLag> {
        let streams: Vec<_> = self.streams.lock().values().cloned().collect();
        let mut lags: Vec<_> = streams.iter().map(|stream| stream.lag()).collect();
        lags.sort_by_key(|lag| Reverse((lag.oldest_ms.max(lag.sync_us / 1000), lag.queued_bytes)));
        lags.truncate(LAGS_MAX as usize);
        lags
    }

    /// Rows have changed.
    pub(crate) fn rows_changed(&self) {
        self.wake.notify_one();
    }

    /// Takes where other members are reached.
    pub(crate) fn note_addresses(&self, members: Vec<control::MemberAddresses>) {
        let mut addresses = self.addresses.lock();
        for member in members {
            addresses.insert(member.ds_id, member.addresses.0);
        }
    }

    /// The lock under which a part gets its entry.
    pub(super) fn entering(&self, file_id: u64) -> &Mutex<()> {
        let at = file_id % ORDERS as u64;
        &self.entering[usize::try_from(at).expect("below ORDERS")]
    }

    pub(super) fn order(&self, file_id: u64) -> &tokio::sync::Mutex<()> {
        let at = file_id % ORDERS as u64;
        &self.orders[usize::try_from(at).expect("below ORDERS")]
    }

    /// The stream to a member, made if there is none.
    pub(super) fn stream(&self, ds: u32) -> Arc<Stream> {
        let mut streams = self.streams.lock();
        if let Some(stream) = streams.get(&ds) {
            return Arc::clone(stream);
        }
        let number = self.streams_made.fetch_add(1, Relaxed) + 1;
        let stream = Arc::new(Stream::new(ds, number));
        streams.insert(ds, Arc::clone(&stream));
        self.wake.notify_one();
        stream
    }

    /// Ends a stream whose member does not count at any place of this server.
    pub(super) fn forget(&self, stream: &Stream) {
        let mut streams = self.streams.lock();
        if streams
            .get(&stream.ds)
            .is_some_and(|s| s.number == stream.number)
        {
            streams.remove(&stream.ds);
        }
        drop(streams);
        stream.close();
    }

    /// Queues an item for every other member of a place. To be called under the order lock of the file.
    pub(super) fn pass(
        &self,
        part: Part,
        row: &OwnRow,
        time: NfsTime,
        item: &Owned,
        is_waited: bool,
    ) -> Passed {
        let head = |index| Head {
            group: part.group,
            place: index,
            reign: row.row.reign,
            file: FileGeneration {
                file_id: part.id.file_id,
                generation: part.id.generation,
            },
            time,
        };
        let head = head(u32::from(part.id.place));
        let mut passed = Passed::default();
        for member in &row.row.members.0 {
            if member.ds == row.row.primary {
                continue;
            }
            // Over the queueing too: see `Fill::note`.
            let mut fills = None;
            let counts = match member.state {
                MemberState::Sync => true,
                MemberState::Filling => {
                    let fills = fills.insert(self.fills.lock());
                    let key = (part.group, part.id.place, member.ds);
                    let fill = fills.entry(key).or_insert_with(|| {
                        self.wake.notify_one();
                        Arc::default()
                    });
                    fill.note(part.id)
                }
                MemberState::Stale | MemberState::Leaving => continue,
            };
            let waiting = self
                .stream(member.ds)
                .push(head, item.clone(), is_waited && counts);
            passed.0.extend(waiting);
        }
        passed
    }
}

impl Passed {
    /// Waits until every member that counts has it, or counts no more.
    ///
    /// # Errors
    /// [`Fault::Members`] when that is not known in time; no space when a member has none.
    pub(crate) async fn acknowledged(self) -> Result<(), Fault> {
        for waiting in self.0 {
            match tokio::time::timeout(PROMISE_WAIT, waiting).await {
                Ok(Ok(Outcome::Done(_) | Outcome::Released)) => {}
                Ok(Ok(Outcome::Full)) => return Err(Fault::Object(ObjectError::NoSpace)),
                _ => return Err(Fault::Members),
            }
        }
        Ok(())
    }

    /// Whether every member has done it in time. One that counts no more has not.
    pub(super) async fn done_by_all(self) -> bool {
        for waiting in self.0 {
            match tokio::time::timeout(PROMISE_WAIT, waiting).await {
                Ok(Ok(Outcome::Done(_))) => {}
                _ => return false,
            }
        }
        true
    }
}
