//! What can be asked of a server.

use crate::caller::CallerRole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long the server may work on a request.
const WORK_MAX: Duration = Duration::from_secs(20);
/// How long it may take to add a server of others, which it tries first.
const ADDING_MAX: Duration = Duration::from_secs(100);
/// How long a caller waits for an answer that needs no other server.
const STATUS_MAX: Duration = Duration::from_secs(3);
/// How long it waits for any other.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Most clients of one answer.
pub const CLIENTS_MAX: usize = 1000;

/// What can be asked of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it is, with all counters.
    Status,
    /// How it is, in one word, and why (metadata server).
    Health,
    /// What it has told lately: lines of its log (metadata server).
    Events {
        /// Those with greater ids.
        #[serde(default)]
        after: u64,
        /// How many at most.
        #[serde(default)]
        #[schemars(extend("default" = crate::EVENTS_MAX))]
        limit: Option<u32>,
    },
    /// Make a token with which a caller asks (metadata server).
    AccessCreate {
        /// Whose it is: shown in lists and in the log.
        name: String,
        /// What it may do.
        role: CallerRole,
        /// How long it is good; for ever without it.
        #[serde(default)]
        ttl_seconds: Option<u64>,
    },
    /// The tokens with which callers ask, without their secrets (metadata server).
    AccessList,
    /// Take a token back (metadata server).
    AccessRevoke {
        /// Its id.
        id: u32,
    },
    /// Make a join token (metadata server).
    TokenCreate {
        /// How long it is good.
        ttl_seconds: u64,
    },
    /// Tokens that wait (metadata server).
    TokenList,
    /// Remove a data server from the cluster for good (metadata server).
    Expel {
        /// Its id.
        ds_id: u32,
        /// Also when it has the last copy of places.
        #[serde(default)]
        yes_lose_data: bool,
    },
    /// What would be lost with a data server (metadata server).
    DsLoss {
        /// Its id.
        ds_id: u32,
    },
    /// Paths of files that data servers name by numbers (metadata server).
    FilePaths {
        /// The numbers.
        files: Vec<u64>,
    },
    /// Give the places of a data server to others (metadata server).
    DsDrain {
        /// Its id.
        ds_id: u32,
        /// The data server that gets them, where it can.
        #[serde(default)]
        substitute: Option<u32>,
        /// Only say whether it can be done.
        #[serde(default)]
        dry_run: bool,
    },
    /// A data server keeps what it has (metadata server).
    DsUndrain {
        /// Its id.
        ds_id: u32,
    },
    /// Remove a data server that has no places (metadata server).
    DsRemove {
        /// Its id.
        ds_id: u32,
        /// Also one that has places, whatever is lost.
        #[serde(default)]
        yes_lose_data: bool,
    },
    /// Make the data servers level (metadata server).
    DsRebalance {
        /// Whether it begins, or ends.
        wanted: bool,
    },
    /// Limit what fillings send (metadata server).
    FillRate {
        /// Bytes per second for each data server; 0 for no limit.
        bytes_per_s: u64,
    },
    /// Open the placement groups that are closed as the state went back (metadata server).
    AcceptState,
    /// Have all data servers compare their disks with sums at once (metadata server).
    Scrub,
    /// Make a new signing key now (metadata server).
    KeyRotate,
    /// Read its configuration again.
    Reload {
        /// Only say what would change.
        #[serde(default)]
        check: bool,
    },
    /// Its configuration (metadata server).
    Config,
    /// Clients of every protocol, a page (metadata server).
    ClientList {
        /// Those with ids after this one.
        #[serde(default)]
        after: Option<String>,
        /// How many at most.
        #[serde(default)]
        #[schemars(extend("default" = CLIENTS_MAX))]
        limit: Option<u32>,
    },
    /// The directories and clients with the most operations lately (metadata server).
    Top {
        /// How many of each at most; 20 without it.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// What a client holds, and the clients that wait for it (metadata server).
    ClientShow {
        /// Its id.
        id: String,
    },
    /// End a client's lease (metadata server).
    ClientEvict {
        /// Its id.
        id: String,
    },
    /// What is held of a file (metadata server).
    LockList {
        /// Its path from the root of the file system.
        path: String,
    },
    /// Hosts with locks by NFSv3 (metadata server).
    NlmHosts,
    /// End the locks of one (metadata server).
    NlmFree {
        /// Its address or its name.
        host: String,
    },
    /// Try an NFSv3 server of others and add it (metadata server).
    AddNfs3 {
        /// HOST:/PATH
        target: String,
        /// Port of NFS, where it is not to be asked.
        #[serde(default)]
        port: Option<u16>,
        /// Port of MOUNT.
        #[serde(default)]
        mount_port: Option<u16>,
        /// HOST:PORT each, told to clients; none for where it is found.
        #[serde(default)]
        client_addresses: Vec<String>,
    },
    /// Give an NFSv3 server of others no new files (metadata server).
    DrainNfs3 {
        /// Its id.
        server_id: u32,
    },
    /// Give one that was drained new files again (metadata server).
    UndrainNfs3 {
        /// Its id.
        server_id: u32,
    },
    /// Use an NFSv3 server of others no more (metadata server).
    RemoveNfs3 {
        /// Its id.
        server_id: u32,
        /// Also when files may lie there.
        #[serde(default)]
        force: bool,
    },
}

impl Request {
    /// How long the server may work on it.
    #[must_use]
    pub fn work_max(&self) -> Duration {
        match self {
            Self::AddNfs3 { .. } | Self::RemoveNfs3 { .. } => ADDING_MAX,
            _ => WORK_MAX,
        }
    }

    /// How long [`crate::ask`] waits for its answer.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match self {
            Self::Status => STATUS_MAX,
            Self::AddNfs3 { .. } | Self::RemoveNfs3 { .. } => ADDING_MAX + ANSWER_MAX,
            _ => ANSWER_MAX,
        }
    }
}
