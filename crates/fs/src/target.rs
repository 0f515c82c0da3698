//! A file at its data servers, own or foreign: READ, WRITE and COMMIT of this server itself.
//!
//! # Ordering
//! A mirror at which a write has failed is noted as bad, durably, before the write is answered. A mark says durably that a mirrored
//! file is written before its first byte is sent. That a foreign file has all of its objects is noted with its first write.
//!
//! May call: `stripes`, `foreign`, `bad_mirrors`, `own_writing`. Whoever calls has the file's gate.

use crate::actor::Actor;
use crate::bad_mirrors;
use crate::foreign_files::{file_at, note_objects};
use crate::fs::Fs;
use crate::mirror_looks::{self, Suspect};
use crate::own_writes::Ended;
use crate::own_writing;
use bytes::Bytes;
use foreign::FileAt;
use layout::{Epoch, Rights, SigningKey};
use namespace::{FileId, Inode};
use nfs4::{NfsStatus, StableHow, Verifier};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stripes::Written;

/// A file at its data servers.
pub(crate) enum Target {
    /// At data servers of the cluster.
    Own(stripes::Target),
    /// At NFSv3 servers of others.
    Foreign(FileId, FileAt),
}

/// What signs handles of this server's own I/O; `None` before there is a key. It is to be taken before the epoch of a file is read.
pub(crate) fn io_key(fs: &Fs) -> Option<SigningKey> {
    fs.cluster.signing_key()
}

/// A file at its data servers, with a handle of this server's own.
///
/// # Errors
/// `Delay` before there is a key; `NoSpc` for a file without a place.
pub(crate) fn target(
    fs: &Fs,
    key: Option<&SigningKey>,
    inode: &Inode,
    rights: Rights,
) -> Result<Target, NfsStatus> {
    if let Some(at) = file_at(fs, inode) {
        return Ok(Target::Foreign(inode.id, at));
    }
    let key = key.ok_or(NfsStatus::Delay)?;
    let epoch = Epoch::from_u64(fs.ns.fencing_epoch(inode));
    let own = stripes::Target::new(&fs.cluster, inode, rights, epoch, key);
    own.map(Target::Own)
}

impl Target {
    /// Reads `len` bytes. Holes are zeros.
    ///
    /// # Errors
    /// `Delay` while data servers are away; what they answer.
    pub(crate) async fn read(
        &self,
        fs: &Arc<Fs>,
        offset: u64,
        len: u64,
    ) -> Result<Bytes, NfsStatus> {
        match self {
            Self::Own(target) => fs.peers.read(target, offset, len).await,
            Self::Foreign(file, at) => {
                let (bytes, mirrors) = fs.foreign.read_and_tell(at, offset, len).await?;
                if mirrors != 0 {
                    let suspect = Suspect {
                        mirrors,
                        offset,
                        length: len,
                    };
                    mirror_looks::look(fs, *file, suspect);
                }
                fs.foreign_read_bytes.fetch_add(len, Relaxed);
                Ok(bytes)
            }
        }
    }

    /// Writes bytes, at least as stable as asked.
    ///
    /// # Errors
    /// As [`Target::read`].
    pub(crate) async fn write(
        &self,
        fs: &Arc<Fs>,
        offset: u64,
        stable: StableHow,
        bytes: &Bytes,
    ) -> Result<Written, NfsStatus> {
        let (file, at) = match self {
            Self::Own(target) => return fs.peers.write(target, offset, stable, bytes).await,
            Self::Foreign(file, at) => (*file, at),
        };
        let len = bytes.len() as u64;
        let range = (offset, offset.saturating_add(len));
        let own_write = own_writing::begin(fs, (file, at), range).await?;
        let written = match fs.foreign.write(at, offset, stable, bytes).await {
            Ok(written) => written,
            Err(failed) => {
                let one_version = own_writing::failed(fs, (file, at), failed).await;
                if let (Some(own_write), Some(ended)) = (own_write, one_version) {
                    own_write.ended(ended);
                }
                return Err(failed.status);
            }
        };
        fs.foreign_written_bytes.fetch_add(len, Relaxed);
        bad_mirrors::lose(fs, file, written.failed_mirrors).await?;
        let at = FileAt {
            bad_mirrors: at.bad_mirrors | written.failed_mirrors,
            ..*at
        };
        // Whoever answers the write waits for what comes after this to be durable.
        note_objects(fs, &mut Actor::root(), file, &at)?;
        if let Some(own_write) = own_write {
            own_write.ended(match written.committed {
                StableHow::Unstable => Ended::Unstable,
                StableHow::DataSync | StableHow::FileSync => Ended::Durable,
            });
        }
        Ok(Written {
            committed: written.committed,
            seen: written.verifiers,
        })
    }

    /// One write verifier for those of all data servers of the file.
    pub(crate) fn write_verifier(&self, fs: &Fs, seen: &BTreeMap<u32, Verifier>) -> Verifier {
        match self {
            Self::Own(target) => fs.peers.write_verifier(target, seen),
            Self::Foreign(_, at) => fs.foreign.verifier(at, seen),
        }
    }
}

/// Makes what was written to a file durable at all its data servers: one write verifier for all, and that of each.
///
/// # Errors
/// As [`Target::read`].
pub(crate) async fn commit(
    fs: &Arc<Fs>,
    inode: &Inode,
) -> Result<(Verifier, BTreeMap<u32, Verifier>), NfsStatus> {
    let Some(at) = file_at(fs, inode) else {
        return fs.peers.commit(inode).await;
    };
    let idle = fs.own_writes.lock().idle(inode.id);
    let done = fs.foreign.commit(&at).await?;
    bad_mirrors::lose(fs, inode.id, done.failed_mirrors).await?;
    if let Some(begun) = idle {
        fs.own_writes.lock().committed(inode.id, begun);
    }
    Ok((done.verifier, done.verifiers))
}
