//! The MDS's end of the control program: what data servers say (JOIN, HELLO, HEARTBEAT, SIZE, WROTE).
//!
//! [`ControlService`] is served over TLS with the cluster's configuration. A function says who the peer is: a transport
//! without TLS (tests, the simulator) can vouch for its peers itself.
//!
//! May call: the tables of the cluster, and [`Files`] for what concerns a file.

use crate::cluster::Cluster;
use crate::hello;
use crate::join::{self, Issuer};
use crate::records::Membership;
use bytes::Bytes;
use cluster_tls::{CertRole, Fingerprint, Peer};
use control::{
    AllowedCaller, Answer, ItemStatuses, Refusal, SizeArgs, SizeOk, Status, ToMds, WroteArgs,
};
use rpc_service::{Call, Program, Seal};
use std::ops::RangeInclusive;
use std::sync::Arc;
use transport::{CloseReason, ConnHandle, Message, Service};
use xdr::{Encode, Encoder};

/// Says who the peer of a connection is.
pub type PeerOf = Arc<dyn Fn(&ConnHandle) -> Option<Peer> + Send + Sync>;

/// The peer of a TLS connection, by its certificate; `None` for a certificate that names no role.
pub fn tls_peer(conn: &ConnHandle) -> Option<Peer> {
    let certificate = conn
        .tls_identity()
        .map(|identity| identity.certificate_der.as_slice());
    cluster_tls::peer_of_der(certificate).ok()
}

/// What data servers ask and tell of files.
pub trait Files: Send + Sync + 'static {
    /// SIZE (rule R8): the size of a file, which the data server must not keep.
    fn size(
        self: &Arc<Self>,
        args: SizeArgs,
    ) -> impl Future<Output = Result<SizeOk, Refusal>> + Send;

    /// WROTE (rule R2): stable writes reached `end_offset`. Answered when a restart cannot take that back (R21).
    fn wrote(&self, args: WroteArgs) -> impl Future<Output = Result<ItemStatuses, Refusal>> + Send;
}

/// The control port of the MDS.
pub struct ControlService<F> {
    cluster: Arc<Cluster>,
    files: Arc<F>,
    peer_of: PeerOf,
    issuer: Arc<dyn Issuer>,
}

impl<F: Files> ControlService<F> {
    /// The service of one cluster and its files. Over TLS `peer_of` is [`tls_peer`] and the issuer the cluster's CA.
    pub fn new(
        cluster: Arc<Cluster>,
        files: Arc<F>,
        peer_of: PeerOf,
        issuer: Arc<dyn Issuer>,
    ) -> Self {
        Self {
            cluster,
            files,
            peer_of,
            issuer,
        }
    }

    async fn execute(&self, conn: &ConnHandle, xid: u32, call: ToMds) -> Encoder {
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, xid);
        if let Err(refusal) = self.admit(conn, &call) {
            Answer::<()>::Refused(refusal).encode(&mut e);
            return e;
        }
        match call {
            ToMds::Null => {}
            ToMds::Join(args) => {
                let result = join::join(&self.cluster, &*self.issuer, args).await;
                Answer::from(result).encode(&mut e);
            }
            ToMds::Hello(args) => {
                Answer::from(hello::hello(&self.cluster, conn, args).await).encode(&mut e);
            }
            ToMds::Heartbeat(args) => {
                Answer::from(hello::heartbeat(&self.cluster, conn, &args).await).encode(&mut e);
            }
            ToMds::Size(args) => Answer::from(self.files.size(args).await).encode(&mut e),
            ToMds::Out(args) => Answer::from(self.cluster.out(conn, args).await).encode(&mut e),
            ToMds::Filled(args) => {
                Answer::from(self.cluster.filled(conn, args).await).encode(&mut e);
            }
            ToMds::Left(args) => Answer::from(self.cluster.left(conn, args).await).encode(&mut e),
            ToMds::Stopping(args) => {
                Answer::from(self.cluster.stopping(conn, args).await).encode(&mut e);
            }
            ToMds::Wrote(args) => Answer::from(self.files.wrote(args).await).encode(&mut e),
        }
        e
    }

    /// Who may say this: a member its own things, after HELLO; anybody else JOIN.
    fn admit(&self, conn: &ConnHandle, call: &ToMds) -> Result<(), Refusal> {
        let denied = |why| Err(Refusal::new(Status::Denied, why));
        match call.proc().caller() {
            AllowedCaller::Anyone => return Ok(()),
            AllowedCaller::DataServer => {}
            AllowedCaller::MetadataServer => return denied("this is a call to a data server"),
        }
        let Some(Peer::Member {
            role: CertRole::DataServer { ds_id },
            fingerprint,
        }) = (self.peer_of)(conn)
        else {
            return denied("a data server's certificate is needed");
        };
        let mut servers = self.cluster.servers.lock();
        let Some(server) = servers.map.get(&ds_id) else {
            return Err(Refusal::new(
                Status::UnknownServer,
                "no data server has this id",
            ));
        };
        if Fingerprint(server.record.fingerprint) != fingerprint {
            let why = "the certificate is not the one that the data server joined with";
            return Err(Refusal::new(Status::UnknownServer, why));
        }
        if server.record.membership == Membership::Expelled {
            return Err(Refusal::new(
                Status::Expelled,
                "the data server was expelled",
            ));
        }
        match call {
            ToMds::Hello(args) if args.ds_id != ds_id => denied("the id is not the certificate's"),
            ToMds::Hello(_) => Ok(()),
            _ if servers.by_conn(conn).is_some() => Ok(()),
            _ => Err(Refusal::new(Status::NotReady, "HELLO must come first")),
        }
    }
}

impl<F: Files> Program for ControlService<F> {
    fn number(&self) -> u32 {
        control::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        control::VERSION_MIN..=control::VERSION_MAX
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let Call { conn, header, .. } = &call;
        match ToMds::decode(header.procedure, call.args.rest()) {
            Ok(asked) => Some(self.execute(conn, header.xid, asked).await.into()),
            Err(refused) => {
                if conn.context().may_log() {
                    tracing::warn!(peer = %conn.peer(), %refused, "control call");
                }
                call.refuse(refused.accept_error())
            }
        }
    }
}

impl<F: Files> Service for ControlService<F> {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        rpc_service::serve(self, &[], conn, &record).await
    }

    fn disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        if let Some((ds, server)) = self.cluster.servers.lock().by_conn(conn) {
            server.conn = None;
            server.serving = false;
            tracing::warn!(ds, reason = reason.as_str(), "data server is gone");
        }
        self.cluster.changed.notify_waiters();
    }
}
