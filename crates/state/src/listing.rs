//! What clients hold, as an administrator sees it: bounded copies.
//!
//! Owns nothing. Each call copies at most as much as its caller says, so that nobody who waits for the tables waits for long.

use nfs4::ClientId;

use crate::delegations::DelegationKind;
use crate::file_states::FileStates;
use crate::locks::LockState;
use crate::opens::{Open, Share};
use crate::ranges::{LockKind, LockRange};
use crate::stateid::Other;
use crate::wanted::Wanted;

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
            HeldKind::Opens => {
                let opens = self.opens.of_client_by_file(client);
                opens.take(max).map(open).collect()
            }
            HeldKind::Locks => {
                let states = self.locks.of_client_by_file(client, max);
                states.flat_map(locks).take(max).collect()
            }
            HeldKind::Waits => Vec::new(),
            HeldKind::Delegations => {
                let names = self.delegations.names_of_client(client).take(max);
                names.filter_map(|other| self.delegation(other)).collect()
            }
            HeldKind::Layouts => {
                let names = self.layouts.names_of_client(client).take(max);
                names.filter_map(|other| self.layout(other)).collect()
            }
        }
    }

    /// At most `max` of what is held of a file.
    #[must_use]
    pub fn held_of_file(&self, file: u64, kind: HeldKind, max: usize) -> Vec<Held> {
        match kind {
            HeldKind::Opens => self.opens.of_file(file).take(max).map(open).collect(),
            HeldKind::Locks => {
                let states = self.locks.of_file(file, max);
                states.flat_map(locks).take(max).collect()
            }
            HeldKind::Waits => {
                let waiting = self.locks.waiting(file).take(max);
                waiting.map(|wanted| waits(&wanted)).collect()
            }
            HeldKind::Delegations => {
                let names = self.delegations.names_of_file(file).take(max);
                names.filter_map(|other| self.delegation(other)).collect()
            }
            HeldKind::Layouts => {
                let names = self.layouts.names_of_file(file).take(max);
                names.filter_map(|other| self.layout(other)).collect()
            }
        }
    }

    /// At most `max` delegations and as many layouts of a client that are recalled.
    #[must_use]
    pub fn recalled_of_client(&self, client: ClientId, max: usize) -> Vec<Held> {
        let is_its = |held: &Held| held.client == client;
        let delegations = self.delegations.recalled().take(RECALLS_LOOKED_MAX);
        let delegations = delegations.filter_map(|other| self.delegation(other));
        let layouts = self.layouts.recalled().take(RECALLS_LOOKED_MAX);
        let layouts = layouts.filter_map(|other| self.layout(other));
        let delegations = delegations.filter(is_its).take(max);
        delegations
            .chain(layouts.filter(is_its).take(max))
            .collect()
    }

    fn delegation(&self, other: &Other) -> Option<Held> {
        let (client, file, kind, deadline_ms) = self.delegations.seen(other)?;
        let what = HeldWhat::Delegation(kind, deadline_ms);
        Some(held(client, file, &[], what))
    }

    fn layout(&self, other: &Other) -> Option<Held> {
        let (client, file, writes, deadline_ms) = self.layouts.seen(other)?;
        let what = HeldWhat::Layout(writes, deadline_ms);
        Some(held(client, file, &[], what))
    }
}

fn held(client: ClientId, file: u64, owner: &[u8], what: HeldWhat) -> Held {
    Held {
        client,
        file,
        owner: owner.to_vec(),
        what,
    }
}

fn open(open: &Open) -> Held {
    let what = HeldWhat::Open(open.share());
    held(open.client, open.file, open.owner(), what)
}

fn locks(state: &LockState) -> impl Iterator<Item = Held> + '_ {
    state.ranges.iter().map(|(range, kind)| {
        let what = HeldWhat::Lock(range, kind);
        held(state.client, state.file, &state.owner, what)
    })
}

fn waits(wanted: &Wanted<'_>) -> Held {
    let what = HeldWhat::Waits(wanted.range, wanted.kind);
    held(wanted.client, wanted.file, wanted.owner, what)
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
