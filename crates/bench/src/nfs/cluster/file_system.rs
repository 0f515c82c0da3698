//! Names of file systems.

use rustix::fs::StatFs;
use std::path::Path;

/// The type of the file system that `dir` is on, by its magic number in statfs(2).
#[must_use]
pub fn file_system(dir: &Path) -> String {
    let Ok(stat) = rustix::fs::statfs(dir) else {
        return "unknown".to_owned();
    };
    file_system_of(&stat)
}

/// What a tmpfs is called.
pub(crate) const TMPFS: &str = "tmpfs";

/// The type of a file system.
pub(crate) fn file_system_of(stat: &StatFs) -> String {
    let magic = u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff;
    match magic {
        0x0102_1994 => TMPFS.to_owned(),
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        other => format!("magic {other:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_have_names() {
        assert_eq!(file_system(Path::new("/no/such/folder")), "unknown");
        assert!(file_system(Path::new("/proc")).starts_with("magic 0x9fa0"));
    }
}
