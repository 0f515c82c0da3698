//! `ropewalk lock`: who has what of one file.

use super::rows::FileHolds;
use super::show::{cut_text, held_table};
use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::Outcome;
use crate::out;
use clap::Subcommand;

/// `ropewalk lock`.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Show byte-range locks, opens with what they deny, delegations and layouts of a file, and who waits for it
    List {
        /// Path from the root of the file system. Symbolic links are not followed
        path: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
}

/// `ropewalk lock`.
pub(crate) fn run(command: &LockCommand) -> Outcome {
    let LockCommand::List { path, json, place } = command;
    let path = path.clone();
    let held: FileHolds = ask(&mds_server(place)?, &Request::LockList { path })?;
    match json {
        true => out::json(&held),
        false => out::print(&text(&held)),
    }
}

fn text(held: &FileHolds) -> String {
    if held.holds.is_empty() {
        return format!("nobody holds {}\n", held.path.escape_debug());
    }
    let mut rows = held.holds.clone();
    for row in &mut rows {
        row.path = Some(held.path.clone());
    }
    let mut text = held_table(&rows);
    if held.cut {
        text += &cut_text(held.limit);
    }
    text
}
