//! Group commit: a sync of the journal for all that wait at once.
//!
//! A thread syncs while somebody waits: a slow disk stalls the waiters and not the event loops. Where the last syncs took less time
//! than waking that thread (a tmpfs, persistent memory), the waiting task syncs itself. All else that is ready in its event loop
//! goes first. One slow sync gives the work back to the thread.
//!
//! # Ownership
//! [`Committer`] owns the thread; dropping it stops and joins the thread. The journal's file is opened here a
//! second time for the sync alone: fjall's own sync would hold the lock that every transaction needs. A [`Round`] is of whoever commits.
//!
//! # Ordering
//! A round
//!
//! 1. appends what was gathered to the log, writes it into the engine, and notes how far the engine is then;
//! 2. moves fjall's buffer to the page cache (fjall's lock, no disk);
//! 3. finds the newest journal and syncs it;
//! 4. opens the gate.
//!
//! fjall starts a new journal only after it has synced the old one, under that lock. So after step 2 every noted batch is in the
//! newest journal, or in an older one that is synced already. The gate opens before the watermark is written: the watermark never
//! exceeds what is durable.
//!
//! # Failure
//! The first error of a sync fails the gate for good. The kernel may have dropped the pages, and a second sync that
//! succeeds would prove nothing.

use crate::engine::{Engine, FailOnPanic};
use crate::memtables::Memtables;
use crate::{engine_error, journal};
use fjall::PersistMode;
use meta::{BoxFuture, MetaError, Seq};
use parking_lot::Mutex;
use std::fs::File;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When those who wait sync themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quick {
    /// A sync that takes less is quick.
    pub(crate) below: Duration,
    /// Quick syncs in a row that it takes.
    pub(crate) in_a_row: u32,
}

impl Quick {
    /// Less than the two switches of threads that it saves.
    pub(crate) const USUAL: Self = Self {
        below: Duration::from_micros(20),
        in_a_row: 8,
    };
}

/// Commits in a row by one waiting task, for others that came meanwhile. Then the thread takes over.
const COMMITS_IN_A_ROW_MAX: u32 = 4;

/// Those who commit: a thread, and whoever waits.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread.
    pub(crate) fn start(engine: Arc<Engine>, quick: Quick) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            engine,
            quick,
            round: Mutex::new(Round {
                journal: None,
                memtables: Memtables::start()?,
            }),
            quick_syncs: AtomicU32::new(0),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("meta-commit".into())
            .spawn(move || of_thread.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Waits until `seq` is durable.
    pub(crate) fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        let queue = &self.shared.engine.queue;
        if queue.gate.durable_through() < seq {
            if self.shared.is_quick() {
                return Box::pin(self.shared.commit_here(seq));
            }
            queue.want(seq);
        }
        queue.gate.wait_boxed(seq)
    }

    /// Whether those who wait sync themselves.
    #[cfg(test)]
    pub(crate) fn is_quick(&self) -> bool {
        self.shared.is_quick()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.engine.queue.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has failed the gate; there is nobody left to tell.
            let _ = thread.join();
        }
        // What nobody waits for was never promised: fjall keeps it if it can.
        let _ = self.shared.engine.write_out();
    }
}

#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    round: Mutex<Round>,
    quick: Quick,
    /// Quick syncs since the last slow one; changes only under the lock of `round`.
    quick_syncs: AtomicU32,
}

/// What a commit works with.
#[derive(Debug)]
struct Round {
    journal: Option<Journal>,
    memtables: Memtables,
}

#[derive(Debug)]
struct Journal {
    file: File,
    next: PathBuf,
}

impl Shared {
    fn run(&self) {
        while self.engine.queue.sleep() && self.commit(&mut self.round.lock()) {}
    }

    fn is_quick(&self) -> bool {
        self.quick_syncs.load(Ordering::Relaxed) >= self.quick.in_a_row
    }

    /// Waits until `seq` is durable. Syncs here, or joins a commit in progress: the committing task looks again after its
    /// commit whether more is wanted.
    async fn commit_here(&self, seq: Seq) -> Result<(), MetaError> {
        let queue = &self.engine.queue;
        others_first().await;
        queue.want_of_committers(seq);
        for _ in 0..COMMITS_IN_A_ROW_MAX {
            if !queue.is_wanted() || !self.is_quick() {
                break;
            }
            let Some(mut round) = self.round.try_lock() else {
                return queue.gate.wait(seq).await;
            };
            self.commit(&mut round);
        }
        if queue.is_wanted() {
            queue.wake_thread();
        }
        queue.gate.wait(seq).await
    }

    /// Makes durable what is committed; `false` when this fails, or anything has before.
    fn commit(&self, round: &mut Round) -> bool {
        let _guard = FailOnPanic(&self.engine);
        let gate = &self.engine.queue.gate;
        if gate.failure().is_some() {
            return false;
        }
        self.try_commit(round)
            .map_err(|error| gate.fail(error))
            .is_ok()
    }

    fn try_commit(&self, round: &mut Round) -> Result<(), MetaError> {
        let engine = &self.engine;
        let written = engine.write_out()?;
        let took = round.sync(engine)?;
        let quick_syncs = match took < self.quick.below {
            true => self.quick_syncs.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.quick_syncs.store(quick_syncs, Ordering::Relaxed);
        engine.queue.gate.advance(written.seq);
        round.memtables.look(&engine.keyspace);
        engine.store_dir.record(written.commit)
    }
}

impl Round {
    /// Syncs the newest journal; how long that took.
    fn sync(&mut self, engine: &Engine) -> Result<Duration, MetaError> {
        engine
            .database
            .persist(PersistMode::Buffer)
            .map_err(engine_error)?;
        if self
            .journal
            .as_ref()
            .is_none_or(|journal| journal.next.exists())
        {
            self.journal = Some(open_newest(&engine.store_dir.engine_dir())?);
        }
        let journal = self.journal.as_ref().expect("opened above");
        let started = Instant::now();
        journal.file.sync_data()?;
        Ok(started.elapsed())
    }
}

/// Lets everything else run that is ready in this event loop.
fn others_first() -> impl Future<Output = ()> {
    let mut is_first = true;
    poll_fn(move |cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
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
