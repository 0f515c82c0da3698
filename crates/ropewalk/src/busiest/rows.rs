//! What the metadata server tells of the busiest, as JSON.
//!
//! A reader of another version may know more fields or fewer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The busiest of the last half minute to minute. Rates are estimates from samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct TopPage {
    /// Seconds that rates are means of.
    pub seconds: f64,
    /// One operation of so many is looked at; rates are scaled by it.
    pub sampled_one_in: u32,
    /// Most rows of each kind.
    pub limit: u64,
    /// Directories, those with the most operations first.
    pub directories: Vec<TopDirectory>,
    /// Clients, those with the most operations first.
    pub clients: Vec<TopClient>,
}

/// One directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct TopDirectory {
    /// Its path now, where one was found.
    pub path: Option<String>,
    /// Its number.
    pub inode: u64,
    /// Operations a second on it, on its names, and on files that have their first name in it.
    pub operations_per_s: f64,
}

/// One client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct TopClient {
    /// Its client id, in hexadecimal; none of what only an address tells.
    pub id: Option<String>,
    /// "NFSv4.0", "NFSv4.1", "NFSv4.2"; "NFSv4" of one that has gone; "NFS" of what only an address tells: NFSv3, and NFSv4.0 before it says who it is.
    pub protocol: String,
    /// The name that it gives itself, printable; its address where it gives none. Empty of one that has gone.
    pub owner: String,
    /// Where it comes from.
    pub addresses: Vec<String>,
    /// Operations a second at the metadata server.
    pub operations_per_s: f64,
    /// Bytes a second that it reads through the metadata server. Bytes from data servers are not counted.
    pub read_bytes_per_s: f64,
    /// Bytes a second that it writes through the metadata server.
    pub written_bytes_per_s: f64,
}

impl TopClient {
    /// Its name, or its id where it has gone.
    pub(crate) fn name(&self) -> String {
        match (&self.id, self.owner.is_empty()) {
            (Some(id), true) => format!("{id} (gone)"),
            _ => self.owner.clone(),
        }
    }
}

impl TopDirectory {
    /// Its path, or its number.
    pub(crate) fn name(&self) -> String {
        match &self.path {
            Some(path) => path.clone(),
            None => format!("inode {}", self.inode),
        }
    }
}
