//! The number of changes of the store that the MDS knows of, and the tasks that wait for it.

use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Most changes that are acknowledged to clients and not known to the MDS.
pub(crate) const WINDOW: u64 = 4096;
/// Least time between two heartbeats when there are changes to tell.
pub(crate) const NEWS: Duration = Duration::from_secs(1);
/// Least time between two heartbeats when the MDS has changed how much room there is: `df` shows that within a second.
const ROOM_NEWS: Duration = Duration::from_millis(200);

/// How many changes the MDS knows of.
pub(crate) struct Announced {
    pub(crate) known: watch::Sender<u64>,
    pub(crate) news: Notify,
    pub(crate) wake: Notify,
    room: Notify,
}

impl Announced {
    /// Nothing was said in this process; what was there before it can be.
    pub(crate) fn new(changes_before: u64) -> Self {
        Self {
            known: watch::Sender::new(changes_before),
            news: Notify::new(),
            wake: Notify::new(),
            room: Notify::new(),
        }
    }

    /// The MDS has so many durably.
    pub(crate) fn note(&self, changes: u64) {
        self.known.send_if_modified(|known| {
            let rises = changes > *known;
            *known = changes.max(*known);
            rises
        });
    }

    /// A call of the MDS has taken or given back room.
    pub(crate) fn note_room(&self) {
        self.room.notify_one();
    }

    /// Waits until a HEARTBEAT should not wait for its time, now that the last one was sent `since`.
    pub(crate) async fn woken(&self, since: Instant) {
        let told = async |what: &Notify, least: Duration| {
            what.notified().await;
            tokio::time::sleep_until(since + least).await;
        };
        tokio::select! {
            // In this order: the simulator's runs repeat.
            biased;
            () = self.wake.notified() => {}
            () = told(&self.news, NEWS) => {}
            () = told(&self.room, ROOM_NEWS) => {}
        }
    }
}
