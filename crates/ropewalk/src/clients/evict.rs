//! `ropewalk client evict`: after the administrator has read what the client holds.

use super::rows::{ClientHolds, ClientRow, EvictedRow};
use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::confirm::confirm;
use crate::failure::{Outcome, failed};
use crate::out;

/// `ropewalk client evict`.
pub(super) fn run(id: &str, (yes, json): (bool, bool), place: &MdsPlace) -> Outcome {
    let server = mds_server(place)?;
    let id = id.to_owned();
    if !yes {
        let shown: ClientHolds = ask(&server, &Request::ClientShow { id: id.clone() })?;
        if json {
            out::json(&shown.client)?;
            return Err(failed("nothing was done; --yes evicts it"));
        }
        eprint!("{}", warning(&shown.client));
        confirm("--yes evicts without asking")?;
    }
    let evicted: EvictedRow = ask(&server, &Request::ClientEvict { id: id.clone() })?;
    match json {
        true => out::json(&evicted),
        false => out::line(&format!(
            "client {id} is evicted: {} opens, {} locks, {} delegations and {} layouts are gone",
            evicted.opens, evicted.locks, evicted.delegations, evicted.layouts
        )),
    }
}

fn warning(row: &ClientRow) -> String {
    format!(
        "Client {} ({}, {}), seen {} s ago, holds {} opens, {} locks, {} delegations and {} layouts.\n\
         All of that goes at once. Programs there lose their locks, and data that they have written but not yet sent may be \
         lost.\n\
         Type yes to evict it: ",
        row.id,
        row.owner,
        row.addresses.join(" "),
        row.unseen_seconds,
        row.opens,
        row.locks,
        row.delegations,
        row.layouts
    )
}
