//! `ropewalk ds list | drain | undrain | remove | replace | rebalance` and `ropewalk repair status`: where the copies of
//! data are, and what is moved.
//!
//! The metadata server does the work; these commands give the order and show how far it is. A command that is ended
//! leaves the order as it is.

use crate::admin::{Request, Server, ask, mds_server};
use crate::cli::{DsOrder, OrderArgs, RepairCommand};
use crate::expel;
use crate::failure::{Outcome, failed};
use crate::nfs3_servers;
use crate::out;
use crate::status::foreign;
use crate::status::redundancy::PlacesSummary;
use crate::status::{DataServerRow, FillingRow, MdsStatus, STATE_EXPELLED, STATE_SERVING, of_mds};
use crate::table::{bytes, table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::time::Duration;

/// Pause between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(500);

/// `ropewalk ds ORDER`.
pub(crate) fn run(order: &DsOrder) -> Outcome {
    match order {
        DsOrder::List { place, json } => list(&status(&mds_server(place)?)?, *json),
        DsOrder::ProbeNfs3(args) => nfs3_servers::probe(args),
        DsOrder::AddNfs3(args) => nfs3_servers::add(args),
        DsOrder::DrainNfs3(args) => nfs3_servers::drain(args),
        DsOrder::UndrainNfs3(args) => nfs3_servers::undrain(args),
        DsOrder::RemoveNfs3(args) => nfs3_servers::remove(args),
        DsOrder::Drain { id, args } => {
            let server = limited(args)?;
            drain(&server, (*id, None), args.dry_run, args.wait())
        }
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
            let server = limited(args)?;
            drain(&server, (*old, Some(*new)), args.dry_run, args.wait())
        }
        DsOrder::Rebalance { stop, args } => {
            let server = limited(args)?;
            rebalance(&server, *stop, args.dry_run, args.wait())
        }
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
        return watch_repair(&server);
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

fn status(server: &Server) -> Outcome<MdsStatus> {
    of_mds(server, "knows of all")
}

fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(crate::failure::cannot("write JSON"))?;
    out::line(&text)
}

fn used(ds: &DataServerRow) -> String {
    let used = used_bytes(ds);
    format!(
        "{} %",
        u128::from(used) * 100 / u128::from(ds.total_bytes.max(1))
    )
}

fn list(mds: &MdsStatus, json: bool) -> Outcome {
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

fn server_row(mds: &MdsStatus, id: u32) -> Outcome<&DataServerRow> {
    let row = mds.data_servers.iter().find(|row| row.id == id);
    row.filter(|row| row.state != STATE_EXPELLED)
        .ok_or_else(|| {
            failed(format!(
                "the cluster has no data server {id}; `ropewalk ds list` shows them"
            ))
        })
}

fn drain(
    server: &Server,
    (id, substitute): (u32, Option<u32>),
    dry_run: bool,
    wait: bool,
) -> Outcome {
    let mds = status(server)?;
    let row = server_row(&mds, id)?;
    let order = Request::DsDrain {
        ds_id: id,
        substitute,
        dry_run,
    };
    ask::<()>(server, &order)?;
    let to = substitute.map_or_else(|| "others".to_owned(), |ds| format!("data server {ds}"));
    if dry_run {
        let used = used_bytes(row);
        return out::line(&format!(
            "would move {} places with {} objects from data server {id} to {to}; {} are used on its disk",
            row.places,
            row.objects,
            bytes(used),
        ));
    }
    let done =
        format!("data server {id} is empty; `ropewalk ds remove {id}` takes it out of the cluster");
    if !wait {
        return out::line(&format!(
            "data server {id} gives its {} places to {to}; `ropewalk ds list` shows how many are left",
            row.places
        ));
    }
    let bar = bar(row.places);
    loop {
        let mds = status(server)?;
        let left = server_row(&mds, id)?;
        bar.set_position(bar.length().unwrap_or(0).saturating_sub(left.places));
        bar.set_message(message(&mds));
        if left.places == 0 {
            bar.finish_and_clear();
            return out::line(&done);
        }
        if left.state != "draining" && left.state != "away" && left.state != "catching up" {
            bar.finish_and_clear();
            return Err(failed(format!("data server {id} is drained no more")));
        }
        std::thread::sleep(LOOK);
    }
}

fn rebalance(server: &Server, stop: bool, dry_run: bool, wait: bool) -> Outcome {
    if dry_run {
        return list(&status(server)?, false);
    }
    ask::<()>(server, &Request::DsRebalance { wanted: !stop })?;
    if stop {
        return out::line("no further place is moved; those that are under way are finished");
    }
    if !wait {
        return out::line(
            "places are moved until the data servers are level; `ropewalk repair status` shows it",
        );
    }
    let style = ProgressStyle::with_template("{bar:30} {elapsed} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    let mut before = None;
    loop {
        let mds = status(server)?;
        let unevenness = Unevenness::of(&mds.data_servers, before);
        before = Some(unevenness);
        let left = unevenness.count();
        let most = bar.length().unwrap_or(0).max(left);
        bar.set_length(most);
        bar.set_position(most - left);
        bar.set_message(format!("{unevenness} {}", message(&mds)));
        if !mds.rebalancing {
            bar.finish_and_clear();
            return list(&mds, false);
        }
        std::thread::sleep(LOOK);
    }
}

/// Fills that differ by less, in thousandths, are those of one disk, which all share.
const ONE_DISK_PERMILLE: u64 = 10;

/// What is to be moved until data servers are level, about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unevenness {
    /// Bytes: servers fill their disks to the same share.
    Bytes(u64),
    /// Where all are on one disk.
    Places(u64),
}

impl Unevenness {
    /// Of those that take new files; in bytes or places as `before`, if it is told.
    fn of(rows: &[DataServerRow], before: Option<Self>) -> Self {
        let serving = || rows.iter().filter(|row| row.state == STATE_SERVING);
        // What is above this share of a whole.
        let above = |is: fn(&DataServerRow) -> u64, of: fn(&DataServerRow) -> u64| {
            let all = serving().map(|row| u128::from(is(row))).sum::<u128>();
            let whole = serving().map(|row| u128::from(of(row))).sum::<u128>();
            let share = |row| (u128::from(of(row)) * all).div_ceil(whole.max(1));
            let above = serving().map(|row| u128::from(is(row)).saturating_sub(share(row)));
            u64::try_from(above.sum::<u128>()).unwrap_or(u64::MAX)
        };
        let is_one_disk = || {
            let fills = || serving().map(|row| permille(used_bytes(row), row.total_bytes));
            fills().max().unwrap_or(0) < fills().min().unwrap_or(0) + ONE_DISK_PERMILLE
        };
        let counts_places = match before {
            Some(before) => matches!(before, Self::Places(_)),
            None => is_one_disk(),
        };
        match counts_places {
            true => Self::Places(above(|row| row.places, |_| 1)),
            false => Self::Bytes(above(used_bytes, |row| row.total_bytes)),
        }
    }

    fn count(self) -> u64 {
        match self {
            Self::Bytes(count) | Self::Places(count) => count,
        }
    }
}

impl fmt::Display for Unevenness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(count) => write!(f, "about {} to move", bytes(*count)),
            Self::Places(1) => write!(f, "about 1 place to move"),
            Self::Places(count) => write!(f, "about {count} places to move"),
        }
    }
}

