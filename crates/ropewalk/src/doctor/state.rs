//! The state directory: whose it is, what room it has, and what its file system can do.
//!
//! Changes nothing. The features are tried with files that never have a name.

use super::installed::Installed;
use super::row::Row;
use crate::account::{Account, Wanted};
use crate::config::StoreKind;
use crate::config_cmd::ServerRole;
use crate::nss::user_name;
use crate::status::health::{FREE_PERCENT_MIN, is_nearly_full};
use crate::table::bytes;
use rustix::fs::{FallocateFlags, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of a row.
pub(super) const CHECK: &str = "state directory";
/// The name of a row.
pub(super) const ROOM: &str = "free space";
/// The name of a row.
pub(super) const FILE_SYSTEM: &str = "file system";
/// Bits of others and of the group.
const OTHERS: u32 = 0o077;
const MIB: u64 = 1 << 20;
/// Bytes that a file is given to see whether that works.
const TRIED_BYTES: u64 = 4096;

/// File systems by the numbers of statfs(2).
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
const NAMES: [(u64, &str); 11] = [
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0x6573_5546, "fuse"),
    (0x794c_7630, "overlayfs"),
];
/// File systems of other machines: a server on them is as slow and as safe as they are.
const REMOTE: [&str; 3] = ["nfs", "cifs", "fuse"];

/// Where a configuration does not name it.
pub(super) fn nowhere() -> Row {
    Row::unknown(CHECK, "the configuration does not say where it is")
}

/// Whether it is there, and the server's alone.
pub(super) fn check(dir: &Path, user: Option<&Account>) -> Row {
    let found = match dir.metadata() {
        Ok(found) if found.is_dir() => found,
        Ok(_) => {
            let says = format!("{} is no directory", dir.display());
            return Row::failed(CHECK, says, "name another with `state_dir`");
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let says = format!("{} is not there", dir.display());
            let action = "if the server ran before, mount its disk; else its first start makes it";
            return Row::warning(CHECK, says, action);
        }
        Err(e) => return Row::unknown(CHECK, format!("{}: {e}", dir.display())),
    };
    let owner = (found.uid(), found.gid(), found.mode());
    let above = user.and_then(|user| user.refused_at(dir, Wanted::Pass));
    let above = above
        .filter(|closed| closed.path != dir)
        .map(|closed| closed.path);
    judge_owner(dir, owner, user, above.as_deref(), user_name)
}

/// By owner, group and mode, since root, who runs this, may do everything. `above` is a directory that the user cannot come through.
fn judge_owner(
    dir: &Path,
    (uid, gid, mode): (u32, u32, u32),
    user: Option<&Account>,
    above: Option<&Path>,
    name: impl Fn(u32) -> String,
) -> Row {
    let shown = dir.display();
    if let (Some(user), Some(above)) = (user, above) {
        let above = above.display();
        return Row::failed(
            CHECK,
            format!(
                "the server runs as {}, which cannot come through {above} to {shown}",
                user.name
            ),
            format!("chmod o+x {above}, or put `state_dir` elsewhere"),
        );
    }
    match user {
        // Root may write wherever it likes.
        Some(user) if user.uid != uid && user.uid != 0 => Row::failed(
            CHECK,
            format!(
                "{shown} belongs to {}, and the server runs as {}",
                name(uid),
                user.name
            ),
            format!("chown -R {} {shown}", user.name),
        ),
        Some(user) if !user.may(Wanted::All, (uid, gid, mode)) => Row::failed(
            CHECK,
            format!(
                "the server runs as {}, which may not read and write {shown} (mode {:04o})",
                user.name,
                mode & 0o7777
            ),
            format!("chmod 0700 {shown}"),
        ),
        _ if mode & OTHERS != 0 => Row::warning(
            CHECK,
            format!(
                "others than {} may look into {shown} (mode {:04o})",
                name(uid),
                mode & 0o7777
            ),
            format!("chmod 0700 {shown}"),
        ),
        _ => Row::ok(CHECK, format!("{shown} belongs to {} alone", name(uid))),
    }
}

/// What room it has; no row where there is no directory.
pub(super) fn room(role: ServerRole, dir: &Path) -> Option<Row> {
    dir.is_dir().then(|| room_of(role, dir))
}

fn room_of(role: ServerRole, dir: &Path) -> Row {
    match rustix::fs::statvfs(dir) {
        Ok(found) => judge_room(
            role,
            found.f_bavail * found.f_frsize,
            found.f_blocks * found.f_frsize,
        ),
        Err(e) => Row::unknown(ROOM, format!("{}: {e}", dir.display())),
    }
}

