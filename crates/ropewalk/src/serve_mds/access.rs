//! What the metadata server does about access tokens.

use super::refusals::{failed, of_access};
use super::view::{View, json};
use crate::access::{AccessRow, NewAccess};
use crate::admin::{Refusal, Request};
use ::admin::{Caller, CallerRole, Denied};
use ::cluster::{
    AccessError, AccessRecord, AccessRole, Cluster, access_tokens, add_access, check_access,
    revoke_access,
};
use cluster_tls::{ACCESS_NAME_BYTES_MAX, AccessName, AccessSecret, AccessToken, random_bytes};
use serde_json::Value;

/// Longest life of an access token: ten years.
const TTL_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;

/// Whose token this is.
///
/// # Errors
/// Why it is not taken.
pub(super) fn caller(cluster: &Cluster, text: &str) -> Result<Caller, Denied> {
    let token = AccessToken::parse(text).map_err(|_| Denied::Unknown)?;
    let checked = check_access(cluster, token.id, &token.secret);
    let record = checked.map_err(|error| match error {
        AccessError::Expired => Denied::Expired,
        AccessError::Unknown | AccessError::Full => Denied::Unknown,
        AccessError::Store(error) => {
            tracing::warn!(%error, "access tokens cannot be read");
            Denied::Unavailable
        }
    })?;
    Ok(Caller {
        name: record.name.as_str().to_owned(),
        role: role(record.role),
        expires_at: expires_at(&record),
    })
}

/// Does what an order about access tokens says.
pub(super) async fn run(view: &View, order: Request) -> Result<Value, Refusal> {
    let cluster = view.cluster();
    match order {
        Request::AccessCreate {
            name,
            role,
            ttl_seconds,
        } => json(create(view, &name, role, ttl_seconds).await?),
        Request::AccessList => {
            let tokens = access_tokens(cluster).map_err(failed)?;
            json(tokens.iter().map(row).collect::<Vec<_>>())
        }
        Request::AccessRevoke { id } => {
            let revoked = revoke_access(cluster, id).await;
            revoked.map_err(|error| match error {
                AccessError::Unknown => Refusal::NotFound(format!(
                    "there is no access token {id}; `ropewalk access list` lists them"
                )),
                other => of_access(other),
            })?;
            json(())
        }
        other => Err(Refusal::Refused(format!("{other:?} is not about access"))),
    }
}

async fn create(
    view: &View,
    name: &str,
    role: CallerRole,
    ttl_seconds: Option<u64>,
) -> Result<NewAccess, Refusal> {
    let is_good = !name.is_empty()
        && name.len() <= ACCESS_NAME_BYTES_MAX as usize
        && !name.chars().any(char::is_control);
    if !is_good {
        return Err(Refusal::Invalid(format!(
            "a name has 1 to {ACCESS_NAME_BYTES_MAX} bytes and no control characters"
        )));
    }
    if ttl_seconds.is_some_and(|ttl| ttl == 0 || ttl > TTL_SECONDS_MAX) {
        let why = "a token is good for at least a second and at most ten years".to_owned();
        return Err(Refusal::Invalid(why));
    }
    let secret = AccessSecret(random_bytes().map_err(failed)?);
    let kept = match role {
        CallerRole::Viewer => AccessRole::Viewer,
        CallerRole::Operator => AccessRole::Operator,
        CallerRole::Admin => AccessRole::Admin,
    };
    let ttl_ms = ttl_seconds.map(|ttl| ttl * 1000);
    let added = add_access(view.cluster(), AccessName::cut(name), kept, &secret, ttl_ms).await;
    let id = added.map_err(of_access)?;
    let token = AccessToken {
        ca: view.ca.fingerprint(),
        id,
        secret,
    };
    Ok(NewAccess {
        id,
        token: token.to_text(),
    })
}

fn role(kept: AccessRole) -> CallerRole {
    match kept {
        AccessRole::Viewer => CallerRole::Viewer,
        AccessRole::Operator => CallerRole::Operator,
        AccessRole::Admin => CallerRole::Admin,
    }
}

fn expires_at(record: &AccessRecord) -> Option<u64> {
    (record.expires_ms != 0).then_some(record.expires_ms / 1000)
}

fn row((id, record): &(u32, AccessRecord)) -> AccessRow {
    AccessRow {
        id: *id,
        name: record.name.as_str().to_owned(),
        role: role(record.role),
        made_at: record.made_ms / 1000,
        expires_at: expires_at(record),
    }
}
