//! Which clients are being told of other primaries, and the pace of those callbacks (rule P22). `follow` tells them.

use std::collections::BTreeSet;
use std::time::Duration;

use nfs4::ClientId;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Callbacks in a second, to all clients together.
const CALLBACKS_PER_SECOND_MAX: u32 = 2_000;

/// Who is being told, and when the next callback may go.
#[derive(Default)]
pub(crate) struct Following {
    pub(crate) busy: Mutex<BTreeSet<ClientId>>,
    next: Mutex<Option<Instant>>,
}

impl Following {
    /// Waits for the turn of one callback.
    pub(crate) async fn turn(&self) {
        let pause = Duration::from_secs(1) / CALLBACKS_PER_SECOND_MAX;
        let at = {
            let mut next = self.next.lock();
            let at = next.map_or_else(Instant::now, |next| next.max(Instant::now()));
            *next = Some(at + pause);
            at
        };
        tokio::time::sleep_until(at).await;
    }
}
