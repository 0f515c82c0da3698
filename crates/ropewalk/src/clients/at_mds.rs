//! The metadata server's answers about clients.
//!
//! # Ordering
//! Clients are copied a page at a time, and what they hold is counted under another lock. So an answer is no snapshot: a client
//! may have gone meanwhile.

use super::rows::{ClientPage, ClientRow, EvictedRow, id_text, name_text, parse_id};
use crate::admin::Refusal;
use ::admin::CLIENTS_MAX;
use client_table::KnownClient;
use fs::Fs;
use nfs4::ClientId;
use state::{ClientKind, ClientView, HeldCounts};
use std::sync::Arc;

/// Clients after an id: `limit`, and at most [`CLIENTS_MAX`].
///
/// # Errors
/// [`Refusal::Invalid`]: the id is none.
pub(crate) fn list(
    fs: &Fs,
    after: Option<&str>,
    limit: Option<u32>,
) -> Result<ClientPage, Refusal> {
    let limit = limit.map_or(CLIENTS_MAX, |n| (n as usize).clamp(1, CLIENTS_MAX));
    let mut after = match after {
        Some(text) => Some(ClientId {
            value: parse_id(text).map_err(Refusal::Invalid)?,
        }),
        None => None,
    };
    let mut answer = ClientPage {
        limit: count(limit),
        ..ClientPage::default()
    };
    loop {
        let page = fs.clients().page(after);
        let Some(last) = page.last() else {
            return Ok(answer);
        };
        after = Some(last.view.id);
        for known in page {
            if answer.clients.len() == limit {
                answer.next = answer.clients.last().map(|row| row.id.clone());
                return Ok(answer);
            }
            answer.clients.push(row(fs, known));
        }
    }
}

/// The client of this id.
///
/// # Errors
/// One sentence: there is none.
pub(super) fn find(fs: &Fs, id: &str) -> Result<KnownClient, Refusal> {
    let value = parse_id(id).map_err(Refusal::Invalid)?;
    let known = fs.clients().find(ClientId { value });
    known.ok_or_else(|| {
        let why = format!("there is no client {value:x}; `ropewalk client list` lists them");
        Refusal::NotFound(why)
    })
}

/// The row of a client; `None` of one that has gone.
pub(crate) fn row_of(fs: &Fs, id: ClientId) -> Option<ClientRow> {
    Some(row(fs, fs.clients().find(id)?))
}

/// Ends a client's lease.
///
/// # Errors
/// One sentence: there is no such client.
pub(crate) async fn evict(fs: &Arc<Fs>, id: &str) -> Result<EvictedRow, Refusal> {
    let known = find(fs, id)?;
    let client_id = known.view.id;
    let client = row(fs, known);
    let evicted = fs::evict(fs, client_id).await;
    let evicted = evicted.ok_or_else(|| {
        Refusal::NotFound(format!("client {} has just gone by itself", client.id))
    })?;
    let told = EvictedRow {
        opens: count(evicted.held.opens),
        locks: count(evicted.held.ranges),
        delegations: count(evicted.held.delegations),
        layouts: count(evicted.held.layouts),
        sessions: count(evicted.sessions_count),
    };
    tracing::warn!(
        target: ::admin::AUDIT_TARGET,
        client = client.id,
        protocol = client.protocol,
        owner = client.owner,
        addresses = ?client.addresses,
        opens = told.opens,
        locks = told.locks,
        delegations = told.delegations,
        layouts = told.layouts,
        "audit: an administrator has evicted a client"
    );
    Ok(told)
}

/// One client as a row.
pub(super) fn row(fs: &Fs, known: KnownClient) -> ClientRow {
    let KnownClient {
        view,
        implementation,
        mut addresses,
    } = known;
    let held: HeldCounts = fs.state().held_counts(view.id);
    let mut owner = name_text(&view.owner);
    if view.kind == ClientKind::Host
        && let Some((address, name)) = mds3::describe_host(&view.owner)
    {
        addresses.push(address);
        owner = name_text(name.as_bytes());
    }
    ClientRow {
        id: id_text(view.id.value),
        protocol: protocol(view.kind),
        owner,
        implementation: implementation.map(|name| name_text(&name)),
        addresses,
        state: state_of(&view).to_owned(),
        unseen_seconds: view.unseen_ms / 1000,
        lease_seconds: fs.lease_ms() / 1000,
        sessions: count(view.sessions.len()),
        opens: count(held.opens),
        locks: count(held.ranges),
        delegations: count(held.delegations),
        layouts: count(held.layouts),
    }
}

/// The protocol of a client.
pub(super) fn protocol(kind: ClientKind) -> String {
    match kind {
        ClientKind::Sessions(Some(minor)) => format!("NFSv4.{minor}"),
        ClientKind::Sessions(None) => "NFSv4".to_owned(),
        ClientKind::Minor0 => "NFSv4.0".to_owned(),
        ClientKind::Host => "NLM".to_owned(),
    }
}

fn state_of(view: &ClientView) -> &'static str {
    match view {
        ClientView {
            is_confirmed: false,
            ..
        } => "unconfirmed",
        ClientView {
            is_lapsed: true, ..
        } => "lapsed",
        ClientView {
            is_reclaiming: true,
            ..
        } => "reclaiming",
        _ => "active",
    }
}

pub(super) fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
