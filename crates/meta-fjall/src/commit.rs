//! Group commit: one thread that syncs the journal while somebody waits.
//!
//! # Ownership
//! [`Committer`] owns the thread; dropping it stops and joins the thread. The journal's file is opened here a
//! second time for the sync alone: fjall's own sync would hold the lock that every transaction needs, so
//! a slow disk would stall the event loops instead of the waiters.
//!
//! # Ordering
//! A round applies what waits for the next transaction, unless one has taken it along, notes the newest committed one, moves fjall's buffer to the page cache (fjall's lock, no
//! disk), finds the newest journal, syncs it, and then opens the gate. fjall starts a new journal only after it
//! has synced the old one and before the lock is free again; so after the buffer was moved, every noted
//! transaction is in the newest journal or in an older one that is synced already.
//! The gate opens before the watermark is written: the watermark never exceeds what is durable.
//!
//! # Failure
//! The first error of a sync fails the gate for good: the kernel may have dropped the pages, so a second sync
//! that succeeds would prove nothing.

use crate::engine::Engine;
use crate::memtables::Memtables;
use crate::{engine_error, journal};
use bytes::Bytes;
use fjall::PersistMode;
use meta::{Gate, MetaError, Seq, Writes};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Progress that transactions, waiters and the thread share.
#[derive(Debug, Default)]
struct Progress {
    committed: Seq,
    wanted: Seq,
    stop: bool,
    /// Pairs that go along with the next transaction.
    later: Writes,
    later_bytes: usize,
}

impl Progress {
    fn take_later(&mut self) -> Writes {
        self.later_bytes = 0;
        std::mem::take(&mut self.later)
    }
}

/// Who has applied what, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) gate: Gate,
    progress: Mutex<Progress>,
    wake: Condvar,
    /// Numbers given out; rises only under the lock of `progress`.
    applied: AtomicU64,
}

impl Queue {
    /// The newest number given out.
    pub(crate) fn applied(&self) -> Seq {
        Seq(self.applied.load(Ordering::Acquire))
    }

    /// A transaction is about to become visible: its number, and the pairs that go along. The caller holds the writer lock.
    pub(crate) fn begin(&self) -> (Seq, Writes) {
        let mut progress = self.progress.lock();
        (self.next_seq(), progress.take_later())
    }

    /// As [`Queue::begin`], when there are such pairs.
    pub(crate) fn begin_later(&self) -> Option<(Seq, Writes)> {
        let mut progress = self.progress.lock();
        (!progress.later.is_empty()).then(|| (self.next_seq(), progress.take_later()))
    }

    fn next_seq(&self) -> Seq {
        Seq(self.applied.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// A pair for the next transaction: the number of that, and how many bytes wait for it.
    pub(crate) fn put_later(&self, key: &[u8], value: &[u8]) -> (Seq, usize) {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let mut progress = self.progress.lock();
        progress.later_bytes += key.len() + value.len();
        progress.later.insert(key, Some(value));
        (Seq(self.applied().0 + 1), progress.later_bytes)
    }

    /// `seq` is in the engine; syncs it if somebody waits for it already.
    pub(crate) fn committed(&self, seq: Seq) {
        let mut progress = self.progress.lock();
        progress.committed = seq;
        if progress.wanted >= seq {
            self.wake.notify_one();
        }
    }

    /// Somebody waits for `seq`.
    pub(crate) fn want(&self, seq: Seq) {
        let mut progress = self.progress.lock();
        if progress.wanted < seq {
            progress.wanted = seq;
            self.wake.notify_one();
        }
    }

    /// Sleeps until somebody waits for what is not durable, though it is committed or needs only to be; `false` at the end.
    fn sleep(&self) -> bool {
        let mut progress = self.progress.lock();
        loop {
            if progress.stop {
                return false;
            }
            let durable = self.gate.durable_through();
            let is_later_wanted = !progress.later.is_empty() && progress.wanted > self.applied();
            if is_later_wanted || (progress.committed > durable && progress.wanted > durable) {
                return true;
            }
            self.wake.wait(&mut progress);
        }
    }

    fn newest_committed(&self) -> Seq {
        self.progress.lock().committed
    }
}

/// The commit thread.
#[derive(Debug)]
pub(crate) struct Committer {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread.
    pub(crate) fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let mut round = Round {
            engine: engine.clone(),
            journal: None,
            memtables: Memtables::start()?,
        };
        let thread = std::thread::Builder::new()
            .name("meta-commit".into())
            .spawn(move || round.run())?;
        Ok(Self {
            engine,
            thread: Some(thread),
        })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.engine.queue.progress.lock().stop = true;
        self.engine.queue.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has failed the gate; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Round {
    engine: Arc<Engine>,
    journal: Option<Journal>,
    memtables: Memtables,
}

struct Journal {
    file: File,
    next: PathBuf,
}

/// Fails the gate if the thread ends by a panic, so that nobody waits for ever.
struct OnPanic(Arc<Engine>);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.gate.fail(MetaError::Poisoned);
        }
    }
}

impl Round {
    fn run(&mut self) {
        let _guard = OnPanic(self.engine.clone());
        while self.engine.queue.sleep() {
            if let Err(error) = self.commit() {
                self.engine.queue.gate.fail(error);
                return;
            }
        }
    }

    fn commit(&mut self) -> Result<(), MetaError> {
        self.engine.apply_later()?;
        let seq = self.engine.queue.newest_committed();
        self.sync()?;
        self.engine.queue.gate.advance(seq);
        self.memtables.look(&self.engine.keyspace);
        self.engine.home.record(self.engine.commit_number(seq))
    }

    fn sync(&mut self) -> Result<(), MetaError> {
        self.engine
            .database
            .persist(PersistMode::Buffer)
            .map_err(engine_error)?;
        if self
            .journal
            .as_ref()
            .is_none_or(|journal| journal.next.exists())
        {
            self.journal = Some(open_newest(&self.engine.home.engine_dir())?);
        }
        let journal = self.journal.as_ref().expect("opened above");
        Ok(journal.file.sync_data()?)
    }
}

fn open_newest(engine: &std::path::Path) -> Result<Journal, MetaError> {
    let Some((id, path)) = journal::journals(engine)?.pop() else {
        let why = format!("{} holds no journal", engine.display());
        return Err(MetaError::Corrupt(why));
    };
    Ok(Journal {
        file: File::options().write(true).open(path)?,
        next: engine.join(format!("{}.jnl", id + 1)),
    })
}
