//! What a client waits for, so that a program can tell its user.
//!
//! Each request is entered while it is in progress; nothing is called back and nothing is printed here. Entry points:
//! [`WaitReason`], [`crate::Client::longest_wait`].

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a request waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The answer of the MDS.
    Mds,
    /// The answer of a server of NFSv3.
    Server,
    /// A session with the MDS: it was lost, or its server is gone.
    Session,
    /// The end of the server's grace period (NFS4ERR_GRACE).
    Grace,
    /// The server asks to try again later (NFS4ERR_DELAY): others use the file, or a data server is away.
    Delay,
    /// The data server at these addresses.
    DataServer(Arc<str>),
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self {
            Self::Mds => "the metadata server to answer",
            Self::Server => "the server to answer",
            Self::Session => "the metadata server to come back",
            Self::Grace => "the end of the server's grace period after its restart",
            Self::Delay => {
                "the server, which says to try later: others use the file, or a data server is away"
            }
            Self::DataServer(name) => return write!(f, "the data server {name} to answer"),
        };
        f.write_str(what)
    }
}

/// The requests in progress, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    waiting: BTreeMap<u64, (Instant, WaitReason)>,
}

impl Waits {
    /// Enters a request until the guard is dropped.
    pub(crate) fn enter(&self, wait: WaitReason) -> Waiting<'_> {
        let mut table = self.0.lock();
        let id = table.next;
        table.next += 1;
        table.waiting.insert(id, (Instant::now(), wait));
        Waiting { waits: self, id }
    }

    /// The oldest request: for how long it waits, and for what now.
    pub(crate) fn longest(&self) -> Option<(Duration, WaitReason)> {
        let table = self.0.lock();
        let (since, wait) = table.waiting.values().next()?;
        Some((since.elapsed(), wait.clone()))
    }
}

/// One request in progress.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    id: u64,
}

impl Waiting<'_> {
    /// What it waits for from now on.
    pub(crate) fn on(&self, wait: WaitReason) {
        if let Some((_, now)) = self.waits.0.lock().waiting.get_mut(&self.id) {
            *now = wait;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.0.lock().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the oldest request that is still in progress is the one that is told of, with its newest reason.
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_request_is_told_of() {
        let waits = Waits::default();
        assert_eq!(waits.longest(), None);
        let first = waits.enter(WaitReason::Mds);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ds = WaitReason::DataServer("192.0.2.1:2049".into());
        let _second = waits.enter(ds.clone());
        first.on(WaitReason::Grace);
        assert_eq!(
            waits.longest(),
            Some((Duration::from_secs(2), WaitReason::Grace))
        );
        drop(first);
        assert_eq!(waits.longest(), Some((Duration::ZERO, ds.clone())));
        assert_eq!(ds.to_string(), "the data server 192.0.2.1:2049 to answer");
    }
}
