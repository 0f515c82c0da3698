//! Layouts as an administrator sees them.

use super::{Layouts, Phase};
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

    /// One of them: whose, of which file, whether for writing, and when its recall is overdue.
    pub(crate) fn seen(&self, other: &Other) -> Option<(ClientId, u64, bool, Option<u64>)> {
        let layout = self.states.get(other)?;
        let deadline_ms = match layout.phase {
            Phase::Held => None,
            Phase::Recalling(due) | Phase::Returning(due) => Some(due.deadline_ms),
        };
        Some((layout.client, layout.file, layout.held.rw, deadline_ms))
    }
}
