//! Foreign NFSv3 servers in memory under a metadata server, and clients that use them by flexible files layouts.

#![allow(unreachable_pub, reason = "a module that several tests share")]
#![allow(dead_code, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

#[path = "../../../foreign/tests/fake/mod.rs"]
pub mod fake;

use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::{self, Client, Rig, after_putfh};
use bytes::Bytes;
use control::{NetAddr, Text};
use fake::Fake;
use foreign::{Fh, NewServer, ServerLimits};
use meta::MetaStore;
use namespace::{Cred, FileId, Inode, Op, Time};
use nfs3_client::{CallerAuth, Nfs3Client, Nfs3Error, RpcPeer, RpcPeerConfig};
use nfs4::cb::CbLayoutRecallArgs;
use nfs4::flex_files::{FlexDataServer, FlexLayout, id_of_owner};
use nfs4::layout::{LAYOUT_FLEX_FILES, LENGTH_TO_EOF};
use nfs4::ops::{
    DeviceError, LayoutErrorArgs, LayoutErrorRes, LayoutGetArgs, LayoutGetRes, LayoutReturn,
    LayoutReturnArgs, LayoutReturnFile, LayoutReturnRes, RemoveArgs, RemoveRes,
};
use nfs4::{CbOpNum, IoMode, NfsStatus, OpNum, OpReader, Stateid};
use rpc::AuthSys;
use session_client::CallbackHandler;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::memory::{Fate, Faults, Passage};
use transport::workers::Shutdown;
use transport::{Address, Context, TransportLimits};
use xdr::Opaque;

/// The stripe unit of the rig.
pub const UNIT: usize = 4096;

/// Servers that are dead: their connections end, and nobody reaches them. And those that are silent.
#[derive(Default)]
pub struct Cables {
    dead: Mutex<BTreeSet<String>>,
    silent: Mutex<BTreeSet<String>>,
}

impl Faults for Cables {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        let server = match passage.to_listener {
            true => passage.to,
            false => passage.from,
        };
        match (
            self.dead.lock().contains(server),
            self.silent.lock().contains(server),
        ) {
            (true, _) => Fate::Cut,
            (_, true) => Fate::Lose,
            _ => Fate::Deliver,
        }
    }

    fn may_connect(&self, _from: &str, to: &str) -> bool {
        !self.dead.lock().contains(to)
    }
}

/// Foreign servers; ids are 1, 2, ... in their order.
pub struct Far {
    pub fakes: Vec<Arc<Fake>>,
    pub cables: Arc<Cables>,
    shutdown: Mutex<Shutdown>,
}

fn name(index: usize) -> String {
    format!("far{index}")
}

fn context() -> Context {
    Context::new(TransportLimits::default())
}

/// Answers recalls: the layout is gone, or it stays.
pub struct Recalled {
    pub forgets: bool,
    pub seen: Mutex<Vec<Stateid>>,
}

impl Recalled {
    pub fn new(forgets: bool) -> Arc<Self> {
        Arc::new(Self {
            forgets,
            seen: Mutex::default(),
        })
    }
}

impl CallbackHandler for Recalled {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::LayoutRecall);
        let args: CbLayoutRecallArgs<'_> = args.args().unwrap();
        assert_eq!(args.layout_type, LAYOUT_FLEX_FILES);
        if let nfs4::cb::LayoutRecall::File(file) = args.what {
            self.seen.lock().push(file.stateid);
        }
        Box::pin(std::future::ready(match self.forgets {
            true => NfsStatus::NoMatchingLayout,
            false => NfsStatus::Ok,
        }))
    }
}

