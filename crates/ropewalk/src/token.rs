//! `ropewalk token`: join tokens, made and kept by the metadata server.

use crate::admin::{Request, ask, mds_server};
use crate::cli::TokenCommand;
use crate::failure::{Outcome, failed};
use crate::out;
use crate::table::table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to [`Request::TokenCreate`].
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Token {
    /// The token: a secret.
    pub token: String,
}

/// One token of the answer to [`Request::TokenList`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WaitingToken {
    /// The beginning of the secret's hash, in hex: enough to tell tokens apart.
    pub hash: String,
    /// How long it is good still.
    pub expires_in_seconds: u64,
}

/// `ropewalk token ...`.
pub(crate) fn run(command: &TokenCommand) -> Outcome {
    match command {
        TokenCommand::Create { place, ttl } => {
            let request = Request::TokenCreate {
                ttl_seconds: ttl.as_secs(),
            };
            let token: Token = ask(&mds_server(place)?, &request)?;
            // The token alone, so that scripts can take it as it is.
            out::line(&token.token)?;
        }
        TokenCommand::List { place, json } => {
            let tokens: Vec<WaitingToken> = ask(&mds_server(place)?, &Request::TokenList)?;
            if *json {
                let text = serde_json::to_string_pretty(&tokens);
                out::line(&text.map_err(|e| failed(e.to_string()))?)?;
            } else {
                let row =
                    |t: &WaitingToken| vec![t.hash.clone(), format!("{} s", t.expires_in_seconds)];
                let rows: Vec<_> = tokens.iter().map(row).collect();
                out::print(&table(&["TOKEN", ">EXPIRES IN"], &rows))?;
            }
        }
    }
    Ok(())
}
