//! fjall's journals: checked before fjall reads them, a torn tail cut, and synced while it writes them.
//!
//! A power cut may leave the unsynced end of a journal in any state: cut short, or with pages missing between others. fjall cuts an
//! incomplete last batch by itself. It refuses to open when a batch is complete and its checksum wrong, and trusts lengths before
//! it has seen a checksum. So every journal is walked here first, batch by batch, with our own limits.
//!
//! # Ownership
//! The check runs while nothing else has the engine open. Only the newest journal is ever changed.
//!
//! # Ordering
//! fjall syncs a journal before it starts the next one, so only the newest may have a torn tail. When the last whole
//! batch before the torn one is below the watermark, the torn one was durable once. That is damage, not a crash: the
//! store refuses to open and leaves the file as it was.
//!
//! # Failure
//! Damage is [`MetaError::Corrupt`] with file and position. The format read here is that of fjall 3
//! (`FJL` 3), little-endian: Start = 1, count u32, seqno u64; Item = 2, type u8, compression u8,
//! keyspace u64, key length u16, length u32, stored length u32, key, value; Clear = 4, keyspace u64;
//! End = 3, xxh3 u64 over the items as stored, the magic.

use crate::engine::Engine;
use crate::engine_error;
use crate::keys::{COMMIT_KEY, STORED_KEY_BYTES_MAX};
use crate::queue::GATHERED_BYTES_MAX;
use fjall::PersistMode;
use meta::{MetaError, TX_BYTES_MAX, VALUE_BYTES_MAX, WRITE_OVERHEAD_BYTES};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

/// Most items in one batch: every write counts its overhead at least, and the commit number is one more.
const BATCH_ITEMS_MAX: usize = (GATHERED_BYTES_MAX + TX_BYTES_MAX) / WRITE_OVERHEAD_BYTES + 1;
/// Most journals in one directory; fjall keeps a handful.
const JOURNALS_MAX: usize = 4096;
const MAGIC: [u8; 4] = *b"FJL\x03";

/// What the check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checked {
    /// Bytes cut from the newest journal because a crash had torn them.
    pub(crate) torn_bytes: u64,
}

/// The journals of an engine directory, oldest first.
pub(crate) fn journals(engine: &Path) -> Result<Vec<(u64, PathBuf)>, MetaError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(engine)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "jnl") {
            continue;
        }
        let id = path
            .file_stem()
            .and_then(|s| s.to_str())
            .and_then(|s| s.parse().ok());
        let Some(id) = id else {
            let why = format!("{} is not a journal's name", path.display());
            return Err(MetaError::Corrupt(why));
        };
        if found.len() == JOURNALS_MAX {
            let why = format!(
                "{} holds more than {JOURNALS_MAX} journals",
                engine.display()
            );
            return Err(MetaError::Corrupt(why));
        }
        found.push((id, path));
    }
    found.sort_unstable();
    Ok(found)
}

/// Walks every journal; cuts the newest after its last whole batch.
pub(crate) fn check(engine: &Path, watermark: u64) -> Result<Checked, MetaError> {
    let mut journals = journals(engine)?;
    let newest = journals.pop();
    let mut before = None;
    for (id, path) in &journals {
        let walk = walk(
            path,
            before.filter(|(last, _)| last + 1 == *id).map(|(_, c)| c),
        )?;
        if walk.torn {
            return Err(damage(path, &walk));
        }
        before = walk.commit.map(|commit| (*id, commit));
    }
    let Some((id, path)) = newest else {
        return Ok(Checked::default());
    };
    let walk = walk(
        &path,
        before.filter(|(last, _)| last + 1 == id).map(|(_, c)| c),
    )?;
    if !walk.torn {
        return Ok(Checked::default());
    }
    // Without a whole batch in any journal the number is in the tables; the store compares it after opening.
    if walk.commit.is_some_and(|commit| commit < watermark) {
        return Err(damage(&path, &walk));
    }
    let file = OpenOptions::new().write(true).open(&path)?;
    let torn_bytes = file.metadata()?.len().saturating_sub(walk.whole_bytes);
    file.set_len(walk.whole_bytes)?;
    file.sync_all()?;
    Ok(Checked { torn_bytes })
}

fn damage(path: &Path, walk: &Walk) -> MetaError {
    MetaError::Corrupt(format!(
        "{} is damaged at byte {}, in what had been synced; restore the store from a backup",
        path.display(),
        walk.whole_bytes,
    ))
}

/// The journal that fjall writes to. Its file is opened here a second time for the sync alone: fjall's own sync would hold
/// the lock that every transaction needs.
#[derive(Debug, Default)]
pub(crate) struct NewestJournal(Option<Opened>);

#[derive(Debug)]
struct Opened {
    file: File,
    next: PathBuf,
}

impl NewestJournal {
    /// Syncs all that the engine has; how long the sync took.
    ///
    /// fjall starts a new journal only after it has synced the old one, under its lock. So once its buffer is in the page
    /// cache, every batch is in the newest journal, or in an older one that is synced already.
    pub(crate) fn sync(&mut self, engine: &Engine) -> Result<Duration, MetaError> {
        let moved = engine.database.persist(PersistMode::Buffer);
        moved.map_err(engine_error)?;
        let is_old = |opened: &Opened| opened.next.exists();
        if self.0.as_ref().is_none_or(is_old) {
            self.0 = Some(open_newest(&engine.store_dir.engine_dir())?);
        }
        let opened = self.0.as_ref().expect("opened above");
        let started = Instant::now();
        opened.file.sync_data()?;
        Ok(started.elapsed())
    }
}

