//! Which version of NFS a client speaks.

/// A version of NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NfsVersion {
    /// NFSv4.1 or 4.2, with layouts.
    #[default]
    V4,
    /// NFSv3, to any server.
    V3(V3Ports),
}

/// Where a server of NFSv3 listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct V3Ports {
    /// The port of NFS is not known: the port mapper is asked, and the port of the address is taken where it does not tell.
    pub asks_for_nfs: bool,
    /// The port of MOUNT; without it the port of NFS is tried, then the port mapper asked.
    pub mount: Option<u16>,
}
