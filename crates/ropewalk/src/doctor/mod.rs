//! `ropewalk doctor`: looks at the servers of this machine, whatever state they are in, and says what to do.
//!
//! Owns the order of the rows and how they are shown; each file below is one subject. Changes nothing: it takes no lock, and makes no
//! file with a name. A subject whose server or configuration is missing leaves the others alone.

mod clock;
mod cluster;
mod configuration;
mod firewall;
mod installed;
mod kernel_client;
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
use row::{Row, Verdict};
use serde_json::json;
use server::Running;
use std::path::PathBuf;

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
        Ok(servers) => look(&servers),
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
        (None, Some(dir)) => Ok(installed::at_dir(dir)),
        (None, None) => installed::usual(),
    }
}

/// All rows: those of each server, then those of the machine.
fn look(servers: &[Installed]) -> Vec<Row> {
    // At once, so that servers that hang hold up one patience.
    let running: Vec<Running> = std::thread::scope(|scope| {
        let ask = |installed: &Installed| {
            let dir = installed.state_dir.clone();
            scope.spawn(move || Running::ask(dir.as_deref()))
        };
        let asked: Vec<_> = servers.iter().map(ask).collect();
        let answered = asked
            .into_iter()
            .map(|asking| asking.join().unwrap_or_default());
        answered.collect()
    });
    let pairs = || servers.iter().zip(&running);
    let mut rows: Vec<Row> = pairs()
        .flat_map(|(installed, running)| {
            let rows = of_server(installed, running).into_iter();
            rows.map(move |row| row.of(&installed.name))
        })
        .collect();
    let named: Vec<(String, &Running)> = pairs()
        .map(|(i, running)| (i.name.clone(), running))
        .collect();
    rows.extend(versions::check(&named));
    let listeners = servers.iter().flat_map(Installed::listeners);
    let listeners: Vec<_> = listeners.map(|(_, address)| address).collect();
    rows.push(firewall::check(&listeners));
    rows.push(clock::of_machine());
    let uses_rdma = servers.iter().any(|installed| installed.rdma().is_some());
    if !uses_rdma {
        rows.push(rdma::unused());
    }
    rows.push(kernel_client::check(uses_rdma));
    rows
}

fn of_server(installed: &Installed, running: &Running) -> Vec<Row> {
    let mut rows = configuration::check(installed, running);
    rows.push(server::check(installed, running));
    rows.extend(state::check(installed, running));
    rows.extend(ports::check(installed, running));
    rows.extend(limits::check(installed, running));
    rows.extend(installed.rdma().map(rdma::check));
    rows.extend(installed.mds().and_then(|mds| rpcbind::check(mds, running)));
    if let Some(mds) = mds_status(running) {
        rows.extend(cluster::check(mds));
        rows.extend(clock::of_data_servers(&mds.data_servers));
    }
    rows
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
        let rows = look(&[Installed::of_file(&file)]);
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
        let rows = look(&[Installed::of_file(&PathBuf::from("/no/such/ds.toml"))]);
        assert!(rows[0].says.contains("cannot read"), "{rows:?}");
        assert!(
            rows.iter()
                .any(|row| row.check == "server" && row.verdict == Verdict::Unknown)
        );
    }
}
