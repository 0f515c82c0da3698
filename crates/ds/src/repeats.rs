//! Calls of the MDS that come again while the first one is still under way.
//!
//! The MDS repeats a call whose answer it lost. When one of them is answered, clients go on: the other must not cut or
//! punch then what was written since. So a repeat joins the call that is under way, and gets its answer.
//!
//! # Ownership
//! [`Repeats`] has the calls that are under way, by procedure and arguments: no more than connections bring at one time.
//!
//! # Failure
//! A call that ends without an answer, with its connection, leaves its work to a repeat that waits.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tracing_mutex::parkinglot::Mutex;

/// The procedure and the arguments of a call.
pub(crate) type Asked = (u32, Bytes);
/// The answer of a call, once there is one. Held by the task that does the work.
type UnderWay = Arc<tokio::sync::Mutex<Option<Bytes>>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<FxHashMap<Asked, UnderWay>>);

/// Takes a call out of the table when it ends without an answer and nobody else waits for one.
struct Entered<'a> {
    repeats: &'a Repeats,
    asked: Asked,
    call: UnderWay,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut table = self.repeats.0.lock();
        // Besides this one only the table has it.
        if Arc::strong_count(&self.call) == 2 {
            self.repeats.remove(&mut table, &self.asked, &self.call);
        }
    }
}

impl Repeats {
    /// Does `work` and returns its answer, or that of the same call which was under way when this one came.
    pub(crate) async fn once(&self, asked: Asked, work: impl Future<Output = Bytes>) -> Bytes {
        let call = Arc::clone(self.0.lock().entry(asked.clone()).or_default());
        let entered = Entered {
            repeats: self,
            asked,
            call,
        };
        let mut answer = entered.call.lock().await;
        if let Some(answer) = &*answer {
            return answer.clone();
        }
        let done = work.await;
        *answer = Some(done.clone());
        // The same call may be meant anew from here on.
        self.remove(&mut self.0.lock(), &entered.asked, &entered.call);
        done
    }

    fn remove(&self, table: &mut FxHashMap<Asked, UnderWay>, asked: &Asked, call: &UnderWay) {
        if table
            .get(asked)
            .is_some_and(|there| Arc::ptr_eq(there, call))
        {
            table.remove(asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::cell::Cell;
    use std::future::{pending, ready};
    use tokio::sync::oneshot;

    fn asked() -> Asked {
        (32, Bytes::from_static(b"cut to 3"))
    }

    #[tokio::test]
    async fn a_repeat_of_a_call_under_way_does_nothing_and_has_its_answer() {
        let repeats = Repeats::default();
        let (go, gone) = oneshot::channel::<()>();
        let runs = Cell::new(0);
        let work = |answer: &'static [u8]| {
            runs.set(runs.get() + 1);
            Bytes::from_static(answer)
        };
        let first = repeats.once(asked(), async {
            gone.await.unwrap();
            work(b"first")
        });
        let repeat = repeats.once(asked(), async { work(b"again") });
        let other = repeats.once((33, asked().1), async { work(b"other") });
        let release = async {
            tokio::task::yield_now().await;
            go.send(()).unwrap();
        };
        let (first, repeat, other, ()) = tokio::join!(first, repeat, other, release);
        assert_eq!(
            [&first[..], &repeat, &other],
            [&b"first"[..], b"first", b"other"]
        );
        assert_eq!(runs.get(), 2);
        // After the answer it is another call.
        assert_eq!(repeats.once(asked(), async { work(b"new") }).await, "new");
        assert!(repeats.0.lock().is_empty());
    }

    #[tokio::test]
    async fn a_repeat_takes_over_from_a_call_that_ended_without_an_answer() {
        let repeats = Repeats::default();
        let mut first = Box::pin(repeats.once(asked(), pending()));
        assert!(first.as_mut().now_or_never().is_none());
        let mut repeat = Box::pin(repeats.once(asked(), ready(Bytes::from_static(b"done"))));
        assert!(repeat.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(repeat.await, "done");
        assert!(repeats.0.lock().is_empty());
        drop(Box::pin(repeats.once(asked(), pending())).now_or_never());
        assert!(repeats.0.lock().is_empty());
    }
}
