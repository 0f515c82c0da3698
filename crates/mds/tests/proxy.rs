//! Goal: clients without layouts read and write the same bytes as clients with them, and the write verifier changes when
//! that of any data server does (design D4, rule R11).
//! Method: a metadata server and real data servers over stores in memory, in one process, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use control::{JoinSecret, StoreIdentity};
use ds::{Ds, DsConfig, Membership};
use meta::MemStore;
use nfs4::attr;
use nfs4::layout::LAYOUT_NFSV4_1_FILES;
use nfs4::ops::{
    CommitArgs, CommitRes, GetAttrArgs, GetAttrRes, PutFhArgs, PutFhRes, ReadArgs, ReadRes,
    WriteArgsPayload, WriteRes,
};
use nfs4::{
    Bitmap, IoMode, MdsThreshold, NfsStatus, NfsTime, StableHow, Stateid, Thresholds, Verifier,
};
use objects::{MemObjects, ObjectStore};
use rig::cluster::{Port, addresses, join};
use rig::file::{File, patiently};
use rig::{Client, Rig};
use ropewalk_mds::data::add_token;
use session_client::{Caller, Session, SessionConfig};
use state::ClientLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use transport::workers::Shutdown;
use transport::{Address, Context, Limits, Payload};
use xdr::Opaque;

/// A data server and what it keeps over a restart.
struct Real {
    name: String,
    index: Arc<MemStore>,
    objects: Arc<dyn ObjectStore>,
    membership: Option<Membership>,
    running: Option<(Shutdown, tokio::task::JoinHandle<()>)>,
}

fn random(seed: u64) -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let state = AtomicU64::new(seed);
    Arc::new(move || {
        let x = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

impl Real {
    fn new(number: u8) -> Self {
        Self {
            name: format!("ds{number}"),
            index: Arc::new(MemStore::new()),
            objects: Arc::new(MemObjects::new(objects::MemOptions::default())),
            membership: None,
            running: None,
        }
    }

    async fn start(&mut self, rig: &Rig, port: &Port, seed: u64) {
        let config = DsConfig {
            index: self.index.clone(),
            objects: Arc::clone(&self.objects),
            random: random(seed),
            clock: Arc::new(|| NfsTime {
                seconds: 2_000_000,
                nanoseconds: 0,
            }),
            offload: false,
            peers: None,
            clients: ClientLimits::default(),
        };
        let nfsd = Ds::open(config).await.unwrap();
        let membership = match self.membership {
            Some(membership) => membership,
            None => {
                let secret = JoinSecret([u8::try_from(seed).unwrap(); 16]);
                add_token(&rig.nfsd, &secret, 60_000).await.unwrap();
                let store = StoreIdentity {
                    store_id: nfsd.role().store_id(),
                    counter: 1,
                    changes: 0,
                };
                let ok = join(rig, &self.name, secret, store).await.unwrap();
                Membership {
                    cluster_id: ok.cluster_id,
                    ds_id: ok.ds_id,
                }
            }
        };
        self.membership = Some(membership);
        port.admit(&self.name, membership.ds_id);
        let shutdown = Shutdown::new();
        let listener = rig.network.listen(&self.name).unwrap();
        let context = Context::new(Limits::default());
        tokio::spawn(listener.serve(nfsd.clone(), context, shutdown.signal()));
        let config = ds::link::LinkConfig {
            membership,
            connector: Arc::new(
                rig.network
                    .connector(&self.name, Context::new(Limits::default())),
            ),
            mds: vec![Address::Memory("control".into())],
            advertise: addresses(&self.name),
        };
        let link = tokio::spawn(async move {
            ds::link::run(nfsd, config).await;
        });
        self.running = Some((shutdown, link));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    /// As a crash, but for what was synced: the stores in memory keep all.
    async fn stop(&mut self) {
        let (shutdown, link) = self.running.take().unwrap();
        link.abort();
        shutdown.trigger();
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
}

async fn cluster(servers: u8) -> (Rig, Port, Vec<Real>) {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let mut all = Vec::new();
    for number in 1..=servers {
        let mut real = Real::new(number);
        real.start(&rig, &port, u64::from(number)).await;
        all.push(real);
    }
    (rig, port, all)
}

async fn try_write(
    file: &File<'_>,
    offset: u64,
    stable: StableHow,
    bytes: &[u8],
) -> Result<WriteRes, NfsStatus> {
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    let Client { session, caller } = file.client;
    let done = session
        .compound(caller, &|b| {
            b.push(&PutFhArgs {
                object: Opaque(&file.fh.0),
            });
            let len = u32::try_from(bytes.len()).unwrap();
            b.push(&WriteArgsPayload {
                stateid: file.open,
                offset,
                stable,
                len,
            });
            vec![Payload::Bytes(bytes.clone())]
        })
        .await
        .unwrap();
    let mut reply = rig::after_putfh(&done);
    reply.take::<WriteRes>().map_err(|e| e.status().unwrap())
}

async fn write(file: &File<'_>, offset: u64, stable: StableHow, bytes: &[u8]) -> WriteRes {
    patiently(|| try_write(file, offset, stable, bytes))
        .await
        .unwrap()
}

async fn try_read(file: &File<'_>, offset: u64, count: u32) -> Result<(Vec<u8>, bool), NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&ReadArgs {
                stateid: file.open,
                offset,
                count,
            });
        })
        .await;
    let mut reply = rig::after_putfh(&done);
    let res = reply
        .take::<ReadRes<'_>>()
        .map_err(|e| e.status().unwrap())?;
    Ok((res.data.0.to_vec(), res.eof))
}

