//! Servers come, are drained, and go. Owns the order of these steps; each is durable before it is answered.

use crate::foreign::Foreign;
use crate::records::{ServerLimits, ServerState};
use crate::refusals::{AddError, ChangeError};
use control::NetAddr;
use nfs3_client::Fh;
use std::time::Duration;

/// A server that is to be added. Its export was mounted, and it was probed.
#[derive(Debug, Clone)]
pub struct NewServer {
    /// "HOST:/PATH", as the administrator named it.
    pub target: String,
    /// Where NFS is served, preferred first.
    pub addresses: Vec<NetAddr>,
    /// Handle of the exported directory.
    pub root: Fh,
    /// What FSINFO says.
    pub limits: ServerLimits,
}

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// The server.
    pub id: u32,
    /// "HOST:/PATH".
    pub target: String,
    /// Whether it is used.
    pub state: ServerState,
    /// Whether it answers.
    pub is_up: bool,
    /// For how long it does or does not; `None` before anything was seen.
    pub since: Option<Duration>,
    /// Bytes of its file system.
    pub total_bytes: u64,
    /// Free bytes there.
    pub free_bytes: u64,
    /// Groups that name it.
    pub groups: usize,
    /// What it failed with last; `None` after a success of the pulse.
    pub last_error: Option<String>,
}

impl Foreign {
    /// Adds a server, and makes the directories there. Returns its id, durably.
    ///
    /// # Errors
    /// [`AddError`].
    pub async fn add(&self, new: NewServer) -> Result<u32, AddError> {
        let _ = new;
        Err(AddError::Full)
    }

    /// Ends the use of a server, durably. What files have there is lost.
    ///
    /// # Errors
    /// [`ChangeError`]; `InUse` while groups name it, unless forced.
    pub async fn remove_server(&self, id: u32, is_forced: bool) -> Result<(), ChangeError> {
        let _ = (id, is_forced);
        Err(ChangeError::Unknown)
    }

    /// Gives a server no new files from now on, durably.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn drain(&self, id: u32) -> Result<(), ChangeError> {
        let _ = id;
        Err(ChangeError::Unknown)
    }

    /// All servers that ever were, by id.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        Vec::new()
    }
}
