//! Faults that are built in, one for each kind of promise, to show that the checkers see them.
//!
//! They stand around the servers, in what a server stores to or is called by, so that no server has code for them.

use bytes::Bytes;
use control::{Answer, ToDs};
use meta::{MetaError, Pair, Purpose, Read, Tx, TxBody, TxOutcome};
use nfs4::ops::{PutFhArgs, SequenceArgs};
use nfs4::{CompoundHeader, OpNum, OpReader};
use nlm::nsm::NsmProc;
use nlm::{Nlm4LockArgs, NlmProc};
use objects::{Content, MemObjects, ObjectId, ObjectStore};
use parking_lot::Mutex;
use rpc::{CallHeader, OpaqueAuth};
use std::collections::BTreeSet;
use std::sync::Arc;
use transport::{
    Address, BoxFuture, CloseReason, ConnHandle, ConnectError, Connector, DynService, Endpoint,
    Message,
};
use xdr::{Decode, Decoder, Encode, Encoder};

/// A fault that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum InjectedBug {
    /// The metadata store says "durable" before it is.
    ReplyBeforeDurable,
    /// The metadata store forgets which files are to be removed at the data servers.
    ForgetRemovals,
    /// The metadata store forgets that the server was started again.
    ForgetStarts,
    /// The data servers' object stores say "synced" and do nothing.
    CommitWithoutSync,
    /// The indexes of the data servers forget up to which redo record an object is durable: a start applies old ones.
    ApplyOldRecords,
    /// The indexes of the data servers keep the sums of what has changed.
    KeepSums,
    /// The indexes of the data servers forget which parts may differ from those of other members.
    ForgetUnsettled,
    /// The redo logs of the data servers drop a record before its object is synced.
    DropRecords,
    /// The metadata store keeps the bytes of inline files that get a place.
    KeepInlineBytes,
    /// The metadata store forgets that an inline file was begun to be given a place: nothing of that attempt is cut.
    ForgetPlacings,
    /// The metadata store forgets whose the objects are that a file was given when it was restriped.
    ForgetNames,
    /// The object stores take each byte of a file that is being restriped once: what was written meanwhile is not copied again.
    LoseRewrites,
    /// The metadata store forgets for which files layouts for writing are out.
    ForgetWriters,
    /// The object stores say "synced" where the disk has failed, and nothing is synced.
    IgnoreFailedSyncs,
    /// The object store of the first data server says "punched" and does nothing.
    SkipHoles,
    /// The data servers acknowledge FENCE and do nothing.
    IgnoreFences,
    /// Members of places acknowledge each third write that is passed on to them, and do not apply it.
    DropItems,
    /// The data servers draw the same numbers at each start, so that no write verifier tells of a restart.
    KeepVerifiers,
    /// The metadata server asks for no second copy before a promise.
    PromiseToOne,
    /// The metadata store forgets rows of places that have changed.
    ForgetRows,
    /// Clients write once more what they had written before they set a time: it looks as news of a write does that come late.
    WriteAgain,
    /// The metadata server takes exclusive locks of NFSv4 for shared ones.
    ShareLocks,
    /// The metadata server does not see what an OPEN denies to others.
    ForgetDeny,
    /// The metadata server acknowledges WRITEs of NFSv4 and writes elsewhere.
    MisplaceWrites,
    /// The metadata server takes exclusive locks of NLM for shared ones.
    ShareHostLocks,
    /// The metadata server takes reclaims of NLM for new locks.
    ForgetHostReclaims,
    /// The metadata server acknowledges that a host has restarted, and ends none of its locks.
    KeepHostLocks,
    /// Clients go on relying on locks that they have given up.
    KeepLocks,
    /// Clients go on using delegations that they have returned.
    KeepDelegations,
    /// The metadata store forgets that a client which held nothing has taken something.
    ForgetHolders,
    /// Messages over RDMA take receives that are set aside for other connections.
    MixReceives,
    /// The metadata server takes no call of NFSv3 for one that it has heard: a repeated call is done again.
    ForgetReplies,
    /// The write verifier that the metadata server tells clients of NFSv3 never changes.
    KeepVerifier,
    /// The servers ask nobody for slots, and so for credits.
    NeverAskForSlots,
}

