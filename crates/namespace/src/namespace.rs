//! The name space object: opening, identity, and reads that need no transaction.
//!
//! # Ordering
//! `boot` is raised by a transaction of [`Namespace::open`]. The caller waits for it to be durable before it serves
//! anything: no two lives of a server share a boot number.

use crate::bucket::Bucket;
use crate::cache::Cache;
use crate::inode::{FileType, Inode};
use crate::records::{self, Counters, Identity, InlineTotals, RwOut};
use crate::{Device, Extras, FileId, NsError, Op, Time, keys};
use meta::{MetaStore, Purpose, Seq, Tx};
use parking_lot::Mutex;
use std::sync::Arc;
use xdr::OpaqueBuf;

/// Version of keys and values; another one is refused.
pub const SCHEMA_VERSION: u32 = 1;

/// Bounds of one name space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceLimits {
    /// Inodes in the cache (about 400 bytes each).
    pub inode_cache_entries_max: usize,
    /// Directory entries in the cache (about 150 bytes each).
    pub entry_cache_entries_max: usize,
    /// Highest link count of an inode.
    pub link_count_max: u32,
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self {
            inode_cache_entries_max: 1 << 18,
            entry_cache_entries_max: 1 << 18,
            link_count_max: i32::MAX.unsigned_abs(),
        }
    }
}

/// RW-out marks in the cache: files that are being written at one time.
const RW_OUT_CACHE_ENTRIES_MAX: usize = 1 << 16;

/// What a new file system is made with. Both numbers are random and come from the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Identity of the cluster.
    pub cluster_id: u64,
    /// Key of the hash that orders directories.
    pub hash_key: [u8; 16],
}

/// Numbers for statfs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Inodes in existence, the root and orphans included.
    pub files: u64,
    /// Inode numbers not given out yet.
    pub files_free: u64,
    /// Inodes in the cache.
    pub cached_inodes: usize,
    /// Directory entries in the cache.
    pub cached_entries: usize,
    /// Files whose bytes lie in the metadata store.
    pub inline: InlineTotals,
}

/// What only the one writer changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) counters: Counters,
    pub(crate) next_file_id: u64,
    /// RW-out marks, truncations and placings under way: where there are none, none is looked for.
    pub(crate) marks: u64,
    pub(crate) truncations: u64,
    pub(crate) placings: u64,
    /// Counts records without a cache, so that a transaction of nothing else is told from an empty one.
    pub(crate) records_written: u64,
}

/// A POSIX name space over a metadata store.
pub struct Namespace {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) identity: Identity,
    pub(crate) boot: u32,
    pub(crate) limits: NamespaceLimits,
    pub(crate) hash_mask: u64,
    pub(crate) inodes: Cache<FileId, Arc<Inode>>,
    pub(crate) buckets: Cache<(FileId, u64), Arc<Bucket>>,
    pub(crate) rw_out: Cache<FileId, Arc<RwOut>>,
    pub(crate) writer: Mutex<Writer>,
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace")
            .field("cluster_id", &self.identity.cluster_id)
            .field("boot", &self.boot)
            .finish_non_exhaustive()
    }
}

impl Namespace {
    /// Opens the store's file system, or makes one with `format` when the store has none, and raises
    /// the boot number. Serve nothing before the returned transaction is durable.
    ///
    /// # Errors
    /// [`NsError::Store`] when the store fails, is corrupt, or has another schema version.
    pub fn open(
        store: Arc<dyn MetaStore>,
        format: Format,
        now: Time,
        limits: NamespaceLimits,
    ) -> Result<(Self, Seq), NsError> {
        let opened = meta::transact(&*store, |tx| Ok(open_or_format(tx, format, now)))?;
        let (result, seq) = opened;
        let (identity, boot, counters) = result?;
        let ns = Self {
            identity,
            boot,
            limits,
            hash_mask: u64::MAX,
            inodes: Cache::new(limits.inode_cache_entries_max),
            buckets: Cache::new(limits.entry_cache_entries_max),
            rw_out: Cache::new(RW_OUT_CACHE_ENTRIES_MAX.min(limits.inode_cache_entries_max)),
            writer: Mutex::new(Writer {
                counters,
                next_file_id: counters.file_id_limit,
                marks: count(&*store, keys::RW_OUT)?,
                truncations: count(&*store, keys::TRUNCATE)?,
                placings: count(&*store, keys::PLACING)?,
                records_written: 0,
            }),
            store,
        };
        Ok((ns, seq))
    }

    /// Identity of the cluster, random at format.
    #[must_use]
    pub const fn cluster_id(&self) -> u64 {
        self.identity.cluster_id
    }

    /// Number of this start, from 1: high half of every fencing epoch.
    #[must_use]
    pub const fn boot(&self) -> u32 {
        self.boot
    }

    /// Verifier of READDIR cookies. A constant of the file system: cookies stay valid for as long as
    /// their directory, so no verifier ever goes bad.
    #[must_use]
    pub const fn cookie_verifier(&self) -> [u8; 8] {
        self.identity.cluster_id.to_be_bytes()
    }

