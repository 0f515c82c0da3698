//! `ropewalk key`: the keys that sign handles for data servers, changed by order.

use crate::admin::{Request, ask, mds_server};
use crate::cli::KeyCommand;
use crate::failure::Outcome;
use crate::out;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to [`Request::KeyRotate`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RotatedKey {
    /// Id of the new key.
    pub id: u32,
    /// Whether it signs already.
    pub signs: bool,
}

/// `ropewalk key ...`.
pub(crate) fn run(command: &KeyCommand) -> Outcome {
    let KeyCommand::Rotate { place } = command;
    let key: RotatedKey = ask(&mds_server(place)?, &Request::KeyRotate)?;
    out::line(&said(&key))
}

fn said(key: &RotatedKey) -> String {
    if key.signs {
        format!(
            "key {} signs from now on; older keys retire as their layouts come back",
            key.id
        )
    } else {
        format!(
            "key {} is made; it signs once every data server that serves has taken it (see `ropewalk status`)",
            key.id
        )
    }
}
