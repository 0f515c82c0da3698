//! Room that removals have made, given back when somebody needs it.
//!
//! In an LSM tree a removed value keeps its room until a merge meets it, and a full store, which takes nothing new, has no
//! merges. So when a transaction is refused for want of room and something was removed, all is merged.
//!
//! # Ownership
//! [`Reclaim`] owns a [`Background`] thread, which a merge may keep for long.
//!
//! # Failure
//! A store that is too large for the room that is left, or above [`MERGE_BYTES_MAX`], is left to the merges that writes bring
//! about. A failed merge is logged, and the next refusal asks again.

use crate::background::Background;
use crate::engine::{Engine, MERGE_BYTES_MAX};
use crate::keys;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two passes.
const PAUSE: Duration = Duration::from_secs(5);
/// How long the newest writes may take to become a table.
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// Small tables after a merge.
const VERSIONS_AFTER: u32 = 3;
/// Pause between two looks whether they are one.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What gives room back.
#[derive(Debug)]
pub(crate) struct Reclaim(Background);

impl Reclaim {
    /// Starts the thread.
    pub(crate) fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let mut last: Option<Instant> = None;
        Background::start("meta-reclaim", move || {
            let is_early = last.is_some_and(|last| last.elapsed() < PAUSE);
            if !is_early && engine.can_merge_all() {
                merge_all(&engine);
                last = Some(Instant::now());
            }
            ControlFlow::Continue(())
        })
        .map(Self)
    }

    /// A transaction was refused for want of room.
    pub(crate) fn ask(&self) {
        self.0.ask();
    }
}

impl Engine {
    /// Whether something was removed, and the tables can be written once more beside what is there.
    fn can_merge_all(&self) -> bool {
        let (Ok(tables_bytes), Ok(free_bytes)) = (self.database.disk_space(), self.free_bytes())
        else {
            return false;
        };
        let fits = tables_bytes <= MERGE_BYTES_MAX && tables_bytes < free_bytes;
        fits && self.take_removed() > 0
    }
}

/// Merges all tables. fjall (3.1.13) removes the tables of an old version of a tree when it makes further versions, and takes
/// a version for old when something was written after it: so a few small tables follow.
fn merge_all(engine: &Engine) {
    let merged = flush(engine)
        .and_then(|()| engine.keyspace.major_compact())
        .and_then(|()| (0..VERSIONS_AFTER).try_for_each(|_| flush(engine)));
    match merged {
        Ok(()) => tracing::info!("gave back the room of what was removed"),
        Err(error) => tracing::warn!(%error, "a merge for room failed"),
    }
}

/// Has the newest writes, at least one, become a table.
fn flush(engine: &Engine) -> fjall::Result<()> {
    let began = Instant::now();
    engine.keyspace.insert(keys::MERGED_KEY, [])?;
    engine.keyspace.rotate_memtable()?;
    while engine.keyspace.sealed_memtable_count() > 0 && began.elapsed() < FLUSH_MAX {
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}