/// By the limits of docs/operate/disks.md.
fn judge_room(role: ServerRole, free_bytes: u64, total_bytes: u64) -> Row {
    let (starts, takes) = match role {
        ServerRole::Mds => (32 * MIB, 128 * MIB),
        ServerRole::Ds => (8 * MIB, 256 * MIB),
    };
    let action = match role {
        ServerRole::Mds => "free space on this disk, or make it larger",
        ServerRole::Ds => "free space on this disk, or add a data server",
    };
    let room = format!("{} free of {}", bytes(free_bytes), bytes(total_bytes));
    if free_bytes < starts {
        return Row::failed(ROOM, format!("{room}: the server does not start"), action);
    }
    if free_bytes < takes {
        return Row::failed(
            ROOM,
            format!("{room}: nothing new is taken, only removals work"),
            action,
        );
    }
    match is_nearly_full(free_bytes, total_bytes) {
        true => {
            let says = format!("{room}: less than {FREE_PERCENT_MIN} %");
            Row::warning(ROOM, says, action)
        }
        false => Row::ok(ROOM, room),
    }
}

/// What a file system can do for a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Features {
    allocates: bool,
    shares: bool,
}

/// What came of trying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    Has(Features),
    /// Nothing can be written there.
    ReadOnly,
    /// Nothing may be made there by who runs this.
    Hidden,
}

/// What its file system is and can do; no row where there is no directory.
pub(super) fn file_system(installed: &Installed, dir: &Path) -> Option<Row> {
    if !dir.is_dir() {
        return None;
    }
    let found = match rustix::fs::statfs(dir) {
        Ok(found) => found,
        Err(e) => return Some(Row::unknown(FILE_SYSTEM, format!("{}: {e}", dir.display()))),
    };
    // A signed number on some machines.
    #[allow(clippy::cast_sign_loss, reason = "the low 32 bits are a pattern")]
    let kind = found.f_type as u64 & 0xffff_ffff;
    let in_memory = match installed.usable() {
        Some(super::installed::Config::Mds(mds)) => mds.store == StoreKind::Memory,
        Some(super::installed::Config::Ds(ds)) => ds.store == StoreKind::Memory,
        None => false,
    };
    Some(judge_file_system(kind, in_memory, features(dir)))
}

/// Tries it.
fn features(dir: &Path) -> Tried {
    // The user of a server sees that, too.
    let flags = rustix::fs::statvfs(dir).map(|found| found.f_flag);
    if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY)) {
        return Tried::ReadOnly;
    }
    let unnamed = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
    };
    match unnamed() {
        Ok(file) => {
            let allocated = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, TRIED_BYTES);
            let shared = unnamed().and_then(|to| rustix::fs::ioctl_ficlone(to, &file));
            Tried::Has(Features {
                allocates: allocated.is_ok(),
                shares: shared.is_ok(),
            })
        }
        Err(Errno::OPNOTSUPP) => Tried::Has(Features {
            // Nothing that lacks unnamed files was seen to share.
            allocates: true,
            shares: false,
        }),
        Err(Errno::ROFS) => Tried::ReadOnly,
        Err(_) => Tried::Hidden,
    }
}

