//! What `ropewalk status` and `ropewalk ds list` say of NFSv3 servers of others.

use super::redundancy::red;
use super::{MdsStatus, duration};
use crate::table::{bytes, table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A server that is used, also for new files.
pub(crate) const STATE_ACTIVE: &str = "active";
/// A server that gets no new files.
pub(crate) const STATE_DRAINING: &str = "draining";
/// A server that is used no more.
pub(crate) const STATE_REMOVED: &str = "removed";

/// An NFSv3 server of others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ForeignServerRow {
    /// `f1`, `f2`, ...
    pub id: String,
    /// HOST:/PATH, as it was added.
    pub target: String,
    /// `active`, `draining` or `removed`.
    pub state: String,
    /// Whether it answers.
    pub up: bool,
    /// For how long it does or does not; none before anything was seen.
    pub since_seconds: Option<u64>,
    /// Size of its file system.
    pub total_bytes: u64,
    /// What is left of it.
    pub free_bytes: u64,
    /// Groups of files that name it.
    pub groups: u64,
    /// Files that are left there while it is drained; none before they were counted.
    pub files_left: Option<u64>,
    /// Bytes that clients say they read there by layouts, since the metadata server has started.
    pub client_read_bytes: u64,
    /// Bytes that they say they wrote there.
    pub client_written_bytes: u64,
    /// It answers, and calls for files have failed there in the last minute.
    pub failing: bool,
    /// What it failed with last.
    pub last_error: Option<String>,
    /// How long ago that was.
    pub last_error_seconds: Option<u64>,
}

impl ForeignServerRow {
    /// Whether it is used.
    pub(crate) fn is_used(&self) -> bool {
        self.state != STATE_REMOVED
    }

    /// Whether it is used and does not answer.
    pub(super) fn is_down(&self) -> bool {
        self.is_used() && !self.up && self.since_seconds.is_some()
    }

    /// Whether it is used, and answers nothing but the pulse as it should.
    pub(super) fn is_failing(&self) -> bool {
        self.is_used() && self.up && self.failing
    }

    /// What it failed with last, and when.
    fn shown_error(&self) -> String {
        match (&self.last_error, self.last_error_seconds) {
            (Some(why), Some(seconds)) => format!("{why}, {} ago", duration(seconds)),
            (why, _) => why.clone().unwrap_or_default(),
        }
    }

    fn answers(&self) -> String {
        match (self.up, self.since_seconds) {
            (true, since) => format!("yes, {}", duration(since.unwrap_or(0))),
            (false, Some(since)) => format!("NO, {}", duration(since)),
            (false, None) => "not seen yet".to_owned(),
        }
    }

    fn shown_state(&self) -> String {
        match self.files_left {
            Some(0) => format!("{}, no files left", self.state),
            Some(count) => format!("{}, {count} files left", self.state),
            None => self.state.clone(),
        }
    }

    fn used(&self) -> String {
        let used = self.total_bytes.saturating_sub(self.free_bytes);
        let percent = u128::from(used) * 100 / u128::from(self.total_bytes.max(1));
        format!("{percent} %")
    }
}

/// The servers that are used, as a table; nothing without one.
pub(crate) fn list(rows: &[ForeignServerRow]) -> String {
    let row = |server: &ForeignServerRow| {
        vec![
            server.id.clone(),
            server.target.clone(),
            server.shown_state(),
            server.answers(),
            bytes(server.total_bytes),
            server.used(),
            server.groups.to_string(),
            bytes(server.client_read_bytes),
            bytes(server.client_written_bytes),
            server.shown_error(),
        ]
    };
    let used = rows.iter().filter(|server| server.is_used());
    let rows: Vec<_> = used.map(row).collect();
    let head = [
        "NFSV3",
        "EXPORT",
        "STATE",
        "ANSWERS",
        ">SIZE",
        ">USED",
        ">GROUPS",
        ">READ",
        ">WRITTEN",
        "LAST ERROR",
    ];
    match rows.is_empty() {
        true => String::new(),
        false => table(&head, &rows),
    }
}

