//! `ropewalk client show`.

use super::rows::{ClientHolds, HeldRow};
use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::Outcome;
use crate::out;
use crate::table::table;

/// `ropewalk client show`.
pub(super) fn run(id: &str, json: bool, place: &MdsPlace) -> Outcome {
    let id = id.to_owned();
    let shown: ClientHolds = ask(&mds_server(place)?, &Request::ClientShow { id })?;
    match json {
        true => out::json(&shown),
        false => out::print(&text(&shown)),
    }
}

fn text(shown: &ClientHolds) -> String {
    let row = &shown.client;
    let mut text = format!(
        "client {} ({}, {}), {}\n",
        row.id, row.protocol, row.state, row.owner
    );
    if let Some(implementation) = &row.implementation {
        text += &format!("implementation: {implementation}\n");
    }
    text += &format!("addresses: {}\n", row.addresses.join(" "));
    text += &format!(
        "seen {} s ago, lease {} s; {} sessions, {} opens, {} locks, {} delegations, {} layouts\n",
        row.unseen_seconds,
        row.lease_seconds,
        row.sessions,
        row.opens,
        row.locks,
        row.delegations,
        row.layouts
    );
    for (title, rows) in [
        ("holds", &shown.holds),
        ("stuck on it", &shown.stuck),
        ("waits for", &shown.waits),
    ] {
        if !rows.is_empty() {
            text += &format!("\n{title}:\n{}", held_table(rows));
        }
    }
    if shown.cut {
        text += &cut_text(shown.limit);
    }
    text
}

/// What is said of a list that is not whole.
pub(super) fn cut_text(limit: u64) -> String {
    format!("there is more: at most {limit} of each kind are shown\n")
}

/// What is held, as a table.
pub(super) fn held_table(rows: &[HeldRow]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(
        &[
            "WHAT", "MODE", "DENY", "RANGE", ">SINCE", "CLIENT", "PROTOCOL", "PATH", "OWNER",
        ],
        &rows,
    )
}

fn cells(row: &HeldRow) -> Vec<String> {
    let nothing = || "-".to_owned();
    let range = row.offset.map(|offset| match row.length {
        Some(length) => format!("{offset}+{length}"),
        None => format!("{offset}-end"),
    });
    let since = row.since_seconds.map(|seconds| format!("{seconds} s"));
    let path = row.path.as_ref().map(|p| p.escape_debug().to_string());
    let mode = match row.mode.as_str() {
        "" => nothing(),
        mode => mode.to_owned(),
    };
    vec![
        row.what.clone(),
        mode,
        row.deny.clone().unwrap_or_else(nothing),
        range.unwrap_or_else(nothing),
        since.unwrap_or_else(nothing),
        row.client.clone(),
        row.protocol.clone(),
        path.unwrap_or_else(|| format!("inode {}", row.inode)),
        row.owner.clone().unwrap_or_else(nothing),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_told_with_paths_ranges_and_how_long_it_is_stuck() {
        let held = |what: &str| HeldRow {
            what: what.to_owned(),
            inode: 7,
            mode: "write".to_owned(),
            ..HeldRow::default()
        };
        let shown = ClientHolds {
            holds: vec![HeldRow {
                offset: Some(5),
                path: Some("/a\nb".to_owned()),
                ..held("lock")
            }],
            stuck: vec![HeldRow {
                since_seconds: Some(9),
                ..held("delegation")
            }],
            cut: true,
            limit: 500,
            ..ClientHolds::default()
        };
        let text = text(&shown);
        for part in [
            "5-end",
            "/a\\nb",
            "stuck on it:",
            "9 s",
            "inode 7",
            "at most 500",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("waits for:"), "{text}");
    }
}