/// What a metadata store notes for [`InjectedBug::LoseRewrites`]: the files without names, which new objects of others belong to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nameless(Arc<Mutex<BTreeSet<u64>>>);

impl Nameless {
    /// The file of the key of an orphan.
    fn file(key: &[u8]) -> Option<u64> {
        let number = key.strip_prefix(b"o")?;
        number.try_into().ok().map(u64::from_be_bytes)
    }

    fn note(&self, key: &[u8], is_there: bool) {
        let Some(file) = Self::file(key) else { return };
        let mut files = self.0.lock();
        match is_there {
            true => files.insert(file),
            false => files.remove(&file),
        };
    }

    fn has(&self, file: u64) -> bool {
        self.0.lock().contains(&file)
    }
}

/// Bytes of what an index has of an object that was never in a redo log.
const OBJECT_RECORD_BYTES: usize = 20;

impl InjectedBug {
    /// Whether it is in the indexes of the data servers.
    pub(crate) fn is_of_index(self) -> bool {
        matches!(
            self,
            Self::ApplyOldRecords | Self::KeepSums | Self::ForgetUnsettled
        )
    }
}

/// A transaction that drops some of what is put.
struct Forgetful<'a> {
    tx: &'a mut dyn Tx,
    bug: InjectedBug,
    nameless: &'a Nameless,
    purpose: Purpose,
}

impl Forgetful<'_> {
    fn forgets(&self, key: &[u8]) -> bool {
        match self.bug {
            InjectedBug::ForgetNames => key.starts_with(b"a"),
            InjectedBug::ForgetUnsettled => key.starts_with(b"u"),
            InjectedBug::ForgetRemovals => key.starts_with(b"r"),
            InjectedBug::ForgetWriters => key.starts_with(b"w"),
            InjectedBug::ForgetRows => {
                key.starts_with(b"g") && !matches!(self.tx.get(key), Ok(None))
            }
            InjectedBug::ForgetStarts => key == b"sboot" && !matches!(self.tx.get(key), Ok(None)),
            InjectedBug::ForgetHolders => {
                key.starts_with(b"c") && !matches!(self.tx.get(key), Ok(None))
            }
            _ => false,
        }
    }
}

impl Forgetful<'_> {
    /// Whether the orphan of this key is made in this transaction, and is no file that has lost its last name.
    fn is_new(&self, key: &[u8]) -> bool {
        let inode = [b"i", key.get(1..).unwrap_or_default()].concat();
        matches!(self.tx.get(&inode), Ok(None))
    }
}

impl Read for Forgetful<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        // An attempt begins as upkeep and ends as a removal.
        let begins = self.purpose == Purpose::Upkeep && key.starts_with(b"p");
        if self.bug == InjectedBug::ForgetPlacings && begins {
            return Ok(None);
        }
        self.tx.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.tx.scan(start, end, limit)
    }
}

impl Tx for Forgetful<'_> {
    fn purpose(&mut self, purpose: Purpose) {
        self.purpose = self.purpose.max(purpose);
        self.tx.purpose(purpose);
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        if self.bug == InjectedBug::LoseRewrites && self.is_new(key) {
            self.nameless.note(key, true);
        }
        if self.bug == InjectedBug::ApplyOldRecords && key.starts_with(b"o") {
            // The record of an object without the field at its end.
            let short = value.len().min(OBJECT_RECORD_BYTES);
            self.tx.put(key, &value[..short]);
        } else if !self.forgets(key) {
            self.tx.put(key, value);
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if self.bug == InjectedBug::LoseRewrites {
            self.nameless.note(key, false);
        }
        let is_kept = match self.bug {
            InjectedBug::KeepInlineBytes => key.starts_with(b"b"),
            InjectedBug::KeepSums => key.starts_with(b"c"),
            _ => false,
        };
        if !is_kept {
            self.tx.delete(key);
        }
    }
}

