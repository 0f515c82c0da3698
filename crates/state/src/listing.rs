//! What clients hold, as an administrator sees it: bounded copies.
//!
//! Owns nothing. Each call copies at most as much as its caller says, so that nobody who waits for the tables waits for long.

use nfs4::ClientId;

use crate::delegations::DelegationKind;
use crate::file_states::FileStates;
use crate::opens::Share;
use crate::ranges::{LockKind, LockRange};
use crate::stateid::Other;

/// Recalls of all clients that are looked at to find those of one.
const RECALLS_LOOKED_MAX: usize = 16_384;

/// How much a client holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldCounts {
    /// Opens; of a host files that it shares.
    pub opens: usize,
    /// Locked byte ranges.
    pub ranges: usize,
    /// Delegations.
    pub delegations: usize,
    /// Layouts.
    pub layouts: usize,
}

/// One thing that a client holds of a file, or waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The client.
    pub client: ClientId,
    /// The file.
    pub file: u64,
    /// The open-owner or lock-owner; empty of what is the client's as a whole.
    pub owner: Vec<u8>,
    /// What it is.
    pub what: HeldWhat,
}

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldWhat {
    /// An open with all that it shares and denies.
    Open(Share),
    /// A locked range.
    Lock(LockRange, LockKind),
    /// A range that is locked by others, and was asked for by somebody who will wait.
    Waits(LockRange, LockKind),
    /// A delegation, and when its recall is overdue if it is recalled.
    Delegation(DelegationKind, Option<u64>),
    /// A layout: whether it is for writing as well, and when its recall is overdue if it is recalled.
    Layout(bool, Option<u64>),
}

/// A kind of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldKind {
    /// Opens.
    Opens,
    /// Byte-range locks.
    Locks,
    /// Denied requests for locks that wait; of a file only.
    Waits,
    /// Delegations.
    Delegations,
    /// Layouts.
    Layouts,
}

impl FileStates {
    /// How much a client holds: a look at counters.
    #[must_use]
    pub fn held_counts(&self, client: ClientId) -> HeldCounts {
        HeldCounts {
            opens: self.opens.count_of_client(client),
            ranges: self.locks.ranges_of(client),
            delegations: self.delegations.count_of_client(client),
            layouts: self.layouts.count_of_client(client),
        }
    }

    /// At most `max` of what a client holds.
    #[must_use]
    pub fn held_by_client(&self, client: ClientId, kind: HeldKind, max: usize) -> Vec<Held> {
        match kind {
            HeldKind::Opens => self.opens.copies_of_client(client).take(max).collect(),
            HeldKind::Locks => self.locks.copies_of_client(client, max),
            HeldKind::Waits => Vec::new(),
            HeldKind::Delegations => {
                let copies = self.delegations.names_of_client(client);
                copies
                    .filter_map(|o| self.delegations.copy(o))
                    .take(max)
                    .collect()
            }
            HeldKind::Layouts => {
                let copies = self.layouts.names_of_client(client);
                copies
                    .filter_map(|o| self.layouts.copy(o))
                    .take(max)
                    .collect()
            }
        }
    }

    /// At most `max` of what is held of a file.
    #[must_use]
    pub fn held_of_file(&self, file: u64, kind: HeldKind, max: usize) -> Vec<Held> {
        match kind {
            HeldKind::Opens => self.opens.copies_of_file(file).take(max).collect(),
            HeldKind::Locks => self.locks.copies_of_file(file, max),
            HeldKind::Waits => self.locks.waiting_copies(file).take(max).collect(),
            HeldKind::Delegations => {
                let copies = self.delegations.names_of_file(file);
                copies
                    .filter_map(|o| self.delegations.copy(o))
                    .take(max)
                    .collect()
            }
            HeldKind::Layouts => {
                let copies = self.layouts.names_of_file(file);
                copies
                    .filter_map(|o| self.layouts.copy(o))
                    .take(max)
                    .collect()
            }
        }
    }

    /// At most `max` delegations and as many layouts of a client that are recalled.
    #[must_use]
    pub fn recalled_of_client(&self, client: ClientId, max: usize) -> Vec<Held> {
        let delegations = (self.delegations.recalled().take(RECALLS_LOOKED_MAX))
            .filter_map(|other: &Other| self.delegations.copy(other))
            .filter(|held| held.client == client)
            .take(max);
        let layouts = (self.layouts.recalled().take(RECALLS_LOOKED_MAX))
            .filter_map(|other: &Other| self.layouts.copy(other))
            .filter(|held| held.client == client)
            .take(max);
        delegations.chain(layouts).collect()
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
