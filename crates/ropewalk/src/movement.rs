//! `ropewalk ds list | drain | undrain | remove | replace | rebalance` and `ropewalk repair status`: where the copies of
//! data are, and what is moved.
//!
//! The metadata server does the work; these commands give the order and show how far it is. A command that is ended
//! leaves the order as it is. `orders` has those that move data, `unevenness` what a rebalance has to move.

use crate::admin::{Request, Server, ask, mds_server};
use crate::cli::{DsOrder, OrderArgs, RepairCommand};
use crate::expel;
use crate::failure::{Outcome, failed};
use crate::nfs3_servers;
use crate::out;
use crate::status::redundancy::PlacesSummary;
use crate::status::{DataServerRow, FillingRow, MdsStatus};
use crate::table::{bytes, table};
use serde::Serialize;
use std::fmt::Write as _;

mod orders;
mod rows;
mod unevenness;

pub(crate) use orders::{Progress, bar, watch};
pub(crate) use rows::message;

use rows::{list, print_json, status};

/// `ropewalk ds ORDER`.
pub(crate) fn run(order: &DsOrder) -> Outcome {
    match order {
        DsOrder::List { place, json } => list(&status(&mds_server(place)?)?, *json),
        DsOrder::ProbeNfs3(args) => nfs3_servers::probe(args),
        DsOrder::AddNfs3(args) => nfs3_servers::add(args),
        DsOrder::DrainNfs3(args) => nfs3_servers::drain(args),
        DsOrder::UndrainNfs3(args) => nfs3_servers::undrain(args),
        DsOrder::RemoveNfs3(args) => nfs3_servers::remove(args),
        DsOrder::Drain { id, args } => orders::drain(&limited(args)?, (*id, None), args),
        DsOrder::Undrain { id, place } => {
            ask::<()>(&mds_server(place)?, &Request::DsUndrain { ds_id: *id })?;
            out::line(&format!(
                "data server {id} keeps the places that it has, and takes new files"
            ))
        }
        DsOrder::Remove {
            id,
            yes_lose_data,
            json,
            place,
        } => expel::remove(&mds_server(place)?, *id, (*yes_lose_data, *json)),
        DsOrder::Replace { old, new, args } => {
            orders::drain(&limited(args)?, (*old, Some(*new)), args)
        }
        DsOrder::Rebalance { stop, args } => orders::rebalance(&limited(args)?, *stop, args),
    }
}

/// Sets the rate that an order names, and returns where it goes.
fn limited(args: &OrderArgs) -> Outcome<Server> {
    let server = mds_server(&args.place)?;
    if let (Some(rate), false) = (args.max_rate, args.dry_run) {
        let bytes_per_s = rate.as_u64();
        ask::<()>(&server, &Request::FillRate { bytes_per_s })?;
    }
    Ok(server)
}

/// `ropewalk repair ...`.
pub(crate) fn repair(command: &RepairCommand) -> Outcome {
    let (place, watch, json) = match command {
        RepairCommand::Status { place, watch, json } => (place, watch, json),
        RepairCommand::AcceptState { place, yes } => {
            return accept_state(&mds_server(place)?, *yes);
        }
    };
    let server = mds_server(place)?;
    if *watch {
        return watch_repair(&server, *json);
    }
    let mds = status(&server)?;
    if *json {
        return print_json(&Repair::of(&mds));
    }
    out::print(&repair_text(&mds))
}

fn accept_state(server: &Server, is_sure: bool) -> Outcome {
    let mds = status(server)?;
    let closed: Vec<String> = { mds.data_servers.iter() }
        .filter_map(DataServerRow::closed_text)
        .collect();
    if closed.is_empty() {
        return out::line("no placement group is closed");
    }
    if !is_sure {
        out::print(&(closed.join("\n") + "\n"))?;
        return Err(failed(
            "nothing was done; put the newest state back, or give --yes to go on with this one",
        ));
    }
    let count: u64 = ask(server, &Request::AcceptState)?;
    out::line(&format!("{count} placement groups are open again"))
}

/// What `repair status --json` says.
#[derive(Serialize)]
struct Repair<'m> {
    places: u64,
    under_replicated: u64,
    /// None while that is not known of some place.
    under_replicated_parts: Option<u64>,
    filling: u64,
    on_last_copy: u64,
    not_served: u64,
    rebalancing: bool,
    fill_bytes_per_s: u64,
    fillings: &'m [FillingRow],
}

impl<'m> Repair<'m> {
    fn of(mds: &'m MdsStatus) -> Self {
        let sums = PlacesSummary::of(mds.groups.iter().flat_map(|g| &g.places));
        Self {
            places: sums.replicated,
            under_replicated: sums.under_replicated,
            under_replicated_parts: sums.lacking_parts,
            filling: sums.filling,
            on_last_copy: sums.on_last_copy,
            not_served: sums.not_served,
            rebalancing: mds.rebalancing,
            fill_bytes_per_s: mds.fill_bytes_per_s,
            fillings: &mds.fillings,
        }
    }
}

fn repair_text(mds: &MdsStatus) -> String {
    let repair = Repair::of(mds);
    let mut text = format!(
        "places that are to have copies: {}\n  lack one: {}\n  parts that lack one: {}\n  on their last copy: {}\n  not served: {}\n",
        repair.places,
        repair.under_replicated,
        repair
            .under_replicated_parts
            .map_or_else(|| "unknown".to_owned(), |n| n.to_string()),
        repair.on_last_copy,
        repair.not_served,
    );
    if repair.rebalancing {
        text.push_str("data servers are being made level\n");
    }
    if repair.fill_bytes_per_s > 0 {
        let rate = bytes(repair.fill_bytes_per_s);
        let _ = writeln!(text, "each data server sends at most {rate} per second");
    }
    if repair.fillings.is_empty() {
        return text;
    }
    let row = |f: &FillingRow| {
        vec![
            f.group.to_string(),
            f.place.to_string(),
            f.ds.to_string(),
            format!("{} of {}", f.parts_done, f.parts),
            bytes(f.bytes_sent),
        ]
    };
    let rows: Vec<_> = repair.fillings.iter().map(row).collect();
    text.push_str(&table(
        &[">GROUP", ">PLACE", ">DS", ">PARTS COMPARED", ">SENT"],
        &rows,
    ));
    text
}

/// Shows the repair until each place has its copies.
fn watch_repair(server: &Server, json: bool) -> Outcome {
    let mds = orders::watch(server, "places", |mds| {
        let left = Repair::of(mds).under_replicated;
        Ok(Progress {
            left,
            is_over: left == 0,
            message: message(mds),
        })
    })?;
    let repair = Repair::of(&mds);
    match json {
        true => print_json(&repair),
        false => out::line(&format!("all {} places have their copies", repair.places)),
    }
}
