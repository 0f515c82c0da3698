//! A file as this crate knows it: its number, its group, its epoch. Owns nothing.

use crate::ids::{Ids, ids_of};
use nfs3_client::Fh;
use nfs4::{DeviceId, StableHow, Verifier};
use std::collections::BTreeMap;

/// Where a file lies, and which ids its objects have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAt {
    /// Number by which servers know its objects.
    pub number: u64,
    /// Generation of that number.
    pub generation: u32,
    /// A group over servers of others.
    pub group: u32,
    /// Bytes of a stripe unit.
    pub stripe_unit: u32,
    /// Layouts of this epoch work; those of earlier ones do not, once the objects have its ids.
    pub epoch: u64,
    /// Bit m: mirror m does not count.
    pub bad_mirrors: u32,
    /// All objects of the mirrors that count were made: one that is missing is lost. Otherwise a missing one may be a hole.
    pub has_objects: bool,
}

impl FileAt {
    /// User and group of its objects.
    #[must_use]
    pub const fn ids(&self) -> Ids {
        ids_of(self.number, self.generation, self.epoch)
    }
}

/// The object of a stripe of a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedObject {
    /// The server that has it.
    pub server: u32,
    /// The mirror.
    pub mirror: u32,
    /// The stripe.
    pub stripe: u32,
    /// The server, as layouts name it.
    pub device: DeviceId,
    /// The object.
    pub fh: Fh,
}

/// Bytes that are on the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarWritten {
    /// The least stability that a server answered.
    pub committed: StableHow,
    /// Write verifiers of the servers that were written to.
    pub verifiers: BTreeMap<u32, Verifier>,
    /// Bit m: mirror m did not take all of it. The caller marks it bad before it answers.
    pub failed_mirrors: u32,
}

/// What COMMIT made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarCommitted {
    /// One verifier for those of all servers of the file.
    pub verifier: Verifier,
    /// Write verifiers of the servers that were asked.
    pub verifiers: BTreeMap<u32, Verifier>,
    /// Bit m: mirror m failed. The caller marks it bad before it answers.
    pub failed_mirrors: u32,
}
