//! Goal: a message over RDMA is as long as both ends allow, by what each says of itself when it connects (RFC 8797 §4).
//! What is longer goes by chunks. Method: ends with sizes of their own, and what the server counts.

use super::*;
use crate::CountersSnapshot;

const KIB: u32 = 1024;
/// What a message has around its data, generously.
const HEADERS_BYTES: u32 = 300;

struct Ends {
    server: Context,
    conn: ConnHandle,
    _shutdown: Shutdown,
}

impl Ends {
    async fn new(fabric: Arc<dyn fabric::Fabric>, serving: u32, calling: u32) -> Self {
        let sized = |inline_bytes| {
            let config = rdma::Config {
                inline_bytes,
                ..rdma::Config::default()
            };
            Rdma::new(Arc::clone(&fabric), config)
        };
        let over = sized(serving);
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = rdma::listen(any, &over).await.unwrap();
        let address = listener.local();
        let (server, shutdown) = (Context::new(TransportLimits::default()), Shutdown::new());
        tokio::spawn(rdma::serve(
            vec![listener],
            over,
            Situations::new(),
            server.clone(),
            shutdown.signal(),
        ));
        let client = Context::new(TransportLimits::default());
        let over = sized(calling);
        let connecting = rdma::connect(address, &over, Situations::new(), &client);
        Self {
            server,
            conn: connecting.await.unwrap(),
            _shutdown: shutdown,
        }
    }

    /// What the server counts for data that go there and back.
    async fn echo(&self, bytes: u32) -> [u64; 2] {
        let args = pattern(bytes as usize);
        let call = call(ECHO, &args).with_reply_room(room(bytes));
        let before = self.server.counters().snapshot();
        let reply = self.conn.call(call, SOON).await.unwrap();
        assert!(result(&reply) == args);
        let after = self.server.counters().snapshot();
        let counted = |of: fn(&CountersSnapshot) -> u64| of(&after) - of(&before);
        [
            counted(|c| c.rdma_read_chunk_bytes_in),
            counted(|c| c.rdma_write_chunk_bytes_out),
        ]
    }
}

async fn both_use_the_smaller_size(fabric: Arc<dyn fabric::Fabric>) {
    for (serving, calling) in [(4, 4), (4, 16), (16, 4), (16, 16), (64, 16), (64, 64)] {
        let ends = Ends::new(Arc::clone(&fabric), serving * KIB, calling * KIB).await;
        let most = serving.min(calling) * KIB;
        let inside = ends.echo(most - HEADERS_BYTES).await;
        assert_eq!(inside, [0, 0], "{serving} and {calling} KiB");
        let beyond = ends.echo(most).await;
        assert_eq!(beyond, [u64::from(most); 2], "{serving} and {calling} KiB");
    }
}

#[tokio::test]
async fn both_ends_use_the_smaller_size_in_memory() {
    both_use_the_smaller_size(Arc::new(fabric::mem::MemFabric::default())).await;
}

#[tokio::test]
async fn both_ends_use_the_smaller_size_over_iwarp() {
    both_use_the_smaller_size(Arc::new(fabric_iwarp::Iwarp::default())).await;
}
