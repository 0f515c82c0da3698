//! `ropewalk reload`: the metadata server reads its configuration again, and nobody loses a connection.

use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::{Outcome, cannot};
use crate::out;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `ropewalk reload`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
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
    /// Settings that are in force from now on.
    pub changed: Vec<String>,
    /// Settings that differ from those in force until the server is started again.
    pub needs_restart: Vec<String>,
}

/// `ropewalk reload`.
pub(crate) fn run(args: &ReloadArgs) -> Outcome {
    let told: Reloaded = ask(&mds_server(&args.place)?, &Request::Reload)?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&told);
            out::line(&text.map_err(cannot("write JSON"))?)
        }
        false => out::print(&text(&told)),
    }
}

fn text(told: &Reloaded) -> String {
    let mut text = match &told.changed[..] {
        [] => "nothing has changed\n".to_owned(),
        changed => format!("in force now: {}\n", changed.join(", ")),
    };
    if !told.needs_restart.is_empty() {
        let keys = told.needs_restart.join(", ");
        text += &format!("in force after a restart: {keys}\n");
    }
    text
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
        assert_eq!(text(&told), said);
        assert_eq!(text(&Reloaded::default()), "nothing has changed\n");
    }
}
