//! The MDS's end of the control program: what data servers say (JOIN, HELLO, HEARTBEAT, SIZE, WROTE).
//!
//! [`ControlService`] is served over TLS with the cluster's configuration; who the peer is comes from a function, so
//! that a transport without TLS (tests, the simulator) can vouch for its peers itself.
//!
//! # Ordering
//! HELLO is answered first; then the floors that the data server missed are sent and acknowledged; only then it
//! counts as serving. An answer that tells of a transaction waits until that is durable (R7).
//!
//! # Failure
//! A data server whose lease has ended must say HELLO again: it gets what was fenced meanwhile before it serves.

use super::call::{DsError, call};
use super::keys::{self, HeldKeys};
use super::records::{self, Membership};
use super::servers::{HEARTBEAT_MS, Server};
use super::{fence, join};
use crate::Mds;
use cluster_tls::{Fingerprint, Peer, Role};
use control::{
    Answer, Caller, CommitArgs, FENCE_BATCH_MAX, FLOORS_PAGE_MAX, FloorsArgs, HeartbeatArgs,
    HeartbeatOk, HelloArgs, HelloOk, Refusal, Request, SizeArgs, SizeOk, Status, ToMds,
    VersionRange, WroteArgs,
};
use layout::{Epoch, Floor};
use meta::{MetaError, MetaStore, Seq};
use namespace::{Cred, FileId, NsError, Op, SizeCommit};
use server::Nfsd;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle, Message, Service};
use xdr::{Decoder, Encode, Encoder};

/// How often floors are offered to a data server that has not digested its HELLO yet.
const FLOORS_TRIES_MAX: u32 = 50;
/// Pause between two such tries.
const FLOORS_PAUSE_MS: u64 = 20;

/// What a data server is told whose store has gone back.
const ROLLED_BACK: &str = "the store is older than it was: was it restored from a backup?";

/// Says who the peer of a connection is.
pub type PeerOf = Arc<dyn Fn(&ConnHandle) -> Option<Peer> + Send + Sync>;

/// The peer of a TLS connection, by its certificate; `None` for a certificate that names no role.
pub fn tls_peer(conn: &ConnHandle) -> Option<Peer> {
    let certificate = conn
        .tls_identity()
        .map(|identity| identity.certificate_der.as_slice());
    cluster_tls::peer_of_der(certificate).ok()
}

/// Signs the certificates of data servers that join.
pub trait Issuer: Send + Sync + 'static {
    /// The certificate (DER) for the holder of `public_key`, or a sentence why not.
    ///
    /// # Errors
    /// The sentence.
    fn issue(&self, ds_id: u32, public_key: &[u8]) -> Result<Vec<u8>, String>;

    /// The CA's certificate (DER).
    fn ca_certificate(&self) -> Vec<u8>;
}

impl Issuer for cluster_tls::ClusterCa {
    fn issue(&self, ds_id: u32, public_key: &[u8]) -> Result<Vec<u8>, String> {
        let issued = Self::issue(self, Role::DataServer { ds_id }, public_key);
        issued.map(|der| der.to_vec()).map_err(|e| e.to_string())
    }

    fn ca_certificate(&self) -> Vec<u8> {
        self.certificate().to_vec()
    }
}

/// The control port of the MDS.
pub struct ControlService {
    nfsd: Arc<Nfsd<Mds>>,
    peer_of: PeerOf,
    issuer: Arc<dyn Issuer>,
}

