//! Threads that each run a tokio current-thread runtime, and the signal that stops them.
//!
//! One runtime per core, each with its own listener, so that a request never changes its thread.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;

/// Tells servers to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A signal that was not given yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Gives the signal, for good.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }

    /// Something to wait with.
    #[must_use]
    pub fn signal(&self) -> ShutdownSignal {
        ShutdownSignal(self.0.subscribe())
    }
}

/// Waits for a [`Shutdown`]. The loss of every [`Shutdown`] counts as the signal.
#[derive(Debug, Clone)]
pub struct ShutdownSignal(watch::Receiver<bool>);

impl ShutdownSignal {
    /// Returns once the signal was given.
    pub async fn wait(&self) {
        // The error is the loss of the sender, which is the signal too.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }

    /// Whether it was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// Threads started by [`spawn_workers`].
#[derive(Debug)]
pub struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    /// Waits for every worker to end (blocking). Returns how many of them panicked.
    #[must_use]
    pub fn join(self) -> usize {
        self.0
            .into_iter()
            .map(JoinHandle::join)
            .filter(Result::is_err)
            .count()
    }
}

/// Starts `count` threads named `name-0`, `name-1`, ... Each runs the future that `make` returns
/// for its index, on a current-thread runtime of its own, and ends with it. Tasks that the future
/// left behind are dropped then.
///
/// # Errors
/// When a runtime or a thread cannot be made; workers that were started run on.
pub fn spawn_workers<F, Fut>(count: usize, name: &str, make: F) -> io::Result<Workers>
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()>,
{
    let make = Arc::new(make);
    let runtimes = (0..count)
        .map(|_| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
        })
        .collect::<io::Result<Vec<_>>>()?;
    let mut threads = Vec::with_capacity(count);
    for (index, runtime) in runtimes.into_iter().enumerate() {
        let make = Arc::clone(&make);
        let thread = std::thread::Builder::new().name(format!("{name}-{index}"));
        threads.push(thread.spawn(move || runtime.block_on(make(index)))?);
    }
    Ok(Workers(threads))
}
