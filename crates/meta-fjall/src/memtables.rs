//! The memory of memtables that were written out, freed where nobody waits for it.
//!
//! fjall drops a memtable under the lock that every read and write of the tree takes. If that frees its entries, some hundred
//! thousand at 32 MiB, all callers stand still (60-90 ms, fjall 3.1.13 on a virtual machine). So a handle of each memtable is held
//! here until nobody else has one, and the last one to go is ours.
//!
//! # Ownership
//! [`Memtables`] owns the thread; dropping it ends and joins the thread, which frees what it holds. What is held here beyond fjall's own handles is
//! gone within [`LOOK_AGAIN`], so this adds at most the memtables of that time.
//!
//! # Ordering
//! A memtable that was begun and sealed between two calls of [`Memtables::look`] is not seen: then fjall frees it as before.

use fjall::{AbstractTree, Keyspace};
use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two looks whether fjall has let go of a memtable.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A memtable, of whose type nothing is needed.
type Handle = Arc<dyn Any + Send + Sync>;

/// The newest memtable that was seen, and the thread that frees those before it.
#[derive(Debug)]
pub(crate) struct Memtables {
    active: Option<(u64, Handle)>,
    /// `None` only while it is dropped.
    sealed: Option<Sender<Handle>>,
    thread: Option<JoinHandle<()>>,
}

impl Memtables {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (sealed, received) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("meta-memtables".into())
            .spawn(move || free(&received))?;
        Ok(Self {
            active: None,
            sealed: Some(sealed),
            thread: Some(thread),
        })
    }

    /// Sees whether another memtable is written to than at the last look.
    pub(crate) fn look(&mut self, keyspace: &Keyspace) {
        let active = keyspace.tree.active_memtable();
        let id = active.id();
        if self.active.as_ref().is_some_and(|(seen, _)| *seen == id) {
            return;
        }
        let before = self.active.replace((id, active));
        if let (Some((_, before)), Some(sealed)) = (before, &self.sealed) {
            // The thread ends before this sender only by a panic; then fjall's handle is the last one again.
            let _ = sealed.send(before);
        }
    }
}

impl Drop for Memtables {
    fn drop(&mut self) {
        self.sealed = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sleeps while there is nothing to free; ends with the sender.
fn free(sealed: &Receiver<Handle>) {
    let mut held: Vec<Handle> = Vec::new();
    loop {
        let received = if held.is_empty() {
            sealed.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            sealed.recv_timeout(LOOK_AGAIN)
        };
        match received {
            Ok(handle) => held.push(handle),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // With one handle left it is ours, and no other can be made of it.
        held.retain(|handle| Arc::strong_count(handle) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fjall::{Database, KeyspaceCreateOptions};

    /// The last handle of a memtable that was written out goes here, and not before fjall has let go of its own.
    #[test]
    fn a_memtable_is_freed_here_after_fjall_has_let_go_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::builder(dir.path()).open().unwrap();
        let keyspace = database
            .keyspace("k", KeyspaceCreateOptions::default)
            .unwrap();
        let mut memtables = Memtables::start().unwrap();
        memtables.look(&keyspace);
        keyspace.insert("key", "value").unwrap();
        let first = Arc::downgrade(&keyspace.tree.active_memtable());
        keyspace.rotate_memtable_and_wait().unwrap();
        // fjall forgets old versions of a tree when it makes further ones.
        let mut rounds = 0;
        while first.strong_count() > 1 && rounds < 1000 {
            keyspace.insert("key", "value").unwrap();
            keyspace.rotate_memtable_and_wait().unwrap();
            rounds += 1;
        }
        assert_eq!(first.strong_count(), 1, "fjall has let go, ours is left");
        memtables.look(&keyspace);
        for _ in 0..1000 {
            if first.strong_count() == 0 {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        panic!("the memory was never freed");
    }
}
