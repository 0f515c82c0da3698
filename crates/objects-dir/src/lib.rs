//! Objects as sparse files in a directory (xfs, ext4, tmpfs, or any file system with holes).
//!
//! One file per object, under 256 subdirectories. Writes go to the page cache; `sync` is fdatasync of the file
//! and fsync of its subdirectory when entries of it have changed. Reads give spans for sendfile, small ones copies.
//!
//! Opening a file that is not in the handle cache may wait for the disk; [`ObjectStore::is_cached`] says so.
//!
//! # Ownership
//! A [`DirObjects`] owns its directory; a second one, in this process or another, is refused. It touches only
//! what it has made.
//!
//! # Ordering
//! Making, opening and unlinking one object happen one after the other. A write that began before a removal may go to
//! the removed file, as if it had come before.
//!
//! # Failure
//! A full disk, quota or reserve is `NoSpace`; part of the data may be in the page cache then, as the trait says.
//! The process must ignore SIGXFSZ (or run without a file size limit) for `TooLarge` to be an answer.
//! Entry point: [`DirObjects::open`].
#![forbid(unsafe_code)]

mod handle;
mod store_dir;

use bytes::Bytes;
use handle::{Handle, Handles};
use objects::{
    Capacity, Content, OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStat, ObjectStore, Span,
    range_end,
};
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Error, ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use store_dir::{FANOUT, StoreDir};

/// Free space is asked for again after this many written bytes.
const SPACE_CHECK_BYTES: u64 = 4 * 1024 * 1024;
/// Distance of the bytes that `is_cached` looks at, beside the first and the last.
const PROBE_STEP_BYTES: u64 = 64 * 1024;
/// Most bytes that `is_cached` looks at; longer ranges are probed at larger distances.
const PROBES_MAX: u64 = 16;
/// Reads of at most so many bytes are copied out of the page cache, by one call of the system. A span for sendfile
/// costs a look at the size, and a send of its own for what stands before it. It also holds the bytes until they have
/// left. No more than servers let a reply hold in memory without a charge.
const COPIED_READ_BYTES_MAX: u32 = 16 * 1024;
/// A multiple of what file systems call a block.
const PUNCH_STEP_BYTES: u64 = 64 * 1024;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
/// Random at each start of the kernel (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// File system type of tmpfs (linux/magic.h).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// What offset, length and memory of a read past the page cache must be a multiple of.
const DIRECT_ALIGN: usize = 4096;

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Files that stay open while nobody uses them. The store needs as many descriptors, 256 for its
    /// subdirectories, and one for each object in use beyond them.
    pub handles_max: usize,
    /// Free space of the file system that is left to others (the data server's index first of all). Once it is
    /// touched every write is refused, also one over bytes that are there: whether they lie in a hole is
    /// not known.
    pub reserve_bytes: u64,
    /// How long `set_size` waits for readers that hold what it cuts, in milliseconds, before it says
    /// [`ObjectError::Busy`]. Below the time that the metadata server waits for an answer, which then tries again.
    pub hold_wait_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handles_max: 512,
            reserve_bytes: 256 * 1024 * 1024,
            hold_wait_ms: 10_000,
        }
    }
}

type Pwrite = fn(&File, &[u8], u64) -> Result<usize, Error>;

/// The store.
#[derive(Debug)]
pub struct DirObjects {
    handles: Handles,
    store_dir: StoreDir,
    options: Options,
    shares_storage: bool,
    in_memory: bool,
    disk: u64,
    object_bytes_max: u64,
    full: AtomicBool,
    unchecked_bytes: AtomicU64,
    copied_bytes: AtomicU64,
    /// pwrite; tests put a full disk here.
    pwrite: Pwrite,
}

pub(crate) fn io_error(error: Error) -> ObjectError {
    match error.kind() {
        ErrorKind::NotFound => ObjectError::NotFound,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ObjectError::NoSpace,
        ErrorKind::FileTooLarge => ObjectError::TooLarge,
        ErrorKind::Unsupported => ObjectError::Unsupported,
        _ => ObjectError::Io(error),
    }
}