async fn read(file: &File<'_>, offset: u64, count: u32) -> (Vec<u8>, bool) {
    patiently(|| try_read(file, offset, count)).await.unwrap()
}

async fn try_commit(file: &File<'_>) -> Result<Verifier, NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&CommitArgs {
                offset: 0,
                count: 0,
            });
        })
        .await;
    let mut reply = rig::after_putfh(&done);
    let res = reply.take::<CommitRes>().map_err(|e| e.status().unwrap())?;
    Ok(res.write_verifier)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_written_through_the_mds_is_striped_and_read_back_with_holes_as_zeros() {
    let (rig, _port, servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let bytes = pattern(40_000);
    let wrote = write(&file, 10_000, StableHow::Unstable, &bytes).await;
    assert_eq!(wrote.count, 40_000);
    assert_eq!(
        patiently(|| try_commit(&file)).await.unwrap(),
        wrote.write_verifier
    );
    assert_eq!(file.try_attrs().await.unwrap().0, 50_000);
    for real in &servers {
        let mut objects = 0;
        real.objects
            .list(&mut |_, _| {
                objects += 1;
                true
            })
            .unwrap();
        assert_eq!(objects, 1, "{} has its share", real.name);
    }
    let (got, eof) = read(&file, 0, 60_000).await;
    assert!(eof);
    assert_eq!(got.len(), 50_000);
    assert!(got[..10_000].iter().all(|b| *b == 0));
    assert_eq!(got[10_000..], bytes);
    let (got, eof) = read(&file, 12_345, 100).await;
    assert_eq!((&got[..], eof), (&bytes[2345..2445], false));

    // A stable write needs no COMMIT, and is no more than was asked for.
    let wrote = write(&file, 0, StableHow::FileSync, &bytes[..10]).await;
    assert_eq!(wrote.committed, StableHow::FileSync);
    let wrote = write(&file, 0, StableHow::Unstable, &bytes[..10]).await;
    assert_eq!(wrote.committed, StableHow::Unstable);

    // What was cut stays cut when the file grows again.
    patiently(|| file.try_truncate(20_000)).await.unwrap();
    patiently(|| file.try_truncate(30_000)).await.unwrap();
    let (got, eof) = read(&file, 15_000, 60_000).await;
    assert!(eof);
    assert_eq!(got.len(), 15_000);
    assert_eq!(got[..5000], bytes[5000..10_000]);
    assert!(got[5000..].iter().all(|b| *b == 0));
    let status = rig.nfsd.role().data().status();
    assert_eq!(status.proxied_written_bytes, 40_020);
}

#[tokio::test(start_paused = true)]
async fn a_write_beyond_the_limit_is_a_short_one() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let limit = 1 << 20;
    // RFC 8881 §18.32.3: the server may write fewer bytes, and the client goes on behind them.
    let wrote = write(&file, 0, StableHow::FileSync, &pattern(limit + 3000)).await;
    assert_eq!(wrote.count as usize, limit);
    assert_eq!(file.try_attrs().await.unwrap().0, limit as u64);
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_restarts_between_write_and_commit_changes_the_verifier() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let wrote = write(&file, 0, StableHow::Unstable, &pattern(9000)).await;
    let same = write(&file, 0, StableHow::Unstable, &pattern(9000)).await;
    assert_eq!(same.write_verifier, wrote.write_verifier);
    servers[1].stop().await;
    assert_eq!(try_commit(&file).await, Err(NfsStatus::Delay), "it is away");
    servers[1].start(&rig, &port, 99).await;
    let after = patiently(|| try_commit(&file)).await.unwrap();
    assert_ne!(after, wrote.write_verifier, "the client must write again");
    let again = write(&file, 0, StableHow::Unstable, &pattern(9000)).await;
    assert_eq!(
        patiently(|| try_commit(&file)).await.unwrap(),
        again.write_verifier
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_layout_writes_to_the_data_server_until_it_is_fenced() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let config = SessionConfig {
        addresses: vec![Address::Memory("ds1".into())],
        role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
        ..alice.session.config().clone()
    };
    let connector = rig
        .network
        .connector("alice", Context::new(Limits::default()));
    let direct = Session::new(Arc::new(connector), config);
    direct.establish().await.unwrap();
    let handle = granted.body.file_handles.0[0].clone();
    let bytes = bytes::Bytes::from(pattern(5000));
    let put = |stable| direct_write(&direct, &alice.caller, &handle, file.open, stable, &bytes);
    assert_eq!(
        put(StableHow::Unstable).await.unwrap().committed,
        StableHow::Unstable
    );
    assert_eq!(
        file.try_attrs().await.unwrap().0,
        0,
        "nobody has told the metadata server"
    );
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    let (got, eof) = read(&file, 0, 10_000).await;
    assert!(eof);
    assert_eq!(got, bytes);
    // A LAYOUTCOMMIT from before his own cut does not bring back what it cut off; what he writes after it counts.
    patiently(|| file.try_truncate(10)).await.unwrap();
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 10);
    put(StableHow::Unstable).await.unwrap();
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);
    // His own cut leaves his layout alone, and FILE_SYNC tells the metadata server by itself (R2).
    patiently(|| file.try_truncate(10)).await.unwrap();
    assert_eq!(
        put(StableHow::FileSync).await.unwrap().committed,
        StableHow::FileSync
    );
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);
    // Somebody else's cut fences it, since he answers no recall.
    let bob = rig.session("bob").await;
    let bobs = File::create(&bob, "f").await;
    patiently(|| bobs.try_truncate(10)).await.unwrap();
    assert_eq!(
        put(StableHow::FileSync).await,
        Err(NfsStatus::PnfsNoLayout),
        "fenced by the cut"
    );
    let fresh = file.layout(IoMode::Rw).await.body.file_handles.0[0].clone();
    let stable = StableHow::FileSync;
    let wrote = direct_write(&direct, &alice.caller, &fresh, file.open, stable, &bytes).await;
    assert_eq!(wrote.unwrap().committed, StableHow::FileSync);
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);
}

