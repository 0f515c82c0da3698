//! Group commit: one sync for all that wait at once.
//!
//! A thread syncs while somebody waits: a slow disk stalls the waiters and not the event loops. A task that is alone, or that
//! waits where syncs are quick, syncs itself (see [`meta::OnTheSpot`]). All else that is ready in its event loop goes first.
//!
//! # Ownership
//! [`Committer`] owns the thread; dropping it stops and joins the thread. A [`Round`] is of whoever commits.
//!
//! # Ordering
//! A round
//!
//! 1. appends what was gathered to the log and the ring, writes it into the engine, and notes how far the engine is then;
//! 2. syncs the ring, or the engine's journal where a batch is not in the ring;
//! 3. opens the gate.
//!
//! # Failure
//! The first error of a sync fails the gate for good. The kernel may have dropped the pages, and a second sync that
//! succeeds would prove nothing.

use crate::checkpoint::Checkpoints;
use crate::engine::{Engine, FailOnPanic};
use crate::journal::NewestJournal;
use crate::memtables::Memtables;
use crate::ring::ring_error;
use meta::{BoxFuture, MetaError, OnTheSpot, Seq, SpotLimits, others_first};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

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
            spot: OnTheSpot::new(limits),
            round: Mutex::new(Round {
                journal: NewestJournal::default(),
                memtables: Memtables::start()?,
                checkpoints: Checkpoints::start(engine.clone())?,
            }),
            engine,
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
    journal: NewestJournal,
    memtables: Memtables,
    checkpoints: Checkpoints,
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
        let took = match &engine.ring {
            Some(ring) if engine.is_in_ring(written) => ring.sync().map_err(ring_error)?,
            _ => {
                let took = round.journal.sync(engine)?;
                engine.journal_is_synced(written)?;
                took
            }
        };
        self.spot.synced(took);
        engine.queue.gate.advance(written.seq);
        if let Some(ring) = &engine.ring {
            round.checkpoints.look(ring);
        }
        round.memtables.look(&engine.keyspace);
        Ok(())
    }
}