/// A metadata server with so many foreign servers, and `/far` over them by a policy.
pub async fn far_cluster(count: usize, policy: &str) -> (Rig, Port, Far) {
    let cables = Arc::new(Cables::default());
    let rig = Rig::troubled(Arc::clone(&cables) as Arc<dyn Faults>).await;
    let fakes = (0..count).map(|_| Arc::new(Fake::new(None))).collect();
    let far = Far {
        fakes,
        cables,
        shutdown: Mutex::new(Shutdown::new()),
    };
    far.serve(&rig);
    let port = Port::open(&rig);
    for index in 0..count {
        let new = NewServer {
            target: format!("{}:/data", name(index)),
            addresses: vec![NetAddr {
                netid: Text::cut("memory"),
                uaddr: Text::cut(&name(index)),
            }],
            root: Fake::root(),
            limits: ServerLimits {
                read_bytes_max: 1 << 20,
                write_bytes_max: 1 << 20,
                file_bytes_max: 1 << 40,
            },
            code: None,
        };
        let id = rig.nfsd.role().fs().foreign().add(new).await.unwrap();
        assert_eq!(id as usize, index + 1);
    }
    let admin = rig.session("admin").await;
    let root = admin.lookup(&[]).await.unwrap();
    let dir = crate::names::mkdir(&admin, &root, "far").await.unwrap();
    let policy = format!("servers=nfs3 {policy}");
    crate::placement::set_policy(&admin, &dir, &policy)
        .await
        .unwrap();
    (rig, port, far)
}

impl Far {
    /// In the network of a rig.
    fn serve(&self, rig: &Rig) {
        for (index, fake) in self.fakes.iter().enumerate() {
            let listener = rig.network.listen(&name(index)).unwrap();
            let signal = self.shutdown.lock().signal();
            tokio::spawn(listener.serve(fake.clone(), context(), signal));
        }
    }

    /// The metadata server ends, and begins again over what is stored.
    pub async fn restart(&self, rig: Rig, port: Port) -> (Rig, Port) {
        // Tasks of the run before go on for a while, over a store and a network that nobody else has.
        let store: Arc<dyn MetaStore> = Arc::new(rig::copy_of(&*rig.store));
        drop((rig, port));
        let before = std::mem::replace(&mut *self.shutdown.lock(), Shutdown::new());
        before.trigger();
        let cables = Arc::clone(&self.cables) as Arc<dyn Faults>;
        let clock_s = Arc::new(AtomicI64::new(rig::START_S + 1000));
        let rig = Rig::troubled_over(cables, store, clock_s).await;
        self.serve(&rig);
        let port = Port::open(&rig);
        (rig, port)
    }

    pub fn kill(&self, index: usize) {
        self.cables.dead.lock().insert(name(index));
    }

    /// What it is sent is lost, and what it says.
    pub fn mute(&self, index: usize) {
        self.cables.silent.lock().insert(name(index));
    }

    pub fn start(&self, index: usize) {
        self.cables.dead.lock().remove(&name(index));
        self.cables.silent.lock().remove(&name(index));
    }

    /// A client's connection to a server.
    pub fn direct(&self, rig: &Rig, index: usize) -> Nfs3Client {
        let config = RpcPeerConfig {
            addresses: vec![Address::Memory(name(index))],
            connections: 1,
            calls_max: 4,
            try_timeout: Duration::from_secs(1),
            give_up: Duration::from_secs(2),
            first_xid: 1,
        };
        let connector = rig.network.connector("direct", context());
        Nfs3Client::new(RpcPeer::new(Arc::new(connector), config))
    }

    /// The bytes of a file at each place of its group: by mirror, then by stripe. `None` where there is no object.
    pub fn objects(&self, rig: &Rig, file: &File<'_>) -> Vec<Vec<Option<fake::Seen>>> {
        let inode = inode(rig, file);
        let data = inode.data();
        let object = format!("{:016x}.{:08x}", data.file.0, data.generation);
        let fs = rig.nfsd.role().fs();
        let group = fs.foreign().group(inode.placement.unwrap().group).unwrap();
        let at = |mirror, stripe| {
            let server = group.server(mirror, stripe).unwrap() as usize - 1;
            self.fakes[server].files().get(&object).cloned()
        };
        (0..group.mirrors)
            .map(|mirror| (0..group.width).map(|stripe| at(mirror, stripe)).collect())
            .collect()
    }

    /// The index of the server at a place of a file.
    pub fn index(rig: &Rig, file: &File<'_>, mirror: u32, stripe: u32) -> usize {
        let inode = inode(rig, file);
        let fs = rig.nfsd.role().fs();
        let group = fs.foreign().group(inode.placement.unwrap().group).unwrap();
        group.server(mirror, stripe).unwrap() as usize - 1
    }

