//! The MDS's own file handle: 24 bytes that name an inode. It is unsigned, because the MDS checks
//! permission on every use; a made-up one names a file that its maker could have looked up.
//!
//! ```text
//!   0 version  1 kind  2 zero  4 cluster id  12 file id  20 generation  24
//! ```

use crate::handle::first;

/// Bytes of an MDS handle.
pub const MDS_HANDLE_BYTES: usize = 24;

const VERSION: u8 = 1;

/// What an MDS handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MdsHandleKind {
    /// An inode of the file system.
    Inode = 1,
    /// A directory of the pseudo file system above the exports (RFC 8881 §7.3).
    Pseudo = 2,
}

/// What an MDS handle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MdsHandle {
    /// What `file_id` counts.
    pub kind: MdsHandleKind,
    /// The cluster that the file belongs to.
    pub cluster_id: u64,
    /// The inode number.
    pub file_id: u64,
    /// The generation of the inode.
    pub generation: u32,
}

/// Why bytes are not a handle of this MDS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MdsHandleError {
    /// Another length, version or form: `NFS4ERR_BADHANDLE`.
    NotOurs,
    /// A well-formed handle of another cluster: `NFS4ERR_STALE`.
    WrongCluster,
}

impl std::fmt::Display for MdsHandleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotOurs => "not a metadata-server handle",
            Self::WrongCluster => "handle of another cluster",
        })
    }
}

impl std::error::Error for MdsHandleError {}

impl MdsHandle {
    /// The bytes of the handle.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; MDS_HANDLE_BYTES] {
        let mut out = [0; MDS_HANDLE_BYTES];
        out[0] = VERSION;
        out[1] = self.kind as u8;
        out[4..12].copy_from_slice(&self.cluster_id.to_be_bytes());
        out[12..20].copy_from_slice(&self.file_id.to_be_bytes());
        out[20..24].copy_from_slice(&self.generation.to_be_bytes());
        out
    }

    /// What `bytes` say.
    ///
    /// # Errors
    /// [`MdsHandleError`].
    pub fn parse(bytes: &[u8], cluster_id: u64) -> Result<Self, MdsHandleError> {
        let bytes: &[u8; MDS_HANDLE_BYTES] =
            bytes.try_into().map_err(|_| MdsHandleError::NotOurs)?;
        let kind = match bytes[1] {
            1 => MdsHandleKind::Inode,
            2 => MdsHandleKind::Pseudo,
            _ => return Err(MdsHandleError::NotOurs),
        };
        if bytes[0] != VERSION || bytes[2..4] != [0, 0] {
            return Err(MdsHandleError::NotOurs);
        }
        let handle = Self {
            kind,
            cluster_id: u64::from_be_bytes(first(&bytes[4..])),
            file_id: u64::from_be_bytes(first(&bytes[12..])),
            generation: u32::from_be_bytes(first(&bytes[20..])),
        };
        if handle.cluster_id != cluster_id {
            return Err(MdsHandleError::WrongCluster);
        }
        Ok(handle)
    }
}
