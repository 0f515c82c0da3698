//! The directory of a store: who holds it, which format it has, how far it is known to be durable.
//!
//! ```text
//! DIR/lock      held (flock) while the store is open
//! DIR/creating  there while the engine's files are being made for the first time
//! DIR/format    one line, written last: only a directory with it is a store; it also says whether there is a log
//! DIR/log       the store's own log; see `ring`
//! DIR/watermark 24 bytes: the engine's sequence number that is on stable storage, and its checksum
//! DIR/ballast   blocks for the store's last write on a full disk; see `ballast`
//! DIR/engine/   fjall's own files
//! ```
//!
//! # Ownership
//! [`StoreDir`] holds the lock until it is dropped, after the engine.
//!
//! # Ordering
//! `creating` is durable before `engine/` exists, and `format` is durable after it is complete. A creation that was cut short is
//! thus recognised and begun again: it can have acknowledged nothing. The watermark is written after each sync of the journal and
//! is itself not synced. After a power cut it may be older than the truth, never newer: what lies below it must be there.
//!
//! # Failure
//! Every message names the directory. A watermark that does not pass its checksum counts as 0.

use meta::MetaError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What `format` holds.
const FORMAT_LINE: &str = "ropewalk metadata store 1\n";
/// The same of a store with a log of its own, which a program that knows no logs must not open.
const LOGGED_LINE: &str = "ropewalk metadata store 2\n";
/// Longest `format` that is read; a longer one is foreign.
const FORMAT_BYTES_MAX: u64 = 256;
/// Bytes of `watermark`.
const WATERMARK_BYTES: usize = 24;
/// First bytes of `watermark`.
const WATERMARK_MAGIC: [u8; 8] = *b"rwalkwm1";

/// An open store directory.
#[derive(Debug)]
pub(crate) struct StoreDir {
    dir: PathBuf,
    watermark: File,
    _lock: File,
}

fn failure(dir: &Path, what: &str, e: &Error) -> MetaError {
    let text = format!("{what} {}: {e}", dir.display());
    Error::new(e.kind(), text).into()
}

fn refusal(dir: &Path, why: &str) -> MetaError {
    let text = format!("{} {why}", dir.display());
    Error::new(ErrorKind::InvalidInput, text).into()
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes the entries of a directory and of all below durable. fjall does so for all but one: the directory of keyspaces, when the
/// first ones are made in it.
fn sync_dirs(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_dirs(&entry.path())?;
        }
    }
    sync_dir(dir)
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

