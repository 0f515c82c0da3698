//! Whether a server runs: its admin socket, the process that its directory names, and the user that it runs as.
//!
//! Owns [`Running`], which other checks need. Takes no lock: that could keep a server from starting.

use super::installed::Installed;
use super::limit::Limit;
use super::row::Row;
use crate::account::Account;
use crate::admin::{Request, SOCKET_NAME, ask_at};
use crate::config_cmd::ServerRole;
use crate::daemon::LOCK_NAME;
use crate::nss::package_user;
use crate::status::{ServerStatus, duration};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of its row.
pub(super) const CHECK: &str = "server";
/// Longest text of a pid.
const PID_BYTES_MAX: u64 = 32;
/// The program's name, as the kernel has it.
pub(super) const PROGRAM: &str = "ropewalk";

/// A server now.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// What it says of itself, if it answers.
    pub(super) status: Option<ServerStatus>,
    /// Why it does not answer.
    pub(super) silent: Option<String>,
    /// Its process, if there is one.
    pub(super) pid: Option<u32>,
}

impl Running {
    /// Asks a server. Blocks for some seconds, and for as long as the disk of its directory does.
    pub(super) fn ask(state_dir: Option<&Path>) -> Self {
        let Some(dir) = state_dir else {
            return Self::default();
        };
        match ask_at::<ServerStatus>(&dir.join(SOCKET_NAME), &Request::Status) {
            Ok(status) => Self {
                pid: Some(match &status {
                    ServerStatus::Mds(mds) => mds.pid,
                    ServerStatus::Ds(ds) => ds.pid,
                }),
                status: Some(status),
                silent: None,
            },
            Err(why) => Self {
                status: None,
                silent: Some(why.to_string()),
                pid: locking_pid(dir),
            },
        }
    }
}

impl Running {
    /// A server of which nothing came in time.
    pub(super) fn late(limit: &Limit) -> Self {
        Self {
            silent: Some(limit.late()),
            ..Self::default()
        }
    }
}

/// The process in `process.lock`, if it lives and is one of ours.
fn locking_pid(dir: &Path) -> Option<u32> {
    let file = std::fs::File::open(dir.join(LOCK_NAME)).ok()?;
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    name.starts_with(PROGRAM).then_some(pid)
}

/// The user that a server runs as, or will: that of its process, else that of the package. May ask the name service.
pub(super) fn server_user(installed: &Installed, running: &Running) -> Option<Account> {
    let process = running.pid.map(|pid| format!("/proc/{pid}"));
    let of_process = process.and_then(|path| std::fs::metadata(path).ok());
    let of_package = || {
        let user = installed.is_packaged().then(package_user)?.ok()??;
        Account::of(user).ok()
    };
    of_process
        .map(|process| Account::of_uid(process.uid(), process.gid()))
        .or_else(of_package)
}

/// Whether it runs and answers.
pub(super) fn check(installed: &Installed, running: &Running) -> Row {
    let name = installed.role.name();
    let Some(dir) = &installed.state_dir else {
        return Row::unknown(
            CHECK,
            format!(
                "the {name} cannot be found: its configuration does not say where its state lies"
            ),
        );
    };
    if let Some(status) = &running.status {
        return answers(installed, status);
    }
    let silent = running.silent.as_deref().unwrap_or("it was not asked");
    if let Some(pid) = running.pid {
        return Row::failed(
            CHECK,
            format!("the {name} runs (pid {pid}) and gives no answer: {silent}"),
            format!(
                "see its log; if it is not starting, {}",
                installed.restart()
            ),
        );
    }
    if is_hidden(dir) {
        return Row::unknown(
            CHECK,
            format!(
                "whether the {name} runs cannot be seen: only its user or root may look into {}",
                dir.display()
            ),
        );
    }
    Row::failed(CHECK, format!("the {name} does not run"), installed.start())
}

