//! Stable writes that are to be reported to the MDS (rule R2): those that wait at one time go in one message.
//!
//! # Ownership
//! A report waits in the table until a task that has a turn takes it along. Every waiting task asks for a turn, so none is
//! forgotten.
//!
//! # Failure
//! A message without an answer is told to all of its reports: their clients try again.

use control::{BATCH_MAX, WroteItem};
use nfs4::NfsStatus;
use tokio::sync::{Semaphore, oneshot};
use tracing_mutex::parkinglot::Mutex;

/// Messages under way at once: one is on its way while the next collects.
const TURNS: usize = 2;

/// What became of a report.
type Told = Result<(), NfsStatus>;

/// Reports that wait.
pub(crate) struct Reports {
    waiting: Mutex<Vec<(WroteItem, oneshot::Sender<Told>)>>,
    turns: Semaphore,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            turns: Semaphore::new(TURNS),
        }
    }
}

impl Reports {
    /// Reports a write: by a message of another task, or by one that `send` sends with all that wait. It answers for each.
    pub(crate) async fn report(
        &self,
        item: WroteItem,
        send: impl AsyncFnOnce(Vec<WroteItem>) -> Vec<Told>,
    ) -> Told {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().push((item, answer));
        let turn = tokio::select! {
            biased;
            told = &mut answered => return told.unwrap_or(Err(NfsStatus::Delay)),
            turn = self.turns.acquire() => turn,
        };
        let (items, answers) = self.take();
        if !items.is_empty() {
            for (answer, told) in answers.into_iter().zip(send(items).await) {
                // Whoever asked may be gone.
                let _ = answer.send(told);
            }
        }
        drop(turn);
        // It may be in a message of another task. A task that is gone has answered nobody.
        answered.await.unwrap_or(Err(NfsStatus::Delay))
    }

    fn take(&self) -> (Vec<WroteItem>, Vec<oneshot::Sender<Told>>) {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(BATCH_MAX as usize);
        waiting.drain(..count).unzip()
    }
}
