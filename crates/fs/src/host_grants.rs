//! The queue of locks that waiting hosts of NLM were granted, until somebody tells them. It calls nothing of this crate.

use state::HostGrant;
use std::collections::VecDeque;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

/// Most grants that wait to be told. A host that is not told asks again.
const GRANTS_MAX: usize = 65_536;

/// Locks that waiting hosts hold from now on.
#[derive(Debug, Default)]
pub struct HostGrants {
    queue: Mutex<VecDeque<HostGrant>>,
    added: Notify,
}

impl HostGrants {
    pub(crate) fn add(&self, granted: Vec<HostGrant>) {
        let mut queue = self.queue.lock();
        let room = GRANTS_MAX.saturating_sub(queue.len());
        queue.extend(granted.into_iter().take(room));
        drop(queue);
        self.added.notify_one();
    }

    /// The next one, for one caller at a time.
    pub async fn next(&self) -> HostGrant {
        loop {
            if let Some(grant) = self.queue.lock().pop_front() {
                return grant;
            }
            self.added.notified().await;
        }
    }
}
