//! Checkpoints: the engine's journal is made durable, and the ring gives back the room of what that covers.
//!
//! # Ownership
//! [`Checkpoints`] owns a thread, so that commits go on meanwhile. Dropping it ends and joins the thread.
//!
//! # Ordering
//! How far the engine is, its journal synced, the watermark, then the ring. The watermark is not synced: see `store_dir`.
//!
//! # Failure
//! A failed sync of the journal fails the store, as in `commit`.

use crate::engine::{Engine, FailOnPanic};
use crate::journal::NewestJournal;
use crate::ring::ring_error;
use meta::MetaError;
use ring_log::RingLog;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

/// The thread that makes checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// `None` only while it is dropped.
    wanted: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread.
    pub(crate) fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        // One request at a time: a second one waits for the next commit.
        let (wanted, received) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("meta-checkpoint".into())
            .spawn(move || {
                let mut journal = NewestJournal::default();
                while received.recv().is_ok() {
                    let _guard = FailOnPanic(&engine);
                    if let Err(error) = checkpoint(&engine, &mut journal) {
                        return engine.queue.gate.fail(error);
                    }
                }
            })?;
        Ok(Self {
            wanted: Some(wanted),
            thread: Some(thread),
        })
    }

    /// Asks for a checkpoint if the ring is half full.
    pub(crate) fn look(&self, ring: &RingLog) {
        let (used_bytes, capacity_bytes) = ring.fill();
        if used_bytes > capacity_bytes / 2
            && let Some(wanted) = &self.wanted
        {
            // Full means that one is asked for already. The thread ends before this sender only with the store's failure.
            let _ = wanted.try_send(());
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes a checkpoint of what the engine has now.
pub(crate) fn checkpoint(engine: &Engine, journal: &mut NewestJournal) -> Result<(), MetaError> {
    let Some(ring) = &engine.ring else {
        return Ok(());
    };
    let written = engine.written();
    journal.sync(engine)?;
    engine.journal_is_synced(written)?;
    ring.retire(written.record).map(drop).map_err(ring_error)
}
