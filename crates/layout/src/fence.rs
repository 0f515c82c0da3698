//! What a data server refuses although the signature is good: floors under fencing epochs (R5, R6)
//! and tombstones of removed files (R4).
//!
//! [`Floors`] is the table in memory. Each of its facts is one [`Floor`] record, which is also what
//! travels in the control program and what a data server stores. Records only raise: applying them
//! twice, in any order, or again after a crash gives the same table.
//!
//! # Ownership
//! The MDS decides; a data server owns its table and its durable copy.
//!
//! # Ordering
//! A data server applies a record: from then on [`Floors::check`] refuses. It makes the record durable, waits for I/O that was
//! admitted earlier, and only then acknowledges it.
//!
//! # Failure
//! A full table refuses the record and stays as it was: the data server must not acknowledge it. The
//! MDS rotates and retires keys, and does so before a table is full ([`Floors::fill_percent`]).

use std::collections::BTreeMap;

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{ClientTag, DsHandle, Epoch};

/// Most (file, client) floors that a data server keeps.
pub const CLIENT_FLOORS_MAX: usize = 1 << 20;
/// Most per-file floors that a data server keeps.
pub const FILE_FLOORS_MAX: usize = 1 << 20;
/// Most tombstones that a data server keeps.
pub const TOMBSTONES_MAX: usize = 1 << 22;

/// A fact that raises the table. `through_key` is the newest key that could have signed a handle
/// which the fact refuses: when that key retires, so may the fact (R13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Floor {
    /// No handle below `epoch` is good any more, for any file.
    Cluster {
        /// The lowest good epoch.
        epoch: Epoch,
    },
    /// No handle below `epoch` is good for this file.
    File {
        /// The file.
        file_id: u64,
        /// The lowest good epoch.
        epoch: Epoch,
        /// The newest key that could have signed below it.
        through_key: u32,
    },
    /// No handle of this client below `epoch` is good for this file.
    Client {
        /// The file.
        file_id: u64,
        /// The client.
        client: ClientTag,
        /// The lowest good epoch.
        epoch: Epoch,
        /// The newest key that could have signed below it.
        through_key: u32,
    },
    /// The file is removed: no handle below `generation` is good, and no object of one may be made.
    Tombstone {
        /// The file.
        file_id: u64,
        /// The lowest good generation.
        generation: u32,
        /// The newest key that could have signed below it.
        through_key: u32,
    },
}

/// Under which key a fact is stored: a newer fact of the same key replaces the older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FloorKey {
    /// The cluster floor.
    Cluster,
    /// A file's floor for all.
    File(u64),
    /// A file's floor for a client.
    Client(u64, ClientTag),
    /// A file's tombstone.
    Tombstone(u64),
}

impl FloorKey {
    /// The key as ordered bytes: a kind byte, the file id big-endian, the tag.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let (kind, file_id, tag) = match self {
            Self::Cluster => return vec![0],
            Self::File(file_id) => (1, file_id, None),
            Self::Client(file_id, tag) => (2, file_id, Some(tag)),
            Self::Tombstone(file_id) => (3, file_id, None),
        };
        let mut out = vec![kind];
        out.extend_from_slice(&file_id.to_be_bytes());
        if let Some(tag) = tag {
            out.extend_from_slice(tag.as_bytes());
        }
        out
    }
}

impl Floor {
    /// Under which key this fact is stored.
    #[must_use]
    pub const fn key(&self) -> FloorKey {
        match *self {
            Self::Cluster { .. } => FloorKey::Cluster,
            Self::File { file_id, .. } => FloorKey::File(file_id),
            Self::Client {
                file_id, client, ..
            } => FloorKey::Client(file_id, client),
            Self::Tombstone { file_id, .. } => FloorKey::Tombstone(file_id),
        }
    }

    /// The newest key that could have signed what this fact refuses; `None` for the cluster floor, which outlives keys.
    #[must_use]
    pub const fn through_key(&self) -> Option<u32> {
        match *self {
            Self::Cluster { .. } => None,
            Self::File { through_key, .. }
            | Self::Client { through_key, .. }
            | Self::Tombstone { through_key, .. } => Some(through_key),
        }
    }
}

