//! A data server without data. It joins over TLS with a token, and says HELLO and HEARTBEAT. It answers the metadata server as a
//! data server on which nothing was ever written. No client reaches it.

use crate::load::Tally;
use bytes::Bytes;
use cluster_tls::{Identity, JoinToken, NewKey};
use control::{
    Answer, Capacity, CommitOk, HeartbeatArgs, HelloArgs, HelloOk, ItemStatuses, JoinArgs, NetAddr,
    ObjectRef, Request, RowsOk, StatItem, StatOk, Status, StoreIdentity, Text, ToDs, VersionRange,
};
use nfs4::{NfsTime, Verifier};
use rpc::OpaqueAuth;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::tcp::TcpConnector;
use transport::{
    Address, CloseReason, ConnHandle, Connector, Context, Message, NoService, Service,
    TransportLimits,
};
use xdr::{Decoder, Encode, Encoder, List};

/// How long a call may take.
const CALL_MAX: Duration = Duration::from_secs(30);
/// The size that it says it has; none of it is used.
const ROOM_BYTES: u64 = 1 << 40;

/// Why a data server failed, in words.
pub(super) type Failed = String;

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> Failed {
    move |e| format!("cannot {doing}: {e}")
}

/// What it answers with.
struct Calls;

impl Service for Calls {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        // What cannot be read ends the connection, as at a data server.
        let header = rpc::CallHeader::decode(&mut d).ok()?;
        let call = ToDs::decode(header.procedure, d.rest()).ok()?;
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        answer(call, &mut e);
        Some(e.into())
    }
}

fn all(statuses: usize, status: Status) -> ItemStatuses {
    vec![status; statuses].into()
}

fn answer(call: ToDs, e: &mut Encoder) {
    match call {
        ToDs::Stat(args) => {
            let items: Vec<_> = args.objects.0.iter().map(nothing).collect();
            let items = items.into();
            Answer::Ok(StatOk { items }).encode(e);
        }
        ToDs::Commit(args) => {
            let verifier = Verifier { bytes: [7; 8] };
            let statuses = all(args.objects.0.len(), Status::Ok);
            Answer::Ok(CommitOk { verifier, statuses }).encode(e);
        }
        ToDs::SetSize(args) => Answer::Ok(all(args.items.0.len(), Status::Ok)).encode(e),
        ToDs::Rows(_) => Answer::Ok(RowsOk {
            newer: List::default(),
        })
        .encode(e),
        ToDs::Remove(args) => Answer::Ok(all(args.items.0.len(), Status::Ok)).encode(e),
        _ => Answer::Ok(()).encode(e),
    }
}

fn nothing(_: &ObjectRef) -> StatItem {
    StatItem {
        status: Status::NotFound,
        size_bytes: 0,
        durable_bytes: 0,
        space_bytes: 0,
        modified: NfsTime::default(),
    }
}

async fn call<R: Request>(conn: &ConnHandle, args: &R) -> Result<R::Ok, Failed> {
    let record = conn.call(control::encode_call(args).into(), CALL_MAX).await;
    let record = record.map_err(|e| format!("no answer: {e:?}"))?;
    control::read_reply::<R>(&record).map_err(failed("go on"))
}

/// A member of the cluster that has not said HELLO.
pub(super) struct LightDs {
    identity: Identity,
    cluster_id: u64,
    ds_id: u32,
    store: StoreIdentity,
    address: NetAddr,
    mds: Address,
}

impl LightDs {
    fn capacity(&self) -> Capacity {
        capacity(self.store.store_id)
    }

    /// JOIN with a token, on a connection of its own.
    pub(super) async fn join(token: &JoinToken) -> Result<Self, Failed> {
        let key = NewKey::generate().map_err(failed("make a key"))?;
        let store_id = getrandom::u64().map_err(failed("draw an id"))?;
        let store = StoreIdentity {
            store_id,
            counter: 1,
            changes: 0,
        };
        let told = token.addresses.0.first();
        let told: SocketAddr = told
            .and_then(|a| a.as_str().parse().ok())
            .ok_or("a token without a socket address")?;
        let mds = Address::Tls {
            address: told,
            server_name: cluster_tls::mds_name().to_str().into_owned(),
        };
        // Of its own, so that groups and devices have as many addresses as servers.
        let [a, b, ..] = store_id.to_be_bytes();
        let address = NetAddr {
            netid: Text::cut("tcp"),
            uaddr: Text::cut(&format!("127.1.{a}.{b}.8.1")),
        };
        let args = JoinArgs {
            versions: VersionRange::OURS,
            secret: token.secret.clone(),
            public_key: key.public_key().into(),
            store,
            addresses: vec![address.clone()].into(),
            capacity: capacity(store_id),
        };
        let tls = cluster_tls::join_config(token.ca).map_err(failed("set up TLS"))?;
        let connector =
            TcpConnector::with_tls(Context::new(TransportLimits::default()), Arc::new(tls));
        let conn = connector.connect(&mds, NoService::shared()).await;
        let conn = conn.map_err(failed("connect to join"))?;
        let joined = call(&conn, &args).await;
        conn.close(CloseReason::Asked);
        let ok = joined?;
        let certificates = (ok.certificate.0.into(), ok.ca_certificate.0.into());
        let identity = key.complete(certificates.0, certificates.1, token.ca);
        Ok(Self {
            identity: identity.map_err(failed("take the certificate"))?,
            cluster_id: ok.cluster_id,
            ds_id: ok.ds_id,
            store,
            address,
            mds,
        })
    }

    /// HELLO, with the connection that it holds on.
    pub(super) async fn say_hello(&self) -> Result<(ConnHandle, HelloOk), Failed> {
        let tls = cluster_tls::client_config(&self.identity).map_err(failed("set up TLS"))?;
        let connector =
            TcpConnector::with_tls(Context::new(TransportLimits::default()), Arc::new(tls));
        let conn = connector.connect(&self.mds, Arc::new(Calls)).await;
        let conn = conn.map_err(failed("connect"))?;
        let args = HelloArgs {
            versions: VersionRange::OURS,
            cluster_id: self.cluster_id,
            ds_id: self.ds_id,
            store: self.store,
            boot_nonce: [1; 16],
            addresses: vec![self.address.clone()].into(),
            capacity: self.capacity(),
            location: Text::default(),
            groups: Vec::new().into(),
        };
        let ok = call(&conn, &args).await?;
        Ok((conn, ok))
    }
}

fn capacity(store_id: u64) -> Capacity {
    Capacity {
        total_bytes: ROOM_BYTES,
        free_bytes: ROOM_BYTES,
        unused_bytes: ROOM_BYTES,
        object_bytes_max: i64::MAX as u64,
        disk: store_id,
        objects_count: 0,
    }
}

/// Says HEARTBEAT as often as it was told, for ever, and notes how long each takes.
pub(super) async fn beat(
    conn: ConnHandle,
    ok: HelloOk,
    store_id: u64,
    tally: Rc<RefCell<Tally>>,
) -> Failed {
    let pause = Duration::from_millis(u64::from(ok.heartbeat_ms.min(ok.lease_ms / 3)));
    let args = HeartbeatArgs {
        capacity: capacity(store_id),
        ..HeartbeatArgs::default()
    };
    loop {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        if let Err(why) = call(&conn, &args).await {
            return why;
        }
        tally.borrow_mut().add(0, start.elapsed());
    }
}

impl LightDs {
    /// The id of its store.
    pub(super) const fn store_id(&self) -> u64 {
        self.store.store_id
    }
}
