//! The metadata server's answers about clients.
//!
//! # Ordering
//! Clients are copied a page at a time, and what they hold is counted under another lock. So an answer is no snapshot: a client
//! may have gone meanwhile.

use super::rows::{ClientPage, ClientRow, id_text, name_text, parse_id};
use client_table::KnownClient;
use fs::Fs;
use nfs4::ClientId;
use state::{ClientKind, ClientView, HeldCounts};

/// Most clients of one answer.
pub(crate) const CLIENTS_MAX: usize = 1000;

/// Clients after an id, at most [`CLIENTS_MAX`].
///
/// # Errors
/// One sentence: the id is none.
pub(crate) fn list(fs: &Fs, after: Option<&str>) -> Result<ClientPage, String> {
    let mut after = match after {
        Some(text) => Some(ClientId {
            value: parse_id(text)?,
        }),
        None => None,
    };
    let mut answer = ClientPage {
        limit: count(CLIENTS_MAX),
        ..ClientPage::default()
    };
    loop {
        let page = fs.clients().page(after);
        let Some(last) = page.last() else {
            return Ok(answer);
        };
        after = Some(last.view.id);
        for known in page {
            if answer.clients.len() == CLIENTS_MAX {
                answer.next = answer.clients.last().map(|row| row.id.clone());
                return Ok(answer);
            }
            answer.clients.push(row(fs, known));
        }
    }
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