async fn threshold(client: &Client, fh: &nfs4::FileHandle) -> Option<MdsThreshold> {
    let want = Bitmap::of(&[attr::MDSTHRESHOLD, attr::SUPPORTED_ATTRS]);
    let done = client
        .on(fh, |b| {
            b.push(&GetAttrArgs { attr_request: want });
        })
        .await;
    let res = rig::after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
    let attrs = res.attributes.attrs().unwrap();
    let supported = attrs.supported_attrs.unwrap();
    assert!(supported.contains(attr::MDSTHRESHOLD));
    attrs.mdsthreshold
}

#[tokio::test(start_paused = true)]
async fn a_file_tells_below_which_size_it_is_to_be_written_through_the_mds() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let told = threshold(&alice, &file.fh).await.unwrap();
    let expected = Thresholds {
        write_file_bytes: Some(rig::MDS_THRESHOLD_BYTES),
        write_io_bytes: Some(rig::MDS_THRESHOLD_BYTES),
        ..Thresholds::default()
    };
    assert_eq!(told.items.0.len(), 1);
    assert_eq!(Thresholds::of(&told, LAYOUT_NFSV4_1_FILES), Ok(expected));
    let root = alice.lookup(&[]).await.unwrap();
    let of_directory = threshold(&alice, &root).await.unwrap();
    assert!(of_directory.items.0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_one_client_writes_through_the_mds_and_another_by_a_layout_is_all_there() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let holder = format!("ds{}", granted.body.first_stripe_index + 1);
    let config = SessionConfig {
        addresses: vec![Address::Memory(holder)],
        role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
        ..alice.session.config().clone()
    };
    let connector = rig
        .network
        .connector("alice", Context::new(Limits::default()));
    let direct = Session::new(Arc::new(connector), config);
    direct.establish().await.unwrap();
    let handle = granted.body.file_handles.0[0].clone();
    let first = bytes::Bytes::from(pattern(1000));
    let unstable = StableHow::Unstable;
    let mine = direct_write(&direct, &alice.caller, &handle, file.open, unstable, &first);
    mine.await.unwrap();
    // His bytes lie behind hers, on both data servers.
    let bobs = File::create(&bob, "f").await;
    let second = pattern(6000);
    let wrote = write(&bobs, 1000, StableHow::FileSync, &second).await;
    assert_eq!(wrote.committed, StableHow::FileSync);
    assert_eq!(bobs.try_attrs().await.unwrap().0, 7000);
    file.layout_commit(granted.stateid, 1000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 7000, "it never shrinks");
    let (got, eof) = read(&file, 0, 10_000).await;
    assert!(eof);
    assert_eq!((&got[..1000], &got[1000..]), (&first[..], &second[..]));
}

async fn direct_write(
    session: &Session,
    caller: &Caller,
    handle: &nfs4::FileHandle,
    open: Stateid,
    stable: StableHow,
    bytes: &bytes::Bytes,
) -> Result<WriteRes, NfsStatus> {
    let stateid = Stateid {
        seqid: 0,
        other: open.other,
    };
    let done = session
        .compound(caller, &|b| {
            b.push(&PutFhArgs {
                object: Opaque(&handle.0),
            });
            let len = u32::try_from(bytes.len()).unwrap();
            b.push(&WriteArgsPayload {
                stateid,
                offset: 0,
                stable,
                len,
            });
            vec![Payload::Bytes(bytes.clone())]
        })
        .await
        .unwrap();
    let mut reply = done.results().unwrap();
    reply.take::<PutFhRes>().map_err(|e| e.status().unwrap())?;
    reply.take::<WriteRes>().map_err(|e| e.status().unwrap())
}
