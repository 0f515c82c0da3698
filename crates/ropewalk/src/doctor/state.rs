//! The state directory: whose it is, what room it has, and what its file system can do.
//!
//! Changes nothing. The features are tried with files that never have a name.

use super::installed::Installed;
use super::row::Row;
use super::server::Running;
use crate::config::StoreKind;
use crate::config_cmd::ServerRole;
use crate::nss::{package_user, user_name};
use crate::table::bytes;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const CHECK: &str = "state directory";
const ROOM: &str = "free space";
const FILE_SYSTEM: &str = "file system";
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

/// All about it.
pub(super) fn check(installed: &Installed, running: &Running) -> Vec<Row> {
    let Some(dir) = &installed.state_dir else {
        return vec![Row::unknown(
            CHECK,
            "the configuration does not say where it is",
        )];
    };
    let found = match dir.metadata() {
        Ok(found) if found.is_dir() => found,
        Ok(_) => {
            let says = format!("{} is no directory", dir.display());
            return vec![Row::failed(CHECK, says, "name another with `state_dir`")];
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let says = format!("{} is not there", dir.display());
            let action = "if the server ran before, mount its disk; else its first start makes it";
            return vec![Row::warning(CHECK, says, action)];
        }
        Err(e) => return vec![Row::unknown(CHECK, format!("{}: {e}", dir.display()))],
    };
    let wanted = wanted_user(installed, running);
    let owner = (found.uid(), found.mode());
    let mut rows = vec![judge_owner(dir, owner, wanted, user_name)];
    rows.push(room(installed.role, dir));
    rows.push(file_system(installed, dir));
    rows
}

/// The user that the server runs as, or will.
fn wanted_user(installed: &Installed, running: &Running) -> Option<u32> {
    let process = running.pid.map(|pid| format!("/proc/{pid}"));
    let of_process = process.and_then(|path| std::fs::metadata(path).ok());
    let of_package = || {
        let package = installed.is_packaged().then(package_user);
        package?.ok().flatten().map(|user| user.uid.as_raw())
    };
    of_process.map(|process| process.uid()).or_else(of_package)
}

fn judge_owner(
    dir: &Path,
    (uid, mode): (u32, u32),
    wanted: Option<u32>,
    name: impl Fn(u32) -> String,
) -> Row {
    let shown = dir.display();
    match wanted {
        // Root may write wherever it likes.
        Some(wanted) if wanted != uid && wanted != 0 => Row::failed(
            CHECK,
            format!(
                "{shown} belongs to {}, and the server runs as {}",
                name(uid),
                name(wanted)
            ),
            format!("chown -R {} {shown}", name(wanted)),
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

fn room(role: ServerRole, dir: &Path) -> Row {
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
    match free_bytes < total_bytes / 20 {
        true => Row::warning(ROOM, format!("{room}: less than 5 %"), action),
        false => Row::ok(ROOM, room),
    }
}

/// What a file system can do for a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Features {
    allocates: bool,
    shares: bool,
}

fn file_system(installed: &Installed, dir: &Path) -> Row {
    let found = match rustix::fs::statfs(dir) {
        Ok(found) => found,
        Err(e) => return Row::unknown(FILE_SYSTEM, format!("{}: {e}", dir.display())),
    };
    // A signed number on some machines.
    #[allow(clippy::cast_sign_loss, reason = "the low 32 bits are a pattern")]
    let kind = found.f_type as u64 & 0xffff_ffff;
    let in_memory = match installed.usable() {
        Some(super::installed::Config::Mds(mds)) => mds.store == StoreKind::Memory,
        Some(super::installed::Config::Ds(ds)) => ds.store == StoreKind::Memory,
        None => false,
    };
    judge_file_system(kind, in_memory, features(dir))
}

/// None when nothing may be made there.
fn features(dir: &Path) -> Option<Features> {
    let unnamed = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
    };
    match unnamed() {
        Ok(file) => {
            let allocated = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, TRIED_BYTES);
            let shared = unnamed().and_then(|to| rustix::fs::ioctl_ficlone(to, &file));
            Some(Features {
                allocates: allocated.is_ok(),
                shares: shared.is_ok(),
            })
        }
        Err(rustix::io::Errno::OPNOTSUPP) => Some(Features {
            // Nothing that lacks unnamed files was seen to share.
            allocates: true,
            shares: false,
        }),
        Err(_) => None,
    }
}

fn judge_file_system(kind: u64, in_memory: bool, features: Option<Features>) -> Row {
    let named = NAMES.iter().find(|(number, _)| *number == kind);
    let name = named.map_or_else(|| format!("{kind:#x}"), |(_, name)| (*name).to_owned());
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
    match features {
        Some(Features {
            allocates: false, ..
        }) => Row::failed(
            FILE_SYSTEM,
            format!("{name} cannot allocate space (fallocate)"),
            "put `state_dir` on ext4, xfs or btrfs",
        ),
        Some(Features { shares: true, .. }) => Row::ok(
            FILE_SYSTEM,
            format!("{name}; clones of files share storage"),
        ),
        Some(_) => Row::ok(
            FILE_SYSTEM,
            format!("{name}; clones of files are copied, as it has no reflinks"),
        ),
        None => Row::ok(
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
                "less than 5 %",
            ),
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
        for (uid, mode, wanted, verdict, action) in [
            (1, 0o40700, Some(1), Verdict::Ok, None),
            (1, 0o40700, None, Verdict::Ok, None),
            (1, 0o40700, Some(0), Verdict::Ok, None),
            (
                0,
                0o40700,
                Some(1),
                Verdict::Failed,
                Some("chown -R user1 /s"),
            ),
            (1, 0o40755, Some(1), Verdict::Warning, Some("chmod 0700 /s")),
        ] {
            let row = judge_owner(Path::new("/s"), (uid, mode), wanted, name);
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
        for (kind, in_memory, features, verdict, says) in [
            (
                TMPFS,
                false,
                Some(all),
                Verdict::Warning,
                "tmpfs: all state is lost",
            ),
            (TMPFS, true, Some(all), Verdict::Ok, "tmpfs"),
            (0x6969, false, None, Verdict::Warning, "nfs"),
            (
                0xef53,
                false,
                Some(Features {
                    shares: false,
                    ..all
                }),
                Verdict::Ok,
                "copied",
            ),
            (
                0x5846_5342,
                false,
                Some(all),
                Verdict::Ok,
                "xfs; clones of files share",
            ),
            (
                0x1234,
                false,
                Some(Features {
                    allocates: false,
                    ..all
                }),
                Verdict::Failed,
                "0x1234 cannot",
            ),
            (0xef53, false, None, Verdict::Ok, "only its user"),
        ] {
            let row = judge_file_system(kind, in_memory, features);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(features(dir.path()).is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_may_be_a_disk_that_is_not_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mds.toml");
        let state = dir.path().join("gone");
        std::fs::write(&file, format!("state_dir = '{}'", state.display())).unwrap();
        let rows = check(&Installed::of_file(&file), &Running::default());
        assert_eq!(rows.len(), 1);
        assert!(rows[0].action.as_ref().unwrap().contains("mount its disk"));
    }
}
