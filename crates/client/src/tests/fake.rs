//! A cluster in memory, as simple as it can be: one MDS with a tree and files striped over some DSes. The session engine is
//! the real one; what the tests break are DSes, stateids and layouts.
//!
//! A DS loses what was not committed when it crashes. The MDS takes a file's size from LAYOUTCOMMIT only.

mod locks;
mod mds;

use bytes::Bytes;
use client_table::ClientTable;
use nfs4::attr::Attrs;
use nfs4::cb::{CbLayoutRecallArgs, CbRecallArgs, LayoutRecall, LayoutRecallFile};
use nfs4::layout::{FileLayout, FileLayoutDsAddr, LENGTH_TO_EOF, Layout, NflUtil};
use nfs4::ops::*;
use nfs4::*;
use parking_lot::Mutex;
use rpc::AuthStat;
use server::{Compound, Nfsd, Role, ServerIdentity, User, answer};
use state::{ClientLimits, Clients, Grace, RemovedClient};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::task::JoinHandle;
use transport::memory::{Faults, MemoryConnector, MemoryNetwork};
use transport::workers::Shutdown;
use transport::{
    Address, BoxFuture, ConnHandle, ConnectError, Connector, Context, DynService, Payload,
    TransportLimits,
};
use xdr::{List, Opaque, OpaqueBuf};

pub(super) const UNIT: u32 = 4096;

#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) file_type: FileType,
    pub(super) mode: u32,
    pub(super) size: u64,
    change: u64,
    links: u32,
    entries: BTreeMap<Vec<u8>, u64>,
    target: Vec<u8>,
}

#[derive(Debug, Default, Clone)]
struct Object {
    durable: Vec<u8>,
    cached: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) inodes: BTreeMap<u64, Inode>,
    opens: HashMap<[u8; 12], u64>,
    pub(super) locks: Vec<locks::Locked>,
    lock_owners: HashMap<[u8; 12], (ClientId, Vec<u8>)>,
    pub(super) refuse_lock_reclaims: bool,
    pub(super) lock_reclaims: u32,
    /// By file: its one layout.
    layouts: HashMap<u64, (ClientId, Stateid)>,
    objects: HashMap<(usize, u64), Object>,
    verifiers: Vec<u64>,
    /// DSes that answer every I/O with this.
    pub(super) refusing: HashMap<usize, NfsStatus>,
    /// Files whose next layouts are refused.
    pub(super) no_layouts: HashSet<u64>,
    /// COMMITs at data servers that find the data lost by a crash.
    pub(super) lost_commits: u32,
    /// Delegations are given to whoever opens a file, asked for or not.
    pub(super) delegates: bool,
    /// Those that are out.
    pub(super) delegations: HashSet<[u8; 12]>,
    /// LAYOUTCOMMITs that are refused.
    pub(super) refuse_layoutcommits: u32,
    /// DELAYs to answer before an operation is executed.
    pub(super) delays: u32,
    /// Addresses that are told of each data server.
    addresses_each: u8,
    boot: u32,
    counter: u64,
    pub(super) ds_bytes: [u64; 2],
    pub(super) mds_bytes: [u64; 2],
    pub(super) reclaims: u32,
    pub(super) layout_returns: u32,
    /// What `mdsthreshold` says.
    pub(super) thresholds: Option<Thresholds>,
}

