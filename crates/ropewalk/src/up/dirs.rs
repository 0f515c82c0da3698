//! Where `ropewalk up` keeps its state when nobody says.

use crate::failure::{Outcome, usage};
use rustix::process::geteuid;
use std::path::PathBuf;

/// Most data servers that one `up` starts: processes of one machine, not a limit of a cluster.
pub(crate) const UP_DS_MAX: u16 = 64;
/// The default directory of `up`: persistent, and the same at the next start.
pub(crate) fn default_dir() -> Outcome<PathBuf> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/ropewalk"));
    }
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("ropewalk"))
        .ok_or_else(|| usage("neither XDG_DATA_HOME nor HOME is set: say where with --dir DIR"))
}
