//! What the admin socket tells of clients, as JSON.
//!
//! Owns the rows and how names become text. A reader of another version may know more fields or fewer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Bytes of an owner that are shown.
const OWNER_SHOWN_BYTES: usize = 256;

/// One client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ClientRow {
    /// Its client id, in hexadecimal.
    pub id: String,
    /// "NFSv4.0", "NFSv4.1", "NFSv4.2", "NLM"; "NFSv4" of one without sessions.
    pub protocol: String,
    /// The name that it gives itself, printable.
    pub owner: String,
    /// The name of its implementation.
    pub implementation: Option<String>,
    /// Where its connections come from; of NFSv4.0 where callbacks go.
    pub addresses: Vec<String>,
    /// "active", "lapsed", "reclaiming" or "unconfirmed".
    pub state: String,
    /// Seconds since it was last seen.
    pub unseen_seconds: u64,
    /// Seconds after which its lease is over.
    pub lease_seconds: u64,
    /// How many sessions it has.
    pub sessions: u64,
    /// Opens; of a host files that it shares.
    pub opens: u64,
    /// Locked byte ranges.
    pub locks: u64,
    /// Delegations.
    pub delegations: u64,
    /// Layouts.
    pub layouts: u64,
}

/// Clients in the order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ClientPage {
    /// The clients.
    pub clients: Vec<ClientRow>,
    /// Most clients of one answer.
    pub limit: u64,
    /// There are more after this id.
    pub next: Option<String>,
}

/// One thing that is held of a file, or waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct HeldRow {
    /// "open", "lock", "waits for lock", "delegation", "layout", "waits for delegation".
    pub what: String,
    /// Id of the client.
    pub client: String,
    /// The client's protocol.
    pub protocol: String,
    /// Number of the file.
    pub inode: u64,
    /// A path of it, where one was found.
    pub path: Option<String>,
    /// The open-owner or lock-owner, printable.
    pub owner: Option<String>,
    /// "read", "write", "read+write" or "none": what is opened, locked, delegated or laid out for.
    pub mode: String,
    /// What an open denies others: as `mode`.
    pub deny: Option<String>,
    /// First byte of a locked range.
    pub offset: Option<u64>,
    /// Bytes of it; none to the end of the file, however long.
    pub length: Option<u64>,
    /// For how long it has been recalled, or waited for.
    pub since_seconds: Option<u64>,
}

/// What a client holds, and what is stuck on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ClientHolds {
    /// The client. Its counts say how much there is of what is cut.
    pub client: ClientRow,
    /// Most rows of one kind.
    pub limit: u64,
    /// Whether some kind has more than is told.
    pub cut: bool,
    /// What it holds: opens, locks, delegations, layouts.
    pub holds: Vec<HeldRow>,
    /// What is recalled from it, and who waits for files of its.
    pub stuck: Vec<HeldRow>,
    /// What the client itself waits for.
    pub waits: Vec<HeldRow>,
}

/// What is held of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct FileHolds {
    /// Its path.
    pub path: String,
    /// Its number.
    pub inode: u64,
    /// Most rows of one kind.
    pub limit: u64,
    /// Whether some kind has more than is told.
    pub cut: bool,
    /// What is held, by whom.
    pub holds: Vec<HeldRow>,
}

/// What a client had that is no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct EvictedRow {
    /// Opens.
    pub opens: u64,
    /// Locked byte ranges.
    pub locks: u64,
    /// Delegations.
    pub delegations: u64,
    /// Layouts.
    pub layouts: u64,
    /// Sessions.
    pub sessions: u64,
}

/// A client id as people read it.
pub(super) fn id_text(id: u64) -> String {
    format!("{id:x}")
}

/// Reads a client id.
///
/// # Errors
/// One sentence.
pub(super) fn parse_id(text: &str) -> Result<u64, String> {
    let digits = text.trim_start_matches("0x");
    u64::from_str_radix(digits, 16).map_err(|_| {
        format!(
            "{} is no client id; `ropewalk client list` lists them",
            text.escape_debug()
        )
    })
}

/// A name of any bytes as one printable line of bounded length. UTF-8 stays what it is.
pub(super) fn name_text(name: &[u8]) -> String {
    let shown = &name[..name.len().min(OWNER_SHOWN_BYTES)];
    let mut text = String::new();
    for chunk in shown.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                ' '..='~' => text.push(c),
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if shown.len() < name.len() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_shown() {
        for id in [0, 0x3_0000_0001, u64::MAX] {
            assert_eq!(parse_id(&id_text(id)), Ok(id));
            assert_eq!(parse_id(&format!("0x{id:x}")), Ok(id));
        }
        for wrong in ["", "x", "-1", "10000000000000000", "1 2", "\n"] {
            let said = parse_id(wrong).unwrap_err();
            assert!(said.contains("client list") && !said.contains('\n'));
        }
    }

    #[test]
    fn names_of_any_bytes_are_one_printable_line() {
        for (name, text) in [
            (&b"Linux NFSv4.2 host"[..], "Linux NFSv4.2 host"),
            (b"a\n\x1b[31m\xff", "a\\n\\u{1b}[31m\\xff"),
            ("b\u{e4}r".as_bytes(), "b\u{e4}r"),
        ] {
            assert_eq!(name_text(name), text);
        }
        let long = name_text(&[b'x'; 2 * OWNER_SHOWN_BYTES]);
        assert!(long.ends_with("x...") && long.len() == OWNER_SHOWN_BYTES + 3);
    }
}
