//! Group commit: a sync of the journal for all that wait at once.
//!
//! A thread syncs while somebody waits: a slow disk stalls the waiters and not the event loops. A task that is alone, or that
//! waits where syncs are quick, syncs itself (see [`meta::OnTheSpot`]). All else that is ready in its event loop goes first.
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
use meta::{BoxFuture, MetaError, OnTheSpot, Seq, SpotLimits, others_first};
use parking_lot::Mutex;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    pub(crate) fn start(engine: Arc<Engine>, limits: SpotLimits) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            engine,
            spot: OnTheSpot::new(limits),
            round: Mutex::new(Round {
                journal: None,
                memtables: Memtables::start()?,
            }),
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
        let gate = &self.shared.engine.queue.gate;
        if gate.durable_through() >= seq {
            return gate.wait_boxed(seq);
        }
        Box::pin(self.shared.wait(seq))
    }

    /// Whether those who wait sync themselves.
    #[cfg(test)]
    pub(crate) fn is_quick(&self) -> bool {
        self.shared.spot.is_quick()
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
    spot: OnTheSpot,
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

    /// Waits until `seq` is durable: by the thread, or by a sync here.
    async fn wait(&self, seq: Seq) -> Result<(), MetaError> {
        let _waiting = self.spot.enter();
        if self.spot.is_here() {
            others_first().await;
            // Those others may wait too by now.
            if self.spot.is_here() {
                return self.commit_here(seq).await;
            }
        }
        let queue = &self.engine.queue;
        queue.want(seq);
        queue.gate.wait(seq).await
    }

    /// Syncs here, or joins a commit in progress: the committing task looks again after its commit whether more is wanted.
    async fn commit_here(&self, seq: Seq) -> Result<(), MetaError> {
        let queue = &self.engine.queue;
        queue.want_of_committers(seq);
        for _ in 0..COMMITS_IN_A_ROW_MAX {
            if !queue.is_wanted() || !self.spot.is_here() {
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
        self.spot.synced(took);
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
