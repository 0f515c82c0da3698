//! The service: the NFSv4 program, its credentials and its connections. COMPOUNDs are executed in `execute`.
//!
//! # Ownership
//! The client table is shared with the role. A role must not lock it while it holds a lock that [`Role::has_state`] takes.

use crate::minor_0::table::Minor0;
use crate::user::User;
use crate::{Counters, Role, Traces};
use bytes::Bytes;
use client_table::ClientTable;
use rpc::{AcceptError, AuthStat, Credential, Rejection};
use rpc_service::{Call, DynProgram, Program, ProgramFault, Whose};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle, Endpoint, Message, Service};
use xdr::{Decoder, Encoder};

const PROC_NULL: u32 = 0;
const PROC_COMPOUND: u32 = 1;

/// The NFSv4 service of one server.
pub struct Nfsd<R: Role> {
    role: R,
    clients: Arc<ClientTable>,
    counters: Counters,
    traces: Traces,
    minor_0: Minor0,
}

impl<R: Role> Nfsd<R> {
    /// A service that executes the operations of `role` for the clients of `clients`.
    pub fn new(role: R, clients: Arc<ClientTable>) -> Arc<Self> {
        Arc::new(Self {
            role,
            clients,
            counters: Counters::default(),
            traces: Traces::default(),
            minor_0: Minor0::default(),
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

    /// What it has for NFSv4.0.
    pub(crate) fn minor_0(&self) -> &Minor0 {
        &self.minor_0
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Which requests are traced.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Ends clients whose time is over. To be called about once a second.
    pub async fn expire(&self) {
        let now_ms = self.clients.now_ms();
        let gone = (self.clients.lock()).expire(now_ms, |c| self.role.has_state(c));
        for removed in gone {
            self.role.client_removed(removed).await;
        }
        if self.role.serves_minor_0() {
            self.expire_0().await;
        }
    }

    /// This service with further programs beside NFSv4.
    pub fn with_programs(self: Arc<Self>, programs: Vec<Arc<dyn DynProgram>>) -> Programs<R> {
        Programs {
            nfsd: self,
            programs,
        }
    }
}

impl<R: Role> Program for Nfsd<R> {
    fn number(&self) -> u32 {
        nfs4::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        nfs4::VERSION..=nfs4::VERSION
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let refuse = |stat: AuthStat| {
            Counters::add(&self.counters.refused);
            call.refuse(Rejection::Auth(stat))
        };
        let user = match Credential::parse(&call.header.credential).and_then(User::of) {
            Ok(user) => user,
            Err(stat) => return refuse(stat),
        };
        match call.header.procedure {
            PROC_NULL => {
                let mut e = Encoder::new();
                user.seal().begin(&mut e, call.header.xid);
                Some(e.into())
            }
            PROC_COMPOUND => {
                let began = Instant::now();
                self.role.prepare(&user).await;
                match self.role.admit(call.conn, &user) {
                    Err(stat) => refuse(stat),
                    Ok(actor) => {
                        let (xid, who) = (call.header.xid, (actor, user, began));
                        let done = self.compound(call.conn, xid, who, call.record, call.args);
                        done.await
                    }
                }
            }
            _ => call.refuse(AcceptError::ProcUnavail),
        }
    }

    fn note(&self, fault: ProgramFault) {
        Counters::add(match fault {
            ProgramFault::Refused => &self.counters.refused,
            ProgramFault::Malformed => &self.counters.malformed,
        });
    }
}

impl<R: Role> Service for Nfsd<R> {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut args = Decoder::new(&record);
        let header = match rpc_service::open(self, &[], conn, &mut args) {
            Ok((header, Whose::First)) => header,
            Ok((_, Whose::Other(_))) => return None,
            Err(answer) => return answer,
        };
        let call = Call {
            conn,
            record: &record,
            header: &header,
            args,
        };
        Program::call(self, call).await
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
        self.minor_0().callers.forget(conn.id());
    }

    fn credits_short(&self, conn: &ConnHandle) {
        self.clients.credits_short(conn);
    }
}

/// NFSv4 and further programs on the same connections.
pub struct Programs<R: Role> {
    nfsd: Arc<Nfsd<R>>,
    programs: Vec<Arc<dyn DynProgram>>,
}

impl<R: Role> Service for Programs<R> {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut args = Decoder::new(&record);
        let opened = rpc_service::open(&*self.nfsd, &self.programs, conn, &mut args);
        let (header, whose) = match opened {
            Ok(opened) => opened,
            Err(answer) => return answer,
        };
        let call = Call {
            conn,
            record: &record,
            header: &header,
            args,
        };
        match whose {
            Whose::First => Program::call(&*self.nfsd, call).await,
            Whose::Other(program) => program.call_boxed(call).await,
        }
    }

    fn admits(&self, peer: &Endpoint) -> bool {
        self.nfsd.admits(peer)
    }

    fn connected(&self, conn: &ConnHandle) {
        self.nfsd.connected(conn);
    }

    fn disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.nfsd.disconnected(conn, reason);
    }

    fn credits_short(&self, conn: &ConnHandle) {
        self.nfsd.credits_short(conn);
    }
}
