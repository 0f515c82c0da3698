//! How many data servers a file may have: as many as a layout that every client takes can tell of.
//!
//! A layout repeats its handle for each data server (see `ops/layoutget.rs`), and Linux takes no more than 4096 bytes
//! of it. Whoever is told of more gets none, and then silently reads and writes through this server. So new files are
//! no wider. Groups that were stored when this was not so take no new files. Files in them keep their place, and what
//! is refused for them is counted.

use layout::Group;

/// Bytes of `LAYOUTGET4resok` that each client takes: what Linux asks for, whatever the file (`PNFS_LAYOUT_MAXSIZE`).
const RESULT_BYTES_MAX: usize = 4096;
/// Bytes of a result without handles: "return on close", stateid and count (24), and the one segment (28). Of its body
/// they are all but the handles (36). See RFC 8881 §18.43.2 and §13.3.
const RESULT_FIXED_BYTES: usize = 88;
/// A handle and its length.
const HANDLE_BYTES: usize = 4 + layout::DS_HANDLE_BYTES;
/// Most data servers of a new file.
#[allow(clippy::cast_possible_truncation, reason = "it is 58")]
pub const FILE_WIDTH_MAX: u32 = ((RESULT_BYTES_MAX - RESULT_FIXED_BYTES) / HANDLE_BYTES) as u32;

/// Whether new files may go to a group.
pub(super) fn fits(group: &Group) -> bool {
    group.width() <= FILE_WIDTH_MAX
}
