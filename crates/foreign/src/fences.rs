//! Fences that wait: files whose objects must get the ids of a newer epoch before older layouts count as gone.
//!
//! # Ordering
//! A fence waits until each server of the group has given the object the ids of that epoch or of a newer one, or has no such
//! object. From then on nobody gives it older ids ([`crate::object`]).
//!
//! # Failure
//! What a server does not answer for stays, and is tried again with the next tick. Beyond [`crate::FENCES_MAX`] files a fence is not
//! kept. Then every file of its group counts as being fenced until the metadata server has restarted.

use crate::dirs::Missing;
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::object::IfNewer;
use crate::records::ServerState;
use crate::server::Server;
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::Duration;
use tokio::time::Instant;

/// Fences that are delivered to one server at one time.
const DELIVERIES_MAX: usize = 8;

impl Foreign {
    /// Notes that the objects of a file must get the ids of `epoch`, or of later one. Mirrors in `except_mirrors` are left out,
    /// also of what was noted before.
    pub fn note_fence(
        &self,
        group: u32,
        number: u64,
        generation: u32,
        epoch: u64,
        except_mirrors: u32,
    ) {
        let Some(found) = self.group(group) else {
            tracing::error!(group, number, "a fence for an unknown group");
            return;
        };
        let (mut servers, mut excepted) = (Vec::new(), Vec::new());
        for (place, id) in (0u32..).zip(&found.servers) {
            let is_excepted = except_mirrors & (1 << (place / found.width)) != 0;
            let is_used = self
                .server(*id)
                .is_some_and(|s| s.state() != ServerState::Removed);
            let known = self.handles.get((*id, number, generation));
            let is_done = known.is_some_and(|known| {
                known.epoch >= Some(epoch) && (known.is_given || known.fh.is_none())
            });
            match (is_excepted, is_used && !is_done) {
                (true, _) => excepted.push(*id),
                (_, true) => servers.push(*id),
                _ => {}
            }
        }
        let file = (number, generation);
        self.fences.note(group, file, epoch, &servers, &excepted);
    }

    /// Whether an older layout of a file may still work somewhere.
    #[must_use]
    pub fn is_fencing(&self, group: u32, number: u64) -> bool {
        self.fences.is_fencing(group, number)
    }

    /// Whether a fence waits for this server to give an object its ids.
    #[must_use]
    pub fn is_fencing_at(&self, server: u32, number: u64, generation: u32) -> bool {
        self.fences.is_waiting(server, (number, generation))
    }

    /// Objects of mirrored files (server, number, generation) that a fence waits for at servers that have been down for a while; at
    /// most `max`.
    #[must_use]
    pub fn fences_at_lost_servers(&self, max: usize) -> Vec<(u32, u64, u32)> {
        let is_mirrored = |group| self.group(group).is_some_and(|group| group.mirrors > 1);
        let mut out = Vec::new();
        for server in self.fences.servers().into_iter() {
            if self.server(server).is_some_and(|s| s.is_lost()) {
                let waiting = self.fences.of_server(server).into_iter();
                let mirrored = waiting.filter(|waits| is_mirrored(waits.group));
                let left = max.saturating_sub(out.len());
                out.extend(mirrored.take(left).map(|w| (server, w.file.0, w.file.1)));
            }
        }
        out
    }

    /// Begins to give ids to what waits, at each server that is up. To be called inside a runtime.
    pub fn deliver_fences(self: &Arc<Self>) {
        let waiting = self.fences.servers();
        for server in waiting.into_iter().filter_map(|id| self.server(id)) {
            if !server.is_up() || server.is_fencing.swap(true, AcqRel) {
                continue;
            }
            let foreign = Arc::clone(self);
            tokio::spawn(async move {
                // What was noted meanwhile may have found this task still running.
                while foreign.deliver_to(&server).await {}
                server.is_fencing.store(false, Release);
            });
        }
    }

    /// Tries each fence that waits for a server once. Returns whether all succeeded and there are more.
    async fn deliver_to(&self, server: &Arc<Server>) -> bool {
        let waiting = self.fences.of_server(server.id);
        let has_failed = &AtomicBool::new(waiting.is_empty());
        let deliveries = waiting.into_iter().map(|waits| async move {
            let ((number, generation), epoch) = (waits.file, waits.epoch);
            let at = FileAt {
                number,
                generation,
                group: 0,
                stripe_unit: 0,
                epoch,
                bad_mirrors: 0,
                // One that is missing is looked for on the right disk.
                has_objects: true,
            };
            let given = match self.spot(server.id, &at) {
                Ok(spot) => {
                    let given = self.give(&spot, epoch, Missing::Left, IfNewer::Keep);
                    given.await.map(|_| self.fences.settle(spot.key(), epoch))
                }
                Err(fail) => Err(fail),
            };
            if let Err(fail) = given {
                tracing::debug!(server = server.id, number, %fail, "a fence waits");
                has_failed.store(true, Relaxed);
            }
        });
        let mut deliveries =
            futures_util::stream::iter(deliveries).buffer_unordered(DELIVERIES_MAX);
        while deliveries.next().await.is_some() {}
        !has_failed.load(Relaxed)
    }

    /// Waits until a file is not being fenced any more, at most so long. Returns whether it is so.
    pub async fn fences_settled(&self, group: u32, number: u64, wait_ms: u64) -> bool {
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        loop {
            let settled = self.fences.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if !self.is_fencing(group, number) {
                return true;
            }
            if tokio::time::timeout_at(deadline, settled).await.is_err() {
                return false;
            }
        }
    }

    /// Files whose fences wait.
    #[must_use]
    pub fn fences_waiting(&self) -> usize {
        self.fences.len()
    }
}
