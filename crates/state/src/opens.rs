//! Opens: share reservations of open-owners on files (RFC 8881 §9.7 to §9.10, §18.16, §18.18, §18.2).
//!
//! Owns one open state for each (client, open-owner, file). Does not own locks taken under an open;
//! [`crate::FileStates`] joins the two. Memory: about 250 bytes an open plus twice the owner (at most
//! [`OWNER_BYTES_MAX`] bytes).

use std::collections::{BTreeMap, BTreeSet};

use nfs4::{ClientId, NfsStatus, Stateid};

use crate::OWNER_BYTES_MAX;
use crate::stateid::{Other, StateKind, StateidSource, check_seqid, next_seqid};

/// OPEN4_SHARE_ACCESS_READ.
pub const ACCESS_READ: u32 = 1;
/// OPEN4_SHARE_ACCESS_WRITE.
pub const ACCESS_WRITE: u32 = 2;
/// OPEN4_SHARE_DENY_READ.
pub const DENY_READ: u32 = 1;
/// OPEN4_SHARE_DENY_WRITE.
pub const DENY_WRITE: u32 = 2;

/// What an OPEN asks for. `access` is 1 to 3 and `deny` 0 to 3, with the "want" bits taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// ACCESS bits.
    pub access: u32,
    /// DENY bits.
    pub deny: u32,
}

impl Share {
    fn is_valid(self) -> bool {
        (1..=3).contains(&self.access) && self.deny <= 3
    }

    fn conflicts(self, other: Self) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }

    fn contains(self, other: Self) -> bool {
        other.access & !self.access == 0 && other.deny & !self.deny == 0
    }
}

/// A set of shares: bit `access * 4 + deny` for each that an OPEN in effect named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shares(u16);

impl Shares {
    fn iter(self) -> impl Iterator<Item = Share> {
        (0..16_u32)
            .filter(move |bit| self.0 & (1 << bit) != 0)
            .map(|bit| Share {
                access: bit / 4,
                deny: bit % 4,
            })
    }

    fn with(self, share: Share) -> Self {
        Self(self.0 | 1 << (share.access * 4 + share.deny))
    }

    fn union(self) -> Share {
        self.iter()
            .fold(Share { access: 0, deny: 0 }, |a, b| Share {
                access: a.access | b.access,
                deny: a.deny | b.deny,
            })
    }
}

/// One open state.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) client: ClientId,
    pub(crate) file: u64,
    owner: Vec<u8>,
    pub(crate) seqid: u32,
    shares: Shares,
}

impl Open {
    pub(crate) fn access(&self) -> u32 {
        self.shares.union().access
    }

    /// All that it shares and denies.
    pub(crate) fn share(&self) -> Share {
        self.shares.union()
    }

    pub(crate) fn owner(&self) -> &[u8] {
        &self.owner
    }
}

/// Most opens, by client and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    /// Of one client.
    pub per_client_max: usize,
    /// Of all.
    pub total_max: usize,
}

impl Default for OpenLimits {
    fn default() -> Self {
        Self {
            per_client_max: 262_144,
            total_max: 4_194_304,
        }
    }
}

/// An OPEN that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The open's stateid.
    pub stateid: Stateid,
    /// Whether this is the owner's first open of the file.
    pub is_new: bool,
}

/// All opens.
#[derive(Debug)]
pub(crate) struct Opens {
    limits: OpenLimits,
    opens: BTreeMap<Other, Open>,
    by_owner: BTreeMap<(ClientId, u64, Vec<u8>), Other>,
    by_file: BTreeMap<u64, BTreeSet<Other>>,
    per_client: BTreeMap<ClientId, usize>,
}

impl Opens {
    pub(crate) fn new(limits: OpenLimits) -> Self {
        Self {
            limits,
            opens: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_file: BTreeMap::new(),
            per_client: BTreeMap::new(),
        }
    }

    pub(crate) fn of_file(&self, file: u64) -> impl Iterator<Item = &Open> {
        self.by_file
            .get(&file)
            .into_iter()
            .flatten()
            .filter_map(|other| self.opens.get(other))
    }

