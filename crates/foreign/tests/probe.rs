//! Goal: a probe finds each thing that a server lacks, says so, and leaves nothing behind.
//! Method: a small server in memory, which keeps files for root and others, and has one fault at a time.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod fake;

use fake::{Fake, Fault};
use nfs3_client::{Nfs3Client, RpcPeer, RpcPeerConfig};
use ropewalk_foreign::{Check, ProbeReport, probe};
use std::sync::Arc;
use std::time::Duration;
use transport::memory::MemoryNetwork;
use transport::workers::Shutdown;
use transport::{Address, Context, TransportLimits};

async fn probed(fault: Option<Fault>) -> (ProbeReport, Arc<Fake>) {
    let network = MemoryNetwork::default();
    let context = || Context::new(TransportLimits::default());
    let server = Arc::new(Fake::new(fault));
    let shutdown = Shutdown::new();
    let listener = network.listen("foreign").unwrap();
    tokio::spawn(listener.serve(server.clone(), context(), shutdown.signal()));
    let config = RpcPeerConfig {
        addresses: vec![Address::Memory("foreign".into())],
        connections: 1,
        calls_max: 8,
        try_timeout: Duration::from_secs(5),
        give_up: Duration::from_secs(20),
        first_xid: 1,
    };
    let peer = RpcPeer::new(Arc::new(network.connector("mds", context())), config);
    let nfs = Nfs3Client::new(peer);
    let report = probe(&nfs, &Fake::root(), 0x1234).await.unwrap();
    (report, server)
}

fn lacking(report: &ProbeReport) -> Vec<Check> {
    let lacks = report.findings.iter().filter(|f| f.lacks.is_some());
    lacks.map(|f| f.check).collect()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_the_rules_is_fit() {
    let (report, server) = probed(None).await;
    assert_eq!(lacking(&report), []);
    assert!(report.is_fit());
    assert_eq!(report.findings.len(), Check::ALL.len());
    assert_eq!(report.bytes_free, fake::FREE_BYTES);
    assert!(server.is_empty(), "the trial was removed");
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_found_and_named() {
    for (fault, check) in [
        (Fault::SquashesRoot, Check::RootIsRoot),
        (Fault::KeepsOwners, Check::GivesFiles),
        (Fault::ChecksDirectories, Check::OwnerWrites),
        (Fault::GroupsAreNothing, Check::GroupReads),
        (Fault::ModesAreNothing, Check::OthersAreKeptOut),
        (Fault::RemembersOwners, Check::IsFenced),
        (Fault::VerifierMoves, Check::KeepsVerifier),
        (Fault::LosesData, Check::KeepsData),
    ] {
        let (report, server) = probed(Some(fault)).await;
        assert!(!report.is_fit(), "{fault:?}");
        let lacks = lacking(&report);
        assert!(lacks.contains(&check), "{fault:?}: {lacks:?}");
        assert!(server.is_empty(), "{fault:?} left something");
    }
}

#[tokio::test(start_paused = true)]
async fn small_requests_are_only_slow() {
    let (report, _) = probed(Some(Fault::SmallRequests)).await;
    assert_eq!(lacking(&report), [Check::LargeRequests]);
    assert!(report.is_fit());
}
