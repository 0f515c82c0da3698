//! Copies of parts: the primary of a place passes on what it applies to the other members (rules P5 to P8).
//!
//! [`Ds::change`] applies a change and passes it on; [`Ds::promise`] answers when every member in sync has all of a part
//! durably. `stream` has the queue for one member, `send` carries it, `receive` takes it in, `fill` gives a member what
//! it lacks. `tasks` keeps one task for each stream and each member that is filled.
//!
//! # Ownership
//! The rows say who the members are; only this process says what was passed on. Bytes stay where they came in until the
//! member has them, up to a bound for each member.
//!
//! # Ordering
//! Applying a change and giving it its number is one step under the order lock of its file. Rows are read under that
//! lock, so a change goes to a new member or is in what that member is filled from. Nobody holds an order lock over a
//! wait for a member whose work could need that lock: `receive` takes none.
//!
//! # Failure
//! A member that does not take items is reported to the MDS, and counts no more when the MDS says so durably (rule P11).
//! Until then nothing is promised.

mod fill;
mod receive;
mod send;
mod stream;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use control::NetAddr;
use layout::MemberState;
use nfs4::NfsTime;
use parking_lot::Mutex;
use parts::{FileGeneration, Item};
use tokio::sync::{Notify, oneshot};

use crate::apply::{Applied, Change};
use crate::ds::Ds;
use crate::fault::Fault;
use crate::part::Part;
use crate::rows::OwnRow;
use fill::{Fill, FillKey};
pub use receive::PartsProgram;
use receive::Received;
use stream::{Head, Outcome, Owned, Stream};
pub use tasks::{CopiesConfig, run};

/// Order locks, by file.
const ORDERS: usize = 256;
/// How long a change waits for room in the queue of a member.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// How long a promise waits for members. Above it the client is told to try later.
const PROMISE_WAIT: Duration = Duration::from_secs(12);

