//! Rules on the data servers of the cluster itself.
//!
//! Owns what of one data server is bad news. May not look at places: those are the rules of all together.

use super::{FREE_PERCENT_MIN, Found, counted, is_nearly_full};
use crate::status::{DataServerRow, MdsStatus, STATE_DRAINING, STATE_EXPELLED, STATE_SERVING};
use crate::table::bytes;

/// A scrub that is older is overdue.
pub(super) const SCRUB_DAYS_MAX: i64 = 21;
/// Data servers that are named in one reason.
const NAMED_MAX: usize = 8;

fn members(mds: &MdsStatus) -> impl Iterator<Item = &DataServerRow> {
    let all = mds.data_servers.iter();
    all.filter(|ds| ds.state != STATE_EXPELLED)
}

/// Those that do not serve, in brackets; nothing without one.
pub(super) fn away(mds: &MdsStatus) -> String {
    let ids: Vec<String> = members(mds)
        .filter(|ds| !ds.is_online())
        .map(|ds| ds.id.to_string())
        .collect();
    let more = if ids.len() > NAMED_MAX { " ..." } else { "" };
    match ids.len() {
        0 => String::new(),
        n => format!(" ({}{more})", ids[..n.min(NAMED_MAX)].join(", ")),
    }
}

/// All rules on data servers.
pub(super) fn servers(found: &mut Found, mds: &MdsStatus, earlier: Option<&MdsStatus>, now_s: i64) {
    let has_others = mds.foreign_servers.iter().any(|server| server.is_used());
    if members(mds).next().is_none() {
        if !has_others {
            found.yellow(
                "no data server has joined: only small files can be written",
                "Make a token with `ropewalk token create`, and start a data server with it.",
            );
        }
    } else if !members(mds).any(DataServerRow::is_online) {
        found.red(
            "no data server serves: files with data there wait",
            format!("Start the data servers{}.", away(mds)),
        );
    }
    for ds in members(mds) {
        state(found, ds);
        room(found, ds);
        let before = earlier.and_then(|mds| mds.data_servers.iter().find(|d| d.id == ds.id));
        disk(found, ds, before);
        scrub(found, ds, now_s);
    }
}

fn state(found: &mut Found, ds: &DataServerRow) {
    let id = ds.id;
    if let Some(why) = &ds.refused {
        found.yellow(
            format!("data server {id} was refused: {why}"),
            "Mend that on its machine, and start it again.",
        );
    }
    if !ds.closed_groups.is_empty() {
        let groups: Vec<String> = ds.closed_groups.iter().map(u32::to_string).collect();
        found.red(
            format!(
                "placement groups {} are closed: data server {id} knows newer versions of them",
                groups.join(" ")
            ),
            "Put the newest state of the metadata server back, or see `ropewalk repair accept-state`.",
        );
    }
    match ds.state.as_str() {
        STATE_SERVING => {}
        STATE_DRAINING if ds.places == 0 => found.yellow(
            format!("data server {id} is drained and empty"),
            format!("Take it out with `ropewalk ds remove {id}`."),
        ),
        STATE_DRAINING => found.yellow(
            format!(
                "data server {id} is draining: {} left",
                counted(ds.places, "place")
            ),
            "Wait until it is empty.",
        ),
        "away" => found.yellow(
            format!("data server {id} is away"),
            "Look at its machine and its log, and start it again.",
        ),
        other => found.yellow(
            format!("data server {id} is {other}"),
            "Wait: it serves when it knows its places.",
        ),
    }
    if let Some(why) = &ds.slow {
        found.yellow(
            format!("data server {id} is slow: {why}"),
            "Look at its disk and its network.",
        );
    }
}

fn room(found: &mut Found, ds: &DataServerRow) {
    let (id, free) = (ds.id, bytes(ds.free_bytes));
    if ds.full {
        found.red(
            format!("data server {id} is full ({free} free): new files avoid it"),
            "Free space on its disk, or add a data server.",
        );
    } else if is_nearly_full(ds.free_bytes, ds.total_bytes) {
        found.yellow(
            format!("data server {id} has less than {FREE_PERCENT_MIN} % left ({free})"),
            "Add data servers or remove data before it is full.",
        );
    }
}

/// Disk errors that are new are worse than those that were met some time before.
fn disk(found: &mut Found, ds: &DataServerRow, before: Option<&DataServerRow>) {
    let id = ds.id;
    let is_new = before.is_some_and(|before| ds.errors > before.errors);
    if ds.errors > 0 {
        let what = format!(
            "data server {id} has {} disk errors or lost objects",
            ds.errors
        );
        let action = "Look at its log and its disk; replace the disk if it goes on.";
        match is_new {
            true => found.red(format!("{what}, and more come"), action),
            false => found.yellow(format!("{what} since its start"), action),
        }
    }
    let damaged = ds.scrub.damaged_blocks;
    if damaged > 0 {
        found.red(
            format!(
                "data server {id} has {} that no copy mends",
                counted(damaged, "damaged block")
            ),
            "`ropewalk scrub` names the files; restore or remove them.",
        );
    }
}

/// One that was never scrubbed is new: its first pass comes by itself.
fn scrub(found: &mut Found, ds: &DataServerRow, now_s: i64) {
    let scrubbed_at = ds.scrub.scrubbed_at;
    let age_s = now_s.saturating_sub(scrubbed_at);
    if scrubbed_at > 0 && age_s > SCRUB_DAYS_MAX * 86_400 {
        let (id, days) = (ds.id, age_s / 86_400);
        found.yellow(
            format!("data server {id} was scrubbed {days} days ago"),
            "Begin one with `ropewalk scrub --now`, and look at `scrub_interval`.",
        );
    }
}
