//! What a data server must remember of its objects: identity, high-water marks, floors, tombstones.
//!
//! Keys: `s` + name (store id, starts, changes, membership, count of objects, redo log), `o` + file id, generation, place
//! (big-endian) to [`ObjectRecord`], `q` and `u` for parts ([`crate::part_keys`]), `g` + placement group to the newest version of it that the MDS told, `f` + [`layout::FloorKey`] to [`Floor`], `v` + the object of a removal to the number
//! of its newest redo record. All values are XDR.
//!
//! # Ownership
//! The index owns its store. A bounded table in memory holds what was looked up lately; it never says more than the store does.
//!
//! # Ordering
//! A high-water mark rises only to a size that the object store has synced before, and falls before the object is cut
//! or removed. What the index promises is always there (R9). Whoever acknowledges waits for [`Index::durable`].
//!
//! Every transaction since the MDS took this process is a change, and changes are counted ([`crate::changes`]). What is
//! acknowledged to a client is one: a COMMIT of an overwrite too, which stores its time. The MDS is told the count
//! ([`crate::rollback_guard`]), so that it recognises a store that went back (R9).
//!
//! # Failure
//! After a write of which nobody knows whether it is on the disk, the store refuses further ones, and so every
//! acknowledgement. The data server answers I/O errors until it is started again. Then the index tells what had become
//! durable. A transaction that a full disk refuses changes nothing, and the index goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use layout::{Floor, FloorKey, Floors};
use meta::{MetaError, MetaStore, Purpose, Read, Seq, Tx, TxBody, TxOutcome};
use nfs4::NfsTime;
use objects::ObjectId;
use redo::RedoLog;
use rustc_hash::FxHashMap;
use tracing_mutex::parkinglot::Mutex;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::OpenError;
use crate::changes::{CHANGES_KEY, Changes};
use crate::part_keys::{delete_part, put_part, unsettle_parts_of_earlier_versions};

/// Objects that the table in memory holds; each takes about 100 bytes.
const KNOWN_MAX: usize = 1 << 17;
/// Pairs that one scan reads.
const SCAN_PAIRS: usize = 4096;
/// Most objects of one file that one removal finds: places times generations.
pub(crate) const OBJECTS_PER_FILE_MAX: usize = 4096;
/// Version of the format.
const SCHEMA: u32 = 1;

const SCHEMA_KEY: &[u8] = b"sschema";
const STORE_ID_KEY: &[u8] = b"sstore_id";
const COUNTER_KEY: &[u8] = b"scounter";
const MEMBERSHIP_KEY: &[u8] = b"smembership";
const OBJECTS_KEY: &[u8] = b"sobjects";
/// Set with the first redo log that the index was tied to.
const REDO_KEY: &[u8] = b"sredo";

xdr::xdr_struct! {
    /// Which cluster the store belongs to, and as whom.
    #[derive(Copy)]
    pub struct Membership {
        /// The cluster.
        pub cluster_id: u64,
        /// The data server's id there.
        pub ds_id: u32,
    }

}

/// What is stored of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ObjectRecord {
    /// The object is durable up to here, in bytes.
    pub(crate) high_water_bytes: u64,
    /// When it was last written before that mark was made or confirmed.
    pub(crate) modified: NfsTime,
    /// The object is durable without the redo records up to this one. Stored at the end, and only when there was one:
    /// what was made before there was a redo log has no such field.
    pub(crate) redo_through: u64,
    /// The placement group, 0 for none. Stored after that, and only when there is one, or sums.
    pub(crate) group: u32,
    /// Some chunk may have sums ([`crate::sums`]). Stored after that, as a bit, and only when a bit is set.
    pub(crate) has_sums: bool,
    /// The part is settled ([`crate::part_index`]). Another bit.
    pub(crate) is_settled: bool,
}

const HAS_SUMS: u32 = 1;
const IS_SETTLED: u32 = 2;

