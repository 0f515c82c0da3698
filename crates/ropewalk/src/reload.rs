//! `ropewalk reload`: a server reads its configuration again, and nobody loses a connection.
//!
//! What servers share of it is here: the comparison of what was and what is to be, and the signal. What can change, and how, is
//! `serve_mds/reload.rs` and `serve_ds/reload.rs`.

use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::{Outcome, cannot};
use crate::out;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// `ropewalk reload`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    /// Only say what is wrong with the file, or what would change
    #[arg(long)]
    pub check: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: MdsPlace,
}

/// What a reload has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Reloaded {
    /// Settings that are in force from now on, or would be.
    pub changed: Vec<String>,
    /// Settings that differ from those in force until the server is started again.
    pub needs_restart: Vec<String>,
}

/// `ropewalk reload`.
pub(crate) fn run(args: &ReloadArgs) -> Outcome {
    let request = Request::Reload { check: args.check };
    let told: Reloaded = ask(&mds_server(&args.place)?, &request)?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&told);
            out::line(&text.map_err(cannot("write JSON"))?)
        }
        false => out::print(&text(&told, args.check)),
    }
}

fn text(told: &Reloaded, only_checked: bool) -> String {
    let mut text = match (&told.changed[..], only_checked) {
        ([], false) => "nothing has changed\n".to_owned(),
        ([], true) => "nothing would change\n".to_owned(),
        (changed, false) => format!("in force now: {}\n", changed.join(", ")),
        (changed, true) => format!("in force after a reload: {}\n", changed.join(", ")),
    };
    if !told.needs_restart.is_empty() {
        let keys = told.needs_restart.join(", ");
        text += &format!("in force after a restart: {keys}\n");
    }
    text
}

/// SIGHUP. Needs a runtime.
///
/// # Errors
/// The signal cannot be taken over.
pub(crate) fn hangup() -> Outcome<Signal> {
    signal(SignalKind::hangup()).map_err(cannot("listen to SIGHUP"))
}

/// Logs what came of a reload.
pub(crate) fn log(told: &Result<Reloaded, String>) {
    match told {
        Ok(told) => {
            tracing::info!(changed = ?told.changed, needs_restart = ?told.needs_restart, "configuration read again");
        }
        Err(why) => tracing::warn!("the configuration is not taken, nothing has changed: {why}"),
    }
}

/// Which settings differ: those of `live_keys` change while the server runs.
///
/// # Errors
/// A configuration cannot be written as TOML, which is a bug.
pub(crate) fn compare<T: Serialize>(
    current: &T,
    new: &T,
    live_keys: &[&str],
) -> Result<Reloaded, String> {
    let table = |config: &T| toml::Table::try_from(config).map_err(|e| e.to_string());
    let (current, new) = (table(current)?, table(new)?);
    let mut keys: Vec<&String> = current.keys().chain(new.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let differing = keys.into_iter().filter(|k| current.get(*k) != new.get(*k));
    let (changed, needs_restart) = differing
        .cloned()
        .partition(|key| live_keys.contains(&key.as_str()));
    Ok(Reloaded {
        changed,
        needs_restart,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_need_a_restart_are_named() {
        let told = Reloaded {
            changed: vec!["export".into()],
            needs_restart: vec!["copies".into(), "listen".into()],
        };
        let said = "in force now: export\nin force after a restart: copies, listen\n";
        assert_eq!(text(&told, false), said);
        assert!(text(&told, true).starts_with("in force after a reload: export\n"));
        assert_eq!(text(&Reloaded::default(), false), "nothing has changed\n");
        assert_eq!(text(&Reloaded::default(), true), "nothing would change\n");
    }
}
