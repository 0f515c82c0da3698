//! How a client presents itself and how much it has in flight.

use crate::NfsVersion;
use nfs4::Verifier;
use std::time::Duration;
use transport::Preference;

/// Who the user is (`AUTH_SYS`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups; those beyond [`rpc::AUTH_SYS_GIDS_MAX`] are not sent.
    pub gids: Vec<u32>,
    /// Host name; at most [`rpc::AUTH_SYS_MACHINE_BYTES_MAX`] bytes of it are sent.
    pub machine: String,
}

impl UserIdentity {
    pub(crate) fn auth_sys(&self) -> rpc::AuthSys {
        let machine = self.machine.bytes();
        let gids = self.gids.iter().copied();
        rpc::AuthSys {
            stamp: 0,
            machine: machine
                .take(rpc::AUTH_SYS_MACHINE_BYTES_MAX as usize)
                .collect(),
            uid: self.uid,
            gid: self.gid,
            gids: gids.take(rpc::AUTH_SYS_GIDS_MAX as usize).collect(),
        }
    }
}

/// Configuration of a [`crate::Client`].
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `co_ownerid`: names this client, the same at the MDS and all DSes (RFC 8881 §13.1). Unique among the clients of a server.
    pub owner: Vec<u8>,
    /// `co_verifier`: new for each start of the client.
    pub verifier: Verifier,
    /// Who the user is.
    pub identity: UserIdentity,
    /// The version of NFS.
    pub version: NfsVersion,
    /// Of NFSv4: 1 or 2.
    pub minor_version: u32,
    /// Slots to ask for, for each session.
    pub slots: u32,
    /// Connections of each session.
    pub connections: u32,
    /// Whether to use layouts; without them all data go through the MDS.
    pub pnfs: bool,
    /// Which addresses of data servers are used.
    pub data_transport: Preference,
    /// Largest READ and WRITE in bytes.
    pub io_bytes_max: u32,
    /// READs and WRITEs in flight for one call of [`crate::File::read_at`] or [`crate::File::write_at`].
    pub in_flight_max: usize,
    /// Written data of one file in bytes that are kept until their COMMIT; beyond it, writers commit. Twice as much
    /// is the most.
    pub uncommitted_bytes_max: u64,
    /// How long one try waits for its reply.
    pub try_timeout: Duration,
    /// How long a request to the MDS is tried in all, a grace period included. Also how long data that servers keep
    /// losing are written again.
    pub give_up: Duration,
    /// How long a request to a DS is tried before a new layout is asked for, or its data go through the MDS. The usual time
    /// is a little longer than another DS needs to take over: the lease of 5 s, and 1 s.
    pub ds_give_up: Duration,
}

impl ClientConfig {
    /// A configuration with the usual sizes and times.
    #[must_use]
    pub fn new(owner: Vec<u8>, verifier: Verifier, identity: UserIdentity) -> Self {
        Self {
            owner,
            verifier,
            identity,
            version: NfsVersion::V4,
            minor_version: 2,
            slots: 64,
            connections: 1,
            pnfs: true,
            data_transport: Preference::Auto,
            io_bytes_max: 1 << 20,
            in_flight_max: 16,
            uncommitted_bytes_max: 64 << 20,
            try_timeout: Duration::from_secs(30),
            give_up: Duration::from_secs(180),
            ds_give_up: Duration::from_secs(7),
        }
    }
}

/// Bytes of a request or reply beside the data of one READ or WRITE: headers, credential, the other operations.
pub(crate) const IO_OVERHEAD_BYTES: u32 = 1024;

/// Data of one READ or WRITE in messages of `message_bytes_max`.
pub(crate) fn io_bytes(configured: u32, message_bytes_max: Option<u32>) -> u32 {
    let room = message_bytes_max.map_or(configured, |m| m.saturating_sub(IO_OVERHEAD_BYTES));
    configured.min(room).max(1)
}
