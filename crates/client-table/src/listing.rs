//! Clients as an administrator sees them: with what they said of themselves, and where they are.
//!
//! # Ordering
//! The table is locked for one page of [`PAGE_CLIENTS`] at a time, and the connections after it.

use crate::ClientTable;
use nfs4::ClientId;
use state::ClientView;

/// Clients that are copied under one lock.
pub const PAGE_CLIENTS: usize = 64;
/// Most addresses that are told of one client.
pub const ADDRESSES_MAX: usize = 16;

/// One client, and what the table of clients does not know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownClient {
    /// Of the table.
    pub view: ClientView,
    /// What it calls itself (`nii_name`), if it said so. Cut to [`IMPLEMENTATION_BYTES_MAX`](crate::IMPLEMENTATION_BYTES_MAX).
    pub implementation: Option<Vec<u8>>,
    /// The other ends of its connections, each once, at most [`ADDRESSES_MAX`].
    pub addresses: Vec<String>,
}

impl ClientTable {
    /// At most [`PAGE_CLIENTS`] clients with ids after `after`, in ascending order.
    #[must_use]
    pub fn page(&self, after: Option<ClientId>) -> Vec<KnownClient> {
        let page = self.lock().page(after, self.now_ms(), PAGE_CLIENTS);
        page.into_iter().map(|view| self.known(view)).collect()
    }

    /// One client.
    #[must_use]
    pub fn find(&self, id: ClientId) -> Option<KnownClient> {
        let view = self.lock().view(id, self.now_ms());
        view.map(|view| self.known(view))
    }

    fn known(&self, view: ClientView) -> KnownClient {
        let mut addresses: Vec<String> = {
            let connections = self.connections.lock();
            let live = view.connections.iter().filter_map(|c| connections.get(c));
            live.map(|conn| conn.peer().to_string()).collect()
        };
        addresses.extend(view.callback.map(|address| address.to_string()));
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(ADDRESSES_MAX);
        KnownClient {
            implementation: self.implementation(view.id),
            view,
            addresses,
        }
    }
}