    /// The store below, to wait for durability.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        &self.store
    }

    /// Its limits.
    #[must_use]
    pub const fn limits(&self) -> &NamespaceLimits {
        &self.limits
    }

    /// The fencing epoch of handles minted now: boot, and the inode's own counter.
    #[must_use]
    pub fn fencing_epoch(&self, inode: &Inode) -> u64 {
        u64::from(self.boot) << 32 | u64::from(inode.epoch)
    }

    /// Numbers for statfs and metrics.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let writer = *self.writer.lock();
        Statistics {
            files: writer.counters.files,
            files_free: u64::MAX - writer.next_file_id,
            cached_inodes: self.inodes.len(),
            cached_entries: self.buckets.len(),
            inline: writer.counters.inline,
        }
    }

    /// The inode that a handle names.
    ///
    /// # Errors
    /// [`NsError::Stale`] when there is none.
    pub fn getattr(&self, op: &mut Op<'_>, file: FileId) -> Result<Arc<Inode>, NsError> {
        let hit = self.load_inode(file)?;
        op.observe(hit.seq);
        hit.value.ok_or(NsError::Stale)
    }

    /// The inode that a handle with a generation names.
    ///
    /// # Errors
    /// [`NsError::Stale`] when there is none, or only one of another generation.
    pub fn resolve(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        generation: u32,
    ) -> Result<Arc<Inode>, NsError> {
        let inode = self.getattr(op, file)?;
        if inode.generation == generation {
            Ok(inode)
        } else {
            Err(NsError::Stale)
        }
    }

    pub(crate) fn load_inode(&self, id: FileId) -> Result<crate::cache::Hit<Arc<Inode>>, NsError> {
        let read = || {
            let stored = self.store.get(&keys::numbered(keys::INODE, id.0))?;
            let inode = stored.map(|v| Inode::from_stored(id, &v)).transpose()?;
            Ok(inode.map(Arc::new))
        };
        let (applied, durable) = (|| self.store.applied(), || self.store.durable_through());
        self.inodes.load(id, applied, durable, read)
    }

    pub(crate) fn load_bucket(
        &self,
        dir: FileId,
        hash: u64,
    ) -> Result<crate::cache::Hit<Arc<Bucket>>, NsError> {
        let read = || {
            let stored = self.store.get(&keys::bucket(dir, hash))?;
            let bucket = stored.map(|v| Bucket::from_stored(dir, &v)).transpose()?;
            Ok(bucket.map(Arc::new))
        };
        let (applied, durable) = (|| self.store.applied(), || self.store.durable_through());
        self.buckets.load((dir, hash), applied, durable, read)
    }
}

/// How many records of a tag there are.
fn count(store: &dyn MetaStore, tag: u8) -> Result<u64, NsError> {
    let mut count = 0;
    records::each(store, tag, |_| count += 1)?;
    Ok(count)
}

type Opened = (Identity, u32, Counters);

fn open_or_format(tx: &mut dyn Tx, format: Format, now: Time) -> Result<Opened, NsError> {
    let Some(identity) = tx.get(keys::SUPER_IDENTITY)? else {
        return format_store(tx, format, now);
    };
    // The version comes first so that it can be read whatever follows it.
    let version = identity.get(..4).unwrap_or_default();
    if version != SCHEMA_VERSION.to_be_bytes() {
        return Err(NsError::corrupt("unknown schema version"));
    }
    let identity = records::decode(&identity, "identity")?;
    let missing = || NsError::corrupt("superblock is incomplete");
    let boot: u32 = records::decode(&tx.get(keys::SUPER_BOOT)?.ok_or_else(missing)?, "boot")?;
    let counters = tx.get(keys::SUPER_COUNTERS)?.ok_or_else(missing)?;
    let counters = records::decode(&counters, "counters")?;
    let boot = boot
        .checked_add(1)
        .ok_or_else(|| NsError::corrupt("boot number is at its end"))?;
    // Without a start nothing can be removed.
    tx.purpose(Purpose::Removal);
    tx.put(keys::SUPER_BOOT, &records::encode(&boot));
    Ok((identity, boot, counters))
}

fn format_store(tx: &mut dyn Tx, format: Format, now: Time) -> Result<Opened, NsError> {
    let identity = Identity {
        schema: SCHEMA_VERSION,
        cluster_id: format.cluster_id,
        hash_key: format.hash_key,
    };
    let counters = Counters {
        file_id_limit: FileId::ROOT.0 + 1,
        files: 1,
        ..Counters::default()
    };
    tx.put(keys::SUPER_IDENTITY, &records::encode(&identity));
    tx.put(keys::SUPER_BOOT, &records::encode(&1_u32));
    tx.put(keys::SUPER_COUNTERS, &records::encode(&counters));
    let root = root_directory(now).to_stored();
    tx.put(&keys::numbered(keys::INODE, FileId::ROOT.0), &root);
    Ok((identity, 1, counters))
}

fn root_directory(now: Time) -> Inode {
    Inode {
        id: FileId::ROOT,
        generation: 1,
        kind: FileType::Directory,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: 2,
        size: 0,
        space_used: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        change: 1,
        parent: FileId::ROOT,
        device: Device::default(),
        target: OpaqueBuf::default(),
        placement: None,
        epoch: 0,
        verifier: None,
        extras: Extras::default(),
    }
}
