//! The NFS client of this machine's kernel: whether it is there, whether it reaches data servers, and what is known of its version.
//!
//! A machine that only serves needs none: that there is none is no warning. What is known of versions is from docs/linux-client.md.

use super::row::Row;
use std::path::Path;

/// The name of its row.
pub(super) const CHECK: &str = "kernel client";
/// The modules of NFSv4, and of the layouts by which data go to data servers.
const CLIENT: &str = "/nfsv4.ko";
const LAYOUTS: &str = "/nfs_layout_nfsv41_files.ko";
/// Where mount(8) looks for its helper.
const HELPERS: [&str; 2] = ["/sbin/mount.nfs", "/usr/sbin/mount.nfs"];
/// From this version on data go over RDMA.
const RDMA_SINCE: (u32, u32) = (5, 11);

/// What was found on this machine.
#[derive(Debug, Default)]
struct Found {
    /// As in `6.1.0-28-amd64`.
    release: String,
    /// All modules, built in or not; none when there is no list.
    modules: Option<String>,
    /// What file systems the kernel has now.
    file_systems: String,
    has_helper: bool,
}

/// The client of this machine, and whether servers here are over RDMA.
pub(super) fn check(uses_rdma: bool) -> Row {
    let read = |path: String| std::fs::read_to_string(path).ok();
    let release = read("/proc/sys/kernel/osrelease".to_owned()).unwrap_or_default();
    let release = release.trim().to_owned();
    let lists = ["modules.dep", "modules.builtin"];
    let lists = lists.map(|list| read(format!("/lib/modules/{release}/{list}")));
    let modules: Vec<String> = lists.into_iter().flatten().collect();
    let found = Found {
        modules: (!modules.is_empty()).then(|| modules.concat()),
        file_systems: read("/proc/filesystems".to_owned()).unwrap_or_default(),
        has_helper: HELPERS.iter().any(|helper| Path::new(helper).exists()),
        release,
    };
    judge(&found, uses_rdma)
}

fn judge(found: &Found, uses_rdma: bool) -> Row {
    let release = &found.release;
    let is_loaded = found
        .file_systems
        .split_whitespace()
        .any(|word| word == "nfs4");
    let has = |module: &str| found.modules.as_ref().map(|list| list.contains(module));
    match (is_loaded, has(CLIENT)) {
        (false, None) => {
            return Row::unknown(
                CHECK,
                format!("Linux {release} has no list of modules here (a container?)"),
            );
        }
        (false, Some(false)) => {
            return Row::ok(
                CHECK,
                format!("Linux {release} has no NFSv4 client: this machine cannot mount"),
            );
        }
        _ => {}
    }
    if !found.has_helper {
        let says = format!(
            "Linux {release} has the client, and mount.nfs is missing: to mount here, install nfs-common"
        );
        return Row::ok(CHECK, says);
    }
    if has(LAYOUTS) == Some(false) {
        return Row::warning(
            CHECK,
            format!(
                "Linux {release} lacks the files layout: all data of mounts here go through the metadata server"
            ),
            "to mount here, install a kernel with nfs_layout_nfsv41_files",
        );
    }
    if uses_rdma && version(release).is_some_and(|version| version < RDMA_SINCE) {
        return Row::warning(
            CHECK,
            format!(
                "Linux {release} reaches data servers over TCP only: from 5.11 on it does over RDMA"
            ),
            "to mount here over RDMA, install a newer kernel",
        );
    }
    Row::ok(
        CHECK,
        format!("Linux {release} can mount, and nothing is known against it"),
    )
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    //! Goal: a client that is missing is no warning, one that would be slow is.
    use super::*;
    use crate::doctor::row::Verdict;

    #[test]
    fn kernels_have_their_verdicts() {
        let both = format!("kernel/fs/nfs{CLIENT}:\nkernel/fs/nfs/filelayout{LAYOUTS}:\n");
        let client = format!("kernel/fs/nfs{CLIENT}.xz:\n");
        #[rustfmt::skip]
        let table = [
            ("6.1.0-28-amd64", Some(&both), "", true, true, Verdict::Ok, "can mount"),
            ("6.1.0", Some(&both), "", false, false, Verdict::Ok, "nfs-common"),
            ("6.1.0", Some(&client), "", true, false, Verdict::Warning, "files layout"),
            ("5.10.0", Some(&both), "", true, true, Verdict::Warning, "TCP only"),
            ("5.10.0", Some(&both), "", true, false, Verdict::Ok, "can mount"),
            ("6.1.0", None, "nodev\tnfs4\n", true, true, Verdict::Ok, "can mount"),
            ("6.1.0", None, "nodev\tnfsd\n", true, true, Verdict::Unknown, "container"),
            ("6.1.0", Some(&String::new()), "", true, true, Verdict::Ok, "cannot mount"),
            ("odd", Some(&both), "", true, true, Verdict::Ok, "can mount"),
        ];
        for (release, modules, file_systems, has_helper, rdma, verdict, says) in table {
            let found = Found {
                release: release.to_owned(),
                modules: modules.cloned(),
                file_systems: file_systems.to_owned(),
                has_helper,
            };
            let row = judge(&found, rdma);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
    }
}