    /// Waits until no mirror is bad, and sees that all mirrors have these bytes.
    pub async fn whole(&self, rig: &Rig, file: &File<'_>, bytes: &[u8]) {
        let fs = rig.nfsd.role().fs();
        for second in 0.. {
            assert!(second < 300, "mirrors stay bad");
            if fs::files_with_bad_mirrors(fs, 10) == 0 {
                break;
            }
            pass(1).await;
        }
        assert_eq!(inode(rig, file).bad_mirrors(), 0);
        for (mirror, stripes) in self.objects(rig, file).iter().enumerate() {
            let got = joined(stripes, bytes.len());
            assert!(got == bytes, "mirror {mirror}");
        }
    }

    /// Files of all servers together that are no part of a pool.
    pub fn files_with_bytes(&self) -> usize {
        let with_bytes = |fake: &Arc<Fake>| {
            let files = fake.files();
            files.values().filter(|seen| !seen.data.is_empty()).count()
        };
        self.fakes.iter().map(with_bytes).sum()
    }
}

/// What the stripes of a mirror have together.
pub fn joined(stripes: &[Option<fake::Seen>], len: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let object = stripes[at / UNIT % stripes.len()].as_ref();
        object.and_then(|o| o.data.get(at).copied()).unwrap_or(0)
    };
    (0..len).map(byte).collect()
}

pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A file as the metadata server knows it.
pub fn inode(rig: &Rig, file: &File<'_>) -> Arc<Inode> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let ns = rig.nfsd.role().fs().namespace();
    ns.getattr(&mut op, FileId(file.id())).unwrap()
}

pub fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let byte = |i: usize| u8::try_from((i + usize::from(seed) * 7) % 251).unwrap() + 1;
    (0..len).map(byte).collect()
}

/// Makes, or opens, a file of `/far`.
pub async fn far_file<'c>(client: &'c Client, name: &str) -> File<'c> {
    file_in(client, &["far"], name).await
}

pub async fn file_in<'c>(client: &'c Client, path: &[&str], name: &str) -> File<'c> {
    let dir = client.lookup(path).await.unwrap();
    let opened = patiently(|| File::try_open(client, &dir, name)).await;
    let (open, fh) = opened.unwrap();
    File {
        client,
        name: name.to_owned(),
        fh,
        open,
    }
}

pub async fn remove(client: &Client, path: &[&str], name: &str) -> Result<(), NfsStatus> {
    let dir = client.lookup(path).await.unwrap();
    let done = client
        .on(&dir, |b| {
            b.push(&RemoveArgs {
                target: Opaque(name.as_bytes()),
            });
        })
        .await;
    let removed = after_putfh(&done).take::<RemoveRes>();
    removed.map(drop).map_err(|e| e.status().unwrap())
}

/// A flexible files layout as granted.
#[derive(Debug, Clone)]
pub struct FarLayout {
    pub stateid: Stateid,
    pub body: FlexLayout,
}

impl FarLayout {
    pub fn server(&self, mirror: usize, stripe: usize) -> &FlexDataServer {
        &self.body.mirrors.0[mirror].data_servers.0[stripe]
    }

    /// Who the client says it is at a place.
    pub fn ids(&self, mirror: usize, stripe: usize) -> (u32, u32) {
        let at = self.server(mirror, stripe);
        let id = |owner| id_of_owner(owner).unwrap();
        (id(&at.user), id(&at.group))
    }

    pub fn caller(&self, mirror: usize, stripe: usize) -> CallerAuth {
        let (uid, gid) = self.ids(mirror, stripe);
        CallerAuth::auth_sys(&AuthSys {
            stamp: 0,
            machine: b"client".to_vec(),
            uid,
            gid,
            gids: Vec::new(),
        })
    }

    pub fn fh(&self, mirror: usize, stripe: usize) -> Fh {
        let bytes = &self.server(mirror, stripe).file_handles.0[0].0;
        xdr::OpaqueBuf(bytes.to_vec())
    }

    /// The index of the server at a place.
    pub fn index(&self, rig: &Rig, mirror: usize, stripe: usize) -> usize {
        let device = self.server(mirror, stripe).device_id;
        let fs = rig.nfsd.role().fs();
        fs.foreign().server_of(device).unwrap() as usize - 1
    }

    /// Writes at one place.
    pub async fn write_at(
        &self,
        (rig, far): (&Rig, &Far),
        (mirror, stripe): (usize, usize),
        offset: u64,
        data: &[u8],
    ) -> Result<(), Nfs3Error> {
        let direct = far.direct(rig, self.index(rig, mirror, stripe));
        let caller = self.caller(mirror, stripe);
        let data = Bytes::copy_from_slice(data);
        let stable = nfs3::StableHow::FileSync;
        let fh = self.fh(mirror, stripe);
        direct
            .write(&caller, &fh, offset, stable, &data)
            .await
            .map(drop)
    }

