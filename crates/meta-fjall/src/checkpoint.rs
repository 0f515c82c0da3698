//! Checkpoints: the engine's journal is made durable, and the ring gives back the room of what that covers.
//!
//! # Ownership
//! [`Checkpoints`] owns a [`Background`] thread, so commits go on meanwhile.
//!
//! # Ordering
//! How far the engine is, its journal synced, the watermark, then the ring. The watermark is not synced: see `store_dir`.
//!
//! # Failure
//! A failed sync of the journal fails the store, as in `commit`.

use crate::background::Background;
use crate::engine::{Engine, FailOnPanic};
use crate::journal::NewestJournal;
use crate::ring::ring_error;
use meta::MetaError;
use ring_log::RingLog;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What makes checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints(Background);

impl Checkpoints {
    /// Starts the thread. It ends before the store only with the store's failure.
    pub(crate) fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let mut journal = NewestJournal::default();
        Background::start("meta-checkpoint", move || {
            let _guard = FailOnPanic(&engine);
            match checkpoint(&engine, &mut journal) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    engine.queue.gate.fail(error);
                    ControlFlow::Break(())
                }
            }
        })
        .map(Self)
    }

    /// Asks for a checkpoint if the ring is half full.
    pub(crate) fn look(&self, ring: &RingLog) {
        let (used_bytes, capacity_bytes) = ring.fill();
        if used_bytes > capacity_bytes / 2 {
            self.0.ask();
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
