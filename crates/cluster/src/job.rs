//! Background work of one kind: at most one task at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Work that runs in at most one task at a time.
#[derive(Debug, Clone, Default)]
pub struct Job(Arc<AtomicBool>);

impl Job {
    /// Starts a task unless the one before is still running. A panic in it does not stop the job for good.
    pub fn start<F>(&self, work: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.0.swap(true, Relaxed) {
            return;
        }
        let running = Running(Arc::clone(&self.0));
        let work = work();
        tokio::spawn(async move {
            let _running = running;
            work.await;
        });
    }
}

/// Lets the next task start when this one ends, however it ends.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[tokio::test]
    async fn a_job_runs_once_at_a_time_and_again_after_a_panic() {
        let (job, count) = (Job::default(), Arc::new(AtomicU32::new(0)));
        let work = |panics: bool| {
            let count = Arc::clone(&count);
            move || async move {
                count.fetch_add(1, Relaxed);
                assert!(!panics, "as a test wants it");
            }
        };
        job.start(work(true));
        job.start(work(false));
        tokio::task::yield_now().await;
        assert_eq!(count.load(Relaxed), 1, "the second one found the first");
        job.start(work(false));
        tokio::task::yield_now().await;
        assert_eq!(count.load(Relaxed), 2);
    }
}
