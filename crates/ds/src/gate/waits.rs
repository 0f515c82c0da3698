//! Waiting at the gate: until it serves, and for rows.

use std::time::Duration;

use tokio::time::Instant;

use super::Gate;

impl Gate {
    /// Waits until this server serves, for `wait` at most. A server that was just started serves within milliseconds, and
    /// a client that is refused gives up its layout.
    pub(crate) async fn until_served(&self, wait: Duration) {
        let served = self.served.notified();
        tokio::pin!(served);
        served.as_mut().enable();
        if !self.inner.lock().is_serving() {
            let _late = tokio::time::timeout(wait, served).await;
        }
    }

    /// Waits until `look` has an answer other than `None`, for `wait` at most. It looks whenever rows were taken.
    pub(crate) async fn until_rows<T>(
        &self,
        wait: Duration,
        look: impl Fn() -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + wait;
        loop {
            let taken = self.rows_taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            if let Some(found) = look() {
                return Some(found);
            }
            if tokio::time::timeout_at(deadline, taken).await.is_err() {
                return None;
            }
        }
    }
}