impl State {
    fn unique(&mut self, kind: u8) -> Stateid {
        self.counter += 1;
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.boot.to_be_bytes());
        other[4..].copy_from_slice(&self.counter.to_be_bytes());
        other[4] = kind;
        Stateid { seqid: 1, other }
    }

    /// What data server `n` has not committed is gone.
    fn lose_unsynced(&mut self, n: usize) {
        self.verifiers[n] += 1;
        for ((ds, _), object) in &mut self.objects {
            if *ds == n {
                object.cached.clone_from(&object.durable);
            }
        }
    }

    fn make(&mut self, dir: u64, name: &[u8], file_type: FileType) -> Result<u64, NfsStatus> {
        if self.dir(dir)?.entries.contains_key(name) {
            return Err(NfsStatus::Exist);
        }
        self.counter += 1;
        let id = self.counter + 100;
        self.inodes.insert(id, inode(file_type));
        self.dir(dir)?.entries.insert(name.to_vec(), id);
        Ok(id)
    }

    fn inode(&mut self, id: u64) -> Result<&mut Inode, NfsStatus> {
        self.inodes.get_mut(&id).ok_or(NfsStatus::Stale)
    }

    fn dir(&mut self, id: u64) -> Result<&mut Inode, NfsStatus> {
        let inode = self.inode(id)?;
        match inode.file_type {
            FileType::Dir => Ok(inode),
            FileType::Lnk => Err(NfsStatus::Symlink),
            _ => Err(NfsStatus::NotDir),
        }
    }

    fn find(&mut self, dir: u64, name: &[u8]) -> Result<u64, NfsStatus> {
        let found = self.dir(dir)?.entries.get(name).copied();
        found.ok_or(NfsStatus::NoEnt)
    }

    fn ds_of(&self, offset: u64) -> usize {
        usize::try_from(offset / u64::from(UNIT)).unwrap() % self.verifiers.len()
    }

    fn write(&mut self, ds: usize, id: u64, offset: u64, data: &[u8]) {
        let object = &mut self.objects.entry((ds, id)).or_default().cached;
        let (from, to) = (
            usize::try_from(offset).unwrap(),
            usize::try_from(offset).unwrap() + data.len(),
        );
        if object.len() < to {
            object.resize(to, 0);
        }
        object[from..to].copy_from_slice(data);
    }

    fn commit(&mut self, ds: usize, id: u64) {
        if let Some(object) = self.objects.get_mut(&(ds, id)) {
            object.durable.clone_from(&object.cached);
        }
    }

    /// What a DS answers to a READ: zeros in holes, the end where the MDS says or its own data end.
    fn read(
        &mut self,
        ds: usize,
        id: u64,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), NfsStatus> {
        let size = self.inode(id)?.size;
        let object = self.objects.entry((ds, id)).or_default().cached.clone();
        let end = size.max(object.len() as u64);
        let to = end.min(offset + u64::from(count)).max(offset);
        let byte = |at: u64| {
            object
                .get(usize::try_from(at).unwrap())
                .copied()
                .unwrap_or(0)
        };
        Ok(((offset..to).map(byte).collect(), to >= end))
    }

    fn check_open(&self, stateid: Stateid, id: u64) -> Result<(), NfsStatus> {
        match self.opens.get(&stateid.other) {
            Some(file) if *file == id => Ok(()),
            _ => Err(NfsStatus::BadStateid),
        }
    }
}

fn inode(file_type: FileType) -> Inode {
    Inode {
        file_type,
        mode: 0o755,
        size: 0,
        change: 1,
        links: 1,
        entries: BTreeMap::new(),
        target: Vec::new(),
    }
}

fn fh_of(id: u64) -> FileHandle {
    OpaqueBuf(id.to_be_bytes().to_vec())
}

fn id_of(fh: &[u8]) -> Result<u64, NfsStatus> {
    Ok(u64::from_be_bytes(
        fh.try_into().map_err(|_| NfsStatus::BadHandle)?,
    ))
}

/// An MDS, or the n-th DS.
pub(super) struct FakeRole {
    state: Arc<Mutex<State>>,
    ds: Option<usize>,
    identity: ServerIdentity,
}

fn bad(_: xdr::DecodeError) -> NfsStatus {
    NfsStatus::BadXdr
}

impl Role for FakeRole {
    type Actor = ();

    fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    fn admit(&self, _: &ConnHandle, _: &User) -> Result<(), AuthStat> {
        Ok(())
    }

    fn root(&self) -> Result<FileHandle, NfsStatus> {
        Ok(fh_of(1))
    }

    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus> {
        id_of(fh).map(drop)
    }

    async fn perform<'r>(
        &'r self,
        cx: &mut Compound<'r, Self::Actor>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        let mut s = self.state.lock();
        let delayed = s.delays > 0;
        if delayed {
            s.delays -= 1;
        }
        let done = match (delayed, self.ds) {
            (true, _) => Err(NfsStatus::Delay),
            (false, Some(ds)) => perform_ds(&mut s, ds, cx, op, args, reply),
            (false, None) => mds::perform_mds(&mut s, cx, op, args, reply),
        };
        match done {
            Ok(()) => NfsStatus::Ok,
            Err(status) => {
                reply.error(op, status);
                status
            }
        }
    }

    async fn settle(&self, _: &()) -> Result<(), NfsStatus> {
        Ok(())
    }

    fn has_state(&self, _: ClientId) -> bool {
        false
    }

    async fn client_removed(&self, _: RemovedClient) {}

    async fn reclaim_complete(&self, _: ClientId) -> Result<(), NfsStatus> {
        Ok(())
    }
}

type Done = Result<(), NfsStatus>;

