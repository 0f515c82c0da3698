//! An administrator ends a client's lease: what it holds goes at once, as when the lease runs out.
//!
//! # Ordering
//! New requests of the client are refused first. When those that run have ended, the client goes, is fenced off its layouts and loses
//! its record (`client_end`). Nothing is granted to others before that.
//!
//! # Failure
//! A request that runs for longer than [`RUNNING_WAIT`] is not waited for. The client goes all the same.

use crate::client_end;
use crate::fs::Fs;
use nfs4::ClientId;
use state::HeldCounts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long requests of the client may go on. An operation waits for others for 2 s at most.
const RUNNING_WAIT: Duration = Duration::from_secs(5);
/// Pause between two looks at them.
const POLL: Duration = Duration::from_millis(20);

/// What a client had that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evicted {
    /// What it held.
    pub held: HeldCounts,
    /// Sessions that it had.
    pub sessions_count: usize,
}

/// Ends a client. `None` when there is none of this id, any more.
pub async fn evict(fs: &Arc<Fs>, client: ClientId) -> Option<Evicted> {
    if !fs.clients.lock().begin_eviction(client) {
        return None;
    }
    let deadline = Instant::now() + RUNNING_WAIT;
    while fs.clients.lock().has_running(client) {
        if Instant::now() >= deadline {
            tracing::warn!(client = client.value, "evicted while a request of it runs");
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    let held = fs.state().held_counts(client);
    let gone = fs.clients.lock().evict(client)?;
    let sessions_count = gone.sessions.len();
    client_end::removed(fs, gone).await;
    // The grace period may have waited for it alone.
    client_end::poll_grace(fs).await;
    Some(Evicted {
        held,
        sessions_count,
    })
}
