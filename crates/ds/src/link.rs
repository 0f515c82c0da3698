//! The control connection to the MDS: HELLO, heartbeats, and the MDS's calls on the way back.
//!
//! [`run`] keeps one connection, and comes back only when the data server shall stop. The connector is handed in: TLS with the
//! cluster's identity in a daemon, memory in the simulator. It proves that the other side is the MDS.
//!
//! # Ordering
//! The lease counts from when HELLO or HEARTBEAT was sent. Calls of the MDS that come before HELLO's answer was taken
//! wait for it. Three things come before anything is served. The keys and the cluster floor of HELLO are durable, as
//! are the announced pages of floors. Older I/O has ended.
//!
//! # Failure
//! A broken connection is made again with growing pauses. Serving goes on until the lease ends; after that, or after
//! HELLO, only a complete HELLO brings it back.

use std::sync::Arc;
use std::time::Duration;

use control::{
    HelloArgs, HelloOk, LOCATION_BYTES_MAX, NetAddr, ReplyError, Request, Status, StoreIdentity,
    Text, VersionRange,
};
use layout::Floor;
use server::Nfsd;
use tokio::sync::watch;
use tokio::time::Instant;
use transport::{Address, CloseReason, ConnHandle, Connector};

use crate::calls::Calls;
use crate::fault::status_of;
pub use crate::link_end::LinkEnd;
use crate::{Ds, LinkError, Membership};

/// How long HELLO may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before another connection, doubled up to the longest.
const PAUSE_MS: u64 = 50;
const PAUSE_MS_MAX: u64 = 5_000;
/// Heartbeats are never more frequent than this.
const HEARTBEAT_MS_MIN: u64 = 10;
/// How long the reply to EXPEL or SHUTDOWN may take to leave.
const LAST_REPLY: Duration = Duration::from_millis(200);

/// How to reach the MDS, and as whom.
#[derive(Clone)]
pub struct LinkConfig {
    /// Who the data server is.
    pub membership: Membership,
    /// Makes connections that prove both ends.
    pub connector: Arc<dyn Connector>,
    /// Control addresses of the MDS, preferred first.
    pub mds: Vec<Address>,
    /// Where clients reach this server; at most [`control::ADDRESSES_MAX`] are told.
    pub advertise: Vec<NetAddr>,
    /// The failure domain; empty for one of its own.
    pub location: Text<LOCATION_BYTES_MAX>,
}

/// Stays connected to the MDS until the data server shall stop.
pub async fn run(nfsd: Arc<Nfsd<Ds>>, config: LinkConfig) -> LinkEnd {
    let ds = nfsd.role();
    ds.gate.set_membership(config.membership);
    let mut nonce = [0; 16];
    for half in nonce.chunks_mut(8) {
        half.copy_from_slice(&(ds.random)().to_be_bytes());
    }
    let mut pause_ms = PAUSE_MS;
    loop {
        for address in &config.mds {
            match once(&nfsd, &config, address, nonce).await {
                Ok(end) => return end,
                Err(Ended::Served(error)) => {
                    tracing::warn!(%address, "lost the MDS: {error}");
                    pause_ms = PAUSE_MS;
                }
                Err(Ended::Failed(LinkError::Refused(refusal))) if is_final(refusal.status) => {
                    ds.gate.expel();
                    return LinkEnd::Refused(refusal);
                }
                Err(Ended::Failed(error)) => tracing::warn!(%address, "no MDS: {error}"),
            }
        }
        let jitter = (ds.random)() % (pause_ms / 2 + 1);
        tokio::time::sleep(Duration::from_millis(pause_ms + jitter)).await;
        pause_ms = (pause_ms * 2).min(PAUSE_MS_MAX);
    }
}

/// How a connection ended.
enum Ended {
    /// Before HELLO was done.
    Failed(LinkError),
    /// After it.
    Served(LinkError),
}

/// Refusals that do not go away by themselves.
const fn is_final(status: Status) -> bool {
    matches!(
        status,
        Status::UnsupportedVersion
            | Status::WrongCluster
            | Status::UnknownServer
            | Status::StoreSwapped
            | Status::StoreRolledBack
            | Status::Expelled
    )
}

/// One connection, from its beginning to its end.
async fn once(
    nfsd: &Arc<Nfsd<Ds>>,
    config: &LinkConfig,
    address: &Address,
    nonce: [u8; 16],
) -> Result<LinkEnd, Ended> {
    let ds = nfsd.role();
    let (ready, ready_seen) = watch::channel(false);
    let (end, mut end_seen) = watch::channel(None);
    let calls = Arc::new(Calls::new(Arc::clone(nfsd), ready_seen, end));
    let connected = config.connector.connect(address, calls).await;
    let conn = connected.map_err(|e| Ended::Failed(LinkError::Connect(e)))?;
    let close = |error| {
        conn.close(CloseReason::Asked);
        error
    };
    let hello = hello(ds, &conn, config, nonce).await;
    let ok = hello.map_err(|e| Ended::Failed(close(e)))?;
    let _ = ready.send(true);
    tracing::info!(%address, ds_id = config.membership.ds_id, "said HELLO to the MDS");
    let mut pause = heartbeat_pause(ok.heartbeat_ms, ok.lease_ms);
    let mut timeout = heartbeat_timeout(ok.lease_ms);
    loop {
        let since = Instant::now();
        tokio::select! {
            biased;
            end = told_to_end(&mut end_seen) => {
                let _ = tokio::time::timeout(LAST_REPLY, conn.closed()).await;
                conn.close(CloseReason::Asked);
                return Ok(end);
            }
            reason = conn.closed() => {
                let error = LinkError::Call(transport::CallError::Closed(reason));
                return Err(Ended::Served(error));
            }
            () = tokio::time::sleep(pause) => {}
            () = ds.announced.woken(since) => {}
        }
        match heartbeat(ds, &conn, timeout).await {
            Ok(lease_ms) => {
                pause = heartbeat_pause(ok.heartbeat_ms, lease_ms);
                timeout = heartbeat_timeout(lease_ms);
            }
            // An EXPEL may have come in between, and is the better reason.
            Err(error) if end_seen.borrow().is_none() => {
                let error = close(error);
                if matches!(&error, LinkError::Refused(r) if is_final(r.status)) {
                    return Err(Ended::Failed(error));
                }
                return Err(Ended::Served(error));
            }
            Err(_) => {}
        }
    }
}