fn answers(installed: &Installed, status: &ServerStatus) -> Row {
    let (role, version, pid, uptime_seconds) = match status {
        ServerStatus::Mds(mds) => (ServerRole::Mds, &mds.version, mds.pid, mds.uptime_seconds),
        ServerStatus::Ds(ds) => (ServerRole::Ds, &ds.version, ds.pid, ds.uptime_seconds),
    };
    let up = duration(uptime_seconds);
    let says = format!(
        "the {} runs: version {version}, pid {pid}, up {up}",
        role.name()
    );
    match status {
        ServerStatus::Ds(ds) if ds.state == "expelled" => Row::failed(
            CHECK,
            "the cluster has expelled this data server: it never serves again",
            "move its state directory away, and join an empty one with a new token",
        ),
        ServerStatus::Ds(ds) if ds.state != "serving" => Row::warning(
            CHECK,
            format!("{says}; it is {}", ds.state),
            "see whether the metadata server runs and can be reached from here",
        ),
        ServerStatus::Mds(mds) if mds.in_grace => Row::warning(
            CHECK,
            format!("{says}; clients reclaim what they had, and new locks wait"),
            "wait: that takes two leases at most",
        ),
        _ if role != installed.role => Row::warning(
            CHECK,
            format!(
                "{says}; its directory was taken for that of a {}",
                installed.role.name()
            ),
            "name its configuration with --config FILE",
        ),
        _ => Row::ok(CHECK, says),
    }
}

/// Whether somebody else's directory hides what is in it.
fn is_hidden(dir: &Path) -> bool {
    let denied = std::io::ErrorKind::PermissionDenied;
    let lock = dir.join(LOCK_NAME);
    std::fs::File::open(lock).is_err_and(|e| e.kind() == denied)
}

#[cfg(test)]
mod tests {
    //! Goal: a server that is gone, one that hangs and one that waits are told apart.
    use super::*;
    use crate::doctor::row::Verdict;
    use crate::status::{DsStatus, MdsStatus};

    fn installed(dir: &Path) -> Installed {
        let file = dir.join("mds.toml");
        std::fs::write(&file, format!("state_dir = '{}'", dir.display())).unwrap();
        Installed::of_file(&file)
    }

    #[test]
    fn a_server_that_is_gone_is_to_be_started_and_one_that_hangs_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let server = installed(dir.path());
        let lock = dir.path().join(LOCK_NAME);
        std::fs::write(&lock, "1\n").unwrap();
        let row = check(&server, &Running::ask(Some(dir.path())));
        assert_eq!(row.verdict, Verdict::Failed);
        assert!(row.says.ends_with("does not run"), "{row:?}");
        assert!(row.action.unwrap().contains("ropewalk mds --config"));
        let hangs = Running {
            status: None,
            silent: Some("it hangs".to_owned()),
            pid: Some(7),
        };
        let row = check(&server, &hangs);
        assert!(
            row.says.contains("(pid 7)") && row.says.ends_with("it hangs"),
            "{row:?}"
        );
    }

    #[test]
    fn states_of_servers_have_their_verdicts() {
        let dir = tempfile::tempdir().unwrap();
        let server = installed(dir.path());
        let ds = |state: &str| {
            let state = state.to_owned();
            ServerStatus::Ds(Box::new(DsStatus {
                state,
                ..DsStatus::default()
            }))
        };
        let mds = |in_grace| {
            ServerStatus::Mds(Box::new(MdsStatus {
                in_grace,
                ..MdsStatus::default()
            }))
        };
        for (status, verdict) in [
            (mds(false), Verdict::Ok),
            (mds(true), Verdict::Warning),
            (ds("expelled"), Verdict::Failed),
            (ds("away"), Verdict::Warning),
            (ds("serving"), Verdict::Warning),
        ] {
            let running = Running {
                status: Some(status),
                ..Running::default()
            };
            assert_eq!(check(&server, &running).verdict, verdict, "{running:?}");
        }
    }

    #[test]
    fn without_a_directory_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ds.toml");
        std::fs::write(&file, "listen = [").unwrap();
        let row = check(&Installed::of_file(&file), &Running::ask(None));
        assert_eq!(row.verdict, Verdict::Unknown);
    }
}
