//! Credits: a client that stays within its credits does not notice those that do not (R14).
//!
//! Judged at the servers' ends of connections over RDMA, where calls come in and connections end, and by the clients that
//! wait for answers. *Greedy clients* are the clients that may be cut off; all others are to be served in time, whatever those do.

use crate::check::Findings;
use crate::trace::Trace;
use crate::trace::host;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::CloseReason;

/// What the names of greedy clients begin with.
pub(crate) const GREEDY: &str = "greedy-";
/// What the names of those begin with who can be asked for slots, and give them back.
pub(crate) const GUEST: &str = "guest-";
/// Longest wait for an answer. One who has a single credit and makes eight calls at once has the last answer after 0.3 s.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The checker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Checker(Arc<Inner>);

struct Inner {
    /// Credits that each server lends.
    stock: u32,
    trace: Trace,
    findings: Findings,
    connections: Mutex<BTreeMap<Id, Connection>>,
}

/// Which peer's end, and which of its connections.
type Id = (String, u64);

struct Connection {
    peer: String,
    calls: u32,
}

/// A call in progress, until it is dropped.
pub(crate) struct Running {
    checker: Checker,
    id: Id,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut connections = self.checker.0.connections.lock();
        // One that has ended is not in the books any more.
        if let Some(connection) = connections.get_mut(&self.id) {
            connection.calls -= 1;
        }
    }
}

impl Checker {
    /// Where each server lends `stock` credits.
    pub(crate) fn new(stock: u32, trace: Trace, findings: Findings) -> Self {
        Self(Arc::new(Inner {
            stock,
            trace,
            findings,
            connections: Mutex::default(),
        }))
    }

    /// A server has a new connection.
    pub(crate) fn connected(&self, server: &str, id: u64, peer: &str) {
        let connection = Connection {
            peer: host(peer).to_owned(),
            calls: 0,
        };
        let id = (server.to_owned(), id);
        self.0.connections.lock().insert(id, connection);
    }

    /// A server's connection has ended.
    pub(crate) fn disconnected(&self, server: &str, id: u64, reason: CloseReason) {
        let ended = self.0.connections.lock().remove(&(server.to_owned(), id));
        let Some(Connection { peer, .. }) = ended else {
            return;
        };
        let why = reason.as_str();
        let what = format_args!("- the connection of {peer} has ended: {why}");
        self.0.trace.tell(server, what);
        let is_his_own = match reason {
            CloseReason::PeerClosed | CloseReason::Asked | CloseReason::Shutdown => true,
            // Calls beyond the credits wait; nobody is cut off for them.
            CloseReason::RdmaCreditFlood => false,
            // Who cannot be asked connects again without loss (docs/architecture/rdma-credits.md).
            CloseReason::RdmaCreditsKept => !peer.starts_with(GUEST),
            _ => peer.starts_with(GREEDY),
        };
        if !is_his_own {
            let text = format!("{server} ended the connection of {peer}: {why}");
            self.0.findings.add(text);
        }
    }

    /// A server begins with a call.
    pub(crate) fn begin(&self, server: &str, id: u64) -> Running {
        let id = (server.to_owned(), id);
        let mut connections = self.0.connections.lock();
        if let Some(connection) = connections.get_mut(&id) {
            connection.calls += 1;
        }
        let here = connections.iter().filter(|((at, _), _)| at == server);
        // Each connection has one credit of its own.
        let lent: u32 = here.map(|(_, c)| c.calls.saturating_sub(1)).sum();
        drop(connections);
        let stock = self.0.stock;
        if lent > stock {
            let text = format!("{server} works on {lent} lent calls and lends {stock} credits");
            self.0.findings.add(text);
        }
        Running {
            checker: self.clone(),
            id,
        }
    }

    /// A client has its answer.
    pub(crate) fn answered(&self, who: &str, asked: Instant) {
        let waited = asked.elapsed();
        if waited > ANSWER_MAX {
            let ms = waited.as_millis();
            let text = format!("{who} waited {ms} ms for an answer");
            self.0.findings.add(text);
        }
    }

    /// All greedy clients are gone: nothing of theirs may be left.
    pub(crate) fn judge(&self) {
        let connections = self.0.connections.lock();
        let left = connections
            .iter()
            .filter(|(_, c)| c.peer.starts_with(GREEDY));
        for ((server, _), Connection { peer, calls }) in left {
            let text = format!("{server} keeps a connection of {peer}, with {calls} calls");
            self.0.findings.add(text);
        }
    }
}
