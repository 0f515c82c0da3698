//! Goal: ten thousand idle sessions over RDMA cost a server little memory. Method: the real metadata server, and clients of ours over software iWARP, each with a connection and a session of its own.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use fabric_iwarp::Iwarp;
use nfs4::Verifier;
use rig::{ropewalk, status, wait_for};
use rpc::AuthSys;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use session_client::{Caller, NoCallbacks, Session, SessionConfig};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;
use transport::rdma::{Config, Rdma, RdmaConnector};
use transport::{Address, Connector, Context, Limits};

/// Idle sessions, where the hard limit of open files allows them.
const IDLE: usize = 10_000;
/// Those that are there before anything is measured.
const FIRST: usize = 100;
/// The documented bound of resident memory for each (docs/rdma.md, "Receives and credits").
const IDLE_BYTES_MAX: usize = 8 * 1024;
/// Descriptors of the test, and what the server keeps for its files.
const FILES_RESERVED: u64 = 4096 + 64;
/// Longer than a loaded machine takes for anything, as is the lease.
const PATIENCE: Duration = Duration::from_secs(600);
/// Sessions that are made at a time.
const TOGETHER: usize = 50;

/// A metadata server in memory, killed when dropped.
struct Mds {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Mds {
    fn start(connections_max: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [nfs, control, address] = free.each_ref().map(|l| l.local_addr().unwrap());
        drop(free);
        let config = dir.path().join("mds.toml");
        let text = format!(
            "state_dir = '{}/mds'\nlease_seconds = 3600\nlisten = ['{nfs}']\nrdma_listen = ['{address}']\n\
             control_listen = ['{control}']\nstore = 'memory'\nconnections_max = {connections_max}\n\
             connections_per_address_max = {connections_max}",
            dir.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let child = ropewalk()
            .args(["mds", "--config", config.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mds = Self {
            child,
            address,
            dir,
        };
        wait_for("metadata server", || status(mds.dir.path()));
        mds
    }

    fn resident_bytes(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size()
    }

    fn connections(&self) -> usize {
        let count = status(self.dir.path()).unwrap()["mds"]["connections"].as_u64();
        usize::try_from(count.unwrap()).unwrap()
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

impl Drop for Mds {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Raises the limit of open files, which the server inherits, and returns how many connections it allows.
fn connections_allowed() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let files = limit.maximum.unwrap_or(u64::MAX);
    let allowed = files.checked_sub(FILES_RESERVED);
    usize::try_from(allowed.expect("this test needs some 5,000 open files (ulimit -Hn)")).unwrap()
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
    let count = IDLE.min(connections_allowed());
    let mds = Mds::start(count);
    let rdma = Rdma::new(Arc::new(Iwarp::default()), Config::default());
    let limits = Limits {
        connections_max: u32::MAX,
        ..Limits::default()
    };
    let connector: Arc<dyn Connector> =
        Arc::new(RdmaConnector::new(Context::new(limits), vec![rdma]));
    let mut idle = Vec::new();
    fill(&mds, &connector, &mut idle, FIRST).await;
    let before = mds.resident_bytes();
    fill(&mds, &connector, &mut idle, count).await;
    let each = mds.resident_bytes().saturating_sub(before) / (count - FIRST);
    println!("{count} idle sessions over RDMA, {each} resident bytes for each");
    assert_eq!(mds.connections(), count);
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes");
    for session in idle.iter().step_by(97) {
        session.renew().await.unwrap();
    }
}
