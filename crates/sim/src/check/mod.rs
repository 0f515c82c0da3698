//! The checkers, one file for each promise. They know the protocol and the history of a run, nothing of the servers' insides.
//!
//! | Checker | Promise |
//! |---|---|
//! | [`attrs`] | change values never repeat with other content and never go back (R7) |
//! | [`stateids`] | no stateid is issued twice, over restarts too |
//! | [`promises`] | nothing is promised to fewer copies than must be in sync (P20) |
//! | [`roles`] | nothing is answered in an old reign of a place after a newer one (P3, P4, P12) |
//! | [`once`] | a request under a slot and sequence id is executed once |
//! | [`names`] | what clients saw of the name space fits one order of what they did (linearizability) |
//! | [`delegations`] | a delegation excludes what it says, and what is cached under it is never stale |
//! | [`credits`] | a client that stays within its credits is served in time and keeps its connections, whatever others do (R14) |
//! | [`locks`] | two conflicting locks are never held at one time |
//! | [`shares`] | no file is open in a way that another open denies |
//! | [`guarded`] | the holder of a lock reads what earlier holders have written |
//! | [`io`] | no I/O under a fenced layout; no removed object comes back |
//! | [`times`] | a modification time that was set stands until data are changed later |
//! | [`data`] | every acknowledged byte is read again until it is overwritten or cut |

pub(crate) mod attrs;
pub(crate) mod credits;
pub(crate) mod data;
pub(crate) mod delegations;
pub(crate) mod guarded;
pub(crate) mod io;
pub(crate) mod linear;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod once;
pub(crate) mod promises;
pub(crate) mod replicas;
pub(crate) mod roles;
pub(crate) mod shares;
pub(crate) mod stateids;
pub(crate) mod times;

use parking_lot::Mutex;
use std::sync::Arc;

/// Findings kept of one run.
const FINDINGS_MAX: usize = 50;

/// Broken promises. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings(Arc<Mutex<Vec<String>>>);

impl Findings {
    /// Notes a broken promise.
    pub(crate) fn add(&self, text: String) {
        let mut list = self.0.lock();
        if list.len() < FINDINGS_MAX {
            list.push(text);
        }
    }

    /// All of them.
    #[must_use]
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}