impl ControlService {
    /// The service of one MDS. Over TLS `peer_of` is [`tls_peer`] and the issuer the cluster's CA.
    pub fn new(nfsd: Arc<Nfsd<Mds>>, peer_of: PeerOf, issuer: Arc<dyn Issuer>) -> Self {
        Self {
            nfsd,
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
                let result = join::join(&self.nfsd, &*self.issuer, args).await;
                Answer::from(result).encode(&mut e);
            }
            ToMds::Hello(args) => Answer::from(self.hello(conn, args).await).encode(&mut e),
            ToMds::Heartbeat(args) => {
                Answer::from(self.heartbeat(conn, &args).await).encode(&mut e);
            }
            ToMds::Size(args) => Answer::from(size(&self.nfsd, args).await).encode(&mut e),
            ToMds::Wrote(args) => Answer::from(wrote(&self.nfsd, args).await).encode(&mut e),
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
        let data = self.nfsd.role().data();
        let mut servers = data.servers.lock();
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

    async fn hello(&self, conn: &ConnHandle, args: HelloArgs) -> Result<HelloOk, Refusal> {
        let mds = self.nfsd.role();
        let data = mds.data();
        let version = VersionRange::OURS
            .common(args.versions)
            .ok_or_else(|| Refusal::new(Status::UnsupportedVersion, "no common version"))?;
        if args.cluster_id != mds.cluster_id() {
            return Err(Refusal::new(Status::WrongCluster, "another cluster"));
        }
        if data.fences.lock().has_overflowed(args.ds_id) {
            let why =
                "it missed more fences than are kept; it may come back once the keys have changed";
            return Err(Refusal::new(Status::TryLater, why));
        }
        let recognised = self.recognise(&args);
        if let Err(refusal) = &recognised
            && let Some(server) = data.servers.lock().map.get_mut(&args.ds_id)
        {
            tracing::warn!(ds = args.ds_id, %refusal, "HELLO refused");
            server.refused = Some(refusal.detail.as_str().to_owned());
        }
        let seq = recognised?;
        let failed = |_| Refusal::new(Status::Io, "the metadata store failed");
        mds.durable(seq).await.map_err(failed)?;
        let (keys, held) = data.keys.lock().to_send();
        let ok = HelloOk {
            version,
            cluster_floor: Epoch::boot_floor(mds.namespace().boot()),
            lease_ms: data.ds_lease_ms,
            heartbeat_ms: HEARTBEAT_MS.min(data.ds_lease_ms / 3),
            keys,
            proxy_client: data.proxy_tag,
            // Always: the last page's answer is how the MDS learns that the floor is in force.
            floors_pending: true,
        };
        self.connect(conn, &args, held);
        let (nfsd, conn, ds) = (Arc::clone(&self.nfsd), conn.clone(), args.ds_id);
        tokio::spawn(async move {
            if let Err(error) = bring_up(&nfsd, ds, &conn).await {
                tracing::warn!(ds, %error, "a data server did not take its floors");
                conn.close(CloseReason::Asked);
            }
        });
        Ok(ok)
    }

    /// Compares the store with what is known of it (R9), and stores what is new. With other addresses its groups get other
    /// device ids, since clients keep what they know of a device; Linux asks about a new one at its next LAYOUTGET, and
    /// takes CB_NOTIFY_DEVICEID (RFC 8881 §20.12) for no more than that.
    fn recognise(&self, args: &HelloArgs) -> Result<Seq, Refusal> {
        let mds = self.nfsd.role();
        let mut groups = mds.data().groups.lock();
        let mut servers = mds.data().servers.lock();
        let server = servers
            .map
            .get_mut(&args.ds_id)
            .ok_or_else(|| Refusal::new(Status::UnknownServer, "no data server has this id"))?;
        let mut record = server.record.clone();
        if args.store.store_id != record.store_id {
            let why = "the store is another one than the data server joined with";
            return Err(Refusal::new(Status::StoreSwapped, why));
        }
        if args.store.counter < record.counter || args.store.changes < server.changes {
            return Err(Refusal::new(Status::StoreRolledBack, ROLLED_BACK));
        }
        if server.is_taken(args.boot_nonce, Instant::now()) {
            let why = "a data server with this store is connected already: was the store copied?";
            return Err(Refusal::new(Status::TryLater, why));
        }
        let failed = |error: MetaError| {
            tracing::error!(%error, "data server record");
            Refusal::new(Status::Io, "the metadata store failed")
        };
        let store = &**mds.store();
        note_changes(store, args.ds_id, server, args.store.changes).map_err(failed)?;
        record.counter = args.store.counter;
        record.addresses.clone_from(&args.addresses);
        if record == server.record {
            return Ok(mds.store().applied());
        }
        let moved = record.addresses != server.record.addresses;
        let renewed = if moved {
            groups.renewed(args.ds_id)
        } else {
            Vec::new()
        };
        let stored = records::put_server(store, args.ds_id, &record, &renewed);
        let seq = stored.map_err(failed)?;
        groups.renew(&renewed);
        if moved {
            tracing::info!(
                ds = args.ds_id,
                groups = renewed.len(),
                "a data server moved"
            );
            server.session = None;
            // Nothing is granted under the new device ids before they are durable.
            server.serving = false;
        }
        server.record = record;
        Ok(seq)
    }

    fn connect(&self, conn: &ConnHandle, args: &HelloArgs, keys: HeldKeys) {
        let data = self.nfsd.role().data();
        let mut servers = data.servers.lock();
        let Some(server) = servers.map.get_mut(&args.ds_id) else {
            return;
        };
        if let Some(old) = server.conn.replace(conn.clone())
            && old != *conn
        {
            old.close(CloseReason::Asked);
        }
        if server.boot_nonce != args.boot_nonce {
            server.verifier = None;
        }
        server.serving = false;
        server.keys = keys;
        server.boot_nonce = args.boot_nonce;
        server.refused = None;
        server.renew(Instant::now(), data.ds_lease_ms);
        servers.note_capacity(args.ds_id, args.capacity);
        tracing::info!(ds = args.ds_id, peer = %conn.peer(), "data server said HELLO");
    }

    async fn heartbeat(
        &self,
        conn: &ConnHandle,
        args: &HeartbeatArgs,
    ) -> Result<HeartbeatOk, Refusal> {
        let mds = self.nfsd.role();
        let (changes, seq) = self.beat(conn, args)?;
        let failed = |_| Refusal::new(Status::Io, "the metadata store failed");
        mds.durable(seq).await.map_err(failed)?;
        if let Some((_, server)) = mds.data().servers.lock().by_conn(conn) {
            server.note_heard(Instant::now());
        }
        Ok(HeartbeatOk {
            lease_ms: mds.data().ds_lease_ms,
            cluster_floor: Epoch::boot_floor(mds.namespace().boot()),
            changes,
        })
    }

    /// Takes in a HEARTBEAT. Returns how many changes are known now, and what makes that durable.
    fn beat(&self, conn: &ConnHandle, args: &HeartbeatArgs) -> Result<(u64, Seq), Refusal> {
        let mds = self.nfsd.role();
        let data = mds.data();
        let now = Instant::now();
        let mut servers = data.servers.lock();
        let not_ready = |why| Refusal::new(Status::NotReady, why);
        let (id, server) = servers
            .by_conn(conn)
            .ok_or_else(|| not_ready("HELLO must come first"))?;
        if !server.has_lease(now) {
            // Others may have been granted what this data server's clients held.
            server.serving = false;
            return Err(not_ready("the lease has ended; say HELLO again"));
        }
        if args.changes < server.changes {
            return Err(Refusal::new(Status::StoreRolledBack, ROLLED_BACK));
        }
        if let Err(error) = note_changes(&**mds.store(), id, server, args.changes) {
            // The lease does not depend on it; the data server is told what was known before.
            tracing::warn!(ds = id, %error, "changes of a data server's store");
        }
        let known = (server.changes, server.changes_seq);
        server.counters = args.counters;
        server.floors_fill_percent = args.floors_fill_percent;
        server.renew(now, data.ds_lease_ms);
        server.note_heard(now);
        servers.note_capacity(id, args.capacity);
        Ok(known)
    }
}

/// Remembers how far a data server's store has come.
fn note_changes(
    store: &dyn MetaStore,
    id: u32,
    server: &mut Server,
    changes: u64,
) -> Result<(), MetaError> {
    if changes > server.changes {
        server.changes_seq = records::put_changes(store, id, changes)?;
        server.changes = changes;
    }
    Ok(())
}

/// Hands a data server the floors that it missed, learns its write verifier, and lets it count as serving. Keys that
/// changed since the answer to HELLO go first: floors that only retired ones need are not kept for it.
async fn bring_up(nfsd: &Arc<Nfsd<Mds>>, ds: u32, conn: &ConnHandle) -> Result<(), DsError> {
    let mds = nfsd.role();
    let data = mds.data();
    keys::bring_up(data, conn).await?;
    let epoch = Epoch::boot_floor(mds.namespace().boot());
    let mut floors = vec![Floor::Cluster { epoch }];
    floors.extend(data.fences.lock().all(ds));
    let pages: Vec<&[Floor]> = floors.chunks(FLOORS_PAGE_MAX as usize).collect();
    let last = pages.len() - 1;
    for (page, floors) in pages.into_iter().enumerate() {
        let args = FloorsArgs {
            page: u32::try_from(page).unwrap_or(u32::MAX),
            last: page == last,
            floors: floors.to_vec().into(),
        };
        offer(conn, &args).await?;
    }
    // FLOORS is durable when answered; FENCE also says that nothing which it forbids is still going on.
    for batch in floors.chunks(FENCE_BATCH_MAX as usize) {
        fence::send(conn, batch.to_vec()).await?;
        data.fences.lock().acked(ds, batch);
    }
    let commit = call(
        conn,
        &CommitArgs {
            objects: Vec::new().into(),
        },
    )
    .await?;
    keys::serve(data, conn, commit.verifier).await?;
    tracing::info!(ds, "data server serves");
    data.changed.notify_waiters();
    fence::deliver_all(nfsd);
    Ok(())
}

/// The first call may overtake the answer to HELLO: such a data server says that it is not ready.
pub(super) async fn offer<R>(conn: &ConnHandle, args: &R) -> Result<(), DsError>
where
    R: Request<Ok = ()> + Sync,
{
    let mut tries = 0;
    loop {
        tries += 1;
        match call(conn, args).await {
            Err(DsError::Refused(refusal))
                if refusal.status == Status::NotReady && tries < FLOORS_TRIES_MAX =>
            {
                tokio::time::sleep(Duration::from_millis(FLOORS_PAUSE_MS)).await;
            }
            result => return result,
        }
    }
}

fn refuse(error: &NsError) -> Refusal {
    match error {
        NsError::Stale | NsError::Inval => Refusal::new(Status::NotFound, "no such file"),
        NsError::NoSpace => Refusal::new(Status::NoSpace, "the metadata store is full"),
        NsError::FileTooBig => Refusal::new(Status::Invalid, "the file is too big"),
        error => {
            tracing::error!(%error, "control program");
            Refusal::new(Status::Io, "the metadata store failed")
        }
    }
}

async fn settle(mds: &Mds, op: &Op<'_>) -> Result<(), Refusal> {
    let failed = |_| Refusal::new(Status::Io, "the metadata store failed");
    mds.durable(op.observed()).await.map_err(failed)
}

/// SIZE (R8). Nothing may be kept: a reader that has seen a new size must find it at the data server.
async fn size(nfsd: &Nfsd<Mds>, args: SizeArgs) -> Result<SizeOk, Refusal> {
    let mds = nfsd.role();
    let file = FileId(args.file_id);
    if super::until_ready(nfsd, file).await.is_err() {
        return Err(Refusal::new(
            Status::TryLater,
            "the size is being recovered",
        ));
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let found = mds.namespace().resolve(&mut op, file, args.generation);
    settle(mds, &op).await?;
    let inode = found.map_err(|e| refuse(&e))?;
    Ok(SizeOk {
        size_bytes: inode.size,
        cache_ms: 0,
    })
}

/// WROTE (R2). It does not wait for a truncation: that waits for the write which asks this.
async fn wrote(nfsd: &Nfsd<Mds>, args: WroteArgs) -> Result<(), Refusal> {
    let mds = nfsd.role();
    let file = FileId(args.file_id);
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let ns = mds.namespace();
    let result = ns.resolve(&mut op, file, args.generation).and_then(|_| {
        let commit = SizeCommit {
            new_end: Some(args.end_offset),
            ..SizeCommit::default()
        };
        ns.commit_size(&mut op, file, commit)
    });
    super::space::note_space(nfsd, file);
    settle(mds, &op).await?;
    result.map(drop).map_err(|e| refuse(&e))
}

impl Service for ControlService {
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
        let data = self.nfsd.role().data();
        if let Some((ds, server)) = data.servers.lock().by_conn(conn) {
            server.conn = None;
            server.serving = false;
            tracing::warn!(ds, reason = reason.as_str(), "data server is gone");
        }
        data.changed.notify_waiters();
    }
}

fn error_reply(xid: u32, verdict: rpc::Verdict) -> Message {
    let mut e = Encoder::new();
    rpc::encode_error(&mut e, xid, verdict);
    e.into()
}
