//! `ropewalk nlm`: which hosts have locks by NFSv3, and the end of the locks of one that will never come back.

use crate::admin::{MdsPlace, Refusal, Request, ask, mds_server};
use crate::failure::{Outcome, cannot};
use crate::out;
use crate::table::table;
use clap::Subcommand;
use fs::Fs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `ropewalk nlm`.
#[derive(Debug, Subcommand)]
pub(crate) enum NlmCommand {
    /// Show the hosts that have asked for locks, and what they hold
    Hosts {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// End all locks of a host that will never come back. One that still runs goes on as if it had them
    Free {
        /// Its address or its name, as `ropewalk nlm hosts` shows them
        host: String,
        #[command(flatten)]
        place: MdsPlace,
    },
}

/// A host with what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct HostRow {
    /// Where it calls from.
    pub address: String,
    /// The name that it gives itself.
    pub name: String,
    /// Byte ranges that it has locked.
    pub ranges: usize,
    /// Files that it shares with deny modes.
    pub shares: usize,
}

/// `ropewalk nlm`.
pub(crate) fn run(command: &NlmCommand) -> Outcome {
    match command {
        NlmCommand::Hosts { json, place } => {
            let rows: Vec<HostRow> = ask(&mds_server(place)?, &Request::NlmHosts)?;
            match json {
                true => {
                    let text = serde_json::to_string_pretty(&rows);
                    out::line(&text.map_err(cannot("write JSON"))?)
                }
                false => out::print(&text(&rows)),
            }
        }
        NlmCommand::Free { host, place } => {
            let host = host.clone();
            let freed: HostRow = ask(&mds_server(place)?, &Request::NlmFree { host })?;
            out::line(&format!(
                "{} ({}) has lost {} locked ranges and {} shares",
                freed.name, freed.address, freed.ranges, freed.shares
            ))
        }
    }
}

fn text(rows: &[HostRow]) -> String {
    if rows.is_empty() {
        return "no host has asked for locks by NFSv3\n".to_owned();
    }
    let row = |r: &HostRow| {
        let (ranges, shares) = (r.ranges.to_string(), r.shares.to_string());
        vec![r.address.clone(), r.name.clone(), ranges, shares]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["ADDRESS", "NAME", "LOCKED RANGES", "SHARES"], &rows)
}

/// The metadata server's answer to `nlm hosts`.
pub(crate) fn hosts(fs: &Fs) -> Vec<HostRow> {
    mds3::hosts_held(fs).iter().map(row_of).collect()
}

/// The metadata server's answer to `nlm free`: what the host had.
///
/// # Errors
/// [`Refusal`]: there is none of this name, or several.
pub(crate) async fn free(fs: &Arc<Fs>, host: &str) -> Result<HostRow, Refusal> {
    let all = mds3::hosts_held(fs);
    let is_it = |h: &&mds3::HostHeld| h.address == host || h.name == host;
    let found: Vec<_> = all.iter().filter(is_it).collect();
    match *found {
        [held] => match mds3::free_host(fs, held).await {
            true => Ok(row_of(held)),
            false => {
                let why = format!("{host} has just gone by itself");
                Err(Refusal::NotFound(why))
            }
        },
        [] => Err(Refusal::NotFound(format!(
            "no host {host} has locks; `ropewalk nlm hosts` lists them"
        ))),
        _ => Err(Refusal::Refused(format!(
            "{host} is {} hosts; `ropewalk nlm hosts` lists them: say the one that no other has, its address or its name",
            found.len()
        ))),
    }
}

fn row_of(held: &mds3::HostHeld) -> HostRow {
    HostRow {
        address: held.address.clone(),
        name: held.name.clone(),
        ranges: held.ranges_count,
        shares: held.shares_count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_a_table_and_none_is_said_in_words() {
        let rows = [HostRow {
            address: "192.0.2.7".into(),
            name: "client".into(),
            ranges: 2,
            shares: 0,
        }];
        let shown = text(&rows);
        let line = shown.lines().nth(1).map(str::split_whitespace);
        let words: Vec<&str> = line.into_iter().flatten().collect();
        assert_eq!(words, ["192.0.2.7", "client", "2", "0"]);
        assert!(text(&[]).starts_with("no host"));
    }
}
