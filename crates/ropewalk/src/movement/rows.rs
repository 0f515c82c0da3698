//! What the commands that move data ask for, and the rows that they print.

use crate::admin::Server;
use crate::failure::{Outcome, failed};
use crate::out;
use crate::status::foreign;
use crate::status::{DataServerRow, MdsStatus, STATE_EXPELLED, of_mds};
use crate::table::{bytes, table};
use serde::Serialize;

pub(super) fn status(server: &Server) -> Outcome<MdsStatus> {
    of_mds(server, "knows of all")
}

pub(super) fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(crate::failure::cannot("write JSON"))?;
    out::line(&text)
}

fn used(ds: &DataServerRow) -> String {
    let used = ds.used_bytes();
    format!(
        "{} %",
        u128::from(used) * 100 / u128::from(ds.total_bytes.max(1))
    )
}

pub(super) fn list(mds: &MdsStatus, json: bool) -> Outcome {
    if json {
        let own = mds.data_servers.iter().map(serde_json::to_value);
        let others = mds.foreign_servers.iter().map(serde_json::to_value);
        let all: Result<Vec<_>, _> = own.chain(others).collect();
        return print_json(&all.map_err(crate::failure::cannot("write JSON"))?);
    }
    let row = |ds: &DataServerRow| {
        vec![
            ds.id.to_string(),
            ds.state.clone(),
            ds.addresses.join(" "),
            bytes(ds.total_bytes),
            used(ds),
            ds.places.to_string(),
            ds.objects.to_string(),
        ]
    };
    let head = [
        ">DS", "STATE", "ADDRESS", ">SIZE", ">USED", ">PLACES", ">OBJECTS",
    ];
    let rows: Vec<_> = mds.data_servers.iter().map(row).collect();
    let mut text = table(&head, &rows);
    let others = foreign::list(&mds.foreign_servers);
    if !others.is_empty() {
        text += &format!("\n{others}");
    }
    out::print(&text)
}

pub(super) fn server_row(mds: &MdsStatus, id: u32) -> Outcome<&DataServerRow> {
    let row = mds.data_servers.iter().find(|row| row.id == id);
    row.filter(|row| row.state != STATE_EXPELLED)
        .ok_or_else(|| {
            failed(format!(
                "the cluster has no data server {id}; `ropewalk ds list` shows them"
            ))
        })
}

/// What is filled now, in one line.
pub(crate) fn message(mds: &MdsStatus) -> String {
    let sent: u64 = mds.fillings.iter().map(|f| f.bytes_sent).sum();
    match mds.fillings.len() {
        0 => String::new(),
        count => format!("({count} filled now, {} sent)", bytes(sent)),
    }
}