fn open_newest(engine: &Path) -> Result<Opened, MetaError> {
    let Some((id, path)) = journals(engine)?.pop() else {
        let why = format!("{} holds no journal", engine.display());
        return Err(MetaError::Corrupt(why));
    };
    Ok(Opened {
        file: File::options().write(true).open(path)?,
        next: engine.join(format!("{}.jnl", id + 1)),
    })
}

struct Walk {
    /// Where the last whole batch ends.
    whole_bytes: u64,
    /// A batch that is not whole follows.
    torn: bool,
    /// The commit number of the last whole batch that has one.
    commit: Option<u64>,
}

/// Why a batch could not be read.
enum Stop {
    /// Zeros or the end of the file at a batch's start: nothing was written here.
    End,
    /// Anything else.
    Torn,
    Io(std::io::Error),
}

/// Reads a journal. `commit` is the last number of the journal right before it, if that is there. Numbers have no gaps,
/// so a batch that was wiped out whole is noticed too.
fn walk(path: &Path, commit: Option<u64>) -> Result<Walk, MetaError> {
    let mut reader = Reader {
        inner: BufReader::with_capacity(256 * 1024, File::open(path)?),
        at: 0,
        buffer: Vec::new(),
    };
    let mut walk = Walk {
        whole_bytes: 0,
        torn: false,
        commit,
    };
    loop {
        match batch(&mut reader) {
            Ok(commit) => {
                if let (Some(last), Some(this)) = (walk.commit, commit)
                    && this != last + 1
                {
                    return Err(MetaError::Corrupt(format!(
                        "{} goes from batch {last} to {this} at byte {}: a part of the journal is gone",
                        path.display(),
                        walk.whole_bytes,
                    )));
                }
                walk.whole_bytes = reader.at;
                walk.commit = commit.or(walk.commit);
            }
            Err(Stop::End) => return Ok(walk),
            Err(Stop::Torn) => {
                walk.torn = true;
                return Ok(walk);
            }
            Err(Stop::Io(e)) => return Err(e.into()),
        }
    }
}

/// Where the last whole batch of a journal ends.
#[cfg(test)]
pub(crate) fn whole_bytes(path: &Path) -> Result<u64, MetaError> {
    Ok(walk(path, None)?.whole_bytes)
}

struct Reader {
    inner: BufReader<File>,
    at: u64,
    /// Key and value of the newest item.
    buffer: Vec<u8>,
}

impl Reader {
    /// Fills `bytes`, or says that the file ends before.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Stop> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Err(Stop::Torn),
            Err(e) => Err(Stop::Io(e)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads one batch and returns its commit number, if it has one.
fn batch(reader: &mut Reader) -> Result<Option<u64>, Stop> {
    match reader.array::<1>() {
        Ok([1]) => {}
        Ok([0]) | Err(Stop::Torn) => return Err(Stop::End),
        Ok(_) => return Err(Stop::Torn),
        Err(other) => return Err(other),
    }
    let items = u32::from_le_bytes(reader.array()?);
    let _seqno: [u8; 8] = reader.array()?;
    if items as usize > BATCH_ITEMS_MAX {
        return Err(Stop::Torn);
    }
    let mut sum = Xxh3::new();
    let mut commit = None;
    for _ in 0..items {
        let [tag] = reader.array()?;
        sum.update(&[tag]);
        match tag {
            2 => commit = item(reader, &mut sum)?.or(commit),
            4 => sum.update(&reader.array::<8>()?),
            _ => return Err(Stop::Torn),
        }
    }
    let [tag] = reader.array()?;
    let stored = u64::from_le_bytes(reader.array()?);
    let magic = reader.array::<4>()?;
    if tag != 3 || magic != MAGIC || stored != sum.digest() {
        return Err(Stop::Torn);
    }
    Ok(commit)
}

/// Reads one item and returns its value when it is the commit number.
fn item(reader: &mut Reader, sum: &mut Xxh3) -> Result<Option<u64>, Stop> {
    let head = reader.array::<20>()?;
    sum.update(&head);
    let [kind, compression] = [head[0], head[1]];
    let key_bytes = usize::from(u16::from_le_bytes([head[10], head[11]]));
    let length = |at: usize| {
        let part = head[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(part) as usize
    };
    let (value_bytes, stored_bytes) = (length(12), length(16));
    // Our journals are not compressed, so both lengths are the same.
    let sane = kind <= 2
        && compression == 0
        && key_bytes <= STORED_KEY_BYTES_MAX
        && value_bytes <= VALUE_BYTES_MAX
        && stored_bytes == value_bytes;
    if !sane {
        return Err(Stop::Torn);
    }
    let mut buffer = std::mem::take(&mut reader.buffer);
    buffer.resize(key_bytes + stored_bytes, 0);
    let filled = reader.fill(&mut buffer);
    sum.update(&buffer);
    let (key, value) = buffer.split_at(key_bytes);
    let commit = (key == COMMIT_KEY).then(|| value.try_into().map(u64::from_be_bytes).ok());
    reader.buffer = buffer;
    filled.map(|()| commit.flatten())
}
