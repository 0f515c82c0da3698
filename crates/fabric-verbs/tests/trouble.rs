//! What becomes of connections when their port goes down or their device goes away. The device is
//! `ROPEWALK_RDMA_DEVICE`, over the network interface `ROPEWALK_RDMA_INTERFACE` with the address
//! `ROPEWALK_RDMA_ADDRESS`. Another device of the kind `ROPEWALK_RDMA_KIND` is made over the interface
//! `ROPEWALK_RDMA_SPARE`.
//!
//! These take the machine's network away: `cargo xtask vm rdma` runs them in a guest, each in a process of its own.

use bytes::Bytes;
use fabric::{
    Close, Ended, Endpoint, EndpointConfig, Fabric, Pool, PoolConfig, Receive, ReceiveQueue,
    WorkStatus,
};
use ropewalk_fabric_verbs::Verbs;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command};
use std::task::{Poll, ready};

const RECEIVES: u64 = 4;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"))
}

/// Starts a tool. A device goes away only once nobody has it open, so nobody waits for the end of that.
fn start_tool(command: &str) -> Child {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a program");
    let started = Command::new(program).args(words).spawn();
    started.expect("it starts")
}

fn run_tool(command: &str) {
    let ended = start_tool(command).wait().expect("it ends");
    assert!(ended.success(), "{command}");
}

fn in_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

fn pool() -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes: 4096,
        slab_bytes: 65_536,
        bytes_max: 65_536,
        free_bytes_max: usize::MAX,
    })
}

/// Two ends of a connection.
async fn connection(pool: &Pool) -> [Box<dyn Endpoint>; 2] {
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
        // As a server does it: all such connections of a device share their registered memory, and their receives.
        let config = EndpointConfig {
            exposed_max: 0,
            ..config
        };
        let mut claim = ReceiveQueue::new(pool.clone()).claim();
        assert_eq!(claim.admit(1), 1);
        incoming.accept_sharing(config, Bytes::new(), claim).await
    };
    let (a, b) = tokio::try_join!(connecting, accepting).expect("a connection");
    [a.endpoint, b.endpoint]
}

/// Trouble ends both ends with its reason, and they give everything back.
async fn assert_ended_by(trouble: &str) {
    let pool = pool();
    let ends = connection(&pool).await;
    start_tool(trouble);
    let mut is_first = true;
    for end in ends {
        let (ended, flushed) = end_of(end).await;
        let is_lost = ended == Ended::Lost(ErrorKind::NetworkDown);
        // The other has heard of the first one's leaving, at the latest.
        assert!(
            is_lost || !is_first && ended == Ended::PeerClosed,
            "{ended}"
        );
        // Those that are shared go back without a word.
        assert!(flushed == RECEIVES || !is_first && flushed <= 1);
        is_first = false;
    }
    assert_eq!(pool.taken(), 0);
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
    let flushed = completions
        .iter()
        .filter(|c| c.status == WorkStatus::Flushed);
    (ended, flushed.count() as u64)
}

#[test]
fn a_port_that_goes_down_ends_its_connections() {
    let interface = variable("ROPEWALK_RDMA_INTERFACE");
    in_runtime(async move {
        assert_ended_by(&format!("ip link set {interface} down")).await;
    });
}

/// The next device has another name and interface, since this process holds those of the one that is gone.
#[test]
fn a_device_that_goes_away_ends_its_connections_and_another_takes_its_place() {
    let [device, interface, spare, kind, address] =
        ["DEVICE", "INTERFACE", "SPARE", "KIND", "ADDRESS"]
            .map(|name| variable(&format!("ROPEWALK_RDMA_{name}")));
    in_runtime(async move {
        assert_ended_by(&format!("rdma link delete {device}")).await;
        run_tool(&format!("ip addr del {address}/24 dev {interface}"));
        run_tool(&format!("ip addr add {address}/24 dev {spare}"));
        run_tool(&format!("rdma link add spare type {kind} netdev {spare}"));
        let pool = pool();
        let [mut a, b] = connection(&pool).await;
        a.close(Close::Now);
        assert_eq!(end_of(a).await.0, Ended::Closed);
        assert_eq!(end_of(b).await.0, Ended::PeerClosed);
        assert_eq!(pool.taken(), 0);
    });
}
