//! The ports of a server: its own, another program's, or nobody's.

use super::installed::Installed;
use super::outside;
use super::row::Row;
use super::server::{PROGRAM, Running};
use super::sockets::{Listening, Process, holders, listening, name_of, parent_of};
use std::net::SocketAddr;

/// The name of its rows.
pub(super) const CHECK: &str = "port";
/// The first process of a machine, which keeps sockets for units (docs/decisions/19-kept-sockets.md).
const FIRST: u32 = 1;
/// How the kernel calls it where it is systemd.
const SYSTEMD: &str = "systemd";

/// One row for each listener.
pub(super) fn check(installed: &Installed, running: &Running) -> Vec<Row> {
    let wanted = installed.listeners();
    if wanted.is_empty() {
        return Vec::new();
    }
    let Some(all) = listening() else {
        return vec![Row::unknown(
            CHECK,
            "this machine does not say what listens (/proc/net/tcp)",
        )];
    };
    let near: Vec<&Listening> = all
        .iter()
        .filter(|l| {
            wanted
                .iter()
                .any(|(_, address)| overlaps(l.address, *address))
        })
        .collect();
    let inodes: Vec<u64> = near.iter().map(|l| l.inode).collect();
    let held = holders(&inodes);
    // A data server's sockets are those of the process that watches it. In a container that is the first one.
    let watcher = running.pid.and_then(parent_of);
    let watcher = watcher.filter(|pid| *pid > FIRST || name_of(*pid).starts_with(PROGRAM));
    let own: Vec<u32> = running.pid.into_iter().chain(watcher).collect();
    let kept = match running.status.is_some() || near.is_empty() {
        true => 0,
        false => kept_by_systemd(installed),
    };
    let row = |(key, address): &(&'static str, SocketAddr)| {
        let at = near.iter().filter(|l| overlaps(l.address, *address));
        let found: Vec<&Listening> = at.copied().collect();
        let who = found
            .iter()
            .flat_map(|l| held.get(&l.inode).into_iter().flatten());
        let seen = Seen {
            bound: !found.is_empty(),
            holders: who.cloned().collect(),
            own: &own,
            answers: running.status.is_some(),
            kept,
        };
        judge(key, *address, &seen, installed)
    };
    wanted.iter().map(row).collect()
}

/// How many sockets systemd keeps for the unit of a server, by its own word.
fn kept_by_systemd(installed: &Installed) -> u32 {
    if !installed.is_packaged() {
        return 0;
    }
    let unit = format!("ropewalk-{}", installed.role.word());
    let asked = ["show", "--property=NFileDescriptorStore", "--value", &unit];
    let said = outside::ask("systemctl", &asked);
    said.and_then(|said| said.trim().parse().ok()).unwrap_or(0)
}

/// Whether a socket at one address takes what comes to the other.
fn overlaps(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let family = one.is_ipv4() == other.is_ipv4();
    one.port() == other.port() && (one.ip() == other.ip() || (any && family))
}

/// What is known of a port.
struct Seen<'a> {
    bound: bool,
    /// Processes that have it, those that could be seen.
    holders: Vec<Process>,
    /// Processes of the server.
    own: &'a [u32],
    /// Whether the server answers.
    answers: bool,
    /// How many sockets systemd keeps for the server.
    kept: u32,
}

