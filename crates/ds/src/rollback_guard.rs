//! Telling the MDS how far the store has come, so that it recognises one that went back (rule R9), and that it stops.
//!
//! The index counts its changes, and the redo log its records. HELLO and HEARTBEAT say how many changes no crash takes back any more. The MDS makes
//! the number durable before it answers. It takes no store again that comes with fewer: that one was restored from a
//! copy.
//!
//! # Ordering
//! Changes are durable here, then told, then durable there. The acknowledgement of a client's COMMIT or stable WRITE
//! does not wait for that, unless more than [`WINDOW`] changes lie between the two. A HEARTBEAT goes out of turn
//! [`crate::announced::NEWS`] after the last one if there is something to tell. It goes at once when half a window is
//! used up. These two bound what a restored copy may lack without being recognised. In practice nobody waits.
//!
//! # Failure
//! While the MDS cannot take the number, data stay where they are and clients are told to try later.

use std::time::Duration;

use crate::announced::WINDOW;
use crate::ds::Ds;
use crate::error::LinkError;
use crate::fault::Fault;
use crate::rows::Rows;
use control::{HeartbeatArgs, StoppingArgs};
use meta::Seq;

/// How long an acknowledgement waits for the MDS. Above it the client is told to try later.
const WAIT: Duration = Duration::from_secs(5);
/// How long a stop waits until others are primary. It is shorter than a lease, which nothing renews by then.
const HAND_OVER: Duration = Duration::from_secs(3);
/// How long clients are told that places are not its own any more.
const TELLS: Duration = Duration::from_millis(1_500);
/// How long the last announcement before a stop may take.
const LAST: Duration = Duration::from_secs(2);

impl Ds {
    /// Changes that no crash takes back: transactions of the index and redo records.
    pub(crate) fn durable_changes(&self) -> u64 {
        self.index.durable_changes() + self.redo.durable_through()
    }

    /// Changes up to a durable transaction of the index.
    pub(crate) fn changes_at(&self, seq: Seq) -> u64 {
        self.index.changes_at(seq) + self.redo.durable_through()
    }

    /// Waits until so many durable changes may be acknowledged to a client.
    pub(crate) async fn until_announced(&self, changes: u64) -> Result<(), Fault> {
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

    /// The HEARTBEAT to send.
    pub(crate) fn heartbeat(&self) -> HeartbeatArgs {
        HeartbeatArgs {
            capacity: self.capacity(),
            counters: self.counts.to_wire(),
            floors_fill_percent: self.gate.with_floors(|f| f.fill_percent()),
            changes: self.durable_changes(),
            fillings: self.copies.fillings().into(),
            scrub: self.sums.state(),
            failing: self.failing_places().into(),
            sync_us: self.sync_time.mean_us(),
            lags: self.copies.lags().into(),
            lacking: self.lacking_parts().into(),
        }
    }

    /// Says that this server is about to stop, and waits until others are primary of its places, as far as they can be
    /// (rule P14). It serves meanwhile. Then it goes on answering for a while that the places are not its own: clients that
    /// write are told at once, and layouts are recalled within a second.
    ///
    /// # Errors
    /// [`LinkError`]; others take over when the lease is over.
    pub async fn hand_over(&self) -> Result<(), LinkError> {
        let led = self.places_led();
        let wait_ms = u32::try_from(HAND_OVER.as_millis()).unwrap_or(u32::MAX);
        self.call_mds(&StoppingArgs { wait_ms }, HAND_OVER + LAST)
            .await?;
        if self.places_led() < led {
            tokio::time::sleep(TELLS).await;
        }
        Ok(())
    }

    /// Places of which it is primary.
    fn places_led(&self) -> usize {
        let led = |rows: &Rows, ds: u32| {
            let own = rows.all().filter(|(_, _, own)| own.row.primary == ds);
            own.count()
        };
        self.gate.with_rows(led).unwrap_or(0)
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
