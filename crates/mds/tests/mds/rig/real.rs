//! Real data servers over stores in memory, and what clients do with files on them.

use super::cluster::{Port, addresses, join};
use super::file::{File, patiently};
use super::{Client, Rig, after_putfh};
use ::cluster::add_token;
use control::{JoinSecret, StoreIdentity};
use ds::{Ds, DsConfig, Membership};
use meta::{MemStore, MetaStore};
use nfs4::ops::{
    CommitArgs, CommitRes, PutFhArgs, PutFhRes, ReadArgs, ReadRes, SaveFhArgs, SaveFhRes,
    WriteArgsPayload, WriteRes,
};
use nfs4::{CompoundBuilder, IoMode, NfsStatus, NfsTime, OpArgs, StableHow, Stateid, Verifier};
use objects::{MemObjects, ObjectStore};
use redo::RedoLog;
use server::Nfsd;
use session_client::{Caller, Outcome, Session, SessionConfig};
use state::ClientLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::workers::Shutdown;
use transport::{Address, Context, Payload, TransportLimits};
use xdr::Opaque;

/// A data server and what it keeps over a restart.
pub struct Real {
    pub name: String,
    /// Another address of it, if it has one.
    pub second_name: Option<String>,
    pub index: Arc<dyn MetaStore>,
    pub objects: Arc<dyn ObjectStore>,
    /// The log of its small stable writes, if it has one.
    pub redo: Option<Arc<dyn RedoLog>>,
    pub membership: Option<Membership>,
    /// Whether reads are compared with sums.
    pub verify_reads: bool,
    /// Its wall clock.
    pub clock_s: Arc<AtomicI64>,
    /// The server, while it runs.
    pub nfsd: Option<Arc<Nfsd<Ds>>>,
    /// What the metadata server refused it for, for good.
    pub refused: Arc<Mutex<Option<String>>>,
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
    pub fn new(number: u8) -> Self {
        Self {
            name: format!("ds{number}"),
            second_name: None,
            index: Arc::new(MemStore::new()),
            objects: Arc::new(MemObjects::new(objects::MemOptions::default())),
            redo: None,
            membership: None,
            verify_reads: false,
            clock_s: Arc::new(AtomicI64::new(2_000_000)),
            nfsd: None,
            refused: Arc::default(),
            running: None,
        }
    }

    /// What a copy of its directory has at this moment, at another machine or put aside.
    pub fn copied_to(&self, name: &str) -> Self {
        let objects = MemObjects::new(objects::MemOptions::default());
        let copy = &mut |id, stat: objects::ObjectStat| {
            let span = self
                .objects
                .read(id, 0, u32::try_from(stat.size_bytes).unwrap());
            objects
                .write(id, 0, &objects::whole(span.unwrap()).unwrap())
                .unwrap();
            objects.set_size(id, stat.size_bytes).unwrap();
            true
        };
        self.objects.list(copy).unwrap();
        Self {
            name: name.to_owned(),
            index: Arc::new(super::copy_of(&*self.index)),
            objects: Arc::new(objects),
            membership: self.membership,
            clock_s: Arc::clone(&self.clock_s),
            ..Self::new(0)
        }
    }

    fn config(&self, seed: u64) -> DsConfig {
        let clock_s = Arc::clone(&self.clock_s);
        DsConfig {
            index: Arc::clone(&self.index),
            objects: Arc::clone(&self.objects),
            redo: self.redo.clone(),
            random: random(seed),
            clock: Arc::new(move || NfsTime {
                seconds: clock_s.load(Ordering::Relaxed),
                nanoseconds: 0,
            }),
            lease_clock: ds::virtual_lease_clock(),
            offload: false,
            peers: None,
            clients: ClientLimits::default(),
            sums: ds::sums::SumsConfig {
                verify_reads: self.verify_reads,
                ..ds::sums::SumsConfig::default()
            },
        }
    }

