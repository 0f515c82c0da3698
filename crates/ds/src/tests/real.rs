//! The stores of a daemon: fjall and a directory, blocking calls on other threads, clients over TCP by sendfile.

use super::*;
use meta_fjall::FjallStore;
use objects_dir::DirObjects;
use transport::tcp::{self, TcpConnector};

pub(super) async fn daemon(dir: &std::path::Path) -> World {
    let index = FjallStore::open(&dir.join("index"), meta_fjall::Options::default()).unwrap();
    let options = objects_dir::Options {
        reserve_bytes: 0,
        ..objects_dir::Options::default()
    };
    let objects = DirObjects::open(&dir.join("objects"), options).unwrap();
    World::offloaded(Arc::new(index), Arc::new(objects)).await
}

#[tokio::test]
async fn a_data_directory_that_is_not_there_is_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let objects = |name: &str| {
        let path = dir.path().join(name);
        Arc::new(DirObjects::open(&path, objects_dir::Options::default()).unwrap())
    };
    let index = Arc::new(MemStore::new());
    open(index.clone(), objects("away")).await.unwrap();
    // As long as the index is empty as well, nothing can be lost; but it has its directory now.
    let other = open(index.clone(), objects("foreign")).await;
    assert!(other.is_ok());
    let nfsd = open(index.clone(), objects("data")).await.unwrap();
    let id = objects::ObjectId {
        file_id: FILE,
        generation: 1,
        place: 0,
    };
    let ds = nfsd.role();
    ds.index
        .wrote(id, NfsTime::default(), meta::Purpose::Upkeep)
        .unwrap();
    drop(nfsd);
    let refused = open(index.clone(), objects("new")).await.err().unwrap();
    assert!(refused.to_string().contains("is the disk mounted?"));
    let refused = open(Arc::new(MemStore::new()), objects("data")).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("another index"), "{refused}");
    open(index, objects("data")).await.unwrap();
}

async fn tcp_client(world: &World, shutdown: &Shutdown) -> Client {
    let listeners = tcp::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let context = Context::new(TransportLimits::default());
    tokio::spawn(tcp::serve(
        listeners,
        world.nfsd.clone(),
        context.clone(),
        shutdown.signal(),
    ));
    let client = world.client(b"a").await;
    let config = SessionConfig {
        addresses: vec![Address::Tcp(address)],
        ..client.session.config().clone()
    };
    let session = Session::new(Arc::new(TcpConnector::new(context)), config);
    session.establish().await.unwrap();
    Client {
        session,
        caller: client.caller,
    }
}

#[tokio::test]
async fn committed_data_come_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let fh = Grant::to(b"a").fh();
    let data: Vec<u8> = (0..700_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let store_id = {
        let shutdown = Shutdown::new();
        let world = daemon(dir.path()).await;
        let a = tcp_client(&world, &shutdown).await;
        a.write(&fh, 4096, &data, StableHow::Unstable)
            .await
            .unwrap();
        a.commit(&fh).await.unwrap();
        let (_, read) = a.read(&fh, 4096, 700_000).await.unwrap();
        assert!(read == data);
        world.ds().store_id()
    };
    // The last tasks let go of the stores, which one process may open once.
    let mut left = 200;
    while DirObjects::open(&dir.path().join("objects"), objects_dir::Options::default()).is_err() {
        left -= 1;
        assert!(left > 0, "the store stays open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let shutdown = Shutdown::new();
    let world = daemon(dir.path()).await;
    assert_eq!(world.ds().store_id(), store_id);
    world.mds.state.lock().sizes.insert(FILE, 4096 + 700_000);
    let a = tcp_client(&world, &shutdown).await;
    let (eof, read) = a.read(&fh, 0, 1 << 20).await.unwrap();
    assert!(eof && read[..4096].iter().all(|b| *b == 0) && read[4096..] == data);
    assert!(
        world.ds().status().cold_reads > 0,
        "a file that is not open counts as cold"
    );
    let warm = world.ds().status().cold_reads;
    let (eof, read) = a.read(&fh, 5000, 1000).await.unwrap();
    assert!(!eof && read[..] == data[904..1904]);
    assert_eq!(world.ds().status().cold_reads, warm);
    let status = world.ds().status();
    assert_eq!((status.counter, status.objects_count), (2, 1));
}
