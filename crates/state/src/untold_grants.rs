//! Locks that waiting hosts of NLM were granted and that they were not told of.
//!
//! Owns the list; the locks are in the table of locks. It calls nothing. Memory: about 150 bytes a grant plus the owner.

use std::collections::BTreeMap;

use nfs4::{ClientId, NfsStatus};

use crate::ranges::{LockKind, LockRange};
use crate::wanted::Wanted;

/// A lock that a waiting host holds and was not told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGrant {
    /// Names the grant.
    pub id: u64,
    /// The host.
    pub client: ClientId,
    /// Its lock-owner.
    pub owner: Vec<u8>,
    /// The file.
    pub file: u64,
    /// The range that it asked for.
    pub range: LockRange,
    /// The kind.
    pub kind: LockKind,
}

/// Grants that their hosts were not told of.
#[derive(Debug, Default)]
pub(crate) struct UntoldGrants {
    grants: BTreeMap<u64, HostGrant>,
    last_id: u64,
}

impl UntoldGrants {
    pub(crate) fn check_room(&self, grants_max: usize) -> Result<(), NfsStatus> {
        match self.grants.len() < grants_max {
            true => Ok(()),
            false => Err(NfsStatus::Delay),
        }
    }

    pub(crate) fn add(&mut self, wanted: &Wanted<'_>) -> HostGrant {
        self.last_id += 1;
        let grant = HostGrant {
            id: self.last_id,
            client: wanted.client,
            owner: wanted.owner.to_vec(),
            file: wanted.file,
            range: wanted.range,
            kind: wanted.kind,
        };
        self.grants.insert(grant.id, grant.clone());
        grant
    }

    /// The owner has asked for something on the file itself.
    pub(crate) fn forget_owner(&mut self, client: ClientId, file: u64, owner: &[u8]) {
        let is_its = |g: &HostGrant| (g.client, g.file, &*g.owner) == (client, file, owner);
        self.grants.retain(|_, grant| !is_its(grant));
    }

    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.grants.retain(|_, grant| grant.client != client);
    }

    /// Ends a grant's being untold.
    pub(crate) fn take(&mut self, id: u64) -> Option<HostGrant> {
        self.grants.remove(&id)
    }
}
