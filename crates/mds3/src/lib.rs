//! NFSv3 and MOUNT at the metadata server (RFC 1813), over the same file service as NFSv4.
//!
//! [`Nfs3`] is the NFS program of version 3: `ops` has one file for each procedure. [`Mount`] is the MOUNT program. Both stand
//! beside NFSv4 on the same connections. Data go through the metadata server: version 3 knows no layouts.
//!
//! A version 3 client has no opens and no delegations. Its READ and WRITE stand for an open each: delegations of others are
//! recalled before, and deny modes refuse them. While something is awaited it is told NFS3ERR_JUKEBOX.
//!
//! May call: `fs`, and `mds` for who a caller is. May not call: the operations of NFSv4, data servers.
#![forbid(unsafe_code)]

mod attrs;
mod cx;
mod mount;
mod ops;
mod program;
mod replies;
mod results;
mod status;

pub use mount::Mount;
pub use program::Nfs3;
