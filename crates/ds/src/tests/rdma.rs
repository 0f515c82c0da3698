//! Clients over RDMA: data are placed, not sent inside messages, and the reply cache knows no transport.

use super::*;
use crate::tests::real::daemon;
use fabric::Fabric;
use fabric::mem::MemFabric;
use nfs4::CompoundBuilder;
use nfs4::ops::{SequenceArgs, SequenceRes};
use rpc::{CallStart, ReplyHeader};
use transport::rdma::{self, Config, Rdma, RdmaConnector};
use transport::{Connector, CountersSnapshot, NoService, ReplyRoom};
use xdr::Decode;

/// A data server that is reached over RDMA, and one connector to it.
pub(super) struct Rig {
    pub(super) world: World,
    server: Context,
    client: Context,
    connector: Arc<RdmaConnector>,
    address: Address,
    _shutdown: Shutdown,
}

impl Rig {
    pub(super) async fn new(world: World) -> Self {
        Self::over(Arc::new(MemFabric::default()), "10.0.0.1:20049", world).await
    }

    pub(super) async fn over(fabric: Arc<dyn Fabric>, address: &str, world: World) -> Self {
        let rdma = Rdma::new(fabric.clone(), Config::default());
        let listener = rdma::listen(address.parse().unwrap(), &rdma).await.unwrap();
        let address = listener.local();
        let (server, shutdown) = (Context::new(TransportLimits::default()), Shutdown::new());
        tokio::spawn(rdma::serve(
            vec![listener],
            rdma.clone(),
            world.nfsd.clone(),
            server.clone(),
            shutdown.signal(),
        ));
        let client = Context::new(TransportLimits::default());
        // With memory of its own, as in another process.
        let connecting = Rdma::new(fabric, Config::default());
        Self {
            world,
            server,
            connector: Arc::new(RdmaConnector::new(client.clone(), vec![connecting])),
            client,
            address: Address::Rdma(address),
            _shutdown: shutdown,
        }
    }

    pub(super) async fn client(&self) -> Client {
        let client = self.world.client(b"a").await;
        let config = SessionConfig {
            addresses: vec![self.address.clone()],
            ..client.session.config().clone()
        };
        let session = Session::new(self.connector.clone(), config);
        session.establish().await.unwrap();
        Client {
            session,
            caller: client.caller,
        }
    }

    pub(super) fn counters(&self) -> CountersSnapshot {
        self.server.counters().snapshot()
    }

    pub(super) fn client_counters(&self) -> CountersSnapshot {
        self.client.counters().snapshot()
    }
}

/// Writes and reads, and says what was counted for that.
async fn write_and_read(rig: &Rig, len: u32) -> CountersSnapshot {
    let a = rig.client().await;
    let fh = Grant::to(b"a").fh();
    let data: Vec<u8> = (0..len).map(|n| n.to_le_bytes()[1]).collect();
    a.write(&fh, 4096, &data, StableHow::Unstable)
        .await
        .unwrap();
    a.commit(&fh).await.unwrap();
    let (_, read) = a.read(&fh, 4096, len).await.unwrap();
    assert!(read == data);
    rig.counters()
}

#[tokio::test]
async fn data_in_memory_travel_by_rdma_and_are_not_copied() {
    const LEN: u32 = 700_001;
    let rig = Rig::new(World::new().await).await;
    let counted = write_and_read(&rig, LEN).await;
    assert_eq!(counted.rdma_read_chunk_bytes_in, u64::from(LEN));
    assert_eq!(counted.rdma_write_chunk_bytes_out, u64::from(LEN));
    assert_eq!((counted.rdma_copied_bytes, counted.rdma_file_bytes), (0, 0));
    assert!(counted.rdma_inline_bytes_in < 4096);
}

#[tokio::test]
async fn data_in_files_are_read_once_into_registered_memory() {
    const LEN: u32 = 700_000;
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::new(daemon(dir.path()).await).await;
    let counted = write_and_read(&rig, LEN).await;
    assert_eq!(counted.rdma_write_chunk_bytes_out, u64::from(LEN));
    assert_eq!(counted.rdma_file_bytes, u64::from(LEN));
    assert_eq!(counted.rdma_copied_bytes, 0);
}

#[tokio::test]
async fn small_data_stay_inside_the_messages() {
    let rig = Rig::new(World::new().await).await;
    let counted = write_and_read(&rig, 100).await;
    assert_eq!(counted.rdma_read_chunk_bytes_in, 0);
    assert_eq!(counted.rdma_write_chunk_bytes_out, 0);
}

/// A request of slot 0 that writes a byte and wants its reply kept.
fn request(client: &Client, fh: &[u8]) -> Message {
    let mut e = Encoder::new();
    let credential = OpaqueAuth::NONE;
    CallStart {
        xid: 0,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: 1,
        credential,
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    let mut b = CompoundBuilder::new(e, b"", 2);
    b.push(&SequenceArgs {
        session_id: client.session.established().unwrap().session,
        sequence_id: 1,
        slot_id: 3,
        highest_slot_id: 3,
        cache_this: true,
    });
    b.push(&PutFhArgs { object: Opaque(fh) });
    b.push(&WriteArgsPayload {
        stateid: OPEN,
        offset: 0,
        stable: StableHow::Unstable,
        len: 5000,
    });
    let data = Payload::Bytes(vec![7; 5000].into());
    Message::new(b.finish(), vec![data]).with_reply_room(ReplyRoom::plain(1000))
}

#[tokio::test]
async fn a_retry_over_the_other_transport_gets_the_kept_reply() {
    let rig = Rig::new(World::new().await).await;
    let (a, fh) = (rig.client().await, Grant::to(b"a").fh());
    let wait = Duration::from_secs(5);
    let over_rdma = rig
        .connector
        .connect(&rig.address, NoService::shared())
        .await
        .unwrap();
    let other = rig.world.network.connector("other", rig.server.clone());
    let elsewhere = other
        .connect(&Address::Memory("ds".into()), NoService::shared())
        .await
        .unwrap();
    let mut replies = Vec::new();
    for conn in [&over_rdma, &elsewhere, &over_rdma] {
        let record = conn.call(request(&a, &fh), wait).await.unwrap();
        let mut d = Decoder::new(&record);
        ReplyHeader::decode(&mut d).unwrap();
        let results = record.slice(d.position()..);
        let mut reply = nfs4::CompoundReply::new(Decoder::new(&results)).unwrap();
        reply.take::<SequenceRes>().unwrap();
        reply.take::<PutFhRes>().unwrap();
        assert_eq!(reply.take::<WriteRes>().unwrap().count, 5000);
        replies.push(results);
    }
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    assert_eq!(rig.world.ds().status().writes, 1);
    // Both tries over RDMA offered their data; the one that is a retry is answered from the cache.
    assert_eq!(rig.counters().rdma_read_chunk_bytes_in, 10_000);
}
