//! The service: RPC headers, credentials, connections and the clock (RFC 5531 §9). COMPOUNDs are executed in `execute`.
//!
//! # Ownership
//! The client table is shared with the role. A role must not lock it while it holds a lock that [`Role::has_state`] takes.
//!
//! # Failure
//! A record that is no RPC call closes its connection: there is no transaction id to answer.

use crate::user::User;
use crate::{Counters, Role};
use bytes::Bytes;
use client_table::ClientTable;
use rpc::{AcceptError, AuthStat, CallHeader, Credential, OpaqueAuth, Rejection};
use std::sync::Arc;
use transport::{CloseReason, ConnHandle, Endpoint, Message, Service};
use xdr::{Decoder, Encoder};

const PROC_NULL: u32 = 0;
const PROC_COMPOUND: u32 = 1;

/// The NFSv4.1 and 4.2 service of one server.
pub struct Nfsd<R: Role> {
    role: R,
    clients: Arc<ClientTable>,
    counters: Counters,
}

impl<R: Role> Nfsd<R> {
    /// A service that executes the operations of `role` for the clients of `clients`.
    pub fn new(role: R, clients: Arc<ClientTable>) -> Arc<Self> {
        Arc::new(Self {
            role,
            clients,
            counters: Counters::default(),
        })
    }

    /// The role.
    pub fn role(&self) -> &R {
        &self.role
    }

    /// The clients, their connections and the clock.
    pub fn clients(&self) -> &Arc<ClientTable> {
        &self.clients
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Ends clients whose time is over. To be called about once a second.
    pub async fn expire(&self) {
        let now_ms = self.clients.now_ms();
        let gone = (self.clients.lock()).expire(now_ms, |c| self.role.has_state(c));
        for removed in gone {
            self.role.client_removed(removed).await;
        }
    }

    async fn serve(
        &self,
        conn: &ConnHandle,
        record: &Bytes,
        header: &CallHeader<'_>,
        args: Decoder<'_>,
    ) -> Option<Message> {
        let xid = header.xid;
        let refuse = |stat: AuthStat| {
            Counters::add(&self.counters.refused);
            Some(rpc_error(xid, Rejection::Auth(stat).into()))
        };
        if header.program != nfs4::PROGRAM {
            return Some(rpc_error(xid, AcceptError::ProgUnavail.into()));
        }
        if header.version != nfs4::VERSION {
            let (low, high) = (nfs4::VERSION, nfs4::VERSION);
            let mismatch = AcceptError::ProgMismatch { low, high };
            return Some(rpc_error(xid, mismatch.into()));
        }
        let user = match Credential::parse(&header.credential).and_then(User::of) {
            Ok(user) => user,
            Err(stat) => return refuse(stat),
        };
        match header.procedure {
            PROC_NULL => {
                let mut e = Encoder::new();
                rpc::begin_success(&mut e, xid, OpaqueAuth::NONE);
                Some(e.into())
            }
            PROC_COMPOUND => {
                self.role.prepare(&user).await;
                match self.role.admit(conn, &user) {
                    Err(stat) => refuse(stat),
                    Ok(actor) => {
                        let who = (actor, user);
                        self.compound(conn, xid, who, record, args).await
                    }
                }
            }
            _ => Some(rpc_error(xid, AcceptError::ProcUnavail.into())),
        }
    }
}

pub(crate) fn rpc_error(xid: u32, verdict: rpc::Verdict) -> Message {
    let mut e = Encoder::new();
    rpc::encode_error(&mut e, xid, verdict);
    e.into()
}

impl<R: Role> Service for Nfsd<R> {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        match CallHeader::decode(&mut d) {
            Ok(header) => self.serve(conn, &record, &header, d).await,
            Err(rpc::CallError::Refused { xid, verdict }) => {
                Counters::add(&self.counters.refused);
                Some(rpc_error(xid, verdict))
            }
            Err(rpc::CallError::Malformed(error)) => {
                Counters::add(&self.counters.malformed);
                conn.close_with(CloseReason::MalformedMessage, error);
                None
            }
        }
    }

    /// An end within the process (tests, the simulator) may always connect.
    fn admits(&self, peer: &Endpoint) -> bool {
        peer.socket().is_none_or(|peer| self.role.admits(peer.ip()))
    }

    fn connected(&self, conn: &ConnHandle) {
        self.clients.connected(conn);
    }

    fn disconnected(&self, conn: &ConnHandle, _reason: CloseReason) {
        self.clients.disconnected(conn);
    }

    fn credits_short(&self, conn: &ConnHandle) {
        self.clients.credits_short(conn);
    }
}
