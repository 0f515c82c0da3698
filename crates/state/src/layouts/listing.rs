//! Layouts as an administrator sees them.

use super::{Layouts, Phase};
use crate::listing::{Held, HeldWhat};
use crate::stateid::Other;
use nfs4::ClientId;

impl Layouts {
    /// How many the client holds.
    #[must_use]
    pub fn count_of_client(&self, client: ClientId) -> usize {
        self.holders.count_of_client(client)
    }

    /// Names of a client's layouts.
    pub(crate) fn names_of_client(&self, client: ClientId) -> impl Iterator<Item = &Other> {
        self.holders.of_client(client)
    }

    /// Names of a file's layouts.
    pub(crate) fn names_of_file(&self, file: u64) -> impl Iterator<Item = &Other> {
        self.holders.of_file(file).map(|(_, other)| other)
    }

    /// Names of those under recall.
    pub(crate) fn recalled(&self) -> impl Iterator<Item = &Other> {
        self.recalls.iter()
    }

    /// What an administrator sees of one.
    pub(crate) fn copy(&self, other: &Other) -> Option<Held> {
        let layout = self.states.get(other)?;
        let deadline_ms = match layout.phase {
            Phase::Held => None,
            Phase::Recalling(due) | Phase::Returning(due) => Some(due.deadline_ms),
        };
        Some(Held {
            client: layout.client,
            file: layout.file,
            owner: Vec::new(),
            what: HeldWhat::Layout(layout.held.rw, deadline_ms),
        })
    }
}
