//! Goal: ten thousand idle sessions over RDMA cost a server little memory. Method: the real metadata server, and clients of ours over software iWARP, each with a connection and a session of its own.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use fabric_iwarp::Iwarp;
use nfs4::Verifier;
use rig::{LoneMds, connections_allowed};
use rpc::AuthSys;
use session_client::{Caller, NoCallbacks, Session, SessionConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use transport::rdma::{Config, Rdma, RdmaConnector};
use transport::{Address, Connector, Context, TransportLimits};

/// Idle sessions, where the hard limit of open files allows them.
const IDLE: usize = 10_000;
/// Those that are there before anything is measured.
const FIRST: usize = 100;
/// The documented bound of resident memory for each (docs/architecture/rdma-credits.md).
const IDLE_BYTES_MAX: usize = 8 * 1024;
/// Descriptors of the test, and what the server keeps for its files.
const FILES_RESERVED: u64 = 4096 + 64;
/// Longer than a loaded machine takes for anything, as is the lease.
const PATIENCE: Duration = Duration::from_secs(600);
/// Sessions that are made at a time.
const TOGETHER: usize = 50;

/// A metadata server, and where it listens for RDMA.
struct Mds {
    server: LoneMds,
    address: SocketAddr,
}

impl Mds {
    fn start(connections_max: usize) -> Self {
        let [nfs, control, address] = [(); 3].map(|()| rig::address());
        let more = format!(
            "lease_seconds = 3600\nlisten = ['{nfs}']\nrdma_listen = ['{address}']\ncontrol_listen = ['{control}']"
        );
        Self {
            server: LoneMds::start(connections_max, &more),
            address,
        }
    }

    fn session(&self, connector: &Arc<dyn Connector>, number: usize) -> Arc<Session> {
        let identity = AuthSys {
            stamp: 0,
            machine: b"test".to_vec(),
            uid: 1000,
            gid: 1000,
            gids: Vec::new(),
        };
        let config = SessionConfig {
            owner: format!("client {number}").into_bytes(),
            verifier: Verifier { bytes: [7; 8] },
            addresses: vec![Address::Rdma(self.address)],
            role_flag: 0,
            minor_version: 2,
            caller: Caller::auth_sys(&identity),
            slots: 64,
            connections: 1,
            callbacks: Some(Arc::new(NoCallbacks)),
            try_timeout: PATIENCE,
            give_up: PATIENCE,
        };
        Session::new(Arc::clone(connector), config)
    }
}

/// Makes sessions until there are so many. Each has asked something, so that its connection has been used.
async fn fill(
    mds: &Mds,
    connector: &Arc<dyn Connector>,
    idle: &mut Vec<Arc<Session>>,
    count: usize,
) {
    while idle.len() < count {
        let numbers = idle.len()..count.min(idle.len() + TOGETHER);
        let sessions: Vec<_> = numbers.map(|n| mds.session(connector, n)).collect();
        let made = sessions.iter().map(async |session| {
            session.establish().await.unwrap();
            session.renew().await.unwrap();
        });
        futures_util::future::join_all(made).await;
        idle.extend(sessions);
    }
}

#[tokio::test]
async fn ten_thousand_idle_sessions_cost_little() {
    let count = IDLE.min(connections_allowed(FILES_RESERVED));
    let mds = Mds::start(count);
    let rdma = Rdma::new(Arc::new(Iwarp::default()), Config::default());
    let limits = TransportLimits {
        connections_max: u32::MAX,
        ..TransportLimits::default()
    };
    let connector: Arc<dyn Connector> =
        Arc::new(RdmaConnector::new(Context::new(limits), vec![rdma]));
    let mut idle = Vec::new();
    fill(&mds, &connector, &mut idle, FIRST).await;
    let before = mds.server.resident_bytes();
    fill(&mds, &connector, &mut idle, count).await;
    let each = mds.server.resident_bytes().saturating_sub(before) / (count - FIRST);
    println!("{count} idle sessions over RDMA, {each} resident bytes for each");
    assert_eq!(mds.server.connections(), count);
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes");
    for session in idle.iter().step_by(97) {
        session.renew().await.unwrap();
    }
}