/// See the module.
pub(crate) struct Copies {
    /// This process.
    nonce: u64,
    streams: Mutex<BTreeMap<u32, Arc<Stream>>>,
    streams_made: AtomicU64,
    fills: Mutex<BTreeMap<FillKey, Arc<Fill>>>,
    orders: Box<[tokio::sync::Mutex<()>]>,
    addresses: Mutex<BTreeMap<u32, Vec<NetAddr>>>,
    received: Received,
    /// Told when there is a stream, a member to fill, or another row.
    wake: Notify,
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
            orders: (0..ORDERS).map(|_| tokio::sync::Mutex::new(())).collect(),
            addresses: Mutex::default(),
            received: Received::default(),
            wake: Notify::new(),
        }
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

    fn order(&self, file_id: u64) -> &tokio::sync::Mutex<()> {
        let at = file_id % ORDERS as u64;
        &self.orders[usize::try_from(at).expect("below ORDERS")]
    }

    /// The stream to a member, made if there is none.
    fn stream(&self, ds: u32) -> Arc<Stream> {
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

    /// Queues an item for every other member of a place. To be called under the order lock of the file.
    fn pass(
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
                MemberState::Stale => continue,
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
    /// [`Fault::Members`] when that is not known in time.
    pub(crate) async fn acknowledged(self) -> Result<(), Fault> {
        for waiting in self.0 {
            match tokio::time::timeout(PROMISE_WAIT, waiting).await {
                Ok(Ok(Outcome::Done(_) | Outcome::Released)) => {}
                _ => return Err(Fault::Members),
            }
        }
        Ok(())
    }
}

/// A change as it is passed on; `None` for a removal, of which the MDS tells each member itself (rule P18).
fn item_of(change: &Change<'_>) -> Option<Owned> {
    Some(match change {
        Change::Write {
            offset,
            data,
            is_stable,
            ..
        } => Owned::Write {
            offset: *offset,
            is_stable: *is_stable,
            data: Bytes::clone(data),
        },
        Change::Punch(range) => Owned::Plain(Item::Punch { range: *range }),
        Change::Reserve { own, range } => Owned::Plain(Item::Reserve {
            stripes: own.stripes(),
            range: *range,
        }),
        Change::Clone {
            src,
            src_offset,
            range,
        } => Owned::Plain(Item::Clone {
            src_file_id: src.file_id,
            src_generation: src.generation,
            src_offset: *src_offset,
            range: *range,
        }),
        Change::Cut(size_bytes) => Owned::Plain(Item::Cut {
            size_bytes: *size_bytes,
        }),
        Change::Remove { .. } => return None,
    })
}

impl Ds {
    /// Applies a change of a part, and passes it on to the other members of its place. `alone` says that it had none when
    /// rows had changed so often.
    ///
    /// # Errors
    /// [`Fault::NotPrimary`] when this server is not primary of the place; [`Fault::Members`] when the queue of a member
    /// stays full. Nothing is changed then.
    pub(crate) async fn change(
        &self,
        part: Part,
        change: Change<'_>,
        alone: Option<u64>,
    ) -> Result<(Applied, Passed), Fault> {
        self.enter(part)?;
        if part.group == 0 || alone.is_some() {
            let applied = self.apply(part.id, change, (self.clock)()).await?;
            if alone.is_some_and(|changes| changes != self.gate.rows_changes()) {
                self.look_for_new_members(part);
            }
            return Ok((applied, Passed::default()));
        }
        // In a box of its own: else each change of a part without copies would carry it along.
        Box::pin(self.change_at_all(part, change)).await
    }

    /// Applies a change of a part of which there are copies.
    async fn change_at_all(
        &self,
        part: Part,
        change: Change<'_>,
    ) -> Result<(Applied, Passed), Fault> {
        let row = self.gate.primary_row(part).ok_or(Fault::NotPrimary)?;
        self.room_at_members(&row).await?;
        if let Change::Clone { src, .. } = &change {
            self.settle_source(part, *src).await?;
        }
        let item = item_of(&change);
        let _order = self.copies.order(part.id.file_id).lock().await;
        let applied = self.apply(part.id, change, (self.clock)()).await?;
        let row = self.gate.primary_row(part).ok_or(Fault::NotPrimary)?;
        let time = applied.time;
        let passed = item.map_or_else(Passed::default, |item| {
            self.copies
                .pass(part, &row, time, &item, item.is_promised())
        });
        Ok((applied, passed))
    }

    /// Gives a part its entry before anything is done to it. An object without one is what a crash has left of writes
    /// that were never promised; other members may not have them, so it goes.
    pub(super) fn enter(&self, part: Part) -> Result<(), Fault> {
        let known = self.index.known(part.id)?;
        if part.group == 0 || known.group == part.group {
            return Ok(());
        }
        if !known.indexed {
            match self.objects.remove(part.id) {
                Ok(()) | Err(objects::ObjectError::NotFound) => {}
                Err(e) => return Err(Fault::Object(e)),
            }
        }
        Ok(self.index.enter_part(part, meta::Purpose::Upkeep)?)
    }

    /// After a change that was not passed on: a member that came meanwhile gets the part from its filling.
    #[cold]
    fn look_for_new_members(&self, part: Part) {
        let Some(row) = self.gate.primary_row(part) else {
            return;
        };
        let mut fills = self.copies.fills.lock();
        for member in row.row.in_state(MemberState::Filling) {
            let key = (part.group, part.id.place, member);
            let fill: &Arc<Fill> = fills.entry(key).or_default();
            fill.compare_again(part.id);
        }
        self.copies.wake.notify_one();
    }

    /// Waits until the queues of the members have room (rule P7).
    async fn room_at_members(&self, row: &OwnRow) -> Result<(), Fault> {
        for member in &row.row.members.0 {
            let stream = self.copies.streams.lock().get(&member.ds).cloned();
            if let Some(stream) = stream {
                let room = tokio::time::timeout(ROOM_WAIT, stream.room());
                room.await.map_err(|_| Fault::Members)?;
            }
        }
        Ok(())
    }

    /// Before a clone: members have all of the source, which is in another lane (rule P17).
    async fn settle_source(&self, part: Part, src: objects::ObjectId) -> Result<(), Fault> {
        let source = part.of_file(src.file_id, src.generation);
        self.pass_sync(source).acknowledged().await
    }

    /// Queues a sync of a part at its other members.
    fn pass_sync(&self, part: Part) -> Passed {
        match self.gate.primary_row(part) {
            Some(row) if row.row.members.0.len() > 1 => {
                let sync = Owned::Plain(Item::Sync);
                self.copies
                    .pass(part, &row, NfsTime::default(), &sync, true)
            }
            _ => Passed::default(),
        }
    }

    /// Makes all that was applied to a part durable here and at every member in sync (rule P8).
    ///
    /// # Errors
    /// [`Fault::NotPrimary`] when this server is primary no more, or was it again in another reign.
    pub(crate) async fn promise(&self, part: Part) -> Result<(), Fault> {
        if part.group == 0 {
            return self.sync(part.id).await;
        }
        let reign = self.reign_of(part)?;
        self.enter(part)?;
        let passed = self.pass_sync(part);
        let (here, there) = tokio::join!(self.sync(part.id), passed.acknowledged());
        here.and(there)?;
        self.check_reign(part, reign)
    }

    /// The reign of the primary of a part's place, which must be this server; 0 in a group without places.
    pub(crate) fn reign_of(&self, part: Part) -> Result<u32, Fault> {
        if part.group == 0 {
            return Ok(0);
        }
        let row = self.gate.primary_row(part).ok_or(Fault::NotPrimary)?;
        Ok(row.row.reign)
    }

    /// Before a promise leaves (rule P3).
    pub(crate) fn check_reign(&self, part: Part, reign: u32) -> Result<(), Fault> {
        if part.group == 0 || self.gate.reigns(part, reign) {
            return Ok(());
        }
        Err(Fault::NotPrimary)
    }
}
