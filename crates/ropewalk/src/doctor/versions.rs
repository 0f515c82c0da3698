//! Whether all programs are of one version: servers that run, and this one.
//!
//! Data servers on other machines tell the metadata server no version of the program: the control program has one of its own.

use super::row::Row;
use super::server::Running;
use crate::status::{STATE_EXPELLED, ServerStatus};
use std::collections::BTreeSet;

const CHECK: &str = "versions";
/// What the kernel puts after the path of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// One row for all servers here, and one for those elsewhere.
pub(super) fn check(all: &[(String, &Running)]) -> Vec<Row> {
    let answers = all
        .iter()
        .filter_map(|(name, running)| Some((name, running.status.as_ref()?)));
    let version = |(name, status): (&String, &ServerStatus)| match status {
        ServerStatus::Mds(mds) => (name.clone(), mds.version.clone()),
        ServerStatus::Ds(ds) => (name.clone(), ds.version.clone()),
    };
    let versions: Vec<(String, String)> = answers.map(version).collect();
    let mut rows = Vec::new();
    if !versions.is_empty() {
        rows.push(judge(env!("CARGO_PKG_VERSION"), &versions));
    }
    let is_old = |running: &Running| running.pid.is_some_and(is_replaced);
    let old: Vec<&str> = all
        .iter()
        .filter(|(_, r)| is_old(r))
        .map(|(name, _)| name.as_str())
        .collect();
    if !old.is_empty() {
        let says = format!(
            "the program file of {} was replaced since it started",
            old.join(" ")
        );
        rows.push(Row::warning(
            CHECK,
            says,
            "restart it when that suits, to have the new version",
        ));
    }
    rows.extend(elsewhere(all));
    rows
}

fn judge(own: &str, servers: &[(String, String)]) -> Row {
    let differs = servers.iter().filter(|(_, version)| version != own);
    let differs: Vec<String> = differs
        .map(|(name, version)| format!("{name} is of {version}"))
        .collect();
    match differs.is_empty() {
        true => Row::ok(CHECK, format!("servers here and this program are of {own}")),
        false => Row::warning(
            CHECK,
            format!("this program is of {own}, and {}", differs.join(", ")),
            "install one version, and restart those that differ",
        ),
    }
}

/// Whether the file of a process was replaced, as by an upgrade.
fn is_replaced(pid: u32) -> bool {
    let file = std::fs::read_link(format!("/proc/{pid}/exe"));
    file.is_ok_and(|file| file.to_string_lossy().ends_with(REPLACED))
}

/// Data servers that the metadata server knows and that are not among those here.
fn elsewhere(all: &[(String, &Running)]) -> Option<Row> {
    let here: BTreeSet<u32> = all
        .iter()
        .filter_map(|(_, running)| match running.status.as_ref()? {
            ServerStatus::Ds(ds) => ds.ds_id,
            ServerStatus::Mds(_) => None,
        })
        .collect();
    let mds = all
        .iter()
        .find_map(|(_, running)| match running.status.as_ref()? {
            ServerStatus::Mds(mds) => Some(mds),
            ServerStatus::Ds(_) => None,
        })?;
    let members = mds
        .data_servers
        .iter()
        .filter(|ds| ds.state != STATE_EXPELLED);
    let others = members.filter(|ds| !here.contains(&ds.id)).count();
    let says = format!(
        "{others} data servers are elsewhere, and tell no version: run `ropewalk doctor` there"
    );
    (others > 0).then(|| Row::unknown(CHECK, says))
}

#[cfg(test)]
mod tests {
    //! Goal: a server of another version is named, and those that cannot be seen are counted.
    use super::*;
    use crate::doctor::row::Verdict;
    use crate::status::{DataServerRow, DsStatus, MdsStatus};

    fn running(status: ServerStatus) -> Running {
        Running {
            status: Some(status),
            ..Running::default()
        }
    }

    #[test]
    fn servers_that_differ_are_named() {
        let version = |v: &str| ("mds".to_owned(), v.to_owned());
        assert_eq!(judge("1.0", &[version("1.0")]).verdict, Verdict::Ok);
        let row = judge("1.0", &[version("1.0"), version("0.9")]);
        assert_eq!(row.verdict, Verdict::Warning);
        assert_eq!(row.says, "this program is of 1.0, and mds is of 0.9");
        assert!(!is_replaced(std::process::id()));
    }

    #[test]
    fn data_servers_elsewhere_are_counted() {
        let row = |id, state: &str| DataServerRow {
            id,
            state: state.to_owned(),
            ..DataServerRow::default()
        };
        let data_servers = vec![row(1, "serving"), row(2, "away"), row(3, STATE_EXPELLED)];
        let mds = MdsStatus {
            data_servers,
            ..MdsStatus::default()
        };
        let mds = running(ServerStatus::Mds(Box::new(mds)));
        let ds = |id| {
            let ds_id = Some(id);
            running(ServerStatus::Ds(Box::new(DsStatus {
                ds_id,
                ..DsStatus::default()
            })))
        };
        let (one, two, down) = (ds(1), ds(2), Running::default());
        let here = |all: &[&Running]| {
            let all: Vec<(String, &Running)> = all.iter().map(|r| ("x".to_owned(), *r)).collect();
            elsewhere(&all).map(|row| row.says.chars().next())
        };
        assert_eq!(here(&[&mds]), Some(Some('2')));
        assert_eq!(here(&[&mds, &one, &down]), Some(Some('1')));
        assert_eq!(here(&[&mds, &one, &two]), None);
        assert_eq!(here(&[&one]), None);
        assert!(check(&[]).is_empty());
    }
}
