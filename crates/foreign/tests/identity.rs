//! Goal: a machine that looks for the identity file of an export is told what it sees. No other export passes for this one.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod fake;

use fake::Fake;
use nfs3_client::{Nfs3Client, RpcPeer, RpcPeerConfig};
use ropewalk_foreign::{ExportIdentity, Sighting};
use std::sync::Arc;
use std::time::Duration;
use transport::memory::MemoryNetwork;
use transport::workers::Shutdown;
use transport::{Address, Context, TransportLimits};

#[tokio::test(start_paused = true)]
async fn only_the_export_with_the_code_is_the_same() {
    let network = MemoryNetwork::default();
    let context = || Context::new(TransportLimits::default());
    let server = Arc::new(Fake::new(None));
    let shutdown = Shutdown::new();
    let listener = network.listen("foreign").unwrap();
    tokio::spawn(listener.serve(server, context(), shutdown.signal()));
    let config = RpcPeerConfig {
        addresses: vec![Address::Memory("foreign".into())],
        connections: 1,
        calls_max: 8,
        try_timeout: Duration::from_secs(5),
        give_up: Duration::from_secs(20),
        first_xid: 1,
    };
    let peer = RpcPeer::new(Arc::new(network.connector("mds", context())), config);
    let (nfs, root) = (Nfs3Client::new(peer), Fake::root());
    let of = |cluster_id, code| ExportIdentity { cluster_id, code };
    let (first, second, other) = (of(1, 5), of(1, 6), of(2, 5));

    assert_eq!(first.look(&nfs, &root).await.unwrap(), Sighting::NoFile);
    assert!(!first.leave(&nfs, &root).await.unwrap());
    assert_eq!(first.look(&nfs, &root).await.unwrap(), Sighting::Same);
    assert_eq!(second.look(&nfs, &root).await.unwrap(), Sighting::OtherCode);
    assert_eq!(other.look(&nfs, &root).await.unwrap(), Sighting::NoFile);
    assert!(second.leave(&nfs, &root).await.unwrap(), "one was there");
    assert_eq!(second.look(&nfs, &root).await.unwrap(), Sighting::Same);
    assert_eq!(first.look(&nfs, &root).await.unwrap(), Sighting::OtherCode);
}
