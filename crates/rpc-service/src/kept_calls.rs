//! Replies that are kept where there are no sessions, so that a retry does not do again what has been done.
//!
//! NFSv3 and NFSv4.0 have none. A client that hears no answer sends its call again, with the same transaction id, often over
//! another connection (RFC 1813 §4.5, RFC 7530 §3.1.1). A call is named by the address of its client, its transaction id and a sum of the whole
//! record. So another call that happens to have the id is none of its retries.
//!
//! # Ownership
//! [`Replies`] has the last [`REPLIES_MAX`] calls that are not idempotent and have ended, and all that run. It forgets with the
//! process. A call that runs is never forgotten: its retry would run beside it. So at most [`RUNNING_MAX`] run, and
//! another one has to wait ([`Heard::Full`]).

use crate::{ReplyCache, RunningCall};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Calls that are remembered. A thousand clients with eight calls under way each have their last ones in it.
pub const REPLIES_MAX: usize = 8192;

/// Calls that run at once. One of 128 connections can have as many under way as a connection may.
pub const RUNNING_MAX: usize = 16_384;

/// How long a retry waits for the call that it repeats. Clients send none sooner than after some seconds.
const RUNNING_WAIT_MAX: Duration = Duration::from_secs(10);

/// What names a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Where it comes from; `None` within the process.
    pub client: Option<IpAddr>,
    /// Its transaction id.
    pub xid: u32,
    /// A sum of the whole record.
    pub sum: u64,
}

/// What is known of a call that was heard before.
#[derive(Debug, Clone)]
pub enum Heard {
    /// It runs.
    Running,
    /// Nothing, and it may not run now: [`RUNNING_MAX`] calls do.
    Full,
    /// This was its result; `None` when nobody knows how far it came.
    Done(Option<Arc<[u8]>>),
}

#[derive(Debug, Default)]
struct Kept {
    calls: HashMap<CallKey, Heard>,
    /// Those that have ended, in the order of their ends.
    ended: VecDeque<CallKey>,
}

impl Kept {
    fn running_count(&self) -> usize {
        self.calls.len().saturating_sub(self.ended.len())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Replies {
    kept: Mutex<Kept>,
    /// A call has ended.
    ended: Notify,
}

impl Replies {
    /// As [`Replies::hear`], but a retry of a call that runs waits for its end, for a while: the connection that the call came on may be
    /// gone, and with it the answer. A call that finds no place waits as well.
    pub async fn hear_out(&self, key: CallKey) -> Option<Heard> {
        let deadline = Instant::now() + RUNNING_WAIT_MAX;
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let heard = self.hear(key);
            if !matches!(heard, Some(Heard::Running | Heard::Full)) {
                return heard;
            }
            if tokio::time::timeout_at(deadline, ended).await.is_err() {
                return heard;
            }
        }
    }

    /// A call arrives. What is known of it, or `None` if it is new and runs from now on.
    pub fn hear(&self, key: CallKey) -> Option<Heard> {
        let mut kept = self.kept.lock();
        if let Some(heard) = kept.calls.get(&key) {
            return Some(heard.clone());
        }
        if kept.running_count() >= RUNNING_MAX {
            return Some(Heard::Full);
        }
        kept.calls.insert(key, Heard::Running);
        None
    }

    /// A call that runs has come to nothing. Its next retry is a new call; one that waits is told.
    fn forget(&self, key: CallKey) {
        self.kept.lock().calls.remove(&key);
        self.ended.notify_waiters();
    }
}

impl ReplyCache for &Replies {
    type Key = CallKey;