fn judge(key: &str, address: SocketAddr, seen: &Seen<'_>, installed: &Installed) -> Row {
    let is_own = |process: &&Process| seen.own.contains(&process.pid);
    if seen.holders.iter().any(|process| is_own(&process)) {
        return Row::ok(CHECK, format!("{address} (`{key}`) is the server's"));
    }
    let is_systemd = |process: &Process| process.pid == FIRST && process.name == SYSTEMD;
    let others = seen.holders.iter().find(|process| !is_systemd(process));
    match (seen.holders.first(), others) {
        (Some(_), None) if seen.kept > 0 => {
            let says =
                format!("{address} (`{key}`) is kept by systemd for the server's next start");
            return Row::ok(CHECK, says);
        }
        (Some(_), None) => {
            return Row::failed(
                CHECK,
                format!("{address} (`{key}`) is in use by systemd for another unit"),
                format!("find it with `systemctl list-sockets`, and stop it, or change `{key}`"),
            );
        }
        _ => {}
    }
    if let Some(other) = others {
        return Row::failed(
            CHECK,
            format!(
                "{address} (`{key}`) is in use by {} (pid {})",
                other.name, other.pid
            ),
            format!("stop that program, or change `{key}`"),
        );
    }
    match (seen.bound, seen.answers) {
        (true, true) => Row::ok(
            CHECK,
            format!("{address} (`{key}`) is open; only root can see that it is the server's"),
        ),
        (true, false) if seen.kept > 0 => Row::unknown(
            CHECK,
            format!(
                "{address} (`{key}`) is open; only root can see whether systemd keeps it for the server"
            ),
        ),
        (true, false) if seen.own.is_empty() => Row::failed(
            CHECK,
            format!("{address} (`{key}`) is in use by a program that only root can see"),
            format!("find it with `ss -ltnp` as root, and stop it, or change `{key}`"),
        ),
        (true, false) => Row::unknown(
            CHECK,
            format!("{address} (`{key}`) is open; only root can see whose it is"),
        ),
        (false, true) => Row::failed(
            CHECK,
            format!("{address} (`{key}`) is closed, though the server runs"),
            format!(
                "if `{key}` was changed since it started, {}",
                installed.restart()
            ),
        ),
        (false, false) => Row::ok(CHECK, format!("{address} (`{key}`) is free for the server")),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: whose a port is follows from what can be seen of it.
    use super::*;
    use crate::doctor::row::Verdict;
    use std::net::TcpListener;

    fn installed(text: &str) -> (tempfile::TempDir, Installed) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mds.toml");
        std::fs::write(&file, format!("state_dir = '/s'\n{text}")).unwrap();
        let installed = Installed::of_file(&file);
        (dir, installed)
    }

    #[test]
    fn ports_have_their_verdicts() {
        let (_dir, server) = installed("");
        let process = |pid| Process {
            pid,
            name: if pid == FIRST { SYSTEMD } else { "other" }.to_owned(),
        };
        for (bound, holders, own, answers, verdict, says) in [
            (
                true,
                vec![process(7)],
                &[7][..],
                true,
                Verdict::Ok,
                "is the server's",
            ),
            (
                true,
                vec![process(9), process(7)],
                &[7],
                true,
                Verdict::Ok,
                "is the server's",
            ),
            (
                true,
                vec![process(9)],
                &[],
                false,
                Verdict::Failed,
                "in use by other (pid 9)",
            ),
            (
                true,
                vec![process(9)],
                &[7],
                true,
                Verdict::Failed,
                "in use by other (pid 9)",
            ),
            (true, vec![], &[7], true, Verdict::Ok, "only root"),
            (true, vec![], &[], false, Verdict::Failed, "only root"),
            (true, vec![], &[7], false, Verdict::Unknown, "whose it is"),
            (false, vec![], &[7], true, Verdict::Failed, "closed, though"),
            (false, vec![], &[], false, Verdict::Ok, "free"),
        ] {
            let seen = Seen {
                bound,
                holders,
                own,
                answers,
                kept: 0,
            };
            let row = judge("listen", "127.0.0.1:1".parse().unwrap(), &seen, &server);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
    }

    #[test]
    fn a_socket_of_systemd_is_the_servers_when_its_unit_has_kept_ones() {
        let (_dir, server) = installed("");
        let process = |pid, name: &str| Process {
            pid,
            name: name.to_owned(),
        };
        let systemd = process(FIRST, SYSTEMD);
        for (holders, kept, verdict, says) in [
            (vec![systemd.clone()], 2, Verdict::Ok, "next start"),
            (vec![systemd.clone()], 0, Verdict::Failed, "another unit"),
            (
                vec![systemd, process(9, "x")],
                2,
                Verdict::Failed,
                "by x (pid 9)",
            ),
            // A container's first process is any program.
            (
                vec![process(FIRST, "nginx")],
                0,
                Verdict::Failed,
                "by nginx (pid 1)",
            ),
            (vec![], 2, Verdict::Unknown, "whether systemd keeps it"),
        ] {
            let seen = Seen {
                bound: true,
                holders,
                own: &[],
                answers: false,
                kept,
            };
            let row = judge("listen", "127.0.0.1:1".parse().unwrap(), &seen, &server);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
    }

    #[test]
    fn a_port_of_another_program_is_named_with_it() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (_dir, server) = installed(&format!("listen = ['{address}']\n"));
        let rows = check(&server, &Running::default());
        assert_eq!(rows[0].verdict, Verdict::Failed);
        let pid = format!("(pid {})", std::process::id());
        assert!(rows[0].says.ends_with(&pid), "{rows:?}");
        let ours = Running {
            pid: Some(std::process::id()),
            ..Running::default()
        };
        assert_eq!(check(&server, &ours)[0].verdict, Verdict::Ok);
    }

    #[test]
    fn addresses_overlap_within_a_family() {
        for (one, other, same) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("0.0.0.0:1", "10.0.0.1:1", true),
            ("[::]:1", "[fd00::1]:1", true),
            ("[::]:1", "10.0.0.1:1", false),
            ("10.0.0.2:1", "10.0.0.1:1", false),
        ] {
            assert_eq!(
                overlaps(one.parse().unwrap(), other.parse().unwrap()),
                same,
                "{one} {other}"
            );
        }
    }
}
