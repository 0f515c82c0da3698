//! What the watcher logs.
//!
//! # Ownership
//! A thread writes the lines. The log may lie on the very disk that hangs, and whoever watches must not wait for it.
//!
//! # Failure
//! While the thread waits, [`NEWS_MAX`] lines are kept and later ones are lost.

use crate::failure::{Outcome, cannot};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Lines that wait to be written.
const NEWS_MAX: usize = 64;

/// Where lines go.
pub(super) struct News(SyncSender<(bool, String)>);

impl News {
    /// Starts the thread. It ends with this.
    pub(super) fn start() -> Outcome<Self> {
        let (tell, told) = sync_channel(NEWS_MAX);
        let write = move || {
            for (is_trouble, line) in told {
                if is_trouble {
                    tracing::warn!(target: "ropewalk::watch", "{line}");
                } else {
                    tracing::info!(target: "ropewalk::watch", "{line}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(write).map_err(cannot("start a thread"))?;
        Ok(Self(tell))
    }

    pub(super) fn info(&self, line: String) {
        let _ = self.0.try_send((false, line));
    }

    pub(super) fn warn(&self, line: String) {
        let _ = self.0.try_send((true, line));
    }
}