/// Runs the body of a transaction with the fault in it.
pub(crate) fn transact(
    (bug, nameless): (Option<InjectedBug>, &Nameless),
    body: &mut TxBody<'_>,
    tx: &mut dyn Tx,
) -> Result<TxOutcome, MetaError> {
    match bug {
        Some(bug) => body(&mut Forgetful {
            tx,
            bug,
            nameless,
            purpose: Purpose::default(),
        }),
        None => body(tx),
    }
}

/// Connects, and answers FENCE in place of the data server that is called on the connection.
pub(crate) struct Unfenced(pub(crate) Arc<dyn Connector>);

impl Connector for Unfenced {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        let reverse = Altered {
            service: reverse,
            alter: without_fence,
        };
        self.0.connect(address, Arc::new(reverse))
    }
}

/// What comes of a call in place of it.
enum Instead {
    /// It is answered so, and the service does not see it.
    Answer(Message),
    /// The service gets this record.
    Record(Bytes),
}

/// A service some of whose calls are not what they were; `None` leaves a call alone.
struct Altered {
    service: Arc<dyn DynService>,
    alter: fn(&Bytes) -> Option<Instead>,
}

impl DynService for Altered {
    fn call_boxed<'a>(
        &'a self,
        conn: &'a ConnHandle,
        record: Bytes,
    ) -> BoxFuture<'a, Option<Message>> {
        match (self.alter)(&record) {
            None => self.service.call_boxed(conn, record),
            Some(Instead::Record(record)) => self.service.call_boxed(conn, record),
            Some(Instead::Answer(message)) => Box::pin(std::future::ready(Some(message))),
        }
    }

    fn admits_peer(&self, peer: &Endpoint) -> bool {
        self.service.admits_peer(peer)
    }

    fn on_connected(&self, conn: &ConnHandle) {
        self.service.on_connected(conn);
    }

    fn on_disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.service.on_disconnected(conn, reason);
    }

    fn on_credits_short(&self, conn: &ConnHandle) {
        self.service.on_credits_short(conn);
    }
}

/// FENCE is answered in place of the data server.
fn without_fence(record: &Bytes) -> Option<Instead> {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).ok()?;
    let Ok(ToDs::Fence(_)) = ToDs::decode(header.procedure, d.rest()) else {
        return None;
    };
    let mut e = Encoder::new();
    rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
    Answer::Ok(()).encode(&mut e);
    Some(Instead::Answer(e.into()))
}

/// The service of the metadata server, with the fault in it.
pub(crate) fn mds_service(
    bug: Option<InjectedBug>,
    service: Arc<dyn DynService>,
) -> Arc<dyn DynService> {
    let alter = match bug {
        Some(InjectedBug::ShareLocks) => |record: &Bytes| altered(record, OpNum::Lock),
        Some(InjectedBug::ForgetDeny) => |record: &Bytes| altered(record, OpNum::Open),
        Some(InjectedBug::MisplaceWrites) => |record: &Bytes| altered(record, OpNum::Write),
        Some(InjectedBug::ShareHostLocks) => {
            |record: &Bytes| other_lock(record, |lock| lock.exclusive = false)
        }
        Some(InjectedBug::ForgetHostReclaims) => {
            |record: &Bytes| other_lock(record, |lock| lock.reclaim = false)
        }
        Some(InjectedBug::KeepHostLocks) => without_notify,
        _ => return service,
    };
    Arc::new(Altered { service, alter })
}

