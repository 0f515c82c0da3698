//! What happened, in order: the story of a run for a reader, and its hash for the test that runs repeat.
//!
//! Lines name hosts and operations, never transaction ids or addresses of memory, which differ between runs.

use parking_lot::Mutex;
use std::fmt::Arguments;
use std::sync::Arc;
use tokio::time::Instant;

/// Lines kept; the hash covers further ones too.
const LINES_MAX: usize = 200_000;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The story so far. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    events: u64,
    hash: u64,
    lines: Vec<String>,
}

impl Trace {
    /// An empty story that begins now.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            start: Instant::now(),
            events: 0,
            hash: FNV_OFFSET,
            lines: Vec::new(),
        })))
    }

    /// Virtual milliseconds since the start.
    #[must_use]
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.0.lock().start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells what `who` did, and returns the number of the event: later events have higher ones.
    pub(crate) fn tell(&self, who: &str, what: Arguments<'_>) -> u64 {
        let mut inner = self.0.lock();
        let line = format!("{:>8} {who:<10} {what}", inner.start.elapsed().as_millis());
        for byte in line.bytes() {
            inner.hash = (inner.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        inner.events += 1;
        if inner.lines.len() < LINES_MAX {
            inner.lines.push(line);
        }
        inner.events
    }

    /// A new event number without a line.
    pub(crate) fn tick(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.events += 1;
        inner.events
    }

    /// The hash of everything told so far.
    #[must_use]
    pub(crate) fn hash(&self) -> u64 {
        self.0.lock().hash
    }

    /// Events so far.
    #[must_use]
    pub(crate) fn events(&self) -> u64 {
        self.0.lock().events
    }

    /// The lines told so far.
    #[must_use]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().lines.clone()
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of the metadata server's host.
pub(crate) const MDS_NAME: &str = "mds";

/// The host of an end.
#[must_use]
pub(crate) fn host(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}
