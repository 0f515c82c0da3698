//! What becomes of connections when their port goes down or their device goes away, on the device `ROPEWALK_RDMA_DEVICE`
//! over the network interface `ROPEWALK_RDMA_INTERFACE` with the address `ROPEWALK_RDMA_ADDRESS`.
//!
//! These take the machine's network away: `cargo xtask vm rdma` runs them in a guest, each in a process of its own.

use bytes::Bytes;
use fabric::{Ended, Endpoint, EndpointConfig, Fabric, Pool, PoolConfig, Receive, Status};
use ropewalk_fabric_verbs::Verbs;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::task::{Poll, ready};

const RECEIVES: u64 = 4;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"))
}

/// Starts a tool. A device goes away only once nobody has it open, so nobody waits for the end of that.
fn start_tool(command: &str) {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a program");
    let started = Command::new(program).args(words).spawn();
    drop(started.expect("it starts"));
}

/// Two ends of a connection, then trouble: both end with its reason and give everything back.
fn assert_ended_by(trouble: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 4096,
            slab_bytes: 65_536,
            bytes_max: 65_536,
            free_bytes_max: 0,
        });
        let receives = || {
            let receive = |id| Receive {
                id,
                buffer: pool.take().expect("there are 16"),
            };
            (0..RECEIVES).map(receive).collect()
        };
        let verbs = Verbs::open().expect("RDMA can be used");
        let ip: IpAddr = variable("ROPEWALK_RDMA_ADDRESS")
            .parse()
            .expect("an address");
        let listening = verbs.listen(SocketAddr::new(ip, 0)).await;
        let mut listener = listening.expect("the address is on a device");
        let config = EndpointConfig::default();
        let connecting = verbs.connect(listener.local(), config, Bytes::new(), receives());
        let accepting = async {
            let incoming = listener.accept().await.expect("somebody asks");
            incoming.accept(config, Bytes::new(), receives()).await
        };
        let (a, b) = tokio::try_join!(connecting, accepting).expect("a connection");
        let ends = [a, b];
        start_tool(trouble);
        let mut is_first = true;
        for end in ends {
            let (ended, flushed) = end_of(end.endpoint).await;
            let is_lost = ended == Ended::Lost(ErrorKind::NetworkDown);
            // The other has heard of the first one's leaving, at the latest.
            assert!(
                is_lost || !is_first && ended == Ended::PeerClosed,
                "{ended}"
            );
            assert_eq!(flushed, RECEIVES);
            is_first = false;
        }
        assert_eq!(pool.taken(), 0);
    });
}

/// How it ends, and what came back as flushed.
async fn end_of(mut endpoint: Box<dyn Endpoint>) -> (Ended, u64) {
    let mut completions = Vec::new();
    let ended = poll_fn(|cx| {
        loop {
            if let Err(ended) = ready!(endpoint.poll_completions(cx, &mut completions)) {
                return Poll::Ready(ended);
            }
        }
    })
    .await;
    let flushed = completions.iter().filter(|c| c.status == Status::Flushed);
    (ended, flushed.count() as u64)
}

#[test]
fn a_port_that_goes_down_ends_its_connections() {
    let interface = variable("ROPEWALK_RDMA_INTERFACE");
    assert_ended_by(&format!("ip link set {interface} down"));
}

#[test]
fn a_device_that_goes_away_ends_its_connections() {
    let device = variable("ROPEWALK_RDMA_DEVICE");
    assert_ended_by(&format!("rdma link delete {device}"));
}