/// A LOCK of NLM with other arguments.
fn other_lock(record: &Bytes, change: fn(&mut Nlm4LockArgs<'_>)) -> Option<Instead> {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).ok()?;
    let asked = (header.program, header.procedure);
    if asked != (nlm::PROGRAM, NlmProc::Lock as u32) {
        return None;
    }
    let mut args: Nlm4LockArgs<'_> = xdr::decode_all(d.rest()).ok()?;
    change(&mut args);
    let mut e = Encoder::new();
    e.raw(&record[..d.position()]);
    args.encode(&mut e);
    Some(Instead::Record(e.into_bytes().into()))
}

/// NOTIFY of a host is answered in place of the server.
fn without_notify(record: &Bytes) -> Option<Instead> {
    let header = CallHeader::decode(&mut Decoder::new(record)).ok()?;
    if (header.program, header.procedure) != (nlm::nsm::PROGRAM, NsmProc::Notify as u32) {
        return None;
    }
    let mut e = Encoder::new();
    rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
    Some(Instead::Answer(e.into()))
}

/// A COMPOUND with other arguments of this operation: LOCK is shared, OPEN denies nothing, WRITE goes 64 KiB behind.
fn altered(record: &Bytes, wanted: OpNum) -> Option<Instead> {
    let at = arguments(record, wanted)?;
    let mut bytes = record.to_vec();
    match wanted {
        OpNum::Lock => bytes[at + 3] = 1,
        OpNum::Open => bytes[at + 8..at + 12].fill(0),
        _ => bytes[at + 21] = 1,
    }
    Some(Instead::Record(bytes.into()))
}

/// Where the arguments of an operation begin, which comes after SEQUENCE and the choice of a file.
fn arguments(record: &[u8], wanted: OpNum) -> Option<usize> {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).ok()?;
    if (header.program, header.procedure) != (nfs4::PROGRAM, 1) {
        return None;
    }
    let compound = CompoundHeader::decode(&mut d).ok()?;
    let mut ops = OpReader::new(d, compound.ops_count);
    while let Some(Ok(number)) = ops.next_op() {
        match OpNum::from_u32(number)? {
            op if op == wanted => return Some(record.len() - ops.rest().len()),
            OpNum::Sequence => drop(ops.args::<SequenceArgs>().ok()?),
            OpNum::PutFh => drop(ops.args::<PutFhArgs<'_>>().ok()?),
            OpNum::PutRootFh => {}
            _ => return None,
        }
    }
    None
}

/// The service of a data server, with the fault in it.
pub(crate) fn service(
    bug: Option<InjectedBug>,
    service: Arc<dyn DynService>,
) -> Arc<dyn DynService> {
    match bug {
        Some(InjectedBug::DropItems) => Arc::new(Altered {
            service,
            alter: without_write,
        }),
        _ => service,
    }
}

/// Each third write of a primary does nothing: the item of the stream keeps its number alone.
fn without_write(record: &Bytes) -> Option<Instead> {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).ok()?;
    if (header.program, header.procedure) != (parts::PROGRAM, parts::PartsProc::Pass as u32) {
        return None;
    }
    let args: parts::PassArgs<'_> = xdr::decode_all(d.rest()).ok()?;
    let is_write = matches!(args.item, parts::StreamItem::Write { .. });
    if !is_write || !args.number.is_multiple_of(3) {
        return None;
    }
    let nothing = parts::PassArgs {
        item: parts::StreamItem::Nothing,
        ..args
    };
    let mut bytes = parts::encode_pass(&nothing).into_bytes();
    bytes[..4].copy_from_slice(&header.xid.to_be_bytes());
    Some(Instead::Record(bytes.into()))
}

/// What an object store only says.
#[derive(Debug)]
pub(crate) enum Lie {
    /// Synced.
    Synced,
    /// Synced, where a sync has failed.
    NotFailed,
    /// Punched.
    Punched,
    /// Written, where a file without a name has a byte already.
    Rewritten(Nameless),
}

impl Lie {
    /// What the object store of the data server with this index says.
    pub(crate) fn of(
        (bug, nameless): (Option<InjectedBug>, &Nameless),
        index: usize,
    ) -> Option<Self> {
        match bug? {
            InjectedBug::CommitWithoutSync => Some(Self::Synced),
            InjectedBug::IgnoreFailedSyncs => Some(Self::NotFailed),
            InjectedBug::SkipHoles if index == 0 => Some(Self::Punched),
            InjectedBug::LoseRewrites => Some(Self::Rewritten(nameless.clone())),
            _ => None,
        }
    }

    /// Whether a write is answered without being done.
    pub(crate) fn drops(&self, objects: &MemObjects, id: ObjectId, offset: u64) -> bool {
        let Self::Rewritten(nameless) = self else {
            return false;
        };
        let is_there = || objects.seek(id, offset, Content::Data).ok() == Some(Some(offset));
        nameless.has(id.file_id) && is_there()
    }
}
