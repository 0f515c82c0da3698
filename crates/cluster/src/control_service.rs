//! The MDS's end of the control program: what data servers say (JOIN, HELLO, HEARTBEAT, SIZE, WROTE).
//!
//! [`ControlService`] is served over TLS with the cluster's configuration; who the peer is comes from a function, so
//! that a transport without TLS (tests, the simulator) can vouch for its peers itself.
//!
//! May call: the tables of the cluster, and [`Files`] for what concerns a file.

use crate::cluster::Cluster;
use crate::hello;
use crate::join::{self, Issuer};
use crate::records::Membership;
use cluster_tls::{Fingerprint, Peer, Role};
use control::{Answer, Caller, Refusal, SizeArgs, SizeOk, Status, ToMds, WroteArgs};
use std::sync::Arc;
use transport::{CloseReason, ConnHandle, Message, Service};
use xdr::{Decoder, Encode, Encoder};

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

    /// WROTE (rule R2): a stable write reached `end_offset`. Answered when that is durable.
    fn wrote(&self, args: WroteArgs) -> impl Future<Output = Result<(), Refusal>> + Send;
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

    async fn execute(&self, conn: &ConnHandle, call: ToMds) -> Encoder {
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, 0, rpc::OpaqueAuth::NONE);
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
                Answer::from(hello::hello(&self.cluster, conn, args).await).encode(&mut e)
            }
            ToMds::Heartbeat(args) => {
                Answer::from(hello::heartbeat(&self.cluster, conn, &args).await).encode(&mut e);
            }
            ToMds::Size(args) => Answer::from(self.files.size(args).await).encode(&mut e),
            ToMds::Wrote(args) => Answer::from(self.files.wrote(args).await).encode(&mut e),
        }
        e
    }

    /// Who may say this: a member its own things, after HELLO; anybody else JOIN.
    fn admit(&self, conn: &ConnHandle, call: &ToMds) -> Result<(), Refusal> {
        let denied = |why| Err(Refusal::new(Status::Denied, why));
        match call.proc().caller() {
            Caller::Anyone => return Ok(()),
            Caller::DataServer => {}
            Caller::MetadataServer => return denied("this is a call to a data server"),
        }
        let Some(Peer::Member {
            role: Role::DataServer { ds_id },
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

impl<F: Files> Service for ControlService<F> {
    async fn call(&self, conn: &ConnHandle, record: bytes::Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let (header, error) = match rpc::CallHeader::decode(&mut d) {
            Ok(header) => (header, control::admit(header.program, header.version).err()),
            Err(rpc::CallError::Refused { xid, verdict }) => {
                return Some(error_reply(xid, verdict));
            }
            Err(rpc::CallError::Malformed(error)) => {
                conn.close_with(CloseReason::MalformedMessage, error);
                return None;
            }
        };
        let call = match error {
            Some(refused) => Err(refused),
            None => ToMds::decode(header.procedure, d.rest()),
        };
        let mut message: Vec<u8> = match call {
            Err(refused) => {
                if conn.context().may_log() {
                    tracing::warn!(peer = %conn.peer(), %refused, "control call");
                }
                return Some(error_reply(header.xid, refused.accept_error().into()));
            }
            Ok(call) => self.execute(conn, call).await.into_bytes(),
        };
        message[..4].copy_from_slice(&header.xid.to_be_bytes());
        Some(Message::from_bytes(message))
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

fn error_reply(xid: u32, verdict: rpc::Verdict) -> Message {
    let mut e = Encoder::new();
    rpc::encode_error(&mut e, xid, verdict);
    e.into()
}