/// The largest file that the file system of `dir` takes, in bytes: no call tells it. A file without a name is lengthened, by
/// halves of what is left.
fn probe_object_bytes_max(dir: &Path) -> Result<u64, Error> {
    let path = dir.join("probe");
    let file = File::create(&path)?;
    std::fs::remove_file(&path)?;
    let (mut held, mut refused) = (0, OBJECT_BYTES_MAX);
    if takes(&file, refused)? {
        return Ok(refused);
    }
    while refused - held > 1 {
        let middle = held + (refused - held) / 2;
        if takes(&file, middle)? {
            held = middle;
        } else {
            refused = middle;
        }
    }
    Ok(held)
}

fn takes(file: &File, bytes: u64) -> Result<bool, Error> {
    match file.set_len(bytes) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::FileTooLarge | ErrorKind::InvalidInput) => {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

impl DirObjects {
    /// Opens the store in `dir`, making it when the directory is empty or absent.
    ///
    /// # Errors
    /// [`ObjectError::Io`] with one sentence that names the directory: in use by another process, not writable,
    /// not a directory, not a store, another format.
    pub fn open(dir: &Path, options: Options) -> Result<Self, ObjectError> {
        let store_dir = StoreDir::take(dir)?;
        let object_bytes_max = probe_object_bytes_max(dir).map_err(ObjectError::Io)?;
        let kind = rustix::fs::statfs(dir)
            .map_err(Error::from)
            .map_err(ObjectError::Io)?
            .f_type;
        let store = Self {
            handles: Handles::new(options.handles_max),
            store_dir,
            options,
            shares_storage: shares_storage(dir),
            in_memory: u64::try_from(kind).is_ok_and(|kind| kind == TMPFS_MAGIC),
            disk: disk_of(dir).map_err(ObjectError::Io)?,
            object_bytes_max,
            full: AtomicBool::new(false),
            unchecked_bytes: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            pwrite: |file, data, offset| file.write_at(data, offset),
        };
        store.measure_space()?;
        Ok(store)
    }

    fn existing(&self, id: ObjectId) -> Result<Arc<Handle>, ObjectError> {
        self.handles
            .open(&self.store_dir, id, false)
            .map_err(io_error)
    }

    /// Learns whether the reserve is touched.
    fn measure_space(&self) -> Result<Capacity, ObjectError> {
        let stat = rustix::fs::statvfs(self.store_dir.dir()).map_err(Error::from);
        let stat = stat.map_err(ObjectError::Io)?;
        let usable = |blocks: u64| {
            let bytes = blocks.saturating_mul(stat.f_frsize);
            bytes.saturating_sub(self.options.reserve_bytes)
        };
        let free_bytes = usable(stat.f_bavail);
        self.full.store(free_bytes == 0, Ordering::Relaxed);
        Ok(Capacity {
            total_bytes: usable(stat.f_blocks),
            free_bytes,
            unused_bytes: usable(stat.f_bfree),
            object_bytes_max: self.object_bytes_max,
            disk: self.disk,
        })
    }

    /// Refuses a write of `len` bytes when the reserve is touched.
    fn check_space(&self, len: u64) -> Result<(), ObjectError> {
        let unchecked = self.unchecked_bytes.fetch_add(len, Ordering::Relaxed) + len;
        if self.full.load(Ordering::Relaxed) || unchecked >= SPACE_CHECK_BYTES {
            self.unchecked_bytes.store(0, Ordering::Relaxed);
            if self.measure_space()?.free_bytes < len {
                return Err(ObjectError::NoSpace);
            }
        }
        Ok(())
    }

    fn write_all(&self, file: &File, mut offset: u64, mut data: &[u8]) -> Result<(), Error> {
        // A partial write is followed by the error that cut it short, so this ends.
        while !data.is_empty() {
            match (self.pwrite)(file, data, offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    data = &data[written..];
                    offset += written as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn list_sub(
        &self,
        n: usize,
        visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool,
    ) -> Result<bool, Error> {
        for entry in std::fs::read_dir(self.store_dir.sub_path(n))? {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(store_dir::parse_name) else {
                continue;
            };
            let found = match entry.metadata() {
                // Removed since the directory was read.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                other => other?,
            };
            if found.is_file() && !visit(id, stat(&found)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Lets a range of one file be that of another, as far as there are bytes; returns how many. The system shares storage where it
/// can, block by block, and copies the rest, which is less than a block where offsets are whole ones.
fn share(
    from: &File,
    mut from_offset: u64,
    to: &File,
    mut to_offset: u64,
    len: u64,
) -> Result<u64, ObjectError> {
    let mut done = 0;
    while done < len {
        let left = usize::try_from(len - done).unwrap_or(usize::MAX);
        let shared = retry_on_intr(|| {
            let (from_offset, to_offset) = (Some(&mut from_offset), Some(&mut to_offset));
            rustix::fs::copy_file_range(from, from_offset, to, to_offset, left)
        });
        match shared {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(e) => return Err(io_error(e.into())),
        }
    }
    Ok(done)
}

/// Whether files of the file system can share storage (FICLONE), tried with two that have no name.
fn shares_storage(dir: &Path) -> bool {
    let unnamed = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
    };
    let tried = unnamed().and_then(|to| rustix::fs::ioctl_ficlone(to, unnamed()?));
    tried.is_ok()
}

fn fallocate(file: &File, flags: FallocateFlags, offset: u64, len: u64) -> Result<(), ObjectError> {
    let done = retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, len));
    done.map_err(|e| io_error(e.into()))
}

/// A number for the file system that a directory is on. It is the device number within this run of this machine, of
/// which the kernel's boot id tells (in containers too). 0 where it does not.
fn disk_of(dir: &Path) -> Result<u64, Error> {
    let Ok(boot) = std::fs::read(BOOT_ID) else {
        return Ok(0);
    };
    // Servers of two builds may hash differently; then a disk is counted twice until they are of one build.
    let mut hasher = DefaultHasher::new();
    boot.hash(&mut hasher);
    std::fs::metadata(dir)?.dev().hash(&mut hasher);
    Ok(hasher.finish().max(1))
}

fn stat(found: &std::fs::Metadata) -> ObjectStat {
    ObjectStat {
        size_bytes: found.len(),
        allocated_bytes: found.blocks().saturating_mul(BLOCK_BYTES),
    }
}

/// As [`stat`], without the times. A kernel that was asked for times (Linux 6.13 and later) notes a finer one with the next
/// write, which makes each write change the inode: a durable write of 4 KiB then took 158 us instead of 125.
fn stat_without_times(file: &File) -> Result<ObjectStat, Error> {
    let wanted = StatxFlags::SIZE | StatxFlags::BLOCKS;
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(found) => Ok(ObjectStat {
            size_bytes: found.stx_size,
            allocated_bytes: found.stx_blocks.saturating_mul(BLOCK_BYTES),
        }),
        Err(Errno::NOSYS) => file.metadata().map(|found| stat(&found)),
        Err(e) => Err(e.into()),
    }
}

/// The bytes of a range, as far as there are any.
fn copy_out(file: &File, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
    let len = len as usize;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = offset + bytes.len() as u64;
        if retry_on_intr(|| rustix::io::pread(file, spare_capacity(&mut bytes), at))? == 0 {
            break;
        }
    }
    // The capacity may be more than was asked for.
    bytes.truncate(len);
    Ok(bytes)
}

/// As [`copy_out`], past the page cache; `None` where that cannot be done. Offset and length must be multiples of
/// [`DIRECT_ALIGN`].
fn copy_direct(file: &File, offset: u64, len: u32) -> Result<Option<Bytes>, Error> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    // Without /proc, too, nothing is known of the disk.
    let Ok(direct) = rustix::fs::open(path, flags, Mode::empty()) else {
        return Ok(None);
    };
    let len = len as usize;
    let mut buffer = vec![0; len + DIRECT_ALIGN];
    let skip = buffer.as_ptr().align_offset(DIRECT_ALIGN);
    let aligned = &mut buffer[skip..skip + len];
    let mut done = 0;
    while done < len && done.is_multiple_of(DIRECT_ALIGN) {
        let at = offset + done as u64;
        match retry_on_intr(|| rustix::io::pread(&direct, &mut aligned[done..], at)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Some(Bytes::from(buffer).slice(skip..skip + done)))
}

/// Whether the byte is in the page cache, or past the end.
fn probe(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    loop {
        match rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            // AGAIN: not there. OPNOTSUPP: this file system cannot tell.
            Err(_) => return false,
        }
    }
}

impl ObjectStore for DirObjects {
    fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError> {
        let handle = self.existing(id)?;
        if len <= COPIED_READ_BYTES_MAX
            && range_end(offset, len.into()).is_ok()
            && let Some(read) = handle.uncut(|| copy_out(&handle.file, offset, len))
        {
            let bytes = read.map_err(io_error)?;
            self.copied_bytes
                .fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let pieces = (!bytes.is_empty()).then(|| bytes.into());
            return Ok(Span::Pieces(pieces.into_iter().collect()));
        }
        let (len, hold) = handle.hold(offset, len)?;
        Ok(Span::File {
            file: handle.file.clone(),
            offset,
            len,
            hold,
        })
    }

    fn read_from_disk(&self, id: ObjectId, offset: u64, len: u32) -> Result<Bytes, ObjectError> {
        let handle = self.existing(id)?;
        range_end(offset, len.into())?;
        let is_aligned = |n: u64| n.is_multiple_of(DIRECT_ALIGN as u64);
        if !self.in_memory && is_aligned(offset) && is_aligned(len.into()) {
            match copy_direct(&handle.file, offset, len) {
                // The system takes no such reads: the page cache has to do.
                Ok(None) => {}
                Ok(Some(read)) => return Ok(read),
                Err(e) => return Err(ObjectError::Io(e)),
            }
        }
        let read = copy_out(&handle.file, offset, len).map_err(io_error)?;
        Ok(read.into())
    }

    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.check_space(data.len() as u64)?;
        self.write_again(id, offset, data)
    }

    fn write_again(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        let len = data.len() as u64;
        range_end(offset, len)?;
        let handle = self
            .handles
            .open(&self.store_dir, id, true)
            .map_err(io_error)?;
        handle.dirty.store(true, Ordering::Release);
        self.copied_bytes.fetch_add(len, Ordering::Relaxed);
        self.write_all(&handle.file, offset, data).map_err(io_error)
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        let handle = self.existing(id)?;
        // Before the sync: a write that comes meanwhile sets it again.
        handle.dirty.store(false, Ordering::Release);
        let synced = handle.file.sync_data();
        synced
            .and_then(|()| self.store_dir.sync_entries(id))
            .map_err(io_error)
    }

    fn drop_unwritten(&self, id: ObjectId) -> Result<(), ObjectError> {
        let handle = self.existing(id)?;
        // Pages that are written, or taken for it, leave memory. One that is just being sent stays.
        rustix::fs::fadvise(&*handle.file, 0, None, Advice::DontNeed)
            .map_err(|e| ObjectError::Io(e.into()))
    }

    fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
        stat_without_times(&self.existing(id)?.file).map_err(io_error)
    }

    fn seek(&self, id: ObjectId, offset: u64, what: Content) -> Result<Option<u64>, ObjectError> {
        let handle = self.existing(id)?;
        let size = handle.file.metadata().map_err(io_error)?.len();
        if offset >= size {
            return Ok(None);
        }
        // Nobody goes by the position of the descriptor, which this moves.
        let from = match what {
            Content::Data => SeekFrom::Data(offset),
            Content::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(&*handle.file, from) {
            Ok(at) => Ok(Some(at).filter(|at| *at < size)),
            Err(Errno::NXIO) => Ok(None),
            Err(e) => Err(io_error(e.into())),
        }
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        let handle = self.existing(id)?;
        let size = handle.file.metadata().map_err(io_error)?.len();
        // No further than the block of the last byte: file systems refuse ranges beyond their largest file.
        let last = size.next_multiple_of(PUNCH_STEP_BYTES);
        let len = len.min(last.saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        handle.dirty.store(true, Ordering::Release);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&handle.file, flags, offset, len)
    }

    fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        range_end(offset, len)?;
        self.check_space(len)?;
        let handle = self
            .handles
            .open(&self.store_dir, id, true)
            .map_err(io_error)?;
        if len == 0 {
            return Ok(());
        }
        handle.dirty.store(true, Ordering::Release);
        fallocate(&handle.file, FallocateFlags::KEEP_SIZE, offset, len)
    }

    fn clone_range(
        &self,
        (src, src_offset): (ObjectId, u64),
        (dst, dst_offset): (ObjectId, u64),
        len: u64,
    ) -> Result<(), ObjectError> {
        if !self.shares_storage {
            return Err(ObjectError::Unsupported);
        }
        range_end(src_offset, len)?;
        range_end(dst_offset, len)?;
        if len == 0 {
            return Ok(());
        }
        // What is shared takes no room, but the maps of it do.
        self.check_space(PUNCH_STEP_BYTES)?;
        let from = match self.existing(src) {
            Ok(from) => Some(from),
            Err(ObjectError::NotFound) => None,
            Err(e) => return Err(e),
        };
        let to = self
            .handles
            .open(&self.store_dir, dst, true)
            .map_err(io_error)?;
        to.dirty.store(true, Ordering::Release);
        let shared = match &from {
            Some(from) => share(&from.file, src_offset, &to.file, dst_offset, len)?,
            None => 0,
        };
        self.punch(dst, dst_offset + shared, len - shared)
    }

    fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError> {
        if size_bytes > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLarge);
        }
        let handle = self.existing(id)?;
        handle.cut(size_bytes, Duration::from_millis(self.options.hold_wait_ms))?;
        let synced = handle.file.sync_all();
        synced
            .and_then(|()| self.store_dir.sync_entries(id))
            .map_err(io_error)
    }

    fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        let removed = self.handles.remove(&self.store_dir, id);
        removed
            .and_then(|()| self.store_dir.sync_entries(id))
            .map_err(io_error)
    }

    fn is_cached(&self, id: ObjectId, offset: u64, len: u32) -> bool {
        let Some(handle) = self.handles.cached(id) else {
            return false;
        };
        if self.in_memory {
            return true;
        }
        let Some(last) = offset.checked_add(u64::from(len.max(1)) - 1) else {
            return true;
        };
        let step = PROBE_STEP_BYTES.max(u64::from(len).div_ceil(PROBES_MAX));
        let mut at = offset;
        while at < last {
            if !probe(&handle.file, at) {
                return false;
            }
            at = at.saturating_add(step);
        }
        probe(&handle.file, last)
    }

    fn capacity(&self) -> Result<Capacity, ObjectError> {
        self.measure_space()
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool) -> Result<(), ObjectError> {
        for n in 0..FANOUT {
            if !self.list_sub(n, visit).map_err(ObjectError::Io)? {
                break;
            }
        }
        Ok(())
    }

    fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError> {
        self.store_dir.tie(index_id, knows_objects)
    }

    fn is_persistent(&self) -> bool {
        // On tmpfs too: there they outlive the process, if not the machine.
        true
    }
}

#[cfg(test)]
mod tests;