    fn complete(&self, key: CallKey, reply: Option<Arc<[u8]>>) -> bool {
        let mut kept = self.kept.lock();
        let known = match kept.calls.get_mut(&key) {
            Some(heard @ Heard::Running) => {
                *heard = Heard::Done(reply);
                true
            }
            _ => false,
        };
        if known {
            kept.ended.push_back(key);
        }
        if kept.ended.len() > REPLIES_MAX
            && let Some(oldest) = kept.ended.pop_front()
        {
            kept.calls.remove(&oldest);
        }
        drop(kept);
        self.ended.notify_waiters();
        known
    }
}

impl RunningCall<&Replies> {
    /// Ends a call that did nothing and that its client is to send again: the retry is a new call.
    pub fn forget(mut self) {
        if let Some(key) = self.key.take() {
            self.cache.forget(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(xid: u32, sum: u64) -> CallKey {
        CallKey {
            client: None,
            xid,
            sum,
        }
    }

    #[test]
    fn a_retry_is_told_what_its_call_was_and_the_oldest_is_forgotten() {
        let replies = Replies::default();
        assert!(replies.hear(key(1, 7)).is_none());
        assert!(matches!(replies.hear(key(1, 7)), Some(Heard::Running)));
        assert!(replies.hear(key(1, 8)).is_none(), "another call by its sum");
        (&replies).complete(key(1, 7), Some(Arc::from(*b"done")));
        let Some(Heard::Done(Some(reply))) = replies.hear(key(1, 7)) else {
            panic!("it is kept");
        };
        assert_eq!(&*reply, b"done");
        for xid in 2..=u32::try_from(REPLIES_MAX).unwrap() + 1 {
            assert!(replies.hear(key(xid, 0)).is_none());
            assert!((&replies).complete(key(xid, 0), None));
        }
        assert!(replies.hear(key(1, 7)).is_none(), "the oldest has gone");
    }

    #[test]
    fn a_call_that_runs_is_not_forgotten_whatever_comes_after_it() {
        let replies = Replies::default();
        assert!(replies.hear(key(1, 7)).is_none());
        for xid in 2..=u32::try_from(2 * REPLIES_MAX).unwrap() {
            assert!(replies.hear(key(xid, 0)).is_none());
            (&replies).complete(key(xid, 0), None);
        }
        assert!(matches!(replies.hear(key(1, 7)), Some(Heard::Running)));
        assert!((&replies).complete(key(1, 7), None));
    }

    #[test]
    fn a_call_for_which_there_is_no_place_does_not_run() {
        let replies = Replies::default();
        for xid in 0..u32::try_from(RUNNING_MAX).unwrap() {
            assert!(replies.hear(key(xid, 0)).is_none());
        }
        assert!(matches!(replies.hear(key(1, 7)), Some(Heard::Full)));
        assert!(matches!(replies.hear(key(0, 0)), Some(Heard::Running)));
        (&replies).complete(key(0, 0), None);
        assert!(replies.hear(key(1, 7)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_retry_of_a_call_that_came_to_nothing_is_a_new_call() {
        let replies = Replies::default();
        assert!(replies.hear_out(key(1, 7)).await.is_none());
        let end = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            RunningCall::new(&replies, key(1, 7)).forget();
        };
        let (heard, ()) = tokio::join!(replies.hear_out(key(1, 7)), end);
        assert!(heard.is_none(), "{heard:?}");
        assert!(matches!(replies.hear(key(1, 7)), Some(Heard::Running)));
        assert_eq!(replies.kept.lock().calls.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_of_a_call_that_runs_waits_for_its_answer_and_not_for_ever() {
        let replies = Replies::default();
        assert!(replies.hear_out(key(1, 7)).await.is_none());
        let end = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            (&replies).complete(key(1, 7), Some(Arc::from(*b"done")));
        };
        let (heard, ()) = tokio::join!(replies.hear_out(key(1, 7)), end);
        assert!(matches!(heard, Some(Heard::Done(Some(reply))) if &*reply == b"done"));
        assert!(replies.hear_out(key(2, 7)).await.is_none());
        let heard = replies.hear_out(key(2, 7)).await;
        assert!(matches!(heard, Some(Heard::Running)));
    }
}