fn perform_ds(
    s: &mut State,
    ds: usize,
    cx: &mut Compound<'_, ()>,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    let id = id_of(cx.fh()?)?;
    if let Some(status) = s.refusing.get(&ds) {
        return Err(*status);
    }
    match op {
        OpNum::Read => {
            let a: ReadArgs = args.args().map_err(bad)?;
            s.check_open(a.stateid, id)
                .map_err(|_| NfsStatus::PnfsNoLayout)?;
            assert_eq!(a.stateid.seqid, 0);
            assert!(s.layouts.contains_key(&id), "I/O without a layout");
            let (data, eof) = s.read(ds, id, a.offset, a.count)?;
            s.ds_bytes[0] += data.len() as u64;
            write_read(cx, reply, data, eof);
        }
        OpNum::Write => {
            let a: WriteArgs<'_> = args.args().map_err(bad)?;
            s.check_open(a.stateid, id)
                .map_err(|_| NfsStatus::PnfsNoLayout)?;
            assert_eq!(s.ds_of(a.offset), ds, "a stripe on the wrong DS");
            s.ds_bytes[1] += a.data.0.len() as u64;
            s.write(ds, id, a.offset, a.data.0);
            let _ = reply.result(&WriteRes {
                count: u32::try_from(a.data.0.len()).unwrap(),
                committed: StableHow::Unstable,
                write_verifier: verifier(s.verifiers[ds]),
            });
        }
        OpNum::Commit => {
            let _: CommitArgs = args.args().map_err(bad)?;
            if s.lost_commits > 0 {
                s.lost_commits -= 1;
                s.lose_unsynced(ds);
            }
            s.commit(ds, id);
            let _ = reply.result(&CommitRes {
                write_verifier: verifier(s.verifiers[ds]),
            });
        }
        _ => return Err(NfsStatus::NotSupp),
    }
    Ok(())
}

fn write_read(cx: &mut Compound<'_, ()>, reply: &mut ReplyWriter<OpNum>, data: Vec<u8>, eof: bool) {
    let mark = reply.begin_op(OpNum::Read);
    let len = u32::try_from(data.len()).unwrap();
    xdr::Encode::encode(&ReadResPayload { eof, len }, reply.encoder());
    reply.end_op(mark, NfsStatus::Ok);
    cx.payloads.push(Payload::Bytes(Bytes::from(data)));
}

fn verifier(n: u64) -> Verifier {
    Verifier {
        bytes: n.to_be_bytes(),
    }
}

/// Sends 10.0.0.n to the n-th DS, and 10.0.1.n to its second name.
struct ByNumber(MemoryConnector);

impl Connector for ByNumber {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            let Address::Tcp(SocketAddr::V4(v4)) = address else {
                return self.0.connect(address, reverse).await;
            };
            let [_, _, side, n] = v4.ip().octets();
            let name = Address::Memory(ds_name(n.into(), side));
            self.0.connect(&name, reverse).await
        })
    }
}

/// What the n-th DS is called on one of its networks.
fn ds_name(n: usize, side: u8) -> String {
    format!("ds{n}{}", char::from(b'a' + side))
}

struct Running {
    nfsd: Arc<Nfsd<FakeRole>>,
    /// One for each name.
    tasks: Vec<JoinHandle<()>>,
    _shutdown: Shutdown,
}

/// The cluster.
pub(super) struct Cluster {
    pub(super) state: Arc<Mutex<State>>,
    network: MemoryNetwork,
    servers: Mutex<HashMap<String, Running>>,
}

impl Cluster {
    pub(super) fn new(ds_count: usize, faults: Option<Arc<dyn Faults>>) -> Self {
        Self::with(ds_count, faults, 1)
    }

    /// Each data server listens at two names, and both are told.
    pub(super) fn with_two_addresses(ds_count: usize, faults: Arc<dyn Faults>) -> Self {
        Self::with(ds_count, Some(faults), 2)
    }

    fn with(ds_count: usize, faults: Option<Arc<dyn Faults>>, addresses_each: u8) -> Self {
        let network = faults.map_or_else(MemoryNetwork::default, MemoryNetwork::new);
        let state = State {
            inodes: [(1, inode(FileType::Dir))].into(),
            verifiers: vec![1; ds_count],
            addresses_each,
            boot: 1,
            ..State::default()
        };
        let cluster = Self {
            state: Arc::new(Mutex::new(state)),
            network,
            servers: Mutex::default(),
        };
        cluster.start(None);
        for n in 0..ds_count {
            cluster.start(Some(n));
        }
        cluster
    }

