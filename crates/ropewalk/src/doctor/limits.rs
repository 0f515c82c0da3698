//! How many files a server may have open, and how many it has.

use super::installed::Installed;
use super::row::Row;
use super::server::Running;
use crate::daemon::{connections_possible, files_wanted};
use rustix::process::{Resource, getrlimit};

/// The name of its row.
pub(super) const CHECK: &str = "open files";
/// Most files that are counted.
const COUNTED_MAX: usize = 1 << 21;

/// The limit of the server that runs; else that of this program, which a server started here would have.
pub(super) fn check(installed: &Installed, running: &Running) -> Option<Row> {
    let connections = installed.connections()?;
    let of_process = running.pid.and_then(limit_of);
    let open = running.pid.and_then(open_files);
    let here = || getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    // systemd sets the limit of its units, whatever it is here.
    if of_process.is_none() && installed.is_packaged() {
        return Some(Row::unknown(
            CHECK,
            "the limit is that of the unit, and the server cannot be looked into",
        ));
    }
    let limit = of_process.unwrap_or_else(here);
    let wanted = files_wanted(&connections);
    Some(judge(
        limit,
        wanted,
        connections.max.min(connections_possible(limit)),
        open,
    ))
}

fn judge(limit: u64, wanted: u64, possible: u32, open: Option<u64>) -> Row {
    let action =
        "raise the limit (LimitNOFILE= of the unit, or ulimit -Hn), and restart the server";
    if let Some(open) = open.filter(|open| *open > limit / 10 * 9) {
        return Row::failed(CHECK, format!("{open} of {limit} are open"), action);
    }
    if limit < wanted {
        let says = format!(
            "{limit} are allowed and {wanted} may be needed: {possible} connections at most"
        );
        return Row::warning(CHECK, says, action);
    }
    let open = open.map_or_else(String::new, |open| format!(", {open} are open"));
    Row::ok(
        CHECK,
        format!("{wanted} may be needed, and so many are allowed{open}"),
    )
}

/// The hard limit of a process: a server raises its soft one.
fn limit_of(pid: u32) -> Option<u64> {
    hard_limit(&std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

fn hard_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn open_files(pid: u32) -> Option<u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(files.take(COUNTED_MAX).count() as u64)
}

#[cfg(test)]
mod tests {
    //! Goal: a limit that is too low, and one that is nearly reached, are named.
    use super::*;
    use crate::doctor::row::Verdict;

    #[test]
    fn limits_have_their_verdicts() {
        for (limit, open, verdict) in [
            (20_480, Some(100), Verdict::Ok),
            (20_480, None, Verdict::Ok),
            (20_479, None, Verdict::Warning),
            (20_480, Some(18_433), Verdict::Failed),
            (u64::MAX, Some(100), Verdict::Ok),
        ] {
            let row = judge(limit, 20_480, 16_383, open);
            assert_eq!(row.verdict, verdict, "{row:?}");
        }
    }

    #[test]
    fn limits_of_processes_are_read() {
        let own = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(limit_of(std::process::id()), Some(own));
        assert!(open_files(std::process::id()).unwrap() > 2);
        for (text, limit) in [
            (
                "Max open files            1024      unlimited   files\n",
                Some(u64::MAX),
            ),
            ("Max open files\n", None),
            ("", None),
        ] {
            assert_eq!(hard_limit(text), limit, "{text}");
        }
    }
}