    async fn join(&self, rig: &Rig, store_id: u64, seed: u64) -> Membership {
        let secret = JoinSecret([u8::try_from(seed).unwrap(); 16]);
        add_token(rig.nfsd.role().fs().cluster(), &secret, 60_000)
            .await
            .unwrap();
        let store = StoreIdentity {
            store_id,
            counter: 1,
            changes: 0,
        };
        let ok = join(rig, &self.name, secret, store).await.unwrap();
        Membership {
            cluster_id: ok.cluster_id,
            ds_id: ok.ds_id,
        }
    }

    pub async fn start(&mut self, rig: &Rig, port: &Port, seed: u64) {
        let config = self.config(seed);
        let nfsd = Ds::open(config).await.unwrap();
        self.nfsd = Some(Arc::clone(&nfsd));
        let membership = match self.membership {
            Some(membership) => membership,
            None => self.join(rig, nfsd.role().store_id(), seed).await,
        };
        self.membership = Some(membership);
        port.admit(&self.name, membership.ds_id);
        let shutdown = Shutdown::new();
        let context = Context::new(TransportLimits::default());
        let parts = ds::copies::PartsProgram::new(nfsd.clone());
        let served = Arc::new(nfsd.clone().with_programs(vec![parts]));
        let mut names = self.name.clone();
        for name in [Some(&self.name), self.second_name.as_ref()]
            .into_iter()
            .flatten()
        {
            let listener = rig.network.listen(name).unwrap();
            let signal = shutdown.signal();
            tokio::spawn(listener.serve(served.clone(), context.clone(), signal));
        }
        if let Some(second) = &self.second_name {
            names = format!("{names},{second}");
        }
        let peers = Context::new(TransportLimits::default());
        let copies = ds::copies::CopiesConfig {
            connector: Arc::new(rig.network.connector(&self.name, peers)),
        };
        let copies = ds::copies::run(nfsd.clone(), copies);
        let sums = ds::sums::run(nfsd.clone());
        let config = ds::link::LinkConfig {
            location: control::Text::default(),
            membership,
            connector: Arc::new(
                rig.network
                    .connector(&self.name, Context::new(TransportLimits::default())),
            ),
            mds: vec![Address::Memory("control".into())],
            advertise: addresses(&names),
        };
        let refused = Arc::clone(&self.refused);
        let link = tokio::spawn(async move {
            tokio::select! {
                end = ds::link::run(nfsd, config) => {
                    if let ds::link::LinkEnd::Refused(why) = end {
                        *refused.lock() = Some(why.to_string());
                    }
                }
                () = copies => {}
                () = sums => {}
            }
        });
        self.running = Some((shutdown, link));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    /// Answers no NFS request any more, though the MDS still hears from it.
    pub fn deafen(&self) {
        self.running.as_ref().unwrap().0.trigger();
    }

    /// As a crash, but for what was synced: the stores in memory keep all. Its lease has ended, and it is avoided.
    pub async fn stop(&mut self) {
        let (shutdown, link) = self.running.take().unwrap();
        self.nfsd = None;
        link.abort();
        shutdown.trigger();
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
}

pub async fn cluster(servers: u8) -> (Rig, Port, Vec<Real>) {
    cluster_with(servers, false).await
}

/// As [`cluster`]; reads may be compared with sums.
pub async fn cluster_with(servers: u8, verify_reads: bool) -> (Rig, Port, Vec<Real>) {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let mut all = Vec::new();
    for number in 1..=servers {
        let mut real = Real::new(number);
        real.verify_reads = verify_reads;
        real.start(&rig, &port, u64::from(number)).await;
        all.push(real);
    }
    (rig, port, all)
}

pub async fn try_write(
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
    let mut reply = after_putfh(&done);
    reply.take::<WriteRes>().map_err(|e| e.status().unwrap())
}

pub async fn write(file: &File<'_>, offset: u64, stable: StableHow, bytes: &[u8]) -> WriteRes {
    patiently(|| try_write(file, offset, stable, bytes))
        .await
        .unwrap()
}

pub async fn try_read(
    file: &File<'_>,
    offset: u64,
    count: u32,
) -> Result<(Vec<u8>, bool), NfsStatus> {
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
    let mut reply = after_putfh(&done);
    let res = reply
        .take::<ReadRes<'_>>()
        .map_err(|e| e.status().unwrap())?;
    Ok((res.data.0.to_vec(), res.eof))
}

pub async fn read(file: &File<'_>, offset: u64, count: u32) -> (Vec<u8>, bool) {
    patiently(|| try_read(file, offset, count)).await.unwrap()
}

/// The bytes of a file from an offset on.
pub async fn bytes_of(file: &File<'_>, offset: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < len {
        let (part, eof) = read(file, offset + out.len() as u64, 1 << 20).await;
        out.extend(part);
        if eof {
            break;
        }
    }
    out.truncate(len);
    out
}

pub async fn fill(file: &File<'_>, offset: u64, bytes: &[u8]) {
    for (n, part) in bytes.chunks(1 << 20).enumerate() {
        write(file, offset + ((n as u64) << 20), StableHow::Unstable, part).await;
    }
}

pub async fn try_commit(file: &File<'_>) -> Result<Verifier, NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&CommitArgs {
                offset: 0,
                count: 0,
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    let res = reply.take::<CommitRes>().map_err(|e| e.status().unwrap())?;
    Ok(res.write_verifier)
}

/// A length in memory.
pub fn len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

/// A client's session to a data server.
pub async fn direct_session(rig: &Rig, client: &Client, name: &str, ds: &str) -> Arc<Session> {
    let config = SessionConfig {
        addresses: vec![Address::Memory(ds.into())],
        role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
        ..client.session.config().clone()
    };
    let connector = rig
        .network
        .connector(name, Context::new(TransportLimits::default()));
    let direct = Session::new(Arc::new(connector), config);
    direct.establish().await.unwrap();
    direct
}

pub async fn direct_write(
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

/// Fills a new file with bytes, a hole of 18 MiB and a tail; returns what it reads as.
pub async fn fill_sparse(file: &File<'_>) -> Vec<u8> {
    let tail_at = (20 << 20) + 7;
    let mut model = pattern((2 << 20) + 12_345);
    fill(file, 0, &model).await;
    write(file, tail_at, StableHow::Unstable, b"tail").await;
    model.resize(usize::try_from(tail_at).unwrap(), 0);
    model.extend(b"tail");
    model
}

/// Runs an operation whose source is the saved file.
pub async fn from_to<T: OpArgs<Num = nfs4::OpNum> + Sync>(
    src: &File<'_>,
    dst: &File<'_>,
    args: &T,
) -> Outcome {
    let operations = |b: &mut CompoundBuilder| {
        b.push(&SaveFhArgs {});
        b.push(&PutFhArgs {
            object: Opaque(&dst.fh.0),
        });
        b.push(args);
    };
    src.client.on(&src.fh, operations).await
}

/// A reader after what comes before the operation of [`from_to`].
pub fn after_from_to(done: &Outcome) -> nfs4::CompoundReply<'_> {
    let mut reply = after_putfh(done);
    reply.take::<SaveFhRes>().unwrap();
    reply.take::<PutFhRes>().unwrap();
    reply
}

/// Writes at the file's only data server under a layout, without LAYOUTCOMMIT: the metadata server does not know the size.
pub async fn write_untold(rig: &Rig, file: &File<'_>, bytes: Vec<u8>) {
    let granted = file.layout(IoMode::Rw).await;
    let client = file.client;
    let direct = direct_session(rig, client, "alice", "ds1").await;
    let handle = granted.body.file_handles.0[0].clone();
    let bytes = bytes::Bytes::from(bytes);
    let (caller, stable) = (&client.caller, StableHow::Unstable);
    direct_write(&direct, caller, &handle, file.open, stable, &bytes)
        .await
        .unwrap();
}