    /// Writes to all mirrors, as a client does.
    pub async fn write(
        &self,
        world: (&Rig, &Far),
        offset: usize,
        data: &[u8],
    ) -> Result<(), Nfs3Error> {
        for mirror in 0..self.body.mirrors.0.len() {
            self.write_mirror(world, mirror, offset, data).await?;
        }
        Ok(())
    }

    /// Writes to the stripes of one mirror.
    pub async fn write_mirror(
        &self,
        world: (&Rig, &Far),
        mirror: usize,
        offset: usize,
        data: &[u8],
    ) -> Result<(), Nfs3Error> {
        let width = self.body.stripe_count();
        let mut at = offset;
        while at < offset + data.len() {
            let end = ((at / UNIT + 1) * UNIT).min(offset + data.len());
            let piece = &data[at - offset..end - offset];
            let place = (mirror, at / UNIT % width);
            self.write_at(world, place, at as u64, piece).await?;
            at = end;
        }
        Ok(())
    }

    pub async fn read_at(
        &self,
        (rig, far): (&Rig, &Far),
        (mirror, stripe): (usize, usize),
        (offset, count): (u64, u32),
    ) -> Result<Vec<u8>, Nfs3Error> {
        let direct = far.direct(rig, self.index(rig, mirror, stripe));
        let caller = self.caller(mirror, stripe);
        let fh = self.fh(mirror, stripe);
        let read = direct.read(&caller, &fh, offset, count).await?;
        Ok(read.data.to_vec())
    }
}

pub async fn try_far_layout(file: &File<'_>, iomode: IoMode) -> Result<FarLayout, NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&LayoutGetArgs {
                signal_layout_avail: false,
                layout_type: LAYOUT_FLEX_FILES,
                iomode,
                offset: 0,
                length: LENGTH_TO_EOF,
                minlength: 4096,
                stateid: file.open,
                maxcount: 65_536,
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    match reply
        .take::<LayoutGetRes<'_>>()
        .map_err(|e| e.status().unwrap())?
    {
        LayoutGetRes::Ok(granted) => Ok(FarLayout {
            stateid: granted.stateid,
            body: {
                let layout = &granted.layouts.0[0];
                assert_eq!(layout.layout_type, LAYOUT_FLEX_FILES);
                xdr::decode_all(layout.body.0).unwrap()
            },
        }),
        LayoutGetRes::TryLater { .. } => Err(NfsStatus::LayoutTryLater),
    }
}

pub async fn far_layout(file: &File<'_>, iomode: IoMode) -> FarLayout {
    patiently(|| try_far_layout(file, iomode)).await.unwrap()
}

/// LAYOUTRETURN of the file with a body.
pub async fn give_back(file: &File<'_>, stateid: Stateid, body: &[u8]) -> Result<(), NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&LayoutReturnArgs {
                reclaim: false,
                layout_type: LAYOUT_FLEX_FILES,
                iomode: IoMode::Any,
                what: LayoutReturn::File(LayoutReturnFile {
                    offset: 0,
                    length: LENGTH_TO_EOF,
                    stateid,
                    body: Opaque(body),
                }),
            });
        })
        .await;
    let returned = after_putfh(&done).take::<LayoutReturnRes>();
    returned.map(drop).map_err(|e| e.status().unwrap())
}

/// LAYOUTERROR.
pub async fn report(
    file: &File<'_>,
    stateid: Stateid,
    errors: Vec<DeviceError>,
) -> Result<(), NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&LayoutErrorArgs {
                offset: 0,
                length: LENGTH_TO_EOF,
                stateid,
                errors: xdr::List(errors.clone()),
            });
        })
        .await;
    let res = after_putfh(&done).take::<LayoutErrorRes>();
    res.map(drop).map_err(|e| e.status().unwrap())
}

pub fn fault(layout: &FarLayout, mirror: usize, op: OpNum, status: NfsStatus) -> DeviceError {
    DeviceError {
        device_id: layout.server(mirror, 0).device_id,
        status: status as u32,
        opnum: op as u32,
    }
}
