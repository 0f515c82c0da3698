//! Replies that are kept where there are no sessions, so that a retry does not do again what has been done.
//!
//! NFSv3 and NFSv4.0 have none. A client that hears no answer sends its call again, with the same transaction id, often over
//! another connection (RFC 1813 §4.5, RFC 7530 §3.1.1). A call is named by the address of its client, its transaction id and a sum of the whole
//! record. So another call that happens to have the id is none of its retries.
//!
//! # Ownership
//! [`Replies`] has calls that are not idempotent: those that ended lately, as many as [`ReplyBounds`] let each client have, and all
//! that run. It forgets with the process. A call that runs is never forgotten: its retry would run beside it. So
//! bounds hold for those as well, and another one has to wait ([`Heard::Full`]).

use crate::shares::{CallKey, Heard, ReplyBounds, Shares};
use crate::{ReplyCache, RunningCall};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a retry waits for the call that it repeats. Clients send none sooner than after some seconds.
const RUNNING_WAIT_MAX: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Replies {
    shares: Mutex<Shares>,
    /// A call has ended.
    ended: Notify,
}

impl Default for Replies {
    fn default() -> Self {
        Self::new(ReplyBounds::default())
    }
}

impl Replies {
    /// Keeps calls within these bounds.
    #[must_use]
    pub fn new(bounds: ReplyBounds) -> Self {
        Self {
            shares: Mutex::new(Shares::new(bounds)),
            ended: Notify::new(),
        }
    }

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
        self.shares.lock().hear(key)
    }

    /// A call that runs has come to nothing. Its next retry is a new call; one that waits is told.
    fn forget(&self, key: CallKey) {
        self.shares.lock().forget(key);
        self.ended.notify_waiters();
    }
}

impl ReplyCache for &Replies {
    type Key = CallKey;