fn used_bytes(row: &DataServerRow) -> u64 {
    row.total_bytes.saturating_sub(row.free_bytes)
}

fn permille(part: u64, whole: u64) -> u64 {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    u64::try_from(permille).unwrap_or(1000)
}

/// A bar of places.
pub(crate) fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} places, {elapsed} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// What is filled now, in one line.
pub(crate) fn message(mds: &MdsStatus) -> String {
    let sent: u64 = mds.fillings.iter().map(|f| f.bytes_sent).sum();
    match mds.fillings.len() {
        0 => String::new(),
        count => format!("({count} filled now, {} sent)", bytes(sent)),
    }
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
fn watch_repair(server: &Server) -> Outcome {
    let first = Repair::of(&status(server)?).under_replicated;
    let bar = bar(first);
    loop {
        let mds = status(server)?;
        let repair = Repair::of(&mds);
        bar.set_length(first.max(repair.under_replicated));
        bar.set_position(
            bar.length()
                .unwrap_or(0)
                .saturating_sub(repair.under_replicated),
        );
        bar.set_message(message(&mds));
        if repair.under_replicated == 0 {
            bar.finish_and_clear();
            return out::line(&format!("all {} places have their copies", repair.places));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what a rebalance has left is told by what it makes level.

    use super::*;

    fn row(state: &str, (total_bytes, free_bytes): (u64, u64), places: u64) -> DataServerRow {
        DataServerRow {
            state: state.to_owned(),
            total_bytes,
            free_bytes,
            places,
            ..DataServerRow::default()
        }
    }

    #[test]
    fn what_is_to_be_moved_is_told_in_bytes_and_on_one_disk_in_places() {
        let cases = [
            (vec![], Unevenness::Places(0), "about 0 places to move"),
            (
                vec![
                    row(STATE_SERVING, (1000, 400), 16),
                    row(STATE_SERVING, (1000, 401), 16),
                    row(STATE_SERVING, (1000, 400), 10),
                ],
                Unevenness::Places(4),
                "about 4 places to move",
            ),
            (
                vec![
                    row(STATE_SERVING, (3000, 1200), 8),
                    row(STATE_SERVING, (3000, 3000), 0),
                    row(STATE_EXPELLED, (1000, 1000), 0),
                ],
                Unevenness::Bytes(900),
                "about 900 B to move",
            ),
        ];
        for (rows, expected, text) in cases {
            let told = Unevenness::of(&rows, None);
            assert_eq!((told, told.to_string().as_str()), (expected, text));
            assert_eq!(Unevenness::of(&[], Some(told)).count(), 0, "level");
        }
    }
}
