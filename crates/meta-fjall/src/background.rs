//! A thread that does one piece of work each time somebody asks.
//!
//! # Ownership
//! [`Background`] owns the thread. Dropping it ends and joins the thread, which may take as long as the work.

use std::ops::ControlFlow;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

/// The thread.
#[derive(Debug)]
pub(crate) struct Background {
    /// `None` only while it is dropped.
    wanted: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread. It ends when `work` breaks.
    pub(crate) fn start(
        name: &str,
        mut work: impl FnMut() -> ControlFlow<()> + Send + 'static,
    ) -> std::io::Result<Self> {
        // One request at a time: the work that it brings about finds what a second one would.
        let (wanted, received) = mpsc::sync_channel::<()>(1);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || while received.recv().is_ok() && work().is_continue() {})?;
        Ok(Self {
            wanted: Some(wanted),
            thread: Some(thread),
        })
    }

    /// Asks for the work, unless it is asked for already.
    pub(crate) fn ask(&self) {
        if let Some(wanted) = &self.wanted {
            let _ = wanted.try_send(());
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