fn judge_file_system(kind: u64, in_memory: bool, tried: Tried) -> Row {
    let named = NAMES.iter().find(|(number, _)| *number == kind);
    let name = named.map_or_else(|| format!("{kind:#x}"), |(_, name)| (*name).to_owned());
    if tried == Tried::ReadOnly {
        return Row::failed(
            FILE_SYSTEM,
            format!("{name} is mounted read-only: the server can store nothing"),
            "see in `dmesg` whether its disk has failed; if it is sound, `mount -o remount,rw` and restart the server",
        );
    }
    if (kind == TMPFS || kind == RAMFS) && !in_memory {
        return Row::warning(
            FILE_SYSTEM,
            format!("{name}: all state is lost when this machine stops"),
            "put `state_dir` on a disk",
        );
    }
    if REMOTE.contains(&name.as_str()) {
        return Row::warning(
            FILE_SYSTEM,
            format!("{name}: what is promised to clients is as safe as that server is"),
            "put `state_dir` on a disk of this machine",
        );
    }
    match tried {
        Tried::Has(Features {
            allocates: false, ..
        }) => Row::failed(
            FILE_SYSTEM,
            format!("{name} cannot allocate space (fallocate)"),
            "put `state_dir` on ext4, xfs or btrfs",
        ),
        Tried::Has(Features { shares: true, .. }) => Row::ok(
            FILE_SYSTEM,
            format!("{name}; clones of files share storage"),
        ),
        Tried::Has(_) => Row::ok(
            FILE_SYSTEM,
            format!("{name}; clones of files are copied, as it has no reflinks"),
        ),
        Tried::Hidden | Tried::ReadOnly => Row::ok(
            FILE_SYSTEM,
            format!("{name}; only its user can see what it can do"),
        ),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each row says what docs/operate/disks.md says.
    use super::*;
    use crate::doctor::row::Verdict;

    #[test]
    fn room_is_judged_by_the_limits_of_each_server() {
        const GIB: u64 = 1 << 30;
        for (role, free_bytes, verdict, says) in [
            (ServerRole::Mds, 31 * MIB, Verdict::Failed, "does not start"),
            (ServerRole::Mds, 127 * MIB, Verdict::Failed, "nothing new"),
            (
                ServerRole::Mds,
                128 * MIB,
                Verdict::Warning,
                "less than 10 %",
            ),
            // As health and the alert rules have it.
            (ServerRole::Ds, 9 * GIB, Verdict::Warning, "less than 10 %"),
            (ServerRole::Ds, 10 * GIB, Verdict::Ok, "10.0 GiB free"),
            (ServerRole::Ds, 7 * MIB, Verdict::Failed, "does not start"),
            (ServerRole::Ds, 255 * MIB, Verdict::Failed, "nothing new"),
            (
                ServerRole::Ds,
                50 * GIB,
                Verdict::Ok,
                "50.0 GiB free of 100.0 GiB",
            ),
        ] {
            let row = judge_room(role, free_bytes, 100 * GIB);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
    }

    #[test]
    fn the_owner_is_the_server_and_nobody_else_looks() {
        let name = |uid: u32| format!("user{uid}");
        let above = Some(Path::new("/a"));
        let mode_action = Some("chmod 0700 /s");
        let chown = Some("chown -R user1 /s");
        let pass = Some("chmod o+x /a, or put `state_dir` elsewhere");
        for (uid, mode, wanted, above, verdict, action) in [
            (1, 0o40700, Some(1), None, Verdict::Ok, None),
            (1, 0o40700, None, None, Verdict::Ok, None),
            (1, 0o40700, Some(0), None, Verdict::Ok, None),
            (0, 0o40700, Some(1), None, Verdict::Failed, chown),
            (1, 0o40755, Some(1), None, Verdict::Warning, mode_action),
            (1, 0o40500, Some(1), None, Verdict::Failed, mode_action),
            (1, 0o40700, Some(1), above, Verdict::Failed, pass),
        ] {
            let user = wanted.map(|uid| Account {
                name: name(uid),
                uid,
                groups: vec![uid],
            });
            let row = judge_owner(Path::new("/s"), (uid, 9, mode), user.as_ref(), above, name);
            assert_eq!(
                (row.verdict, row.action.as_deref()),
                (verdict, action),
                "{row:?}"
            );
        }
    }

    #[test]
    fn file_systems_that_lose_state_are_named() {
        let all = Features {
            allocates: true,
            shares: true,
        };
        let copies = Features {
            shares: false,
            ..all
        };
        let none = Features {
            allocates: false,
            ..all
        };
        let (all, copies, none) = (Tried::Has(all), Tried::Has(copies), Tried::Has(none));
        let (ok, warning, failed) = (Verdict::Ok, Verdict::Warning, Verdict::Failed);
        let read_only = "ext4 is mounted read-only";
        for (kind, in_memory, tried, verdict, says) in [
            (TMPFS, false, all, warning, "tmpfs: all state is lost"),
            (TMPFS, true, all, ok, "tmpfs"),
            (0x6969, false, Tried::Hidden, warning, "nfs"),
            (0xef53, false, copies, ok, "copied"),
            (0x5846_5342, false, all, ok, "xfs; clones of files share"),
            (0x1234, false, none, failed, "0x1234 cannot"),
            (0xef53, false, Tried::Hidden, ok, "only its user"),
            (0xef53, false, Tried::ReadOnly, failed, read_only),
            (TMPFS, false, Tried::ReadOnly, failed, "tmpfs is mounted"),
        ] {
            let row = judge_file_system(kind, in_memory, tried);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(features(dir.path()), Tried::Has(_)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_may_be_a_disk_that_is_not_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("gone");
        let row = check(&state, None);
        assert!(row.action.unwrap().contains("mount its disk"));
        assert_eq!(room(ServerRole::Ds, &state), None);
    }
}
