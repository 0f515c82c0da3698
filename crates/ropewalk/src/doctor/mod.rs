//! `ropewalk doctor`: looks at the servers of this machine, whatever state they are in, and says what to do.
//!
//! Owns the order of the rows and how they are shown; each file below is one subject. Changes nothing: it takes no lock, and makes no
//! file with a name. A subject whose server or configuration is missing leaves the others alone, and so does one that gives no answer.

mod clock;
mod cluster;
mod configuration;
mod firewall;
mod installed;
mod kernel_client;
mod limit;
mod limits;
mod outside;
mod ports;
mod rdma;
mod row;
mod rpcbind;
mod rules;
mod server;
mod sockets;
mod state;
mod versions;

use crate::failure::{Outcome, failed};
use crate::out;
use crate::status::{MdsStatus, ServerStatus};
use crate::table::table;
use installed::Installed;
use limit::{Job, Limit, begin};
use row::{Row, Verdict};
use serde_json::json;
use server::Running;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `ropewalk doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// state_dir of a server, or the directory of `ropewalk up` [default: what /etc/ropewalk has, else that of `ropewalk up`]
    #[arg(
        long,
        alias = "state-dir",
        value_name = "DIR",
        conflicts_with = "config"
    )]
    dir: Option<PathBuf>,
    /// Configuration of a server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `ropewalk doctor`.
pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let rows = match servers(args) {
        Ok(servers) => look(servers),
        Err((says, action)) => vec![Row::failed("servers", says, action)],
    };
    match args.json {
        true => out::json(&json!({
            "failed": count(&rows, Verdict::Failed),
            "warnings": count(&rows, Verdict::Warning),
            "checks": rows,
        }))?,
        false => out::print(&show(&rows))?,
    }
    match count(&rows, Verdict::Failed) {
        0 => Ok(()),
        1 => Err(failed("1 check has failed")),
        n => Err(failed(format!("{n} checks have failed"))),
    }
}

fn servers(args: &DoctorArgs) -> Result<Vec<Installed>, (String, String)> {
    match (&args.config, &args.dir) {
        (Some(file), _) => Ok(vec![Installed::of_file(file)]),
        (None, Some(dir)) => installed::at_dir(dir),
        (None, None) => installed::usual(),
    }
}

/// All rows: those of each server, then those of the machine.
fn look(servers: Vec<Installed>) -> Vec<Row> {
    // At once, so that servers that hang hold up one patience.
    let asked = servers.into_iter().map(|installed| {
        let dir = installed.state_dir.clone();
        let limit = Limit::server(dir.as_deref().unwrap_or(Path::new("/")));
        let asking = begin(&limit, move || Running::ask(dir.as_deref()));
        (Arc::new(installed), limit, asking)
    });
    let asked: Vec<_> = asked.collect();
    let answered = asked.into_iter().map(|(installed, limit, asking)| {
        let running = asking.answer().unwrap_or_else(|| Running::late(&limit));
        (installed, Arc::new(running))
    });
    let pairs: Vec<Pair> = answered.collect();
    // All checks run at once, each with its limit.
    let of_servers = pairs.iter().map(|pair| (pair, of_server(pair)));
    let of_servers: Vec<(&Pair, Vec<Job>)> = of_servers.collect();
    let machine = of_machine(&pairs);
    let mut rows = Vec::new();
    for ((installed, running), jobs) in of_servers {
        rows.extend(limit::rows(jobs));
        let told = mds_status(running).map_or_else(Vec::new, of_cluster);
        rows.extend(told.into_iter().map(|row| row.of(&installed.name)));
    }
    let named: Vec<(String, &Running)> = pairs
        .iter()
        .map(|(installed, running)| (installed.name.clone(), &**running))
        .collect();
    rows.extend(versions::check(&named));
    rows.extend(limit::rows(machine));
    rows
}

/// A server, and how it is now.
type Pair = (Arc<Installed>, Arc<Running>);

/// Begins the checks of a server.
fn of_server((installed, running): &Pair) -> Vec<Job> {
    let root = Path::new("/");
    let dir = installed.state_dir.as_deref();
    let on_disk = || Limit::disk(dir.unwrap_or(root));
    let job = |check, limit, work: fn(&Installed, &Running) -> Vec<Row>| {
        let (installed, running) = (Arc::clone(installed), Arc::clone(running));
        let name = installed.name.clone();
        Job::begin(check, limit, move || work(&installed, &running)).of(&name)
    };
    let of_file = Limit::disk(installed.file.as_deref().or(dir).unwrap_or(root));
    let processes = || Limit::machine("/proc", "see in `dmesg` what hangs");
    let mut jobs = vec![
        job(configuration::CHECK, of_file, configuration::check),
        job(server::CHECK, on_disk(), |i, r| vec![server::check(i, r)]),
    ];
    jobs.push(match dir {
        None => job(state::CHECK, on_disk(), |_, _| vec![state::nowhere()]),
        Some(_) => job(state::CHECK, on_disk(), state_rows),
    });
    if dir.is_some() {
        jobs.push(job(state::ROOM, on_disk(), |i, _| {
            let dir = i.state_dir.as_deref();
            dir.and_then(|dir| state::room(i.role, dir))
                .into_iter()
                .collect()
        }));
        jobs.push(job(state::FILE_SYSTEM, on_disk(), |i, _| {
            let dir = i.state_dir.as_deref();
            dir.and_then(|dir| state::file_system(i, dir))
                .into_iter()
                .collect()
        }));
    }
    jobs.push(job(ports::CHECK, processes(), ports::check));
    jobs.push(job(limits::CHECK, processes(), |i, r| {
        limits::check(i, r).into_iter().collect()
    }));
    jobs.push(job(rdma::CHECK, devices(), |i, _| {
        i.rdma().map(rdma::check).into_iter().collect()
    }));
    let of_rpcbind = Limit::machine("rpcbind", "systemctl restart rpcbind");
    jobs.push(job(rpcbind::CHECK, of_rpcbind, |i, r| {
        i.mds()
            .and_then(|mds| rpcbind::check(mds, r))
            .into_iter()
            .collect()
    }));
    jobs
}

fn state_rows(installed: &Installed, running: &Running) -> Vec<Row> {
    let user = server::server_user(installed, running);
    let dir = installed.state_dir.as_deref();
    dir.map(|dir| state::check(dir, user.as_ref()))
        .into_iter()
        .collect()
}

fn devices() -> Limit {
    Limit::machine(
        "the RDMA devices",
        "see in `dmesg` what they have, and try `ropewalk rdma`",
    )
}

/// What a metadata server knows of the cluster.
fn of_cluster(mds: &MdsStatus) -> Vec<Row> {
    let mut rows = cluster::check(mds);
    rows.extend(clock::of_data_servers(&mds.data_servers));
    rows
}

/// Begins the checks of this machine.
fn of_machine(pairs: &[Pair]) -> Vec<Job> {
    let listeners = pairs
        .iter()
        .flat_map(|(installed, _)| installed.listeners());
    let listeners: Vec<SocketAddr> = listeners.map(|(_, address)| address).collect();
    let uses_rdma = pairs
        .iter()
        .any(|(installed, _)| installed.rdma().is_some());
    let rules = Limit::machine("nft and iptables-save", "try `nft list ruleset` by hand");
    let time = Limit::machine("timedatectl", "try `timedatectl` by hand");
    let modules = Limit::disk(Path::new("/lib/modules"));
    let mut jobs = vec![
        Job::begin(firewall::CHECK, rules, move || {
            vec![firewall::check(&listeners)]
        }),
        Job::begin(clock::CHECK, time, || vec![clock::of_machine()]),
    ];
    if !uses_rdma {
        jobs.push(Job::begin(rdma::CHECK, devices(), || vec![rdma::unused()]));
    }
    let client = move || vec![kernel_client::check(uses_rdma)];
    jobs.push(Job::begin(kernel_client::CHECK, modules, client));
    jobs
}

fn mds_status(running: &Running) -> Option<&MdsStatus> {
    match running.status.as_ref()? {
        ServerStatus::Mds(mds) => Some(mds),
        ServerStatus::Ds(_) => None,
    }
}

fn count(rows: &[Row], verdict: Verdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// A table, and below each row what to do.
fn show(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let server = row.server.clone().unwrap_or_else(|| "-".to_owned());
        let first = vec![
            row.verdict.word().to_owned(),
            server,
            row.check.to_owned(),
            row.says.clone(),
        ];
        let empty = String::new;
        let action = |action: &String| vec![empty(), empty(), empty(), format!("  do: {action}")];
        [Some(first), row.action.as_ref().map(action)]
    };
    let cells: Vec<Vec<String>> = rows.iter().flat_map(cells).flatten().collect();
    table(&["VERDICT", "SERVER", "CHECK", "WHAT"], &cells)
}

#[cfg(test)]
mod tests {
    //! Goal: every subject has its row, also when the configuration or the server is missing; what to do stands below.
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_to_do_stands_below_a_row() {
        let rows = [
            Row::ok("clock", "it ticks"),
            Row::failed("port", "taken", "stop it").of("mds"),
        ];
        assert_eq!(
            show(&rows),
            "VERDICT  SERVER  CHECK  WHAT\n\
             ok       -       clock  it ticks\n\
             failed   mds     port   taken\n                          do: stop it\n"
        );
        assert_eq!(count(&rows, Verdict::Failed), 1);
    }

    #[test]
    fn a_broken_file_leaves_the_other_subjects_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mds.toml");
        std::fs::write(
            &file,
            format!("state_dir = '{}'\nlisten = [", dir.path().display()),
        )
        .unwrap();
        let rows = look(vec![Installed::of_file(&file)]);
        let verdict = |check: &str| {
            rows.iter()
                .find(|row| row.check == check)
                .map(|row| row.verdict)
        };
        assert_eq!(verdict("configuration"), Some(Verdict::Failed));
        assert_eq!(verdict("server"), Some(Verdict::Failed));
        let checks: BTreeSet<&str> = rows.iter().map(|row| row.check).collect();
        for check in [
            "state directory",
            "free space",
            "file system",
            "firewall",
            "clock",
            "RDMA",
            "kernel client",
        ] {
            assert!(checks.contains(check), "{check}: {rows:?}");
        }
        let is_explained = |row: &Row| {
            (row.verdict == Verdict::Ok || row.verdict == Verdict::Unknown) == row.action.is_none()
        };
        assert!(rows.iter().all(is_explained), "{rows:?}");
    }

    #[test]
    fn a_file_that_is_gone_is_a_failed_check() {
        let rows = look(vec![Installed::of_file(&PathBuf::from("/no/such/ds.toml"))]);
        assert!(rows[0].says.contains("cannot read"), "{rows:?}");
        assert!(
            rows.iter()
                .any(|row| row.check == "server" && row.verdict == Verdict::Unknown)
        );
    }
}