/// Waits for EXPEL or SHUTDOWN.
async fn told_to_end(end: &mut watch::Receiver<Option<LinkEnd>>) -> LinkEnd {
    let told = end.wait_for(Option::is_some).await.ok();
    match told.and_then(|end| end.clone()) {
        Some(end) => end,
        // The connection is gone, and with it whoever could have said it.
        None => std::future::pending().await,
    }
}

/// A third of the lease, or more often when the MDS wants it.
fn heartbeat_pause(heartbeat_ms: u32, lease_ms: u32) -> Duration {
    let ms = u64::from(heartbeat_ms.min(lease_ms / 3));
    Duration::from_millis(ms.max(HEARTBEAT_MS_MIN))
}

/// How long the MDS may take to answer a heartbeat: it may wait for its disk.
fn heartbeat_timeout(lease_ms: u32) -> Duration {
    Duration::from_millis(u64::from(lease_ms / 3)).max(Duration::from_secs(1))
}

/// When the lease ends, by the lease clock.
fn lease_until(sent: Duration, lease_ms: u32) -> Duration {
    sent + Duration::from_millis(u64::from(lease_ms))
}

async fn hello(
    ds: &Ds,
    conn: &ConnHandle,
    config: &LinkConfig,
    nonce: [u8; 16],
) -> Result<HelloOk, LinkError> {
    let sent = ds.gate.lease_now();
    let mut addresses = config.advertise.clone();
    addresses.truncate(control::ADDRESSES_MAX as usize);
    let known = ds.index.group_versions();
    let args = HelloArgs {
        versions: VersionRange::OURS,
        cluster_id: config.membership.cluster_id,
        ds_id: config.membership.ds_id,
        store: ds.store_identity(),
        boot_nonce: nonce,
        addresses: addresses.into(),
        capacity: ds.capacity(),
        location: config.location.clone(),
        groups: known.map_err(|e| LinkError::Store(status_of(&e)))?.into(),
    };
    let ok = call(conn, &args, HELLO_TIMEOUT).await?;
    let counted = ds.index.changes.count_from_now(&*ds.index.store);
    counted.map_err(|e| LinkError::Store(status_of(&e)))?;
    ds.announced.note(args.store.changes);
    let ring = ok.keys.ring().map_err(LinkError::Keys)?;
    let until = lease_until(sent, ok.lease_ms);
    if !ds.gate.hello(conn, ok.proxy_client, until) {
        return Err(LinkError::NotConnected);
    }
    let tenure = ds.gate.tenure();
    ds.take_keys(ring).map_err(LinkError::Store)?;
    let floor = Floor::Cluster {
        epoch: ok.cluster_floor,
    };
    ds.raise_floors(&[floor]).await.map_err(LinkError::Store)?;
    if !ok.floors_pending {
        // All of it: what an earlier tenure let in must have ended too.
        ds.gate.drain_all().await;
        ds.gate.serve(tenure);
    }
    Ok(ok)
}

/// Returns the length of the renewed lease in milliseconds.
async fn heartbeat(ds: &Ds, conn: &ConnHandle, timeout: Duration) -> Result<u32, LinkError> {
    let sent = ds.gate.lease_now();
    let args = ds.heartbeat();
    let ok = call(conn, &args, timeout).await?;
    ds.announced.note(ok.changes);
    ds.sums.order(ok.scrub_order);
    ds.copies.fill_rate.set(ok.fill_bytes_per_s);
    if ok.cluster_floor > ds.gate.with_floors(|f| f.cluster()) {
        let floor = Floor::Cluster {
            epoch: ok.cluster_floor,
        };
        ds.raise_floors(&[floor]).await.map_err(LinkError::Store)?;
    }
    if !ds.gate.renew(conn, lease_until(sent, ok.lease_ms)) {
        return Err(LinkError::LeaseEnded);
    }
    Ok(ok.lease_ms)
}

/// Calls the MDS on `conn`.
pub(crate) async fn call<R: Request>(
    conn: &ConnHandle,
    args: &R,
    timeout: Duration,
) -> Result<R::Ok, LinkError> {
    let reply = conn.call(control::encode_call(args).into(), timeout).await;
    let record = reply.map_err(LinkError::Call)?;
    control::read_reply::<R>(&record).map_err(|error| match error {
        ReplyError::Malformed(error) => LinkError::Malformed(error),
        ReplyError::Verdict(verdict) => LinkError::Verdict(verdict),
        ReplyError::Refused(refusal) => LinkError::Refused(refusal),
    })
}

impl Ds {
    /// Calls the MDS on the connection that there is now.
    pub(crate) async fn call_mds<R: Request>(
        &self,
        args: &R,
        timeout: Duration,
    ) -> Result<R::Ok, LinkError> {
        let conn = self.gate.conn().ok_or(LinkError::NotConnected)?;
        call(&conn, args, timeout).await
    }

    pub(crate) fn store_identity(&self) -> StoreIdentity {
        StoreIdentity {
            store_id: self.index.store_id(),
            counter: self.index.counter(),
            changes: self.durable_changes(),
        }
    }
}
