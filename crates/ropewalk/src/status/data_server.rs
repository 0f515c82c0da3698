//! A data server, as the metadata server shows it.

use crate::table::bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a data server that serves.
pub(crate) const STATE_SERVING: &str = "serving";
/// State of a data server that serves, and gives its places to others.
pub(crate) const STATE_DRAINING: &str = "draining";
/// State of a data server that is put out.
pub(crate) const STATE_EXPELLED: &str = "expelled";

/// A data server as the metadata server sees it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DataServerRow {
    /// Its id.
    pub id: u32,
    /// `serving`, `draining`, `catching up`, `away` or `expelled`.
    pub state: String,
    /// Where clients reach it.
    pub addresses: Vec<String>,
    /// Size of its store.
    pub total_bytes: u64,
    /// What is left of it.
    pub free_bytes: u64,
    /// Whether new files avoid it for want of room.
    pub full: bool,
    /// Objects in its index.
    pub objects: u64,
    /// Places of which it is a member.
    pub places: u64,
    /// Why it counts as slow, if it does: others are primary of its places.
    pub slow: Option<String>,
    /// Whether it is left out of places for that.
    pub left_out: bool,
    /// Mean time of its own last syncs in microseconds; 0 when there was none lately.
    pub sync_us: u32,
    /// Comparing its disk with sums.
    pub scrub: ScrubRow,
    /// Bytes that clients read since it started, as of its last heartbeat.
    pub client_read_bytes: u64,
    /// Bytes that clients wrote.
    pub client_written_bytes: u64,
    /// Bytes that the metadata server read for others.
    pub proxy_read_bytes: u64,
    /// Bytes that the metadata server wrote for others.
    pub proxy_written_bytes: u64,
    /// Handles that it refused.
    pub handles_refused: u64,
    /// Lost objects and disk errors.
    pub errors: u64,
    /// Why the metadata server refused it when it last came, if it did.
    pub refused: Option<String>,
    /// Placement groups of which it knows a newer version than the metadata server: they are closed.
    pub closed_groups: Vec<u32>,
}

/// How far a data server is with comparing its disk with sums.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ScrubRow {
    /// Whether a pass goes on.
    pub running: bool,
    /// The order that the last pass followed.
    pub order: u64,
    /// Objects when the pass began.
    pub objects: u64,
    /// Of these were looked at.
    pub objects_done: u64,
    /// Bytes that the pass has read.
    pub read_bytes: u64,
    /// When the last pass ended, seconds since 1970 by the data server's clock; 0 for never.
    pub scrubbed_at: i64,
    /// Blocks of 64 KiB that were found damaged since it was started.
    pub blocks_found: u64,
    /// Of these were mended.
    pub blocks_mended: u64,
    /// Blocks that are damaged now.
    pub damaged_blocks: u64,
    /// Some of the files that they belong to, by file id.
    pub damaged_files: Vec<u64>,
}

impl DataServerRow {
    /// Bytes of its store that are taken.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.free_bytes)
    }

    /// Whether it serves.
    pub(crate) fn is_online(&self) -> bool {
        self.state == STATE_SERVING || self.state == STATE_DRAINING
    }

    /// What to tell of it when it is full.
    pub(crate) fn full_text(&self) -> String {
        let (id, free) = (self.id, bytes(self.free_bytes));
        format!(
            "data server {id} is full ({free} free): new files avoid it; free space on its disk, or add a data server"
        )
    }

    /// What to tell of groups of which it knows a newer version.
    pub(crate) fn closed_text(&self) -> Option<String> {
        let groups: Vec<String> = self.closed_groups.iter().map(u32::to_string).collect();
        (!groups.is_empty()).then(|| {
            format!(
                "data server {} knows newer versions of placement groups {}, which are CLOSED: the metadata server's state has gone back; put its newest state back, or see `ropewalk repair accept-state`",
                self.id,
                groups.join(" "),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_groups_are_named_with_what_to_do() {
        let mut ds = DataServerRow {
            id: 2,
            ..DataServerRow::default()
        };
        assert_eq!(ds.closed_text(), None);
        ds.closed_groups = vec![3, 4];
        let text = ds.closed_text().unwrap_or_default();
        let begin =
            "data server 2 knows newer versions of placement groups 3 4, which are CLOSED: ";
        assert!(
            text.starts_with(begin) && text.contains("repair accept-state"),
            "{text}"
        );
    }
}
