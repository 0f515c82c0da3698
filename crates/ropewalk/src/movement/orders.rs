//! `ropewalk ds drain | replace | rebalance`: the orders that move data, and their bars.

use super::rows::{list, message, print_json, server_row, status};
use super::unevenness::Unevenness;
use crate::admin::{Request, Server, ask};
use crate::cli::OrderArgs;
use crate::failure::{Outcome, failed};
use crate::out;
use crate::status::MdsStatus;
use crate::status::to_level::ToLevel;
use crate::table::bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::time::Duration;

/// Pause between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(500);

/// How far an order is.
pub(crate) struct Progress {
    /// What is left to do.
    pub(crate) left: u64,
    /// Whether it has ended.
    pub(crate) is_over: bool,
    /// What stands behind the bar.
    pub(crate) message: String,
}

/// A bar of so many `unit`s; without a unit it shows no numbers.
pub(crate) fn bar(length: u64, unit: &str) -> ProgressBar {
    let template = match unit {
        "" => "{bar:30} {elapsed} {msg}".to_owned(),
        unit => format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{elapsed}} {{msg}}"),
    };
    let style = ProgressStyle::with_template(&template);
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows a bar until `look` says that it is over, and returns the status by which it is. The bar is as long as the most
/// that was left.
pub(crate) fn watch(
    server: &Server,
    unit: &str,
    mut look: impl FnMut(&MdsStatus) -> Outcome<Progress>,
) -> Outcome<MdsStatus> {
    let bar = bar(0, unit);
    loop {
        let mds = status(server)?;
        let progress = look(&mds)?;
        let most = bar.length().unwrap_or(0).max(progress.left);
        bar.set_length(most);
        bar.set_position(most - progress.left);
        bar.set_message(progress.message);
        if progress.is_over {
            bar.finish_and_clear();
            return Ok(mds);
        }
        std::thread::sleep(LOOK);
    }
}

/// What `--json` prints of a drain or a replacement.
#[derive(Serialize)]
struct Drained {
    ds: u32,
    substitute: Option<u32>,
    /// When the order was given.
    places: u64,
    objects: u64,
    used_bytes: u64,
    dry_run: bool,
    /// Whether the data server is empty now.
    done: bool,
}

/// `ropewalk ds drain` and, with a substitute, `replace`.
pub(super) fn drain(
    server: &Server,
    (id, substitute): (u32, Option<u32>),
    args: &OrderArgs,
) -> Outcome {
    let mds = status(server)?;
    let row = server_row(&mds, id)?;
    let order = Request::DsDrain {
        ds_id: id,
        substitute,
        dry_run: args.dry_run,
    };
    ask::<()>(server, &order)?;
    let waits = args.wait() && !args.dry_run;
    if waits {
        until_empty(server, id)?;
    }
    let told = Drained {
        ds: id,
        substitute,
        places: row.places,
        objects: row.objects,
        used_bytes: row.used_bytes(),
        dry_run: args.dry_run,
        done: waits,
    };
    match args.json {
        true => print_json(&told),
        false => out::line(&drained_text(&told)),
    }
}

fn drained_text(told: &Drained) -> String {
    let Drained { ds, places, .. } = told;
    let to =
        { told.substitute }.map_or_else(|| "others".to_owned(), |ds| format!("data server {ds}"));
    match (told.dry_run, told.done) {
        (true, _) => format!(
            "would move {places} places with {} objects from data server {ds} to {to}; {} are used on its disk",
            told.objects,
            bytes(told.used_bytes),
        ),
        (false, true) => format!(
            "data server {ds} is empty; `ropewalk ds remove {ds}` takes it out of the cluster"
        ),
        (false, false) => format!(
            "data server {ds} gives its {places} places to {to}; `ropewalk ds list` shows how many are left"
        ),
    }
}

fn until_empty(server: &Server, id: u32) -> Outcome {
    watch(server, "places", |mds| {
        let row = server_row(mds, id)?;
        let is_drained = ["draining", "away", "catching up"].contains(&row.state.as_str());
        if row.places > 0 && !is_drained {
            return Err(failed(format!("data server {id} is drained no more")));
        }
        Ok(Progress {
            left: row.places,
            is_over: row.places == 0,
            message: message(mds),
        })
    })
    .map(drop)
}

/// What `--json` prints of a rebalance.
#[derive(Serialize)]
struct Rebalanced {
    /// What there is to move, about, when the command ends.
    to_move: Unevenness,
    dry_run: bool,
    /// Whether data servers are being made level now.
    rebalancing: bool,
}

/// `ropewalk ds rebalance`.
pub(super) fn rebalance(server: &Server, stop: bool, args: &OrderArgs) -> Outcome {
    if !args.dry_run {
        ask::<()>(server, &Request::DsRebalance { wanted: !stop })?;
    }
    let waits = args.wait() && !args.dry_run && !stop;
    let mds = match waits {
        true => until_level(server)?,
        false => status(server)?,
    };
    let to_move = Unevenness::of(ToLevel::of(&mds.data_servers), None);
    if args.json {
        return print_json(&Rebalanced {
            to_move,
            dry_run: args.dry_run,
            rebalancing: mds.rebalancing,
        });
    }
    match (args.dry_run, stop) {
        (true, _) => {
            list(&mds, false)?;
            out::line(&to_move.to_string())
        }
        (false, true) => {
            out::line("no further place is moved; those that are under way are finished")
        }
        (false, false) if waits => list(&mds, false),
        (false, false) => out::line(
            "places are moved until the data servers are level; `ropewalk repair status` shows it",
        ),
    }
}

fn until_level(server: &Server) -> Outcome<MdsStatus> {
    let mut before = None;
    watch(server, "", |mds| {
        let unevenness = Unevenness::of(ToLevel::of(&mds.data_servers), before);
        before = Some(unevenness);
        Ok(Progress {
            left: unevenness.count(),
            is_over: !mds.rebalancing,
            message: format!("{unevenness} {}", message(mds)),
        })
    })
}
