//! NFSv3 with MOUNT, NLM and NSM at the metadata server (RFC 1813), over the same file service as NFSv4.
//!
//! [`Nfs3`] is the NFS program of version 3: `ops` has one file for each procedure. [`Mount`] is the MOUNT program. [`Nlm`] locks
//! files for clients of version 3, and [`Nsm`] hears which of them have restarted. All stand beside NFSv4 on the same connections.
//! Data go through the metadata server: version 3 knows no layouts.
//!
//! A version 3 client has no opens and no delegations. Its READ and WRITE stand for an open each: delegations of others are
//! recalled before, and deny modes refuse them. While something is awaited it is told NFS3ERR_JUKEBOX.
//!
//! May call: `fs`, and `mds` for who a caller is. May not call: the operations of NFSv4, data servers.
#![forbid(unsafe_code)]

mod admit;
mod attrs;
mod cx;
mod mount;
mod nlm;
mod once;
mod ops;
mod program;
mod results;
mod status;

pub use crate::nlm::{
    DATAGRAM_BYTES_MAX, HostHeld, Nlm, Nsm, describe_host, free_host, hosts_held,
};
pub use mount::Mount;
pub use program::Nfs3;
