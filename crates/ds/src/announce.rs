//! Telling the MDS how far the store has come, so that it recognises one that went back (rule R9).
//!
//! The index counts its changes. HELLO and HEARTBEAT say how many no crash takes back any more; the MDS makes the number
//! durable before it answers, and takes no store again that comes with fewer: that one was restored from a copy.
//!
//! # Ordering
//! Changes are durable here, then said, then durable there. The acknowledgement of a client's COMMIT or stable WRITE
//! does not wait for that, except when more than [`WINDOW`] changes lie between the two: what a restored copy may lack
//! without being recognised is bounded by that number and by [`NEWS`]: so long after the last one a HEARTBEAT goes out of
//! turn when there is something to tell, and at once when half a window is used up. In practice nobody waits.
//!
//! # Failure
//! While the MDS cannot take the number, data stay where they are and clients are told to try later.

use std::time::Duration;

use control::HeartbeatArgs;
use meta::Seq;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::durable::Fault;
use crate::{Ds, LinkError};

/// Most changes that are acknowledged to clients and not known to the MDS.
pub(crate) const WINDOW: u64 = 4096;
/// Least time between two heartbeats when there are changes to tell.
pub(crate) const NEWS: Duration = Duration::from_secs(1);
/// Least time between two heartbeats when the MDS has changed how much room there is: `df` shows that within a second.
const ROOM_NEWS: Duration = Duration::from_millis(200);
/// How long an acknowledgement waits for the MDS. Above it the client is told to try later.
const WAIT: Duration = Duration::from_secs(5);
/// How long the last announcement before a stop may take.
const LAST: Duration = Duration::from_secs(2);

/// How many changes the MDS knows of.
pub(crate) struct Announced {
    known: watch::Sender<u64>,
    news: Notify,
    wake: Notify,
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
            () = self.wake.notified() => {}
            () = told(&self.news, NEWS) => {}
            () = told(&self.room, ROOM_NEWS) => {}
        }
    }
}

impl Ds {
    /// Waits until a durable change may be acknowledged to a client.
    pub(crate) async fn until_announced(&self, seq: Seq) -> Result<(), Fault> {
        let changes = self.index.changes_at(seq);
        let ahead = |known: u64| changes.saturating_sub(known);
        let known = *self.announced.known.borrow();
        if ahead(known) > WINDOW / 2 {
            self.announced.wake.notify_one();
        } else if ahead(known) > 0 {
            self.announced.news.notify_one();
        }
        if ahead(known) <= WINDOW {
            return Ok(());
        }
        let mut seen = self.announced.known.subscribe();
        let enough = seen.wait_for(|known| ahead(*known) <= WINDOW);
        match tokio::time::timeout(WAIT, enough).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Fault::Unannounced),
        }
    }

    /// HEARTBEAT as of now.
    pub(crate) fn heartbeat(&self) -> HeartbeatArgs {
        HeartbeatArgs {
            capacity: self.capacity(),
            counters: self.counts.to_wire(),
            floors_fill_percent: self.gate.with_floors(|f| f.fill_percent()),
            changes: self.index.durable_changes(),
        }
    }

    /// Says the last number before a stop, when the MDS does not know it yet and can be reached.
    ///
    /// # Errors
    /// [`LinkError`]; the next start says it then.
    pub async fn announce_last(&self) -> Result<(), LinkError> {
        let args = self.heartbeat();
        if args.changes > *self.announced.known.borrow() {
            self.announced
                .note(self.call_mds(&args, LAST).await?.changes);
        }
        Ok(())
    }
}
