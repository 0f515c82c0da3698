//! Stateids that were taken from their clients, until FREE_STATEID acknowledges the loss
//! (RFC 8881 §8.2.4, §18.38, §18.46.3).
//!
//! Memory: about 60 bytes each, at most [`REVOKED_PER_CLIENT_MAX`] a client; beyond that a revoked
//! stateid is merely unknown (`BAD_STATEID`).

use std::collections::BTreeMap;

use nfs4::{ClientId, NfsStatus};

use crate::stateid::Other;
use crate::status_flags;

/// Most revoked stateids remembered for one client.
pub const REVOKED_PER_CLIENT_MAX: usize = 4096;

/// Why state was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RevokeCause {
    /// The lease was over and all of the client's state went.
    ExpiredAll,
    /// The lease was over and another client needed this.
    ExpiredSome,
    /// An administrator's order.
    Admin,
    /// A recall was not answered.
    Recall,
}

impl RevokeCause {
    /// What an operation that names the state gets.
    #[must_use]
    pub fn status(self) -> NfsStatus {
        match self {
            Self::ExpiredAll | Self::ExpiredSome => NfsStatus::Expired,
            Self::Admin => NfsStatus::AdminRevoked,
            Self::Recall => NfsStatus::DelegRevoked,
        }
    }

    fn flag(self) -> u32 {
        match self {
            Self::ExpiredAll => status_flags::EXPIRED_ALL_STATE_REVOKED,
            Self::ExpiredSome => status_flags::EXPIRED_SOME_STATE_REVOKED,
            Self::Admin => status_flags::ADMIN_STATE_REVOKED,
            Self::Recall => status_flags::RECALLABLE_STATE_REVOKED,
        }
    }
}

/// All revoked stateids.
#[derive(Debug, Default)]
pub(crate) struct Revoked {
    by_client: BTreeMap<ClientId, BTreeMap<Other, RevokeCause>>,
}

impl Revoked {
    pub(crate) fn add(&mut self, client: ClientId, other: Other, cause: RevokeCause) {
        let of_client = self.by_client.entry(client).or_default();
        if of_client.len() < REVOKED_PER_CLIENT_MAX {
            of_client.insert(other, cause);
        }
    }

    pub(crate) fn cause(&self, client: ClientId, other: &Other) -> Option<RevokeCause> {
        self.by_client.get(&client)?.get(other).copied()
    }

    /// Whose revoked stateid this is.
    pub(crate) fn client_of(&self, other: &Other) -> Option<ClientId> {
        let mut clients = self.by_client.iter();
        let found = clients.find(|(_, revoked)| revoked.contains_key(other));
        found.map(|(client, _)| *client)
    }

    /// FREE_STATEID of a revoked stateid; whether there was one.
    pub(crate) fn free(&mut self, client: ClientId, other: &Other) -> bool {
        let Some(of_client) = self.by_client.get_mut(&client) else {
            return false;
        };
        let freed = of_client.remove(other).is_some();
        if of_client.is_empty() {
            self.by_client.remove(&client);
        }
        freed
    }

    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.by_client.remove(&client);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    pub(crate) fn status_flags(&self, client: ClientId) -> u32 {
        self.by_client
            .get(&client)
            .into_iter()
            .flat_map(BTreeMap::values)
            .fold(0, |flags, cause| flags | cause.flag())
    }
}