impl Decode<'_> for Floor {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let offset = d.position();
        Ok(match d.u32()? {
            0 => Self::Cluster {
                epoch: Epoch::decode(d)?,
            },
            1 => Self::File {
                file_id: d.u64()?,
                epoch: Epoch::decode(d)?,
                through_key: d.u32()?,
            },
            2 => Self::Client {
                file_id: d.u64()?,
                client: ClientTag::decode(d)?,
                epoch: Epoch::decode(d)?,
                through_key: d.u32()?,
            },
            3 => Self::Tombstone {
                file_id: d.u64()?,
                generation: d.u32()?,
                through_key: d.u32()?,
            },
            v => {
                return Err(DecodeError {
                    kind: xdr::DecodeErrorKind::BadDiscriminant(v),
                    offset,
                });
            }
        })
    }
}

impl Encode for Floor {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Cluster { epoch } => {
                e.u32(0);
                epoch.encode(e);
            }
            Self::File {
                file_id,
                epoch,
                through_key,
            } => {
                e.u32(1);
                e.u64(*file_id);
                epoch.encode(e);
                e.u32(*through_key);
            }
            Self::Client {
                file_id,
                client,
                epoch,
                through_key,
            } => {
                e.u32(2);
                e.u64(*file_id);
                client.encode(e);
                epoch.encode(e);
                e.u32(*through_key);
            }
            Self::Tombstone {
                file_id,
                generation,
                through_key,
            } => {
                e.u32(3);
                e.u64(*file_id);
                e.u32(*generation);
                e.u32(*through_key);
            }
        }
    }
}

/// Why a handle with a good signature is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleRefusal {
    /// Below a floor: `NFS4ERR_PNFS_NO_LAYOUT`.
    Fenced,
    /// The file is removed: `NFS4ERR_STALE`.
    Removed,
}

/// What applying a record did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The record as the table now has it, to be made durable; `None` when the table already covered it.
    pub store: Option<Floor>,
    /// Stored facts that the new one made needless. They may be deleted once it is durable;
    /// keeping them longer does no harm.
    pub obsolete: Vec<FloorKey>,
}

/// A table is at its limit; the record was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull {
    /// The limit that was met.
    pub limit: usize,
}

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the table of floors is full at {} entries", self.limit)
    }
}

impl std::error::Error for TableFull {}

/// Limits of the three tables, in entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorsLimits {
    /// Most (file, client) floors.
    pub clients: usize,
    /// Most per-file floors.
    pub files: usize,
    /// Most tombstones.
    pub tombstones: usize,
}

impl Default for FloorsLimits {
    fn default() -> Self {
        Self {
            clients: CLIENT_FLOORS_MAX,
            files: FILE_FLOORS_MAX,
            tombstones: TOMBSTONES_MAX,
        }
    }
}

/// A lowest good value and the newest key that could have signed below it.
#[derive(Debug, Clone, Copy)]
struct Low<T> {
    value: T,
    through_key: u32,
}

/// The floors and tombstones of one data server.
#[derive(Debug, Default)]
pub struct Floors {
    limits: FloorsLimits,
    cluster: Epoch,
    files: BTreeMap<u64, Low<Epoch>>,
    clients: BTreeMap<(u64, ClientTag), Low<Epoch>>,
    tombstones: BTreeMap<u64, Low<u32>>,
    /// Facts that only keys up to this one need are not taken any more.
    retired_through: u32,
}

impl Floors {
    /// An empty table with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table.
    #[must_use]
    pub fn with_limits(limits: FloorsLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// How full the fullest of the tables is, in percent.
    #[must_use]
    pub fn fill_percent(&self) -> u32 {
        let percent = |len: usize, limit: usize| len.saturating_mul(100) / limit.max(1);
        let fullest = percent(self.files.len(), self.limits.files)
            .max(percent(self.clients.len(), self.limits.clients))
            .max(percent(self.tombstones.len(), self.limits.tombstones));
        u32::try_from(fullest).unwrap_or(u32::MAX)
    }

    /// The cluster-wide floor.
    #[must_use]
    pub const fn cluster(&self) -> Epoch {
        self.cluster
    }

    /// Entries in all tables, the cluster floor not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len() + self.clients.len() + self.tombstones.len()
    }

