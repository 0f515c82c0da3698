//! The directory of a store: who holds it, which format it has, where an object lies.
//!
//! ```text
//! DIR/lock                       held (flock) while the store is open
//! DIR/format                     one line, written last: only a directory with it is a store
//! DIR/index                      one line: id of the index that knows the objects, 16 hex digits
//! DIR/objects/XX/FILE.GEN.MIRROR XX: low byte of the file id; names in hex, 16.8.2 digits
//! ```
//!
//! # Ownership
//! [`StoreDir`] holds the lock and one handle for each of the subdirectories.
//!
//! # Ordering
//! A subdirectory counts its changes of entries; [`StoreDir::sync_entries`] returns when an fsync has covered all that
//! were made before. At opening each counts as changed: an earlier process may have died before its fsync.
//!
//! # Failure
//! Every refusal is one sentence that names the directory.

use objects::{ObjectError, ObjectId};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const FORMAT_LINE: &str = "ropewalk object store 1\n";
/// Longest `format` or `index` that is read; a longer one is foreign.
const LINE_BYTES_MAX: u64 = 256;
/// Subdirectories.
pub(crate) const FANOUT: usize = 256;

/// An open store directory.
#[derive(Debug)]
pub(crate) struct StoreDir {
    dir: PathBuf,
    subs: Vec<Sub>,
    _lock: File,
}

#[derive(Debug)]
struct Sub {
    dir: File,
    changed: AtomicU64,
    synced: AtomicU64,
}

fn failure(dir: &Path, what: &str, e: &Error) -> ObjectError {
    let mut text = format!("{what} {}: {e}", dir.display());
    if e.kind() == ErrorKind::PermissionDenied
        && let Ok(meta) = std::fs::metadata(dir)
    {
        let user = rustix::process::geteuid().as_raw();
        text = format!(
            "{text} (it belongs to user {}, this is user {user})",
            meta.uid()
        );
    }
    ObjectError::Io(Error::new(e.kind(), text))
}

fn refusal(dir: &Path, why: &str) -> ObjectError {
    let text = format!("{} {why}", dir.display());
    ObjectError::Io(Error::new(ErrorKind::InvalidInput, text))
}

/// The name of an object's file.
pub(crate) fn file_name(id: ObjectId) -> String {
    format!("{:016x}.{:08x}.{:02x}", id.file_id, id.generation, id.place)
}

/// The object of a file's name, if it is one of ours.
pub(crate) fn parse_name(name: &str) -> Option<ObjectId> {
    let mut parts = name.split('.');
    let id = ObjectId {
        file_id: u64::from_str_radix(parts.next()?, 16).ok()?,
        generation: u32::from_str_radix(parts.next()?, 16).ok()?,
        place: u8::from_str_radix(parts.next()?, 16).ok()?,
    };
    // Only the one spelling that we write: no object has two names.
    (file_name(id) == name).then_some(id)
}

fn sub_of(id: ObjectId) -> usize {
    usize::from(id.file_id.to_be_bytes()[7])
}