impl ObjectRecord {
    /// A part of which there is nothing yet.
    fn of_part(group: u32) -> Self {
        Self {
            group,
            ..Self::default()
        }
    }

    fn bits(&self) -> u32 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        bit(self.has_sums, HAS_SUMS) | bit(self.is_settled, IS_SETTLED)
    }
}

impl Encode for ObjectRecord {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.high_water_bytes);
        self.modified.encode(e);
        let bits = self.bits();
        if self.redo_through > 0 || self.group > 0 || bits > 0 {
            e.u64(self.redo_through);
        }
        if self.group > 0 || bits > 0 {
            e.u32(self.group);
        }
        if bits > 0 {
            e.u32(bits);
        }
    }
}

impl<'a> Decode<'a> for ObjectRecord {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let record = Self {
            high_water_bytes: d.u64()?,
            modified: NfsTime::decode(d)?,
            redo_through: match d.remaining() {
                0 => 0,
                _ => d.u64()?,
            },
            group: match d.remaining() {
                0 => 0,
                _ => d.u32()?,
            },
            ..Self::default()
        };
        let bits = match d.remaining() {
            0 => 0,
            _ => d.u32()?,
        };
        Ok(Self {
            has_sums: bits & HAS_SUMS != 0,
            is_settled: bits & IS_SETTLED != 0,
            ..record
        })
    }
}

/// What is known of an object.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    /// Whether the index has it.
    pub(crate) indexed: bool,
    /// Durable up to here, in bytes.
    pub(crate) high_water_bytes: u64,
    /// Durable without the redo records up to this one.
    pub(crate) redo_through: u64,
    /// The placement group, as the index has it.
    pub(crate) group: u32,
    /// Some chunk may have sums.
    pub(crate) has_sums: bool,
    /// Last write that this process saw, or the one stored with the mark.
    pub(crate) modified: NfsTime,
    /// The newest write of this process, 0 for none.
    pub(crate) write: WriteNumber,
    /// The newest write that the stored record accounts for; `None` when this process has stored none.
    stored_write: Option<WriteNumber>,
    /// Compared with the object store since the process started.
    pub(crate) checked: bool,
    /// Not settled, durably or with its entry ([`crate::part_index`]). False says nothing.
    pub(crate) is_unsettled: bool,
    /// The transaction that made the mark.
    seq: Seq,
}

/// Writes of this process, counted over all objects.
type WriteNumber = u64;

impl Known {
    /// Whether it was compared with the object store in this process, or there is nothing to compare.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked || self.high_water_bytes == 0
    }

    /// Written since the record was stored.
    pub(crate) fn is_dirty(&self) -> bool {
        self.write > self.stored_write.unwrap_or(0)
    }
}

/// The time of a write that follows one at `last`. It is `now`, but always later: the metadata server sees of each
/// write that there was one, whatever the clock does.
fn after(last: NfsTime, now: NfsTime) -> NfsTime {
    const NANOS: u32 = 1_000_000_000;
    if (now.seconds, now.nanoseconds) > (last.seconds, last.nanoseconds) {
        return now;
    }
    let (seconds, nanoseconds) = match last.nanoseconds.saturating_add(1) {
        nanoseconds if nanoseconds < NANOS => (last.seconds, nanoseconds),
        _ => (last.seconds.saturating_add(1), 0),
    };
    NfsTime {
        seconds,
        nanoseconds,
    }
}

/// Changes of floors that memory has and the store could not take: see [`crate::floors`].
pub(crate) type UnsavedFloors = BTreeMap<FloorKey, Option<Floor>>;

/// The new record of an object, made of the old one in a transaction; `None` leaves it as it is.
pub(crate) type MakeRecord<'a> =
    dyn FnMut(&mut dyn Tx, Option<ObjectRecord>) -> Option<ObjectRecord> + 'a;

/// What opening found.
pub(crate) struct Opened {
    pub(crate) index: Index,
    pub(crate) floors: Floors,
    pub(crate) membership: Option<Membership>,
    pub(crate) is_new: bool,
}

