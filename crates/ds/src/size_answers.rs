//! The sizes of files that the MDS has told, and the questions under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use nfs4::NfsStatus;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Files whose size is kept.
const SIZES_MAX: usize = 8192;

type Key = (u64, u32);

/// One question; the answer is the size and how long it holds.
#[derive(Default)]
pub(crate) struct Question {
    pub(crate) is_sent: AtomicBool,
    pub(crate) answer: OnceCell<Result<(u64, Instant), NfsStatus>>,
}

/// What is asked about one file.
#[derive(Default, Clone)]
pub(crate) struct Asked {
    pub(crate) question: Arc<Question>,
    /// Held while a call is under way.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
pub(crate) struct SizeAnswers {
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

impl SizeAnswers {
    pub(crate) fn ask(&self, key: Key) -> Asked {
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
