//! Group commit: one thread that syncs the journal while somebody waits.
//!
//! # Ownership
//! [`Committer`] owns the thread; dropping it stops and joins the thread. The journal's file is opened here a
//! second time for the sync alone: fjall's own sync would hold the lock that every transaction needs, so
//! a slow disk would stall the event loops instead of the waiters.
//!
//! # Ordering
//! A round notes the newest committed transaction, moves fjall's buffer to the page cache (fjall's lock, no
//! disk), finds the newest journal, syncs it, and then opens the gate. fjall starts a new journal only after it
//! has synced the old one and before the lock is free again; so after the buffer was moved, every noted
//! transaction is in the newest journal or in an older one that is synced already.
//! The gate opens before the watermark is written: the watermark never exceeds what is durable.
//!
//! # Failure
//! The first error of a sync fails the gate for good: the kernel may have dropped the pages, so a second sync
//! that succeeds would prove nothing.

use crate::home::Home;
use crate::{engine_error, journal};
use fjall::{Database, PersistMode};
use meta::{Gate, MetaError, Seq};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Progress that transactions, waiters and the thread share.
#[derive(Debug, Default)]
struct Progress {
    committed: Seq,
    wanted: Seq,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    gate: Gate,
    progress: Mutex<Progress>,
    wake: Condvar,
}

/// The commit thread and the gate it opens.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread. `base` is the commit number at opening: that of transaction 0.
    pub(crate) fn start(engine: Database, home: Arc<Home>, base: u64) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut round = Round {
            shared: shared.clone(),
            engine,
            home,
            base,
            journal: None,
        };
        let thread = std::thread::Builder::new()
            .name("meta-commit".into())
            .spawn(move || round.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// `seq` is in the engine; syncs it if somebody waits for it already.
    pub(crate) fn committed(&self, seq: Seq) {
        let mut progress = self.shared.progress.lock();
        progress.committed = seq;
        if progress.wanted >= seq {
            self.shared.wake.notify_one();
        }
    }

    /// Somebody waits for `seq`.
    pub(crate) fn want(&self, seq: Seq) {
        let mut progress = self.shared.progress.lock();
        if progress.wanted < seq {
            progress.wanted = seq;
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.progress.lock().stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has failed the gate; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Round {
    shared: Arc<Shared>,
    engine: Database,
    home: Arc<Home>,
    base: u64,
    journal: Option<Journal>,
}

struct Journal {
    file: File,
    next: PathBuf,
}

/// Fails the gate if the thread ends by a panic, so that nobody waits for ever.
struct OnPanic(Arc<Shared>);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.gate.fail(MetaError::Poisoned);
        }
    }
}

impl Round {
    fn run(&mut self) {
        let _guard = OnPanic(self.shared.clone());
        while let Some(seq) = self.next() {
            let done = self.sync();
            if let Err(error) = done {
                self.shared.gate.fail(error);
                return;
            }
            self.shared.gate.advance(seq);
            if let Err(error) = self.home.record(self.base + seq.0) {
                self.shared.gate.fail(error);
                return;
            }
        }
    }

    /// Sleeps until somebody waits for a transaction that is committed and not durable.
    fn next(&self) -> Option<Seq> {
        let mut progress = self.shared.progress.lock();
        loop {
            if progress.stop {
                return None;
            }
            let durable = self.shared.gate.durable_through();
            if progress.committed > durable && progress.wanted > durable {
                return Some(progress.committed);
            }
            self.shared.wake.wait(&mut progress);
        }
    }

    fn sync(&mut self) -> Result<(), MetaError> {
        self.engine
            .persist(PersistMode::Buffer)
            .map_err(engine_error)?;
        if self
            .journal
            .as_ref()
            .is_none_or(|journal| journal.next.exists())
        {
            self.journal = Some(open_newest(&self.home.engine_dir())?);
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