/// See the module.
pub(crate) struct Index {
    pub(crate) store: Arc<dyn MetaStore>,
    store_id: u64,
    counter: u64,
    pub(crate) changes: Changes,
    objects_count: AtomicU64,
    /// The newest transaction that dropped sums, if this process has made one. Held over looking for sums and dropping them.
    pub(crate) sums_dropped: Mutex<Option<Seq>>,
    known: Mutex<FxHashMap<ObjectId, Known>>,
    /// Removed objects by their newest redo record, as stored under `v`.
    removed: Mutex<BTreeMap<u64, ObjectId>>,
    writes: AtomicU64,
    /// A write has failed: memory may be ahead of the disk, so nothing may be acknowledged any more.
    failed: AtomicBool,
    /// Orders floors in memory and in the store: see [`crate::floors`].
    pub(crate) floors_order: Mutex<UnsavedFloors>,
}

pub(crate) fn decoded<T: for<'a> Decode<'a>>(bytes: &[u8]) -> Result<T, MetaError> {
    xdr::decode_all(bytes).map_err(|e| MetaError::Corrupt(format!("index: {e}")))
}

pub(crate) fn value<T: for<'a> Decode<'a>>(
    read: &(impl Read + ?Sized),
    key: &[u8],
) -> Result<Option<T>, MetaError> {
    read.get(key)?.map(|bytes| decoded(&bytes)).transpose()
}

pub(crate) fn put<T: Encode>(tx: &mut dyn Tx, key: &[u8], value: &T) {
    tx.put(key, &xdr::encode_to_vec(value));
}

pub(crate) fn object_key(id: ObjectId) -> Vec<u8> {
    let mut key = vec![b'o'];
    key.extend_from_slice(&id.file_id.to_be_bytes());
    key.extend_from_slice(&id.generation.to_be_bytes());
    key.push(id.place);
    key
}

/// Key of a removed object that has redo records.
fn removed_key(id: ObjectId) -> Vec<u8> {
    let mut key = object_key(id);
    key[0] = b'v';
    key
}

pub(crate) fn object_of_key(key: &[u8]) -> Result<ObjectId, MetaError> {
    let parse = || {
        let (_, rest) = key.split_first()?;
        let (file_id, rest) = rest.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let [place] = rest else { return None };
        Some(ObjectId {
            file_id: u64::from_be_bytes(*file_id),
            generation: u32::from_be_bytes(*generation),
            place: *place,
        })
    };
    parse().ok_or_else(|| MetaError::Corrupt("index: key of an object".to_owned()))
}

pub(crate) fn group_key(group: u32) -> [u8; 5] {
    let mut key = [b'g'; 5];
    key[1..].copy_from_slice(&group.to_be_bytes());
    key
}

fn floor_key(key: FloorKey) -> Vec<u8> {
    let mut out = vec![b'f'];
    out.extend_from_slice(&key.to_bytes());
    out
}

