//! What a copy is told, and how long it waits for what cannot be done now.

use crate::actor::Prepared;
use crate::offloads::{CopyDone, Progress};
use namespace::Inode;
use nfs4::NfsStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

/// Pause before something is asked again that cannot be done now.
const PAUSE_MS: u64 = 200;
/// The step in which zeros are looked for.
const ZEROS_BYTES: usize = 4096;

/// What is to be copied.
#[derive(Clone)]
pub struct Copy {
    /// The source.
    pub src: Arc<Inode>,
    /// The destination.
    pub dst: Arc<Inode>,
    /// Where the range begins in the source.
    pub src_offset: u64,
    /// Where it begins in the destination.
    pub dst_offset: u64,
    /// Bytes, all of them inside the source when the copy began.
    pub count: u64,
}

/// Makes of a copy what becomes durable with its end (rule R15).
pub(crate) type Keep<'a> = &'a (dyn Fn(&CopyDone) -> Prepared + Send + Sync);

/// How long it is waited for what cannot be done now.
#[derive(Clone)]
pub(crate) struct Patience {
    pub(crate) progress: Arc<Progress>,
    /// `None`: until it is cancelled.
    pub(crate) until: Option<Instant>,
}

impl Patience {
    /// Waits a little before another try; false when there is to be none.
    pub(crate) async fn lasts(&self, status: NfsStatus) -> bool {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        if status != NfsStatus::Delay || late || self.is_over() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        true
    }

    pub(crate) fn is_over(&self) -> bool {
        self.progress.is_cancelled.load(Relaxed)
    }
}

/// Repeats an operation while it says `Delay` and patience lasts.
macro_rules! patiently {
    ($patience:expr, $operation:expr) => {
        loop {
            match $operation.await {
                Err(status) if $patience.lasts(status).await => {}
                done => break done,
            }
        }
    };
}
pub(crate) use patiently;

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];
    bytes
        .chunks(ZEROS_BYTES)
        .all(|part| *part == ZEROS[..part.len()])
}
