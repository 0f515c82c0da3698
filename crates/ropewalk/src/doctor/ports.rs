//! The ports of a server: its own, another program's, or nobody's.

use super::installed::Installed;
use super::row::Row;
use super::server::Running;
use super::sockets::{Listening, Process, holders, listening, parent_of};
use std::net::SocketAddr;

const CHECK: &str = "port";

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
    // A data server's sockets are those of the process that watches it.
    let watcher = running.pid.and_then(parent_of).filter(|pid| *pid > 1);
    let own: Vec<u32> = running.pid.into_iter().chain(watcher).collect();
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
        };
        judge(key, *address, &seen, installed)
    };
    wanted.iter().map(row).collect()
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
}

fn judge(key: &str, address: SocketAddr, seen: &Seen<'_>, installed: &Installed) -> Row {
    let is_own = |process: &&Process| seen.own.contains(&process.pid);
    if seen.holders.iter().any(|process| is_own(&process)) {
        return Row::ok(CHECK, format!("{address} (`{key}`) is the server's"));
    }
    if let Some(other) = seen.holders.first() {
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
            name: "other".to_owned(),
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
