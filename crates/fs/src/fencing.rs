//! The epoch of a file, above which handles hold (rules R5, R6).

use crate::fs::{Fs, status};
use layout::{ClientTag, Epoch};
use namespace::{Cred, FileId, NsError, Op};
use nfs4::NfsStatus;

/// Raises the epoch of a file and notes the floor that keeps `client` (or all) from it. Returns whether there is anything
/// to wait for. A file that is gone has its tombstone.
///
/// # Errors
/// What a failed store is answered with.
pub(crate) fn raise_epoch(
    fs: &Fs,
    file: FileId,
    client: Option<ClientTag>,
) -> Result<bool, NfsStatus> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let epoch = match fs.ns.raise_epoch(&mut op, file) {
        Ok(epoch) => Epoch::from_u64(epoch),
        Err(NsError::Stale | NsError::Inval) => return Ok(false),
        Err(e) => return Err(status(&e)),
    };
    let found = fs.ns.getattr(&mut op, file);
    let inode = found.map_err(|e| status(&e))?;
    Ok(fs.note_fence(&inode, client, epoch))
}