impl StoreDir {
    /// Takes the directory, making it a store when it is empty or absent.
    pub(crate) fn take(dir: &Path) -> Result<Self, ObjectError> {
        std::fs::create_dir_all(dir).map_err(|e| failure(dir, "cannot make the directory", &e))?;
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join("lock"))
            .map_err(|e| failure(dir, "cannot write to", &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("{} is in use by another process", dir.display());
                return Err(ObjectError::Io(Error::new(ErrorKind::ResourceBusy, text)));
            }
            Err(TryLockError::Error(e)) => return Err(failure(dir, "cannot lock", &e)),
        }
        match read_line(dir, "format")? {
            Some(line) if line == FORMAT_LINE => {}
            Some(line) => {
                let first = line.lines().next().unwrap_or_default();
                let known = FORMAT_LINE.trim();
                let why = format!("has format {first:?}; this program knows {known:?}");
                return Err(refusal(dir, &why));
            }
            None => create(dir)?,
        }
        let open = |n| {
            let path = sub_path(dir, n);
            File::open(&path).map_err(|e| failure(&path, "cannot open", &e))
        };
        let subs = (0..FANOUT).map(|n| {
            Ok(Sub {
                dir: open(n)?,
                changed: AtomicU64::new(1),
                synced: AtomicU64::new(0),
            })
        });
        Ok(Self {
            dir: dir.to_path_buf(),
            subs: subs.collect::<Result<_, ObjectError>>()?,
            _lock: lock,
        })
    }

    /// The directory as given.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// As [`objects::ObjectStore::tie`].
    pub(crate) fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError> {
        let line = format!("{index_id:016x}\n");
        match read_line(&self.dir, "index")? {
            Some(found) if found == line => Ok(()),
            Some(found) => {
                let why = format!(
                    "holds the objects of another index ({:?}, this one is {:?}): were directories mixed up?",
                    found.trim_end(),
                    line.trim_end()
                );
                Err(refusal(&self.dir, &why))
            }
            None if knows_objects => {
                let why = "is new, but the index knows objects that were stored before: is the disk mounted?";
                Err(refusal(&self.dir, why))
            }
            None => write_line(&self.dir, "index", &line)
                .map_err(|e| failure(&self.dir, "cannot write to", &e)),
        }
    }

    /// Where the objects of subdirectory `n` lie.
    pub(crate) fn sub_path(&self, n: usize) -> PathBuf {
        sub_path(&self.dir, n)
    }

    /// Opens an object's file, making it when told to. The caller lets no one else do so at the same time.
    pub(crate) fn open_file(&self, id: ObjectId, create: bool) -> Result<File, Error> {
        let sub = &self.subs[sub_of(id)];
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = |flags| {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::openat(&sub.dir, file_name(id), flags, mode).map_err(Error::from)
        };
        match open(flags) {
            Err(e) if create && e.kind() == ErrorKind::NotFound => {
                let file = open(flags | OFlags::CREATE | OFlags::EXCL)?;
                sub.changed.fetch_add(1, Ordering::AcqRel);
                Ok(file.into())
            }
            other => other.map(File::from),
        }
    }

    /// Removes an object's file; that it is absent is no error.
    pub(crate) fn unlink(&self, id: ObjectId) -> Result<(), Error> {
        let sub = &self.subs[sub_of(id)];
        match rustix::fs::unlinkat(&sub.dir, file_name(id), rustix::fs::AtFlags::empty()) {
            Ok(()) => {
                sub.changed.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Makes all changes of entries around this object durable, if there were any.
    pub(crate) fn sync_entries(&self, id: ObjectId) -> Result<(), Error> {
        let sub = &self.subs[sub_of(id)];
        let changed = sub.changed.load(Ordering::Acquire);
        if sub.synced.load(Ordering::Acquire) >= changed {
            return Ok(());
        }
        sub.dir.sync_all()?;
        sub.synced.fetch_max(changed, Ordering::AcqRel);
        Ok(())
    }
}

fn sub_path(dir: &Path, n: usize) -> PathBuf {
    dir.join("objects").join(format!("{n:02x}"))
}

/// The content of a file with one line, `None` when it is not there.
fn read_line(dir: &Path, name: &str) -> Result<Option<String>, ObjectError> {
    let failed = |e: Error| failure(dir, &format!("cannot read `{name}` of"), &e);
    let file = match File::open(dir.join(name)) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut line = Vec::new();
    file.take(LINE_BYTES_MAX)
        .read_to_end(&mut line)
        .map_err(failed)?;
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Writes a file with one line, durably and at once.
fn write_line(dir: &Path, name: &str, line: &str) -> Result<(), Error> {
    let new = dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Makes a store of a directory that holds nothing, or only what an interrupted creation leaves: empty
/// subdirectories.
fn create(dir: &Path) -> Result<(), ObjectError> {
    let read = |path: &Path| {
        let names = std::fs::read_dir(path).and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.file_name()))
                .collect::<Result<Vec<_>, Error>>()
        });
        names.map_err(|e| failure(dir, "cannot read", &e))
    };
    let foreign = |name: &std::ffi::OsStr| {
        let why = format!(
            "holds {:?} but no format file: it is not an object store, or is damaged",
            name.to_string_lossy()
        );
        refusal(dir, &why)
    };
    for name in read(dir)? {
        if name == "objects" {
            for sub in read(&dir.join("objects"))? {
                if let Some(first) = read(&dir.join("objects").join(&sub))?.first() {
                    return Err(foreign(first));
                }
            }
        } else if name != "lock" && name != "format.new" {
            return Err(foreign(&name));
        }
    }
    let make = || -> std::io::Result<()> {
        for n in 0..FANOUT {
            std::fs::create_dir_all(sub_path(dir, n))?;
        }
        File::open(dir.join("objects"))?.sync_all()?;
        File::open(dir)?.sync_all()?;
        sync_ancestors(dir)?;
        write_line(dir, "format", FORMAT_LINE)
    };
    make().map_err(|e| failure(dir, "cannot make a new store in", &e))
}

fn is_foreign(e: &Error) -> bool {
    use ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        e.kind(),
        InvalidInput | PermissionDenied | ReadOnlyFilesystem
    )
}

/// Makes the entries of the directory's ancestors durable, as far as this user may. A new store must not vanish with
/// the entry of a directory that was made for it.
fn sync_ancestors(dir: &Path) -> std::io::Result<()> {
    for ancestor in dir.canonicalize()?.ancestors().skip(1) {
        match File::open(ancestor).and_then(|ancestor| ancestor.sync_all()) {
            Ok(()) => {}
            // Not ours to read or to change, so not made by us either, nor is anything above it.
            Err(e) if is_foreign(&e) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
