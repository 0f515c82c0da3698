//! Clients as an administrator sees them: copies, a page at a time.
//!
//! Owns nothing. A page is bounded by its caller, so that nobody who waits for the table waits for long.

use std::net::SocketAddr;
use std::ops::Bound;

use nfs4::{ClientId, SessionId};

use super::record::OWNER_PREFIX;
use super::table::{Client, Clients};

/// How a client came here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// By EXCHANGE_ID; the highest minor version of its sessions, if it has any.
    Sessions(Option<u32>),
    /// By SETCLIENTID of NFSv4.0.
    Minor0,
    /// It is a host of NLM.
    Host,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientView {
    /// Its id.
    pub id: ClientId,
    /// How it came.
    pub kind: ClientKind,
    /// The name that it gives itself; of a host its key.
    pub owner: Vec<u8>,
    /// Whether CREATE_SESSION or SETCLIENTID_CONFIRM has confirmed it.
    pub is_confirmed: bool,
    /// Milliseconds since its last request ended, or since its lease was last renewed; 0 while a request of it runs.
    pub unseen_ms: u64,
    /// Its lease is over: what it holds yields to others.
    pub is_lapsed: bool,
    /// It may still reclaim what it held before the server was started.
    pub is_reclaiming: bool,
    /// Its sessions, oldest first.
    pub sessions: Vec<SessionId>,
    /// Connections bound to its sessions, each once, in ascending order.
    pub connections: Vec<u64>,
    /// Where a client of NFSv4.0 takes callbacks.
    pub callback: Option<SocketAddr>,
}

impl Clients {
    /// At most `max` clients with ids after `after`, in ascending order.
    #[must_use]
    pub fn page(&self, after: Option<ClientId>, now_ms: u64, max: usize) -> Vec<ClientView> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = self.clients.range((from, Bound::Unbounded)).take(max);
        page.map(|(id, client)| self.view_of(*id, client, now_ms))
            .collect()
    }

    /// One client.
    #[must_use]
    pub fn view(&self, id: ClientId, now_ms: u64) -> Option<ClientView> {
        let client = self.clients.get(&id)?;
        Some(self.view_of(id, client, now_ms))
    }

    fn view_of(&self, id: ClientId, client: &Client, now_ms: u64) -> ClientView {
        let sessions = || client.sessions.iter().filter_map(|s| self.sessions.get(s));
        let mut connections: Vec<u64> = sessions().flat_map(|s| s.connections()).collect();
        connections.sort_unstable();
        connections.dedup();
        let minor_0 = client.minor_0.as_ref();
        let kind = match (client.is_host, minor_0) {
            (true, _) => ClientKind::Host,
            (false, Some(_)) => ClientKind::Minor0,
            (false, None) => ClientKind::Sessions(sessions().map(|s| s.minor_version).max()),
        };
        let prefix: &[u8] = if minor_0.is_some() { OWNER_PREFIX } else { b"" };
        let owner = client.owner.strip_prefix(prefix).unwrap_or(&client.owner);
        let reclaims =
            (self.grace).may_reclaim(&client.owner, client.verifier, &client.principal.0);
        ClientView {
            id,
            kind,
            owner: owner.to_vec(),
            is_confirmed: client.confirmed,
            unseen_ms: match self.is_running(client) {
                true => 0,
                false => now_ms.saturating_sub(client.renewed_ms),
            },
            is_lapsed: self.is_lapsed(client, now_ms),
            is_reclaiming: !client.reclaim_complete && reclaims,
            sessions: client.sessions.clone(),
            connections,
            callback: minor_0.and_then(|m| m.callback.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mount, table_with};
    use super::*;
    use crate::BindRequest;

    #[test]
    fn pages_go_through_all_clients_and_end() {
        let mut t = table_with(|limits| limits.clients_max = 8);
        let ids: Vec<ClientId> = ["a", "b", "c", "d", "e"]
            .map(|name| mount(&mut t, name, 1, 0).0)
            .to_vec();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = t.page(after, 0, 2);
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            seen.extend(page.into_iter().map(|view| view.id));
        }
        assert_eq!(seen, ids);
    }

    #[test]
    fn a_client_is_shown_with_its_connections_and_its_lease() {
        let mut t = table_with(|_| {});
        let (id, created) = mount(&mut t, "a", 1, 1_000);
        for connection in [9, 7] {
            t.bind(created.session, connection, BindRequest::Fore, true)
                .unwrap();
        }
        let (host, _) = t.host(b"192.0.2.7\0h", 1_005, |_| false).unwrap();
        let view = t.view(id, 1_007).unwrap();
        assert_eq!(view.kind, ClientKind::Sessions(Some(1)));
        assert_eq!((&view.owner[..], view.unseen_ms), (&b"a"[..], 7));
        assert_eq!(view.sessions, [created.session]);
        assert!([7, 9].iter().all(|c| view.connections.contains(c)));
        assert!(view.connections.is_sorted() && !view.is_lapsed && view.is_confirmed);
        let later_ms = 1_001 + t.limits().lease_ms;
        assert!(t.view(id, later_ms).unwrap().is_lapsed);
        let host = t.view(host, later_ms).unwrap();
        assert_eq!((host.kind, host.is_lapsed), (ClientKind::Host, false));
        assert_eq!(t.view(ClientId { value: 5 }, 0), None);
    }
}
