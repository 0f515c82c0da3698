//! The sizes of files, asked of the MDS when a READ passes the end of its object (rule R8).
//!
//! Answers are kept as long as the MDS allows. One call for a file is under way at a time; READs that come meanwhile
//! share the next one. They do not share the one under way: its answer may be older than what their reader has seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use control::{SizeArgs, Status};
use nfs4::NfsStatus;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::counts::count;
use crate::{Ds, LinkError};

/// Files whose size is kept.
const SIZES_MAX: usize = 8192;
/// How long a READ waits for the MDS. Above it the client is told to try later.
const SIZE_TIMEOUT: Duration = Duration::from_secs(5);

type Key = (u64, u32);

/// One question; the answer is the size and how long it holds.
#[derive(Default)]
struct Question {
    is_sent: AtomicBool,
    answer: OnceCell<Result<(u64, Instant), NfsStatus>>,
}

/// What is asked about one file.
#[derive(Default, Clone)]
struct Asked {
    question: Arc<Question>,
    /// Held while a call is under way.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
pub(crate) struct Sizes {
    asked: Mutex<HashMap<Key, Asked>>,
}

impl Question {
    /// Whether its answer is good for a READ that comes now.
    fn serves_now(&self) -> bool {
        match self.answer.get() {
            None => !self.is_sent.load(SeqCst),
            Some(Ok((_, until))) => Instant::now() < *until,
            Some(Err(_)) => false,
        }
    }
}

impl Sizes {
    fn ask(&self, key: Key) -> Asked {
        let mut asked = self.asked.lock();
        if asked.len() >= SIZES_MAX {
            asked.retain(|_, a| a.question.serves_now());
        }
        if asked.len() >= SIZES_MAX {
            asked.clear();
        }
        let entry = asked.entry(key).or_default();
        if !entry.question.serves_now() {
            entry.question = Arc::default();
        }
        entry.clone()
    }

    /// The size of a file is about to change, or has.
    pub(crate) fn forget(&self, file_id: u64) {
        self.asked.lock().retain(|key, _| key.0 != file_id);
    }
}

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
        LinkError::Refused(refusal) => match refusal.status {
            Status::Removed | Status::NotFound => NfsStatus::Stale,
            Status::NoSpace => NfsStatus::NoSpc,
            Status::Io | Status::Invalid => NfsStatus::Io,
            _ => NfsStatus::Delay,
        },
        _ => NfsStatus::Delay,
    }
}