    /// Starts the MDS or a DS.
    fn start(&self, ds: Option<usize>) {
        let sides = 0..self.state.lock().addresses_each;
        let names: Vec<String> = match ds {
            Some(n) => sides.map(|side| ds_name(n, side)).collect(),
            None => vec!["mds".to_owned()],
        };
        let role_flag = if ds.is_some() {
            EXCHGID_USE_PNFS_DS
        } else {
            EXCHGID_USE_PNFS_MDS
        };
        let identity = ServerIdentity {
            major_id: names[0].clone(),
            role_flag,
        };
        let boot = self.state.lock().boot;
        let role = FakeRole {
            state: Arc::clone(&self.state),
            ds,
            identity,
        };
        let limits = ClientLimits {
            callbacks: ds.is_none(),
            ..ClientLimits::default()
        };
        let next = AtomicU64::new(u64::from(boot) << 32);
        let clients = Clients::new(limits, boot, Grace::none());
        let random = Box::new(move || next.fetch_add(1, Relaxed));
        let nfsd = Nfsd::new(role, ClientTable::new(clients, random));
        let shutdown = Shutdown::new();
        let serve = |name: &String| {
            let listener = self.network.listen(name).unwrap();
            let context = Context::new(TransportLimits::default());
            tokio::spawn(listener.serve(nfsd.clone(), context, shutdown.signal()))
        };
        let tasks = names.iter().map(serve).collect();
        let running = Running {
            nfsd,
            tasks,
            _shutdown: shutdown,
        };
        self.servers.lock().insert(names[0].clone(), running);
    }

    /// Kills a server and waits until nothing of it is left.
    pub(super) async fn stop(&self, name: &str) {
        let running = self.servers.lock().remove(name).unwrap();
        for task in running.tasks {
            task.abort();
            let _ = task.await;
        }
    }

    pub(super) async fn restart_mds(&self) {
        self.stop("mds").await;
        {
            let mut s = self.state.lock();
            s.boot += 1;
            s.opens.clear();
            s.layouts.clear();
            s.locks.clear();
            s.lock_owners.clear();
        }
        self.start(None);
    }

    /// The machine of a DS crashes: what was not committed is gone.
    pub(super) async fn crash_ds(&self, n: usize) {
        self.stop(&ds_name(n, 0)).await;
        {
            let mut s = self.state.lock();
            s.boot += 1;
            s.lose_unsynced(n);
        }
        self.start(Some(n));
    }

    pub(super) async fn recall(&self, id: u64) {
        let (client, mut stateid) = self.state.lock().layouts[&id];
        stateid.seqid += 1;
        let nfsd = self.servers.lock()["mds"].nfsd.clone();
        let fh = fh_of(id);
        nfsd.clients()
            .callback(client, &|b| {
                b.push(&CbLayoutRecallArgs {
                    layout_type: 1,
                    iomode: IoMode::Any,
                    changed: false,
                    what: LayoutRecall::File(LayoutRecallFile {
                        fh: Opaque(&fh.0),
                        offset: 0,
                        length: LENGTH_TO_EOF,
                        stateid,
                    }),
                });
            })
            .await
            .unwrap();
    }

    /// CB_RECALL of a delegation that the client never took.
    pub(super) async fn recall_delegation(&self, id: u64) {
        let (client, stateid) = {
            let mut s = self.state.lock();
            let stateid = s.unique(4);
            s.delegations.insert(stateid.other);
            (s.layouts[&id].0, stateid)
        };
        let nfsd = self.servers.lock()["mds"].nfsd.clone();
        let fh = fh_of(id);
        nfsd.clients()
            .callback(client, &|b| {
                b.push(&CbRecallArgs {
                    stateid,
                    truncate: false,
                    fh: Opaque(&fh.0),
                });
            })
            .await
            .unwrap();
    }

    pub(super) fn has_layout(&self, id: u64) -> bool {
        self.state.lock().layouts.contains_key(&id)
    }

    pub(super) fn opens_count(&self) -> usize {
        self.state.lock().opens.len()
    }

    pub(super) fn forget_opens(&self) {
        let mut s = self.state.lock();
        s.opens.clear();
        s.locks.clear();
        s.lock_owners.clear();
    }

    /// What would be left after a crash of everything.
    pub(super) fn durable(&self, id: u64) -> Vec<u8> {
        let s = self.state.lock();
        let byte = |at: u64| {
            let object = s.objects.get(&(s.ds_of(at), id));
            object
                .and_then(|o| o.durable.get(usize::try_from(at).unwrap()).copied())
                .unwrap_or(0)
        };
        (0..s.inodes[&id].size).map(byte).collect()
    }

    pub(super) fn connector(&self, name: &str) -> Arc<dyn Connector> {
        let context = Context::new(TransportLimits::default());
        Arc::new(ByNumber(self.network.connector(name, context)))
    }
}