    /// Whether there is nothing but the cluster floor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a handle with a good signature still holds.
    ///
    /// # Errors
    /// [`HandleRefusal`]: removed goes before fenced, because asking the MDS again cannot help there.
    pub fn check(&self, handle: &DsHandle) -> Result<(), HandleRefusal> {
        if self.is_removed(handle.file_id, handle.generation) {
            return Err(HandleRefusal::Removed);
        }
        let below = |low: Option<&Low<Epoch>>| low.is_some_and(|low| handle.epoch < low.value);
        let fenced = handle.epoch < self.cluster
            || below(self.files.get(&handle.file_id))
            || below(self.clients.get(&(handle.file_id, handle.client)));
        if fenced {
            return Err(HandleRefusal::Fenced);
        }
        Ok(())
    }

    /// Whether a tombstone covers this generation of a file: no object of it may be made.
    #[must_use]
    pub fn is_removed(&self, file_id: u64, generation: u32) -> bool {
        self.tombstones
            .get(&file_id)
            .is_some_and(|low| generation < low.value)
    }

    /// Raises the table by one fact. One that only retired keys need, which comes late, is covered by their absence.
    ///
    /// # Errors
    /// [`TableFull`]; the table is unchanged.
    pub fn apply(&mut self, record: Floor) -> Result<Applied, TableFull> {
        let needless = |through| through <= self.retired_through;
        if record.through_key().is_some_and(needless) {
            return Ok(Applied::default());
        }
        match record {
            Floor::Cluster { epoch } => Ok(self.raise_cluster(epoch)),
            Floor::File {
                file_id,
                epoch,
                through_key,
            } => self.raise_file(file_id, epoch, through_key),
            Floor::Client {
                file_id,
                client,
                epoch,
                through_key,
            } => {
                // A file floor that retires earlier does not stand in for this one.
                let covered_by_file = self
                    .files
                    .get(&file_id)
                    .is_some_and(|f| f.value >= epoch && f.through_key >= through_key);
                if epoch <= self.cluster || covered_by_file {
                    return Ok(Applied::default());
                }
                let key = (file_id, client);
                let low = raise(
                    &mut self.clients,
                    key,
                    epoch,
                    through_key,
                    self.limits.clients,
                )?;
                Ok(stored(low.map(|low| Floor::Client {
                    file_id,
                    client,
                    epoch: low.value,
                    through_key: low.through_key,
                })))
            }
            Floor::Tombstone {
                file_id,
                generation,
                through_key,
            } => {
                let limit = self.limits.tombstones;
                let low = raise(
                    &mut self.tombstones,
                    file_id,
                    generation,
                    through_key,
                    limit,
                )?;
                Ok(stored(low.map(|low| Floor::Tombstone {
                    file_id,
                    generation: low.value,
                    through_key: low.through_key,
                })))
            }
        }
    }

    /// A cluster floor makes every lower floor of files and clients needless. Tombstones stay: they
    /// forbid a generation, whatever its epoch.
    fn raise_cluster(&mut self, epoch: Epoch) -> Applied {
        if epoch <= self.cluster {
            return Applied::default();
        }
        self.cluster = epoch;
        let mut applied = stored(Some(Floor::Cluster { epoch }));
        let covered = |low: &Low<Epoch>| low.value <= epoch;
        drop_where(
            &mut self.files,
            |_, low| covered(low),
            |file_id| {
                applied.obsolete.push(FloorKey::File(file_id));
            },
        );
        drop_where(
            &mut self.clients,
            |_, low| covered(low),
            |(file_id, tag)| {
                applied.obsolete.push(FloorKey::Client(file_id, tag));
            },
        );
        applied
    }

