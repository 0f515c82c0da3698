//! Goal: a server whose RDMA device goes away goes on over its others, and listens again once the device is back.
//! Method: the fabric in memory, whose devices can be taken away, in simulated time. It is also done under load, again
//! and again, with budgets that do not bear a loss.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;

use fabric::mem::MemFabric;

use super::*;

struct World {
    devices: MemFabric,
    rdma: Rdma,
    service: Arc<Situations>,
    server: Context,
    client: Context,
}

impl World {
    fn new() -> Self {
        Self::over(MemFabric::default())
    }

    fn over(devices: MemFabric) -> Self {
        // What is not given back is soon missed.
        let small = TransportLimits {
            receive_budget_bytes: 4 << 20,
            receive_share_bytes: 4 << 20,
            send_budget_bytes: 4 << 20,
            send_share_bytes: 4 << 20,
            ..TransportLimits::default()
        };
        Self {
            rdma: Rdma::new(Arc::new(devices.clone()), rdma::Config::default()),
            devices,
            service: Situations::new(),
            server: Context::new(small),
            client: Context::new(TransportLimits::default()),
        }
    }

    async fn serve(&self, addresses: &[SocketAddr]) -> Shutdown {
        let shutdown = Shutdown::new();
        let listeners = rdma::listen_all(addresses, &self.rdma).await.unwrap();
        let (service, context) = (self.service.clone(), self.server.clone());
        let serving = rdma::serve(
            listeners,
            self.rdma.clone(),
            service,
            context,
            shutdown.signal(),
        );
        tokio::spawn(serving);
        shutdown
    }

    async fn connect(&self, address: SocketAddr) -> Result<ConnHandle, crate::ConnectError> {
        let service: Arc<dyn DynService> = Situations::new();
        rdma::connect(address, &self.rdma, service, &self.client).await
    }

    async fn reaches(&self, address: SocketAddr) -> bool {
        let Ok(conn) = self.connect(address).await else {
            return false;
        };
        let reply = conn.call(call(ECHO, b"hello"), SOON).await;
        conn.close(CloseReason::Asked);
        reply.is_ok()
    }
}

fn addresses() -> [SocketAddr; 2] {
    ["10.0.0.1:20049", "10.0.1.1:20049"].map(|text| text.parse().unwrap())
}

/// Longer than a server takes to look for a device again.
const A_WHILE: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_device_that_goes_away_leaves_the_others_and_is_listened_on_when_it_is_back() {
    let world = World::new();
    let [a, b] = addresses();
    let _serving = world.serve(&[a, b]).await;
    assert!(world.reaches(a).await && world.reaches(b).await);
    world.devices.take_device(b.ip());
    tokio::time::sleep(A_WHILE).await;
    assert!(world.reaches(a).await && !world.reaches(b).await);
    world.devices.give_device(b.ip());
    tokio::time::sleep(A_WHILE).await;
    assert!(world.reaches(a).await && world.reaches(b).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_starts_without_a_device_as_long_as_another_is_there() {
    let world = World::new();
    let [a, b] = addresses();
    world.devices.take_device(a.ip());
    world.devices.take_device(b.ip());
    assert!(rdma::listen_all(&[a, b], &world.rdma).await.is_err());
    world.devices.give_device(a.ip());
    let _serving = world.serve(&[a, b]).await;
    assert!(world.reaches(a).await && !world.reaches(b).await);
    world.devices.give_device(b.ip());
    tokio::time::sleep(A_WHILE).await;
    assert!(world.reaches(b).await);
    let taken = rdma::listen_all(&[a, b], &world.rdma).await;
    assert!(taken.is_err(), "somebody listens there");
}

/// Calls with bulk in both directions over one connection, one after the other until one fails.
struct Load {
    done: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

/// Bytes of each call, and of its result.
const BULK_BYTES: usize = 300_000;

impl Load {
    fn start(conn: &ConnHandle) -> Self {
        let done = Arc::new(AtomicU32::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (conn, counted, stop) = (conn.clone(), Arc::clone(&done), Arc::clone(&is_over));
        let task = tokio::spawn(async move {
            let bulk = pattern(BULK_BYTES);
            while let Ok(reply) = conn.call(call(ECHO, &bulk), SOON).await {
                assert!(result(&reply) == bulk);
                counted.fetch_add(1, SeqCst);
                if stop.load(SeqCst) {
                    break;
                }
            }
        });
        Self {
            done,
            is_over,
            task,
        }
    }

    /// Ends it, after a call that is answered.
    async fn stop(self) {
        self.goes_on(1).await;
        self.is_over.store(true, SeqCst);
        self.task.await.unwrap();
    }

    /// Until there were so many more. Simulated time stands still under load.
    async fn goes_on(&self, calls: u32) {
        let wanted = self.done.load(SeqCst) + calls;
        let are_done = || self.done.load(SeqCst) >= wanted;
        until("calls go on", || are_done() || self.task.is_finished()).await;
        assert!(are_done(), "a call failed");
    }
}

/// Until this holds, while others work.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never: {what}");
}

async fn a_device_goes_away_under_load(devices: MemFabric) {
    const ROUNDS: usize = 10;
    /// Calls that run when the device goes.
    const GATED_CALLS: usize = 4;
    let world = World::over(devices);
    let [a, b] = addresses();
    let _serving = world.serve(&[a, b]).await;
    let beside = world.connect(a).await.unwrap();
    for _ in 0..ROUNDS {
        let other = Load::start(&beside);
        let conns = [
            world.connect(b).await.unwrap(),
            world.connect(b).await.unwrap(),
        ];
        let loads = conns.each_ref().map(Load::start);
        let waiting = world.service.waiting.load(SeqCst);
        let gated: Vec<_> = (0..GATED_CALLS)
            .map(|at| {
                let conn = conns[at % 2].clone();
                let message = call(GATED, &pattern(BULK_BYTES));
                tokio::spawn(async move { conn.call(message, SOON).await })
            })
            .collect();
        for load in &loads {
            load.goes_on(3).await;
        }
        let all_run = || world.service.waiting.load(SeqCst) == waiting + GATED_CALLS;
        until("calls run", all_run).await;
        world.devices.take_device(b.ip());
        for load in loads {
            load.task.await.unwrap();
        }
        for call in gated {
            assert!(call.await.unwrap().is_err(), "nobody waits for its time");
        }
        assert!(world.connect(b).await.is_err());
        other.goes_on(3).await;
        // What runs at the server ends in its own time.
        world.service.gate.add_permits(GATED_CALLS);
        let has_left = || world.server.connections() == 1;
        until("connections are gone", has_left).await;
        other.stop().await;
        world.devices.give_device(b.ip());
        tokio::time::sleep(A_WHILE).await;
    }
    beside.close(CloseReason::Asked);
    until("all are gone", || world.server.connections() == 0).await;
    assert_eq!(world.rdma.credits_lent().0, 0, "lent to nobody");
    let ended = world.service.ended.lock().clone();
    assert_eq!(ended.len(), 2 * ROUNDS + 1);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_goes_away_under_load_ends_its_calls_at_once_and_no_others() {
    a_device_goes_away_under_load(MemFabric::default()).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_does_where_receives_are_in_a_queue_of_the_device() {
    a_device_goes_away_under_load(MemFabric::cutting()).await;
}
