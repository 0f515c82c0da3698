//! Who holds what of a file: the index of layouts and of delegations, by file and by client.
//!
//! One client has at most one state of a kind on a file. A file can be *held*: whoever changes it keeps new states from being
//! granted meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::ClientId;

use crate::stateid::Other;

#[derive(Debug, Default)]
struct OfFile {
    states: BTreeMap<ClientId, Other>,
    holds_count: u32,
}

/// The index. Its entries go with what they are of.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    files: BTreeMap<u64, OfFile>,
    clients: BTreeMap<ClientId, BTreeSet<Other>>,
}

impl Holders {
    pub(crate) fn enter(&mut self, client: ClientId, file: u64, other: Other) {
        self.files
            .entry(file)
            .or_default()
            .states
            .insert(client, other);
        self.clients.entry(client).or_default().insert(other);
    }

    pub(crate) fn leave(&mut self, client: ClientId, file: u64, other: &Other) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.states.remove(&client);
        }
        self.drop_file_if_empty(file);
        if let Some(set) = self.clients.get_mut(&client) {
            set.remove(other);
            if set.is_empty() {
                self.clients.remove(&client);
            }
        }
    }

    /// The state of a client on a file.
    pub(crate) fn find(&self, client: ClientId, file: u64) -> Option<Other> {
        self.files.get(&file)?.states.get(&client).copied()
    }

    /// Clients and their states on a file, by client in ascending order.
    pub(crate) fn of_file(&self, file: u64) -> impl Iterator<Item = (ClientId, &Other)> {
        let states = self.files.get(&file).map(|entry| &entry.states);
        states.into_iter().flatten().map(|(c, other)| (*c, other))
    }

    /// States of a client.
    pub(crate) fn of_client(&self, client: ClientId) -> impl Iterator<Item = &Other> {
        self.clients.get(&client).into_iter().flatten()
    }

    /// How many states a client has.
    pub(crate) fn count_of_client(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, BTreeSet::len)
    }

    /// Clients that have any, and how many.
    pub(crate) fn clients(&self) -> impl ExactSizeIterator<Item = (ClientId, usize)> {
        self.clients
            .iter()
            .map(|(client, set)| (*client, set.len()))
    }

    /// Holds the file until [`Holders::release`] was called as often.
    pub(crate) fn hold(&mut self, file: u64) {
        self.files.entry(file).or_default().holds_count += 1;
    }

    /// Ends one [`Holders::hold`].
    ///
    /// # Panics
    /// Without one: a bug of the caller.
    pub(crate) fn release(&mut self, file: u64) {
        let entry = self.files.entry(file).or_default();
        assert!(
            entry.holds_count > 0,
            "a file is released once for each hold"
        );
        entry.holds_count -= 1;
        self.drop_file_if_empty(file);
    }

    /// Whether somebody holds the file.
    pub(crate) fn is_on_hold(&self, file: u64) -> bool {
        self.files
            .get(&file)
            .is_some_and(|entry| entry.holds_count > 0)
    }

    /// Whether nothing is entered and no file held.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.clients.is_empty()
    }

    fn drop_file_if_empty(&mut self, file: u64) {
        let is_empty = |entry: &OfFile| entry.states.is_empty() && entry.holds_count == 0;
        if self.files.get(&file).is_some_and(is_empty) {
            self.files.remove(&file);
        }
    }
}