    fn raise_file(
        &mut self,
        file_id: u64,
        epoch: Epoch,
        through_key: u32,
    ) -> Result<Applied, TableFull> {
        if epoch <= self.cluster {
            return Ok(Applied::default());
        }
        let low = raise(
            &mut self.files,
            file_id,
            epoch,
            through_key,
            self.limits.files,
        )?;
        let Some(low) = low else {
            return Ok(Applied::default());
        };
        let mut applied = stored(Some(Floor::File {
            file_id,
            epoch: low.value,
            through_key: low.through_key,
        }));
        let range = (file_id, ClientTag::MIN)..=(file_id, ClientTag::MAX);
        let covered: Vec<_> = self
            .clients
            .range(range)
            .filter(|(_, c)| c.value <= low.value && c.through_key <= low.through_key)
            .map(|(key, _)| *key)
            .collect();
        for key in covered {
            self.clients.remove(&key);
            applied.obsolete.push(FloorKey::Client(key.0, key.1));
        }
        Ok(applied)
    }

    /// Drops what only keys up to and including `key_id` needed, and returns the stored facts to delete.
    /// The caller has dropped those keys from its [`crate::KeyRing`] first: from then on their handles
    /// are refused by the missing key.
    pub fn retire_key(&mut self, key_id: u32) -> Vec<FloorKey> {
        self.retired_through = self.retired_through.max(key_id);
        let mut gone = Vec::new();
        drop_where(
            &mut self.files,
            |_, low| low.through_key <= key_id,
            |file_id| {
                gone.push(FloorKey::File(file_id));
            },
        );
        drop_where(
            &mut self.clients,
            |_, low| low.through_key <= key_id,
            |(file_id, tag)| {
                gone.push(FloorKey::Client(file_id, tag));
            },
        );
        drop_where(
            &mut self.tombstones,
            |_, low| low.through_key <= key_id,
            |file_id| {
                gone.push(FloorKey::Tombstone(file_id));
            },
        );
        gone
    }

    /// The whole table as records, the cluster floor first.
    pub fn records(&self) -> impl Iterator<Item = Floor> + '_ {
        let cluster = std::iter::once(Floor::Cluster {
            epoch: self.cluster,
        });
        let files = self.files.iter().map(|(file_id, low)| Floor::File {
            file_id: *file_id,
            epoch: low.value,
            through_key: low.through_key,
        });
        let clients = self
            .clients
            .iter()
            .map(|((file_id, tag), low)| Floor::Client {
                file_id: *file_id,
                client: *tag,
                epoch: low.value,
                through_key: low.through_key,
            });
        let tombstones = self
            .tombstones
            .iter()
            .map(|(file_id, low)| Floor::Tombstone {
                file_id: *file_id,
                generation: low.value,
                through_key: low.through_key,
            });
        cluster.chain(files).chain(clients).chain(tombstones)
    }
}

fn stored(record: Option<Floor>) -> Applied {
    Applied {
        store: record,
        obsolete: Vec::new(),
    }
}

/// Raises one entry; `None` when it already was as high. The newest key is kept even of a lower
/// fact, so that an entry never retires too early.
fn raise<K: Ord, T: Ord + Copy>(
    table: &mut BTreeMap<K, Low<T>>,
    key: K,
    value: T,
    through_key: u32,
    limit: usize,
) -> Result<Option<Low<T>>, TableFull> {
    if let Some(low) = table.get_mut(&key) {
        if value <= low.value && through_key <= low.through_key {
            return Ok(None);
        }
        low.value = low.value.max(value);
        low.through_key = low.through_key.max(through_key);
        return Ok(Some(*low));
    }
    if table.len() >= limit {
        return Err(TableFull { limit });
    }
    let low = Low { value, through_key };
    table.insert(key, low);
    Ok(Some(low))
}

fn drop_where<K: Ord + Copy, V>(
    table: &mut BTreeMap<K, V>,
    needless: impl Fn(&K, &V) -> bool,
    mut dropped: impl FnMut(K),
) {
    table.retain(|key, value| {
        let drop = needless(key, value);
        if drop {
            dropped(*key);
        }
        !drop
    });
}