    fn complete(&self, key: CallKey, reply: Option<Arc<[u8]>>) -> bool {
        let known = self.shares.lock().complete(key, reply);
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
    use crate::shares::CALL_BYTES;

    /// A share holds two calls, all shares together three, and one call of each client runs.
    const FEW: ReplyBounds = ReplyBounds {
        bytes_max: 3 * CALL_BYTES,
        client_bytes_max: 2 * CALL_BYTES,
        clients_max: 2,
        running_max: 2,
        client_running_max: 1,
    };

    fn key(xid: u32, sum: u64) -> CallKey {
        CallKey {
            client: None,
            xid,
            sum,
        }
    }

    fn of(client: &str, xid: u32) -> CallKey {
        CallKey {
            client: Some(client.parse().unwrap()),
            xid,
            sum: 0,
        }
    }

    /// A call that is heard and ends at once.
    fn done(replies: &Replies, key: CallKey) {
        assert!(replies.hear(key).is_none(), "{key:?} is new");
        assert!(replies.complete(key, None));
    }

    fn is_kept(replies: &Replies, key: CallKey) -> bool {
        let share = replies.shares.lock().hear(key);
        if share.is_none() {
            replies.forget(key);
        }
        matches!(share, Some(Heard::Done(_)))
    }

    #[test]
    fn a_retry_is_told_what_its_call_was() {
        let replies = &Replies::default();
        assert!(replies.hear(key(1, 7)).is_none());
        assert!(matches!(replies.hear(key(1, 7)), Some(Heard::Running)));
        assert!(replies.hear(key(1, 8)).is_none(), "another call by its sum");
        assert!(replies.complete(key(1, 7), Some(Arc::from(*b"done"))));
        let Some(Heard::Done(Some(reply))) = replies.hear(key(1, 7)) else {
            panic!("it is kept");
        };
        assert_eq!(&*reply, b"done");
        assert!(!replies.complete(key(1, 7), None), "it has ended before");
        assert!(!replies.complete(key(2, 0), None), "nobody has heard it");
    }

    #[test]
    fn a_client_that_fills_its_share_loses_its_own_oldest_replies() {
        let replies = &Replies::new(FEW);
        done(replies, of("192.0.2.1", 1));
        for xid in 1..=9 {
            done(replies, of("192.0.2.2", xid));
        }
        assert!(is_kept(replies, of("192.0.2.1", 1)), "another's share");
        let kept = (1..=9).filter(|xid| is_kept(replies, of("192.0.2.2", *xid)));
        assert_eq!(kept.collect::<Vec<_>>(), [8, 9]);
    }

    #[test]
    fn where_all_is_full_the_largest_share_gives_way() {
        let bounds = ReplyBounds {
            bytes_max: 4 * CALL_BYTES,
            client_bytes_max: 4 * CALL_BYTES,
            ..FEW
        };
        let replies = &Replies::new(bounds);
        for xid in 1..=4 {
            done(replies, of("192.0.2.1", xid));
        }
        done(replies, of("192.0.2.2", 1));
        done(replies, of("192.0.2.2", 2));
        let kept = |client| (1..=4).filter(move |xid| is_kept(replies, of(client, *xid)));
        assert_eq!(kept("192.0.2.1").collect::<Vec<_>>(), [3, 4]);
        assert_eq!(kept("192.0.2.2").collect::<Vec<_>>(), [1, 2]);
        assert_eq!(replies.shares.lock().counts(), (2, 4, 4 * CALL_BYTES));
    }

    #[test]
    fn a_long_reply_counts_by_its_length() {
        let replies = &Replies::new(FEW);
        done(replies, key(1, 0));
        assert!(replies.hear(key(2, 0)).is_none());
        let long = Arc::from([0; CALL_BYTES]);
        assert!(replies.complete(key(2, 0), Some(long)));
        assert!(!is_kept(replies, key(1, 0)));
        assert!(is_kept(replies, key(2, 0)));
        assert_eq!(replies.shares.lock().counts(), (1, 1, 2 * CALL_BYTES));
    }

    #[test]
    fn the_client_that_was_heard_longest_ago_loses_its_share_unless_a_call_of_it_runs() {
        let replies = &Replies::new(ReplyBounds {
            running_max: 9,
            ..FEW
        });
        assert!(replies.hear(of("192.0.2.1", 1)).is_none());
        done(replies, of("192.0.2.2", 1));
        done(replies, of("192.0.2.3", 1));
        assert!(!is_kept(replies, of("192.0.2.2", 1)));
        assert!(replies.hear(of("192.0.2.3", 2)).is_none());
        let full = replies.hear(of("192.0.2.4", 1));
        assert!(matches!(full, Some(Heard::Full)), "{full:?}");
        assert!(replies.complete(of("192.0.2.1", 1), None));
        assert!(replies.hear(of("192.0.2.4", 1)).is_none());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_share_and_are_told_apart() {
        let replies = &Replies::new(FEW);
        done(replies, of("192.0.2.1", 1));
        for client in ["2001:db8::1", "2001:db8::2", "2001:db8::3"] {
            assert!(!is_kept(replies, of(client, 7)));
            done(replies, of(client, 7));
        }
        assert!(is_kept(replies, of("192.0.2.1", 1)));
        assert!(!is_kept(replies, of("2001:db8::1", 7)));
        assert!(is_kept(replies, of("2001:db8::3", 7)));
    }

    #[test]
    fn a_call_that_runs_is_not_forgotten_whatever_comes_after_it() {
        let replies = &Replies::new(ReplyBounds {
            client_running_max: 2,
            ..FEW
        });
        assert!(replies.hear(key(1, 7)).is_none());
        for xid in 2..=20 {
            done(replies, key(xid, 0));
        }
        assert!(matches!(replies.hear(key(1, 7)), Some(Heard::Running)));
        assert!(replies.complete(key(1, 7), None));
        assert!(is_kept(replies, key(1, 7)));
    }

    #[test]
    fn a_call_for_which_there_is_no_place_does_not_run() {
        let replies = &Replies::new(FEW);
        let (first, second) = (of("192.0.2.1", 1), of("192.0.2.2", 1));
        assert!(replies.hear(first).is_none());
        let more = replies.hear(of("192.0.2.1", 2));
        assert!(matches!(more, Some(Heard::Full)), "{more:?}");
        assert!(replies.hear(second).is_none());
        assert!(replies.complete(first, None));
        assert!(replies.hear(of("192.0.2.1", 2)).is_none());
    }

    #[test]
    fn thirty_seconds_of_creates_are_kept_at_the_rates_that_the_manual_says() {
        const CREATE_BYTES: usize = CALL_BYTES + 260;
        let bounds = ReplyBounds::default();
        let per_second = |bytes_max: usize| bytes_max / CREATE_BYTES / 30;
        assert!(per_second(bounds.client_bytes_max) >= 5_000);
        assert!(per_second(bounds.bytes_max) >= 20_000);
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
        assert_eq!(replies.shares.lock().counts().1, 1);
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
