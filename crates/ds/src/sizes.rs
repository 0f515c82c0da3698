//! The sizes of files, asked of the MDS when a READ passes the end of its object (rule R8).
//!
//! Answers are kept as long as the MDS allows. One call for a file is under way at a time; READs that come meanwhile
//! share the next one. They do not share the one under way: its answer may be older than what their reader has seen.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use control::{SizeArgs, Status};
use nfs4::NfsStatus;
use tokio::time::Instant;

use crate::counts::count;
use crate::ds::Ds;
use crate::error::LinkError;
use crate::size_answers::Asked;

/// How long a READ waits for the MDS. Above it the client is told to try later.
const SIZE_TIMEOUT: Duration = Duration::from_secs(5);

impl Ds {
    /// The file's size as the MDS knows it.
    pub(crate) async fn file_size(&self, file_id: u64, generation: u32) -> Result<u64, NfsStatus> {
        let Asked { question, turn } = self.sizes.ask((file_id, generation));
        let answer = question.answer.get_or_init(|| async {
            let _turn = turn.lock().await;
            question.is_sent.store(true, SeqCst);
            count(&self.counts.sizes_asked);
            let asked = Instant::now();
            let args = SizeArgs {
                file_id,
                generation,
            };
            match self.call_mds(&args, SIZE_TIMEOUT).await {
                Ok(ok) => {
                    let hold = Duration::from_millis(u64::from(ok.cache_ms));
                    Ok((ok.size_bytes, asked + hold))
                }
                Err(e) => Err(nfs_status(&e)),
            }
        });
        answer.await.map(|(size_bytes, _)| size_bytes)
    }
}

/// What a client is told when the MDS could not be asked.
pub(crate) fn nfs_status(error: &LinkError) -> NfsStatus {
    match error {
        LinkError::Refused(refusal) => status_of_refusal(refusal.status),
        _ => NfsStatus::Delay,
    }
}

/// What a client is told when the MDS says no.
pub(crate) const fn status_of_refusal(status: Status) -> NfsStatus {
    match status {
        Status::Removed | Status::NotFound => NfsStatus::Stale,
        Status::NoSpace => NfsStatus::NoSpc,
        Status::Io | Status::Invalid => NfsStatus::Io,
        _ => NfsStatus::Delay,
    }
}