    /// Clients whose opens stand against the share, each once, in ascending order.
    pub(crate) fn conflicts(
        &self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> Vec<ClientId> {
        let clients: BTreeSet<ClientId> = self
            .of_file(file)
            .filter(|o| (o.client, o.owner.as_slice()) != (client, owner))
            .filter(|o| o.shares.union().conflicts(share))
            .map(|o| o.client)
            .collect();
        clients.into_iter().collect()
    }

    pub(crate) fn open(
        &mut self,
        source: &mut StateidSource,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> Result<Opened, NfsStatus> {
        if !share.is_valid() {
            return Err(NfsStatus::Inval);
        }
        self.share(source, client, owner, file, share)
    }

    /// As OPEN, for a share that may have no ACCESS bits.
    pub(crate) fn share(
        &mut self,
        source: &mut StateidSource,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> Result<Opened, NfsStatus> {
        if share.access > 3 || share.deny > 3 || owner.len() > OWNER_BYTES_MAX {
            return Err(NfsStatus::Inval);
        }
        let against = |o: &Open| {
            (o.client, o.owner.as_slice()) != (client, owner) && o.shares.union().conflicts(share)
        };
        if self.of_file(file).any(against) {
            return Err(NfsStatus::ShareDenied);
        }
        let key = (client, file, owner.to_vec());
        if let Some(other) = self.by_owner.get(&key)
            && let Some(open) = self.opens.get_mut(other)
        {
            open.shares = open.shares.with(share);
            open.seqid = next_seqid(open.seqid);
            let stateid = Stateid {
                seqid: open.seqid,
                other: *other,
            };
            return Ok(Opened {
                stateid,
                is_new: false,
            });
        }
        let of_client = self.per_client.entry(client).or_default();
        if *of_client >= self.limits.per_client_max || self.opens.len() >= self.limits.total_max {
            return Err(NfsStatus::Delay);
        }
        *of_client += 1;
        let other = source.next(StateKind::Open);
        self.by_owner.insert(key, other);
        self.by_file.entry(file).or_default().insert(other);
        self.opens.insert(
            other,
            Open {
                client,
                file,
                owner: owner.to_vec(),
                seqid: 1,
                shares: Shares::default().with(share),
            },
        );
        let stateid = Stateid { seqid: 1, other };
        Ok(Opened {
            stateid,
            is_new: true,
        })
    }

    /// Finds an open by stateid, with the checks of RFC 8881 §8.2.4.
    pub(crate) fn check(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<&Open, NfsStatus> {
        let open = self
            .opens
            .get(&stateid.other)
            .filter(|o| o.client == client && o.file == file)
            .ok_or(NfsStatus::BadStateid)?;
        check_seqid(stateid.seqid, open.seqid)?;
        Ok(open)
    }

    /// The open of an owner on a file.
    pub(crate) fn of_owner(&self, client: ClientId, file: u64, owner: &[u8]) -> Option<Other> {
        let key = (client, file, owner.to_vec());
        self.by_owner.get(&key).copied()
    }

    pub(crate) fn by_other(&self, other: &Other) -> Option<&Open> {
        self.opens.get(other)
    }

    /// Whether the owner's own open of the file stands against the share.
    pub(crate) fn own_conflict(
        &self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> bool {
        let other = self.by_owner.get(&(client, file, owner.to_vec()));
        let open = other.and_then(|other| self.opens.get(other));
        open.is_some_and(|open| open.shares.union().conflicts(share))
    }

    /// OPEN_CONFIRM of NFSv4.0.
    pub(crate) fn confirm(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<Stateid, NfsStatus> {
        self.check(stateid, client, file)?;
        let open = self.opens.get_mut(&stateid.other);
        let open = open.ok_or(NfsStatus::BadStateid)?;
        open.seqid = next_seqid(open.seqid);
        Ok(Stateid {
            seqid: open.seqid,
            other: stateid.other,
        })
    }

    /// OPEN_DOWNGRADE: the share must be the union of some of the OPENs in effect (§18.18.3), and
    /// those remain.
    pub(crate) fn downgrade(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
        share: Share,
    ) -> Result<Stateid, NfsStatus> {
        let open = self.check(stateid, client, file)?;
        if !share.is_valid() {
            return Err(NfsStatus::Inval);
        }
        let remaining = open
            .shares
            .iter()
            .filter(|s| share.contains(*s))
            .fold(Shares::default(), Shares::with);
        if remaining.union() != share {
            return Err(NfsStatus::Inval);
        }
        let open = self
            .opens
            .get_mut(&stateid.other)
            .expect("the open was found above");
        open.shares = remaining;
        open.seqid = next_seqid(open.seqid);
        Ok(Stateid {
            seqid: open.seqid,
            other: stateid.other,
        })
    }

    pub(crate) fn remove(&mut self, other: &Other) -> Option<Open> {
        let open = self.opens.remove(other)?;
        self.by_owner
            .remove(&(open.client, open.file, open.owner.clone()));
        if let Some(set) = self.by_file.get_mut(&open.file) {
            set.remove(other);
            if set.is_empty() {
                self.by_file.remove(&open.file);
            }
        }
        if let Some(count) = self.per_client.get_mut(&open.client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&open.client);
            }
        }
        Some(open)
    }

    /// Names of a client's opens, by file and owner.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Other> {
        self.by_owner
            .range((client, 0, Vec::new())..)
            .take_while(|((c, _, _), _)| *c == client)
            .map(|(_, other)| *other)
            .collect()
    }

    /// ACCESS bits over all opens of a client on a file.
    pub(crate) fn client_access(&self, client: ClientId, file: u64) -> u32 {
        self.of_file(file)
            .filter(|o| o.client == client)
            .fold(0, |bits, o| bits | o.access())
    }

    /// ACCESS bits over all opens of a file.
    pub(crate) fn access(&self, file: u64) -> u32 {
        self.of_file(file).fold(0, |bits, o| bits | o.access())
    }

    /// ACCESS bits over all opens of a file but those of a client.
    pub(crate) fn others_access(&self, client: ClientId, file: u64) -> u32 {
        self.of_file(file)
            .filter(|o| o.client != client)
            .fold(0, |bits, o| bits | o.access())
    }

    /// DENY bits over all opens of a file.
    pub(crate) fn deny(&self, file: u64) -> u32 {
        self.of_file(file)
            .fold(0, |bits, o| bits | o.shares.union().deny)
    }

    pub(crate) fn count_of_file(&self, file: u64) -> usize {
        self.by_file.get(&file).map_or(0, BTreeSet::len)
    }

    /// A client's opens, by file and owner.
    pub(crate) fn of_client_by_file(&self, client: ClientId) -> impl Iterator<Item = &Open> {
        self.by_owner
            .range((client, 0, Vec::new())..)
            .take_while(move |((c, _, _), _)| *c == client)
            .filter_map(|(_, other)| self.opens.get(other))
    }

    /// Opens of a client.
    pub(crate) fn count_of_client(&self, client: ClientId) -> usize {
        self.per_client.get(&client).copied().unwrap_or(0)
    }

    pub(crate) fn has_client(&self, client: ClientId) -> bool {
        self.per_client.contains_key(&client)
    }

    pub(crate) fn len(&self) -> usize {
        self.opens.len()
    }
}
