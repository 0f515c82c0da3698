//! `ropewalk access`: who may ask the metadata server over the network, and in which role.

use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::Outcome;
use crate::out;
use crate::table::table;
use crate::times::now_s;
use ::admin::CallerRole;
use clap::{Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `ropewalk access`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Make a token with which somebody asks over the network. It is shown once
    Create {
        /// Whose it is, as lists and the log show it
        name: String,
        /// What the holder may do: see, act on what is there, or change who belongs to the cluster
        #[arg(long, value_enum, default_value = "viewer")]
        role: RoleChoice,
        /// How long it is good, as in 12h or 90d; for ever without it
        #[arg(long, value_name = "TIME", value_parser = parse_ttl)]
        ttl: Option<Duration>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// Show the tokens, not their secrets
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// Take a token back: the next request with it is refused
    Revoke {
        /// Its id, as `ropewalk access list` shows it
        id: u32,
        #[command(flatten)]
        place: MdsPlace,
    },
}

/// A role on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleChoice {
    /// Sees everything but secrets
    Viewer,
    /// Also drains, repairs, scrubs and evicts
    Operator,
    /// Also changes who belongs to the cluster, who may ask, and any file
    Admin,
}

impl From<RoleChoice> for CallerRole {
    fn from(choice: RoleChoice) -> Self {
        match choice {
            RoleChoice::Viewer => Self::Viewer,
            RoleChoice::Operator => Self::Operator,
            RoleChoice::Admin => Self::Admin,
        }
    }
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = crate::times::parse(text);
    ttl.ok_or_else(|| "write a whole number and s, m, h or d, as in 90d".to_owned())
}

/// Answering to [`Request::AccessCreate`].
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NewAccess {
    /// Its id.
    pub id: u32,
    /// The token: a secret.
    pub token: String,
}

/// One token of the answer to [`Request::AccessList`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AccessRow {
    /// Its id.
    pub id: u32,
    /// Whose it is.
    pub name: String,
    /// What the holder may do.
    pub role: CallerRole,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
    /// When it ends, likewise; never without.
    pub expires_at: Option<u64>,
}

/// `ropewalk access`.
pub(crate) fn run(command: &AccessCommand) -> Outcome {
    match command {
        AccessCommand::Create {
            name,
            role,
            ttl,
            json,
            place,
        } => {
            let request = Request::AccessCreate {
                name: name.clone(),
                role: (*role).into(),
                ttl_seconds: ttl.map(|ttl| ttl.as_secs()),
            };
            let made: NewAccess = ask(&mds_server(place)?, &request)?;
            match json {
                true => out::json(&made),
                // The token alone, so that scripts can take it as it is.
                false => out::line(&made.token),
            }
        }
        AccessCommand::List { json, place } => {
            let rows: Vec<AccessRow> = ask(&mds_server(place)?, &Request::AccessList)?;
            match json {
                true => out::json(&rows),
                false => out::print(&text(&rows, now_s().unsigned_abs())),
            }
        }
        AccessCommand::Revoke { id, place } => {
            ask::<()>(&mds_server(place)?, &Request::AccessRevoke { id: *id })?;
            out::line(&format!("access token {id} is revoked"))
        }
    }
}

fn text(rows: &[AccessRow], now: u64) -> String {
    let ends = |row: &AccessRow| match row.expires_at {
        None => "never".to_owned(),
        Some(at) if at <= now => "over".to_owned(),
        Some(at) => format!("in {}", crate::status::duration(at - now)),
    };
    let row = |row: &AccessRow| {
        let age = crate::status::duration(now.saturating_sub(row.made_at));
        let role = row.role.to_string();
        vec![row.id.to_string(), row.name.clone(), role, age, ends(row)]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&[">ID", "NAME", "ROLE", ">AGE", ">ENDS"], &rows)
}

#[cfg(test)]
mod tests {
    //! Goal: a list says whose tokens there are, and which are over.
    use super::*;

    #[test]
    fn tokens_are_listed_with_their_ends() {
        let row = |id, expires_at| AccessRow {
            id,
            name: format!("page {id}"),
            role: CallerRole::Viewer,
            made_at: 1000,
            expires_at,
        };
        let text = text(
            &[row(1, None), row(2, Some(1030)), row(3, Some(4630))],
            1030,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("never"), "{text}");
        assert!(lines[2].ends_with("over"), "{text}");
        assert!(
            lines[3].contains("viewer") && lines[3].contains("in 1 h"),
            "{text}"
        );
    }
}
