//! What the table of clients has of a client of NFSv4.0, and where such a client takes callbacks.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use nfs4::{ClientId, Verifier};

use crate::CallbackSecurity;

/// Most clients that are remembered as expired.
const EXPIRED_MAX: usize = 4096;

/// Where and how a client of NFSv4.0 takes callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackTarget {
    /// `cb_program`.
    pub program: u32,
    /// `callback_ident`.
    pub ident: u32,
    /// `r_netid` as the client gave it.
    pub netid: Vec<u8>,
    /// `r_addr` as the client gave it.
    pub uaddr: Vec<u8>,
    /// Where to connect to; `None` where this server will not.
    pub address: Option<SocketAddr>,
    /// The credential of callbacks.
    pub security: CallbackSecurity,
}

/// What a client of NFSv4.0 has beside the rest.
#[derive(Debug)]
pub(super) struct Minor0 {
    pub(super) confirm: Verifier,
    pub(super) callback: CallbackTarget,
    /// A change of the callback that is not confirmed yet.
    pub(super) pending: Option<(Verifier, CallbackTarget)>,
    /// Requests of this client that run.
    pub(super) running_count: u32,
    /// It has lost something with its lease, and is about to lose the rest.
    pub(super) is_ending: bool,
}

/// What the table has of them beside the clients.
#[derive(Debug, Default)]
pub(super) struct Minor0Table {
    pub(super) expired: BTreeSet<ClientId>,
    /// When grace was first seen to be over.
    pub(super) grace_over_ms: Option<u64>,
}

impl Minor0Table {
    /// A client ends because its lease is over.
    pub(super) fn note_expired(&mut self, client: ClientId) {
        if self.expired.len() >= EXPIRED_MAX {
            self.expired.pop_first();
        }
        self.expired.insert(client);
    }
}
