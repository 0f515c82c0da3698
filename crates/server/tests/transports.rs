//! Goal: a retry gets the reply of its first execution over whichever transport it comes (RFC 8881 §2.10.6, rule R15).
//! Method: one server on memory, TCP on loopback and RDMA of the provider within the process; the same request over each.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use fabric::mem::MemFabric;
use nfs4::NfsStatus;
use rig::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use transport::rdma::{self, Config, Rdma};
use transport::{CloseReason, ConnHandle, Context, NoService, TransportKind, TransportLimits, tcp};

/// The other transports of a rig's server.
struct Doors {
    tcp: SocketAddr,
    rdma_address: SocketAddr,
    rdma: Rdma,
    clients: Context,
}

impl Doors {
    async fn open(rig: &Rig) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let listeners = tcp::bind(any, 1).unwrap();
        let tcp = listeners[0].local_addr().unwrap();
        let (nfsd, context) = (rig.nfsd.clone(), rig.context().clone());
        let over_tcp = tcp::serve(listeners, nfsd, context, rig.shutdown.signal());
        tokio::spawn(over_tcp);
        let rdma = Rdma::new(Arc::new(MemFabric::default()), Config::default());
        let listener = rdma::listen(any, &rdma).await.unwrap();
        let rdma_address = listener.local();
        let (nfsd, context) = (rig.nfsd.clone(), rig.context().clone());
        let signal = rig.shutdown.signal();
        let over_rdma = rdma::serve(vec![listener], rdma.clone(), nfsd, context, signal);
        tokio::spawn(over_rdma);
        Self {
            tcp,
            rdma_address,
            rdma,
            clients: Context::new(TransportLimits::default()),
        }
    }

    async fn connect(&self, rig: &Rig, kind: TransportKind) -> ConnHandle {
        let (reverse, clients) = (NoService::shared(), &self.clients);
        match kind {
            TransportKind::Tcp => tcp::connect(self.tcp, reverse, clients).await.unwrap(),
            TransportKind::Rdma => {
                let connecting = rdma::connect(self.rdma_address, &self.rdma, reverse, clients);
                connecting.await.unwrap()
            }
            _ => rig.connect().await,
        }
    }
}

#[tokio::test]
async fn a_retry_over_another_transport_gets_the_same_bytes() {
    let rig = Rig::new();
    let doors = Doors::open(&rig).await;
    let kinds = [
        TransportKind::Memory,
        TransportKind::Tcp,
        TransportKind::Rdma,
    ];
    let mut executed = 0;
    for first_kind in kinds {
        for then_kind in kinds {
            let conn = doors.connect(&rig, first_kind).await;
            let owner = format!("{first_kind:?} {then_kind:?}");
            let (client, sequence) = exchange(&conn, &owner, 1).await;
            let session = create(&conn, client, sequence, 0).await.unwrap().session_id;
            let request = || remove(session, 0, 1, "x");
            let first = call(&conn, request()).await;
            assert_eq!(outcome(&first), (NfsStatus::Ok, 3), "{owner}");
            executed += 1;
            conn.close(CloseReason::Asked);
            let other = doors.connect(&rig, then_kind).await;
            let again = call(&other, request()).await;
            assert_eq!(body(&first), body(&again), "{owner}");
            assert_eq!(rig.removes(), executed, "{owner}: executed once");
        }
    }
    let replays = rig.nfsd.counters().replays.load(SeqCst);
    assert_eq!(replays, u64::from(executed));
}