impl StoreDir {
    /// Takes the directory, making it when it does not exist. `true`: the engine is to be made new.
    pub(crate) fn take(dir: &Path) -> Result<(Self, bool), MetaError> {
        std::fs::create_dir_all(dir).map_err(|e| failure(dir, "cannot make the directory", &e))?;
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.join(name))
                .map_err(|e| failure(dir, "cannot write to", &e))
        };
        let lock = open("lock")?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("{} is in use by another process", dir.display());
                return Err(Error::new(ErrorKind::ResourceBusy, text).into());
            }
            Err(TryLockError::Error(e)) => return Err(failure(dir, "cannot lock", &e)),
        }
        let new = match read_format(dir)? {
            Some(line) if line == FORMAT_LINE || line == LOGGED_LINE => false,
            Some(line) => {
                let first = line.lines().next().unwrap_or_default();
                let why = format!(
                    "has format {first:?}; this program knows {:?} and {:?}",
                    FORMAT_LINE.trim(),
                    LOGGED_LINE.trim()
                );
                return Err(refusal(dir, &why));
            }
            None => {
                begin_creation(dir)?;
                true
            }
        };
        let watermark = open("watermark")?;
        let store_dir = Self {
            dir: dir.to_path_buf(),
            watermark,
            _lock: lock,
        };
        if new {
            store_dir.record(0)?;
        }
        Ok((store_dir, new))
    }

    /// Where fjall lives.
    pub(crate) fn engine_dir(&self) -> PathBuf {
        self.dir.join("engine")
    }

    /// The directory as given.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The store's own log.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The store has a log from now on.
    pub(crate) fn note_log(&self) -> Result<(), MetaError> {
        let noted = self.write_format(LOGGED_LINE);
        noted.map_err(|e| failure(&self.dir, "cannot note the log in", &e))
    }

    fn write_format(&self, line: &str) -> std::io::Result<()> {
        let mut file = File::create(self.dir.join("format.new"))?;
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(self.dir.join("format.new"), self.dir.join("format"))?;
        sync_dir(&self.dir)
    }

    /// The engine is complete and durable: from now on the directory is a store.
    pub(crate) fn finish_creation(&self) -> Result<(), MetaError> {
        let write = || -> std::io::Result<()> {
            sync_dirs(&self.engine_dir())?;
            // The name of the engine's directory too: `format` shall not be there without it.
            sync_dir(&self.dir)?;
            sync_ancestors(&self.dir)?;
            self.write_format(FORMAT_LINE)?;
            std::fs::remove_file(self.dir.join("creating"))
        };
        write().map_err(|e| failure(&self.dir, "cannot finish the new store in", &e))
    }

    /// Notes that the engine is durable below `engine_seqno`.
    pub(crate) fn record(&self, engine_seqno: u64) -> Result<(), MetaError> {
        let mut bytes = [0; WATERMARK_BYTES];
        bytes[..8].copy_from_slice(&WATERMARK_MAGIC);
        bytes[8..16].copy_from_slice(&engine_seqno.to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        self.watermark
            .write_all_at(&bytes, 0)
            .map_err(|e| failure(&self.dir, "cannot write the watermark in", &e))
    }

    /// The newest watermark that survived.
    pub(crate) fn watermark(&self) -> Result<u64, MetaError> {
        let mut bytes = [0; WATERMARK_BYTES];
        match self.watermark.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            Err(e) => return Err(failure(&self.dir, "cannot read the watermark in", &e)),
        }
        let number = |at: usize| {
            let part = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(part)
        };
        let valid =
            bytes[..8] == WATERMARK_MAGIC && number(16) == xxhash_rust::xxh3::xxh3_64(&bytes[..16]);
        Ok(if valid { number(8) } else { 0 })
    }
}

fn read_format(dir: &Path) -> Result<Option<String>, MetaError> {
    let file = match File::open(dir.join("format")) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failure(dir, "cannot read the format of", &e)),
    };
    let mut line = Vec::new();
    file.take(FORMAT_BYTES_MAX)
        .read_to_end(&mut line)
        .map_err(|e| failure(dir, "cannot read the format of", &e))?;
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Clears what an interrupted creation left, and only that: foreign files are never touched.
fn begin_creation(dir: &Path) -> Result<(), MetaError> {
    let interrupted = dir.join("creating").exists();
    let entries = std::fs::read_dir(dir).map_err(|e| failure(dir, "cannot read", &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| failure(dir, "cannot read", &e))?;
        let name = entry.file_name();
        let ours = [
            "creating",
            "format.new",
            "watermark",
            "ballast",
            "engine",
            "log",
            "log.new",
        ];
        if name == "lock" || (interrupted && ours.iter().any(|o| name == *o)) {
            continue;
        }
        let why = format!(
            "holds {:?} but no format file: it is not a metadata store, or is damaged",
            name.to_string_lossy()
        );
        return Err(refusal(dir, &why));
    }
    let clear = || -> std::io::Result<()> {
        File::create(dir.join("creating"))?.sync_all()?;
        sync_dir(dir)?;
        let gone = [
            std::fs::remove_file(dir.join("log")),
            std::fs::remove_dir_all(dir.join("engine")),
        ];
        let failed =
            |done: &std::io::Result<()>| matches!(done, Err(e) if e.kind() != ErrorKind::NotFound);
        gone.into_iter().find(failed).unwrap_or(Ok(()))
    };
    clear().map_err(|e| failure(dir, "cannot begin a new store in", &e))
}
