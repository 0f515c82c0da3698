//! Some servers of others in one process, and the crate over them.

use crate::fake::Fake;
use control::{NetAddr, Text};
use meta::{MemStore, MetaStore};
use nfs3_client::{Nfs3Client, RpcPeer, RpcPeerConfig};
use ropewalk_foreign::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::memory::{Fate, Faults, MemoryNetwork, Passage};
use transport::workers::Shutdown;
use transport::{Address, Context, TransportLimits};

pub const CLUSTER: u64 = 0xc1;
pub const UNIT: u32 = 4096;

/// Which servers are dead, and which say nothing.
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

pub struct World {
    pub foreign: Arc<Foreign>,
    pub fakes: Vec<Arc<Fake>>,
    pub store: Arc<MemStore>,
    network: MemoryNetwork,
    cables: Arc<Cables>,
    _shutdown: Shutdown,
}

pub fn name(index: usize) -> String {
    format!("server{index}")
}

pub fn new_server(index: usize) -> NewServer {
    NewServer {
        target: format!("{}:/data", name(index)),
        addresses: vec![NetAddr {
            netid: Text::cut("memory"),
            uaddr: Text::cut(&name(index)),
        }],
        root: Fake::root(),
        limits: ServerLimits {
            read_bytes_max: 8192,
            write_bytes_max: 8192,
            file_bytes_max: 1 << 40,
        },
        code: None,
    }
}

fn context() -> Context {
    Context::new(TransportLimits::default())
}

impl World {
    /// With so many servers; server ids are 1, 2, ... in their order.
    pub async fn new(count: usize) -> Self {
        Self::limited(count, new_server(0).limits).await
    }

    /// With servers that say so of themselves.
    pub async fn limited(count: usize, limits: ServerLimits) -> Self {
        let cables = Arc::new(Cables::default());
        let network = MemoryNetwork::new(Arc::clone(&cables) as Arc<dyn Faults>);
        let shutdown = Shutdown::new();
        let mut fakes = Vec::new();
        for index in 0..count {
            let fake = Arc::new(Fake::new(None));
            let listener = network.listen(&name(index)).unwrap();
            tokio::spawn(listener.serve(fake.clone(), context(), shutdown.signal()));
            fakes.push(fake);
        }
        let store = Arc::new(MemStore::default());
        let world = Self {
            foreign: open(&store, &network),
            fakes,
            store,
            network,
            cables,
            _shutdown: shutdown,
        };
        for index in 0..count {
            let new = NewServer {
                limits,
                ..new_server(index)
            };
            let id = world.foreign.add(new).await.unwrap();
            assert_eq!(id as usize, index + 1);
        }
        world
    }

    /// The metadata server restarts.
    pub fn reopen(&mut self) {
        self.foreign = open(&self.store, &self.network);
    }

    /// A file on a new group.
    pub fn file(&self, number: u64, width: u32, mirrors: u32) -> FileAt {
        FileAt {
            number,
            generation: 1,
            group: self
                .foreign
                .pick(width, mirrors, MayLack::Stripes)
                .unwrap()
                .unwrap(),
            stripe_unit: UNIT,
            epoch: (1 << 32) | 1,
            bad_mirrors: 0,
            has_objects: false,
        }
    }

    /// The server at a place of a file's group.
    pub fn fake(&self, at: &FileAt, mirror: u32, stripe: u32) -> &Fake {
        &self.fakes[self.index(at, mirror, stripe)]
    }

    pub fn index(&self, at: &FileAt, mirror: u32, stripe: u32) -> usize {
        let group = self.foreign.group(at.group).unwrap();
        group.server(mirror, stripe).unwrap() as usize - 1
    }

    /// A client of a server.
    pub fn client(&self, index: usize) -> Nfs3Client {
        let config = RpcPeerConfig {
            addresses: vec![Address::Memory(name(index))],
            connections: 1,
            calls_max: 4,
            try_timeout: Duration::from_secs(5),
            give_up: Duration::from_secs(20),
            first_xid: 1,
        };
        let connector = self.network.connector("client", context());
        Nfs3Client::new(RpcPeer::new(Arc::new(connector), config))
    }

    pub fn kill(&self, index: usize) {
        self.cables.dead.lock().insert(name(index));
    }

    pub fn start(&self, index: usize) {
        self.cables.dead.lock().remove(&name(index));
        self.cables.silent.lock().remove(&name(index));
    }

    /// What it is sent is lost, and what it says.
    pub fn mute(&self, index: usize) {
        self.cables.silent.lock().insert(name(index));
    }

    /// Some seconds pass, with ticks.
    pub async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.foreign.tick();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    pub fn status(&self, index: usize) -> ServerStatus {
        self.foreign.servers().remove(index)
    }
}

fn open(store: &Arc<MemStore>, network: &MemoryNetwork) -> Arc<Foreign> {
    let random = AtomicU64::new(1);
    Foreign::open(ForeignConfig {
        cluster_id: CLUSTER,
        store: Arc::clone(store) as Arc<dyn MetaStore>,
        connector: Arc::new(network.connector("mds", context())),
        random: Arc::new(move || random.fetch_add(0x9e37, Relaxed)),
    })
    .unwrap()
}

/// Bytes that differ from each other.
pub fn bytes(len: usize) -> bytes::Bytes {
    (0..len)
        .map(|i| u8::try_from(i % 251).unwrap() + 1)
        .collect()
}
