//! Goal: a server with several addresses has its requests on all of them, and goes on when some are gone. Method: the scripted
//! server at two names in memory, where time is simulated, and at two addresses of loopback over TCP and software iWARP.

use super::*;
use fabric_iwarp::Iwarp;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use transport::tcp::{self, TcpConnector};
use transport::{CloseReason, Connector};

impl FakeServer {
    fn came_to(&self, name: &str) -> u32 {
        self.state.lock().came_to.get(name).copied().unwrap_or(0)
    }
}

/// The server at a second name, and a session that knows both.
async fn two_names() -> World {
    let mut world = World::new(None);
    let listener = world.network.listen("other").unwrap();
    let context = Context::new(TransportLimits::default());
    let signal = world._shutdown.signal();
    tokio::spawn(listener.serve(world.server.clone(), context.clone(), signal));
    let names = ["server", "other"].map(|name| Address::Memory(name.to_owned()));
    let config = SessionConfig {
        addresses: names.to_vec(),
        ..world.session.config().clone()
    };
    let connector = world.network.connector("client", context);
    world.session = Session::new(Arc::new(connector), config);
    world
}

async fn some_requests(world: &World, prefix: &str) {
    for n in 0..20 {
        world.remove(&format!("{prefix}{n}")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_falls_silent_is_left_and_found_again() {
    let world = two_names().await;
    world.session.establish().await.unwrap();
    some_requests(&world, "a").await;
    assert!(world.server.came_to("server") >= 8, "each has its part");
    assert!(world.server.came_to("other") >= 8, "each has its part");

    *world.script.0.lock() = Box::new(|p| match [p.from, p.to].contains(&"other") {
        true => Fate::Lose,
        false => Fate::Deliver,
    });
    some_requests(&world, "b").await;
    let before = world.server.came_to("other");
    some_requests(&world, "c").await;
    assert_eq!(world.server.came_to("other"), before, "nobody is there");

    *world.script.0.lock() = Box::new(|_| Fate::Deliver);
    tokio::time::sleep(Duration::from_secs(60)).await;
    some_requests(&world, "d").await;
    assert!(world.server.came_to("other") >= before + 8, "it is back");
    assert_eq!(world.server.executed().len(), 80, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_silent_first_address_delays_a_new_session_by_no_more_than_a_moment() {
    let world = two_names().await;
    let rdma = |port| Address::Rdma(SocketAddr::from(([127, 0, 0, 1], port)));
    let config = SessionConfig {
        addresses: vec![rdma(1), rdma(2)],
        ..world.session.config().clone()
    };
    /// Nothing comes of the first address.
    struct Half(Arc<dyn Connector>);
    impl Connector for Half {
        fn connect<'a>(
            &'a self,
            address: &'a Address,
            reverse: Arc<dyn transport::DynService>,
        ) -> transport::BoxFuture<'a, Result<ConnHandle, transport::ConnectError>> {
            let is_silent = matches!(address, Address::Rdma(a) if a.port() == 1);
            Box::pin(async move {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                let server = Address::Memory("server".to_owned());
                self.0.connect(&server, reverse).await
            })
        }
    }
    let context = Context::new(TransportLimits::default());
    let connector = Half(Arc::new(world.network.connector("new", context)));
    let started = tokio::time::Instant::now();
    let session = Session::new(Arc::new(connector), config);
    session.establish().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn an_address_of_another_server_is_not_used() {
    let mut world = World::new(None);
    let stranger = Arc::new(FakeServer::default());
    stranger.state.lock().boot = 7;
    let listener = world.network.listen("stranger").unwrap();
    let context = Context::new(TransportLimits::default());
    let signal = world._shutdown.signal();
    tokio::spawn(listener.serve(stranger.clone(), context.clone(), signal));
    let names = ["server", "stranger"].map(|name| Address::Memory(name.to_owned()));
    let config = SessionConfig {
        addresses: names.to_vec(),
        ..world.session.config().clone()
    };
    let connector = world.network.connector("client", context);
    world.session = Session::new(Arc::new(connector), config);
    world.session.establish().await.unwrap();
    let before = world.session.established();
    some_requests(&world, "a").await;
    assert_eq!(world.server.executed().len(), 20);
    assert!(stranger.executed().is_empty());
    assert!(stranger.came_to("stranger") > 0, "it was asked");
    assert_eq!(world.session.established(), before);
}

/// The server at one address of loopback, until it is closed.
struct Rail {
    address: SocketAddr,
    context: Context,
    shutdown: Shutdown,
}

impl Rail {
    fn over_tcp(server: &Arc<FakeServer>, ip: [u8; 4]) -> Self {
        let listeners = tcp::bind((ip, 0).into(), 1).unwrap();
        let rail = Self::at(listeners[0].local_addr().unwrap());
        let signal = rail.shutdown.signal();
        let serving = tcp::serve(listeners, server.clone(), rail.context.clone(), signal);
        tokio::spawn(serving);
        rail
    }

    async fn over_iwarp(server: &Arc<FakeServer>, ip: [u8; 4], rdma: &Rdma) -> Self {
        let listener = transport::rdma::listen((ip, 0).into(), rdma).await.unwrap();
        let rail = Self::at(listener.local());
        let signal = rail.shutdown.signal();
        tokio::spawn(transport::rdma::serve(
            vec![listener],
            rdma.clone(),
            server.clone(),
            rail.context.clone(),
            signal,
        ));
        rail
    }

    fn at(address: SocketAddr) -> Self {
        Self {
            address,
            context: Context::new(TransportLimits::default()),
            shutdown: Shutdown::new(),
        }
    }
}

/// Many requests at a time; in their middle the second address closes, with its connections.
async fn lose_one_under_load(
    server: &Arc<FakeServer>,
    rails: [Rail; 2],
    connector: Arc<dyn Connector>,
    address: impl Fn(SocketAddr) -> Address,
) {
    let config = SessionConfig {
        addresses: rails.iter().map(|rail| address(rail.address)).collect(),
        ..World::new(None).session.config().clone()
    };
    let session = Session::new(connector, config);
    session.establish().await.unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let load = |task: u32| {
        let (session, enough) = (session.clone(), enough.clone());
        async move {
            let mut sent = 0;
            while !enough.load(SeqCst) {
                let name = format!("{task}-{sent}").into_bytes();
                let build: &Build<'_> = &|b| {
                    b.push(&RemoveArgs {
                        target: Opaque(&name),
                    });
                    Vec::new()
                };
                session.compound_once(&caller(), build).await.unwrap();
                sent += 1;
            }
            sent
        }
    };
    let tasks: Vec<_> = (0..8).map(|task| tokio::spawn(load(task))).collect();
    let [first, second] = rails.each_ref().map(|rail| rail.address.to_string());
    let until = async |name: &str, count: u32| {
        while server.came_to(name) < count {
            tokio::task::yield_now().await;
        }
    };
    until(&second, 100).await;
    rails[1].shutdown.trigger();
    let all = server.state.lock().connections.clone();
    let lost = all.iter().filter(|conn| conn.local().to_string() == second);
    lost.for_each(|conn| conn.close(CloseReason::Asked));
    until(&first, server.came_to(&first) + 500).await;
    enough.store(true, SeqCst);
    let mut sent = 0;
    for task in tasks {
        sent += task.await.unwrap();
    }
    let mut executed = server.executed();
    assert_eq!(executed.len(), sent, "each was answered");
    executed.sort_unstable();
    executed.dedup();
    assert_eq!(executed.len(), sent, "and none was executed twice");
}

#[tokio::test]
async fn requests_over_tcp_go_on_when_one_of_two_addresses_closes() {
    let server = Arc::new(FakeServer::default());
    let rails = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| Rail::over_tcp(&server, ip));
    let connector = TcpConnector::new(Context::new(TransportLimits::default()));
    lose_one_under_load(&server, rails, Arc::new(connector), Address::Tcp).await;
}

#[tokio::test]
async fn requests_over_software_iwarp_go_on_when_one_of_two_addresses_closes() {
    let server = Arc::new(FakeServer::default());
    let rdma = Rdma::new(
        Arc::new(Iwarp::default()),
        transport::rdma::Config::default(),
    );
    let rails = [
        Rail::over_iwarp(&server, [127, 0, 0, 1], &rdma).await,
        Rail::over_iwarp(&server, [127, 0, 0, 2], &rdma).await,
    ];
    let connector = RdmaConnector::new(Context::new(TransportLimits::default()), vec![rdma]);
    lose_one_under_load(&server, rails, Arc::new(connector), Address::Rdma).await;
}