/// How many are up, which are down, and what waits for them: nothing where there are none.
pub(super) fn show(text: &mut String, mds: &MdsStatus, is_coloured: bool) {
    let used = || mds.foreign_servers.iter().filter(|s| s.is_used());
    let down: Vec<_> = used().filter(|s| s.is_down()).collect();
    let (count, up) = (used().count(), used().filter(|s| s.up).count());
    if count > 0 {
        let mut line = format!("NFSv3 servers of others: {up} up");
        let unseen = count - up - down.len();
        if unseen > 0 {
            let _ = write!(line, ", {unseen} not seen yet");
        }
        if !down.is_empty() {
            let one = |s: &&ForeignServerRow| {
                let since = duration(s.since_seconds.unwrap_or(0));
                let why = s.last_error.as_deref().unwrap_or("no answer");
                format!("{} {} for {since} ({why})", s.id, s.target)
            };
            let all: Vec<_> = down.iter().map(one).collect();
            let _ = write!(line, ", {} DOWN: {}", down.len(), all.join("; "));
            line = red(&line, is_coloured);
        }
        let _ = writeln!(text, "{line}");
    }
    for server in used().filter(|s| s.is_failing()) {
        let (id, target, why) = (&server.id, &server.target, server.shown_error());
        let line = format!("NFSv3 server {id} {target} answers, and calls for files fail: {why}");
        let _ = writeln!(text, "{}", red(&line, is_coloured));
    }
    if mds.foreign_fences_waiting > 0 {
        let _ = writeln!(
            text,
            "files whose fences wait for such servers: {}",
            mds.foreign_fences_waiting
        );
    }
    if mds.bad_mirror_files > 0 {
        let more = match mds.bad_mirror_files >= mds.bad_mirror_files_counted_max {
            true => " or more",
            false => "",
        };
        let mut line = format!(
            "files with bad mirrors: {}{more}; they have fewer copies than they are to have",
            mds.bad_mirror_files
        );
        if mds.bad_mirror_servers_needed > 0 {
            let _ = write!(
                line,
                "; some wait until {} such servers are up and have room",
                mds.bad_mirror_servers_needed
            );
        }
        let _ = writeln!(text, "{}", red(&line, is_coloured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, up: bool, since_seconds: Option<u64>) -> ForeignServerRow {
        ForeignServerRow {
            id: id.to_owned(),
            target: format!("nas-{id}:/data"),
            state: STATE_ACTIVE.to_owned(),
            up,
            since_seconds,
            total_bytes: 1000,
            free_bytes: 250,
            groups: 3,
            files_left: None,
            client_read_bytes: 5,
            client_written_bytes: 6,
            failing: false,
            last_error: (!up).then(|| "timed out".to_owned()),
            last_error_seconds: None,
        }
    }

    fn shown(servers: Vec<ForeignServerRow>, is_coloured: bool) -> String {
        let mds = MdsStatus {
            foreign_servers: servers,
            ..MdsStatus::default()
        };
        let mut text = String::new();
        show(&mut text, &mds, is_coloured);
        text
    }

    #[test]
    fn a_server_that_is_down_makes_the_line_red_and_is_named() {
        let removed = ForeignServerRow {
            state: STATE_REMOVED.to_owned(),
            ..row("f9", false, Some(5))
        };
        assert_eq!(shown(vec![removed.clone()], true), "");
        let fine = vec![row("f1", true, Some(9)), removed, row("f2", false, None)];
        let text = shown(fine.clone(), true);
        assert_eq!(text, "NFSv3 servers of others: 1 up, 1 not seen yet\n");
        let text = shown([fine, vec![row("f3", false, Some(61))]].concat(), true);
        assert!(text.starts_with("\u{1b}[31m"), "{text}");
        let told = "1 up, 1 not seen yet, 1 DOWN: f3 nas-f3:/data for 1 min (timed out)";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn a_server_that_answers_and_fails_is_named_with_what_it_failed() {
        let failing = ForeignServerRow {
            failing: true,
            last_error: Some("NFS3ERR_IO".to_owned()),
            last_error_seconds: Some(7),
            ..row("f1", true, Some(9))
        };
        let text = shown(vec![failing.clone()], false);
        let told = "f1 nas-f1:/data answers, and calls for files fail: NFS3ERR_IO, 7 s ago\n";
        assert!(text.contains(told), "{text}");
        assert!(list(std::slice::from_ref(&failing)).contains("NFS3ERR_IO, 7 s ago"));
        // Once it was well for a while, the table alone has it.
        let well = ForeignServerRow {
            failing: false,
            ..failing
        };
        assert!(!shown(vec![well.clone()], false).contains("NFS3ERR_IO"));
        assert!(list(&[well]).contains("NFS3ERR_IO"));
    }

    #[test]
    fn the_table_has_each_server_that_is_used() {
        assert_eq!(list(&[]), "");
        let removed = ForeignServerRow {
            state: STATE_REMOVED.to_owned(),
            ..row("f9", false, Some(5))
        };
        let draining = |id, count| ForeignServerRow {
            state: STATE_DRAINING.to_owned(),
            files_left: Some(count),
            ..row(id, true, Some(5))
        };
        let text = list(&[
            row("f1", true, Some(5)),
            removed,
            row("f2", false, Some(5)),
            draining("f3", 7),
            draining("f4", 0),
        ]);
        for part in [
            "f1",
            "yes, 5 s",
            "75 %",
            "NO, 5 s",
            "timed out",
            "draining, 7 files left",
            "draining, no files left",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("f9"), "{text}");
    }

    #[test]
    fn what_waits_and_what_lacks_copies_is_counted() {
        let mds = MdsStatus {
            foreign_fences_waiting: 4,
            bad_mirror_files: 7,
            bad_mirror_files_counted_max: 7,
            ..MdsStatus::default()
        };
        let mut text = String::new();
        show(&mut text, &mds, false);
        assert!(text.contains("servers: 4\n"), "{text}");
        assert!(text.contains("bad mirrors: 7 or more;"), "{text}");
        assert!(!text.contains("some wait"), "{text}");
        let mds = MdsStatus {
            bad_mirror_servers_needed: 4,
            ..mds
        };
        let mut text = String::new();
        show(&mut text, &mds, false);
        assert!(text.contains("some wait until 4 such servers"), "{text}");
    }
}
