//! Goal: bulk data are copied at most once between the network and the store, and not at all where the store is in memory. Method:
//! clients over TCP and over software iWARP; what transport and store have counted, byte by byte.

use super::rdma::Rig;
use super::real::daemon;
use super::*;
use fabric_iwarp::Iwarp;
use transport::CountersSnapshot;
use transport::tcp::{self, TcpConnector};

/// Of each READ and WRITE.
const BYTES: u32 = 128 * 1024;
const COUNT: u32 = 8;
const ALL_BYTES: u64 = BYTES as u64 * COUNT as u64;

/// Bytes that were copied on their way, by the transport or the store.
fn copied(counted: &CountersSnapshot, world: &World) -> u64 {
    counted.stream_copied_bytes
        + counted.rdma_copied_bytes
        + counted.rdma_file_bytes
        + world.ds().status().store_copied_bytes
}

/// Bytes copied for [`COUNT`] WRITEs, and for as many READs.
async fn cost(client: &Client, copied: impl Fn() -> u64) -> [u64; 2] {
    let fh = Grant::to(b"a").fh();
    let data: Vec<u8> = (0..BYTES).map(|n| n.to_le_bytes()[1] ^ 0x5a).collect();
    let write = |n: u32| {
        let offset = u64::from(n) * u64::from(BYTES);
        client.write(&fh, offset, &data, StableHow::Unstable)
    };
    // A transport may have to see what is usual on this connection.
    write(COUNT).await.unwrap();
    let before = copied();
    for n in 0..COUNT {
        write(n).await.unwrap();
    }
    let written = copied() - before;
    let before = copied();
    for n in 0..COUNT {
        // Across pages of the store, too.
        let offset = u64::from(n) * u64::from(BYTES) + u64::from(n % 2) * 4096;
        let (_, read) = client.read(&fh, offset, BYTES).await.unwrap();
        let turn = (n % 2) as usize * 4096;
        assert!(read[..data.len() - turn] == data[turn..]);
    }
    [written, copied() - before]
}

struct OverTcp {
    world: World,
    server: Context,
    client: Client,
    _shutdown: Shutdown,
}

async fn over_tcp(world: World) -> OverTcp {
    let (server, shutdown) = (Context::new(TransportLimits::default()), Shutdown::new());
    let listeners = tcp::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = Address::Tcp(listeners[0].local_addr().unwrap());
    let nfsd = world.nfsd.clone();
    tokio::spawn(tcp::serve(
        listeners,
        nfsd,
        server.clone(),
        shutdown.signal(),
    ));
    let client = world.client(b"a").await;
    let config = SessionConfig {
        addresses: vec![address],
        ..client.session.config().clone()
    };
    let connector = TcpConnector::new(Context::new(TransportLimits::default()));
    let session = Session::new(Arc::new(connector), config);
    session.establish().await.unwrap();
    OverTcp {
        world,
        server,
        client: Client {
            session,
            caller: client.caller,
        },
        _shutdown: shutdown,
    }
}

impl OverTcp {
    async fn cost(&self) -> [u64; 2] {
        let counted = || copied(&self.server.counters().snapshot(), &self.world);
        cost(&self.client, counted).await
    }
}

async fn over_iwarp(world: World) -> Rig {
    Rig::over(Arc::new(Iwarp::default()), "127.0.0.1:0", world).await
}

async fn iwarp_cost(rig: &Rig) -> [u64; 2] {
    let client = rig.client().await;
    cost(&client, || copied(&rig.counters(), &rig.world)).await
}

#[tokio::test]
async fn nothing_is_copied_between_tcp_and_a_store_in_memory() {
    let tcp = over_tcp(World::new().await).await;
    assert_eq!(tcp.cost().await, [0, 0]);
}

#[tokio::test]
async fn nothing_is_copied_between_software_iwarp_and_a_store_in_memory() {
    let rig = over_iwarp(World::new().await).await;
    assert_eq!(iwarp_cost(&rig).await, [0, 0]);
    let counted = rig.counters();
    assert_eq!(
        counted.rdma_read_chunk_bytes_in,
        ALL_BYTES + u64::from(BYTES)
    );
    assert_eq!(counted.rdma_write_chunk_bytes_out, ALL_BYTES);
}

#[tokio::test]
async fn bulk_is_copied_once_between_software_iwarp_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let rig = over_iwarp(daemon(dir.path()).await).await;
    assert_eq!(iwarp_cost(&rig).await, [ALL_BYTES, ALL_BYTES]);
}

#[tokio::test]
async fn bulk_is_copied_at_most_once_between_tcp_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let tcp = over_tcp(daemon(dir.path()).await).await;
    let [written, read] = tcp.cost().await;
    assert_eq!(written, ALL_BYTES);
    // By sendfile, unless the system has dropped the bytes from its cache meanwhile.
    assert!(read <= ALL_BYTES);
}