impl Index {
    /// Opens or formats the index and raises its start counter, durably.
    pub(crate) async fn open(
        store: Arc<dyn MetaStore>,
        random: &(dyn Fn() -> u64 + Send + Sync),
    ) -> Result<Opened, OpenError> {
        let schema: Option<u32> = value(&*store, SCHEMA_KEY)?;
        if schema.is_some_and(|v| v != SCHEMA) {
            return Err(OpenError::Format("made by another version"));
        }
        let store_id = match value(&*store, STORE_ID_KEY)? {
            Some(id) => id,
            None if schema.is_none() => random(),
            None => return Err(OpenError::Format("has no store id")),
        };
        let counter = value::<u64>(&*store, COUNTER_KEY)?.unwrap_or(0) + 1;
        // Before the transaction of the start: those after it are counted.
        unsettle_parts_of_earlier_versions(&*store)?;
        let seq = store.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            put(tx, SCHEMA_KEY, &SCHEMA);
            put(tx, STORE_ID_KEY, &store_id);
            put(tx, COUNTER_KEY, &counter);
            Ok(TxOutcome::Commit)
        })?;
        store.durable(seq).await?;
        let floors = load_floors(&*store)?;
        let removed = load_removed(&*store)?;
        let membership = value(&*store, MEMBERSHIP_KEY)?;
        let objects_count = value(&*store, OBJECTS_KEY)?.unwrap_or(0);
        let changes_before = value(&*store, CHANGES_KEY)?.unwrap_or(0);
        Ok(Opened {
            index: Self {
                store,
                store_id,
                counter,
                changes: Changes::new(changes_before),
                objects_count: AtomicU64::new(objects_count),
                sums_dropped: Mutex::default(),
                known: Mutex::default(),
                removed: Mutex::new(removed),
                writes: AtomicU64::new(0),
                failed: AtomicBool::new(false),
                floors_order: Mutex::default(),
            },
            floors,
            membership,
            is_new: schema.is_none(),
        })
    }

    /// Random, made when the store was formatted.
    pub(crate) fn store_id(&self) -> u64 {
        self.store_id
    }

    /// Starts of this store, this one included.
    pub(crate) fn counter(&self) -> u64 {
        self.counter
    }

    pub(crate) fn objects_count(&self) -> u64 {
        self.objects_count.load(Relaxed)
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.store.disk_bytes()
    }

    /// The newest transaction that anything said so far depends on.
    pub(crate) fn applied(&self) -> Seq {
        self.store.applied()
    }

    /// Changes of the store up to a transaction of this process.
    pub(crate) fn changes_at(&self, seq: Seq) -> u64 {
        self.changes.at(seq)
    }

    /// Changes that no crash takes back.
    pub(crate) fn durable_changes(&self) -> u64 {
        self.changes_at(self.store.durable_through())
    }

    /// Waits until `seq` is durable.
    pub(crate) async fn durable(&self, seq: Seq) -> Result<(), MetaError> {
        if let Err(e) = self.store.durable(seq).await {
            self.failed.store(true, SeqCst);
            return Err(e);
        }
        if self.failed.load(SeqCst) {
            return Err(MetaError::Poisoned);
        }
        Ok(())
    }

    /// Runs a change. What the body, a full disk or a limit refuses has not happened; any other failure is remembered.
    pub(crate) fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let mut is_refused = false;
        let done = self.store.transact(&mut |tx| {
            let mut run = || {
                let outcome = body(tx)?;
                if outcome == TxOutcome::Commit && self.changes.are_counted() {
                    let changes = value::<u64>(tx, CHANGES_KEY)?.unwrap_or(0) + 1;
                    put(tx, CHANGES_KEY, &changes);
                }
                Ok(outcome)
            };
            let outcome = run();
            is_refused = outcome.is_err();
            outcome
        });
        if let Err(e) = &done
            && !is_refused
            && !matches!(e, MetaError::NoSpace | MetaError::TooLarge)
        {
            self.failed.store(true, SeqCst);
        }
        done
    }

    /// Records which cluster the store belongs to.
    pub(crate) async fn set_membership(&self, membership: Membership) -> Result<(), MetaError> {
        let seq = self.transact(&mut |tx| {
            put(tx, MEMBERSHIP_KEY, &membership);
            Ok(TxOutcome::Commit)
        })?;
        self.durable(seq).await
    }

    /// What is known of an object.
    pub(crate) fn known(&self, id: ObjectId) -> Result<Known, MetaError> {
        if let Some(known) = self.known.lock().get(&id) {
            return Ok(*known);
        }
        // Read outside of the lock. A mark that rises meanwhile is in the table before the store says so. An entry that
        // is there already is never replaced by an older one.
        let record: Option<ObjectRecord> = value(&*self.store, &object_key(id))?;
        let found = record.map_or_else(Known::default, |r| Known {
            indexed: true,
            high_water_bytes: r.high_water_bytes,
            redo_through: r.redo_through,
            group: r.group,
            has_sums: r.has_sums,
            modified: r.modified,
            ..Known::default()
        });
        let mut table = self.known.lock();
        if table.len() >= KNOWN_MAX {
            table.retain(|_, k| k.is_dirty());
        }
        if table.len() >= KNOWN_MAX {
            // Only times of unsynced writes are forgotten.
            table.clear();
        }
        Ok(*table.entry(id).or_insert(found))
    }

    /// A chunk of the object has sums now. Looked up before, so that a look-up which read the store earlier finds an entry.
    pub(crate) fn note_sums(&self, id: ObjectId, found: Known) {
        self.known.lock().entry(id).or_insert(found).has_sums = true;
    }

    /// A part is known to be unsettled, or not any more.
    pub(crate) fn note_unsettled(&self, id: ObjectId, is_unsettled: bool) {
        if let Some(known) = self.known.lock().get_mut(&id) {
            known.is_unsettled = is_unsettled;
        }
    }

    /// The object was compared with its mark.
    pub(crate) fn checked(&self, id: ObjectId) {
        if let Some(known) = self.known.lock().get_mut(&id) {
            known.checked = true;
        }
    }

    /// The object was written: it gets an entry, so that a removal finds it. Not durable, and need not be: what was not
    /// committed may be lost. Returns the time of the write, which is later than that of the one before.
    /// A refusal for lack of room follows from `purpose`: upkeep, or for what an earlier process has accepted, removal.
    pub(crate) fn wrote(
        &self,
        id: ObjectId,
        time: NfsTime,
        purpose: Purpose,
    ) -> Result<NfsTime, MetaError> {
        let noted = |known: &mut Known| {
            known.write = self.writes.fetch_add(1, Relaxed) + 1;
            known.modified = after(known.modified, time);
            (known.indexed, known.modified)
        };
        let there = self.known.lock().get_mut(&id).map(noted);
        let (indexed, time) = match there {
            Some(noted) => noted,
            // An entry made up here would say that the part is not there.
            None => {
                let found = self.known(id)?;
                noted(self.known.lock().entry(id).or_insert(found))
            }
        };
        if !indexed {
            self.enter(id, time, purpose)?;
        }
        Ok(time)
    }

    /// The change of number `write` came to nothing, and there is no object. Another one since stands.
    pub(crate) fn wrote_nothing(&self, id: ObjectId, write: WriteNumber) {
        if let Some(known) = self.known.lock().get_mut(&id)
            && known.write == write
        {
            known.write = known.stored_write.unwrap_or(0);
        }
    }

    /// Gives an object an entry that promises nothing, unless it has one.
    fn enter(&self, id: ObjectId, modified: NfsTime, purpose: Purpose) -> Result<(), MetaError> {
        self.store_record(id, &mut |tx, old| {
            tx.purpose(purpose);
            old.is_none().then_some(ObjectRecord {
                modified,
                ..ObjectRecord::default()
            })
        })?;
        Ok(())
    }

    /// The object is durable up to `size_bytes`, and with it all writes up to `write` and all redo records up to
    /// `redo_through`. Returns what to wait for.
    pub(crate) fn raise(
        &self,
        id: ObjectId,
        size_bytes: u64,
        (write, redo_through): (WriteNumber, u64),
    ) -> Result<Seq, MetaError> {
        let known = self.known(id)?;
        let has_write = known.stored_write.is_some_and(|stored| stored >= write);
        let has_redo = known.redo_through >= redo_through;
        if known.indexed && known.high_water_bytes >= size_bytes && has_write && has_redo {
            return Ok(known.seq);
        }
        let seq = self.store_record(id, &mut |tx, old| {
            tx.purpose(Purpose::Upkeep);
            let old = old.unwrap_or_default();
            Some(ObjectRecord {
                high_water_bytes: old.high_water_bytes.max(size_bytes),
                modified: old.modified.max(known.modified),
                redo_through: old.redo_through.max(redo_through),
                ..old
            })
        })?;
        if let Some(known) = self.known.lock().get_mut(&id) {
            known.stored_write = known.stored_write.max(Some(write));
        }
        Ok(seq)
    }

    /// Stores the record that `made` makes of the old one, if any.
    pub(crate) fn store_record(
        &self,
        id: ObjectId,
        made: &mut MakeRecord<'_>,
    ) -> Result<Seq, MetaError> {
        let key = object_key(id);
        let mut record = None;
        let mut is_new = false;
        let seq = self.transact(&mut |tx| {
            let old: Option<ObjectRecord> = value(tx, &key)?;
            is_new = old.is_none();
            record = made(tx, old);
            let Some(record) = &record else {
                return Ok(TxOutcome::Abort);
            };
            put(tx, &key, record);
            if is_new {
                let count = value::<u64>(tx, OBJECTS_KEY)?.unwrap_or(0) + 1;
                put(tx, OBJECTS_KEY, &count);
            }
            Ok(TxOutcome::Commit)
        })?;
        if is_new {
            self.objects_count.fetch_add(1, Relaxed);
        }
        let mut table = self.known.lock();
        let known = table.entry(id).or_default();
        known.indexed = true;
        known.seq = known.seq.max(seq);
        if let Some(record) = record {
            known.high_water_bytes = known.high_water_bytes.max(record.high_water_bytes);
            known.redo_through = known.redo_through.max(record.redo_through);
            known.group = record.group;
            known.has_sums |= record.has_sums;
        }
        Ok(seq)
    }

    /// The object is about to be cut: the mark falls to `size_bytes` where it is above.
    pub(crate) fn lower(&self, id: ObjectId, size_bytes: u64) -> Result<Seq, MetaError> {
        let key = object_key(id);
        let mut found = false;
        // Looked up first, so that the table has the mark that is about to fall.
        self.known(id)?;
        let seq = self.transact(&mut |tx| {
            found = false;
            let Some(mut record) = value::<ObjectRecord>(tx, &key)? else {
                return Ok(TxOutcome::Abort);
            };
            found = true;
            if record.high_water_bytes <= size_bytes {
                return Ok(TxOutcome::Abort);
            }
            record.high_water_bytes = size_bytes;
            tx.purpose(Purpose::Removal);
            put(tx, &key, &record);
            Ok(TxOutcome::Commit)
        })?;
        // Made when it is not there: a look-up that read the store before must find it.
        let mut table = self.known.lock();
        let known = table.entry(id).or_insert(Known {
            indexed: found,
            ..Known::default()
        });
        known.high_water_bytes = known.high_water_bytes.min(size_bytes);
        known.seq = known.seq.max(seq);
        Ok(seq)
    }

    /// Objects of a file below `generation`.
    pub(crate) fn objects_below(
        &self,
        file_id: u64,
        generation: u32,
    ) -> Result<Vec<ObjectId>, MetaError> {
        let bound = |generation| {
            object_key(ObjectId {
                file_id,
                generation,
                place: 0,
            })
        };
        let pairs = self
            .store
            .scan(&bound(0), &bound(generation), OBJECTS_PER_FILE_MAX)?;
        pairs.iter().map(|(key, _)| object_of_key(key)).collect()
    }

    /// Forgets objects that are about to be removed. `records` says which redo records of them replay must pass over.
    /// What `stays` of a part is that the place has it, and that it differs.
    pub(crate) fn forget(
        &self,
        ids: &[ObjectId],
        records: &[(ObjectId, u64)],
        stays: bool,
    ) -> Result<Seq, MetaError> {
        let mut gone = 0_u64;
        let seq = self.transact(&mut |tx| {
            gone = 0;
            for id in ids {
                let key = object_key(*id);
                match value::<ObjectRecord>(tx, &key)? {
                    None => {}
                    Some(record) if stays && record.group > 0 => {
                        put(tx, &key, &ObjectRecord::of_part(record.group));
                        put_part(tx, record.group, *id);
                    }
                    Some(record) => {
                        tx.delete(&key);
                        if record.group > 0 {
                            delete_part(tx, record.group, *id);
                        }
                        gone += 1;
                    }
                }
            }
            for (id, number) in records {
                put(tx, &removed_key(*id), number);
            }
            if gone == 0 && records.is_empty() && !stays {
                return Ok(TxOutcome::Abort);
            }
            let count = value::<u64>(tx, OBJECTS_KEY)?.unwrap_or(0);
            put(tx, OBJECTS_KEY, &count.saturating_sub(gone));
            Ok(TxOutcome::Commit)
        })?;
        let left = |n: u64| Some(n.saturating_sub(gone));
        let _ = self.objects_count.fetch_update(Relaxed, Relaxed, left);
        let mut table = self.known.lock();
        for id in ids {
            // Not taken out: a look-up that read the store before must find that it is gone.
            table.insert(*id, Known::default());
        }
        let mut removed = self.removed.lock();
        removed.extend(records.iter().map(|(id, number)| (*number, *id)));
        Ok(seq)
    }

    /// Up to which redo record objects were removed, as far as the log may still have records of them.
    pub(crate) fn removed_records(&self) -> FxHashMap<ObjectId, u64> {
        let removed = self.removed.lock();
        removed.iter().map(|(number, id)| (*id, *number)).collect()
    }

    /// The redo log has no records any more up to `number`.
    pub(crate) fn drop_removed_records(&self, number: u64) -> Result<(), MetaError> {
        let mut removed = self.removed.lock();
        let left = removed.split_off(&(number + 1));
        let gone = std::mem::replace(&mut *removed, left);
        if gone.is_empty() {
            return Ok(());
        }
        let done = self.transact(&mut |tx| {
            for id in gone.values() {
                tx.delete(&removed_key(*id));
            }
            Ok(TxOutcome::Commit)
        });
        if done.is_err() {
            removed.extend(gone);
        }
        done.map(drop)
    }

    /// Ties the index to the redo log, and the log to the index.
    pub(crate) async fn tie_redo(&self, log: &dyn RedoLog) -> Result<(), OpenError> {
        let is_known = value::<bool>(&*self.store, REDO_KEY)?.unwrap_or(false);
        log.tie(self.store_id, is_known).map_err(OpenError::Redo)?;
        if is_known {
            return Ok(());
        }
        let seq = self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            put(tx, REDO_KEY, &true);
            Ok(TxOutcome::Commit)
        })?;
        Ok(self.durable(seq).await?)
    }

    /// Stores changes of floors, in one transaction; `None` deletes.
    pub(crate) fn store_floors(&self, changes: &UnsavedFloors) -> Result<Seq, MetaError> {
        self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            for (key, floor) in changes {
                match floor {
                    Some(floor) => put(tx, &floor_key(*key), floor),
                    None => tx.delete(&floor_key(*key)),
                }
            }
            Ok(TxOutcome::Commit)
        })
    }
}

/// Visits the pairs with this first byte, page by page.
fn each_pair(
    store: &dyn MetaStore,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let end = meta::prefix_end(prefix);
    let mut start = prefix.to_vec();
    loop {
        let page = store.scan(&start, &end, SCAN_PAIRS)?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        start = [last, &[0][..]].concat();
        for (key, bytes) in &page {
            visit(key, bytes)?;
        }
    }
}

fn load_floors(store: &dyn MetaStore) -> Result<Floors, OpenError> {
    let mut floors = Floors::new();
    each_pair(store, b"f", |_, bytes| {
        let floor: Floor = decoded(bytes)?;
        let applied = floors.apply(floor);
        applied.map_err(|_| OpenError::Format("has more floors than this version keeps"))?;
        Ok(())
    })?;
    Ok(floors)
}

fn load_removed(store: &dyn MetaStore) -> Result<BTreeMap<u64, ObjectId>, OpenError> {
    let mut removed = BTreeMap::new();
    each_pair(store, b"v", |key, bytes| {
        removed.insert(decoded(bytes)?, object_of_key(key)?);
        Ok(())
    })?;
    Ok(removed)
}
