//! Goal: a metadata server that listens for RDMA serves a client over it, as its counters say. Method: the real program with
//! `rdma_listen`, and our own client over software iWARP.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use client::{Client, ClientConfig, UserIdentity, Verifier};
use fabric_iwarp::Iwarp;
use rig::{Killed, ropewalk, status, wait_for};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use transport::rdma::{Config, Rdma, RdmaConnector};
use transport::{Address, Context, TransportLimits};

fn start(dir: &Path, over_rdma: SocketAddr) -> Killed {
    let (address, control) = (rig::address(), rig::address());
    let config = dir.join("mds.toml");
    let text = format!(
        "state_dir = '{}/mds'\nlisten = ['{address}']\nrdma_listen = ['{over_rdma}']\n\
         control_listen = ['{control}']\nstore = 'memory'\n[root]\nmode = '0777'",
        dir.display()
    );
    std::fs::write(&config, text).unwrap();
    let child = ropewalk()
        .args(["mds", "--config", config.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("metadata server", || status(dir));
    Killed(child)
}

fn counted(dir: &Path, name: &str) -> u64 {
    status(dir).unwrap()["mds"]["transport"][name]
        .as_u64()
        .unwrap()
}

#[tokio::test]
async fn a_client_works_over_rdma() {
    let dir = tempfile::tempdir().unwrap();
    let address = rig::address();
    let _server = start(dir.path(), address);
    let identity = UserIdentity {
        uid: 1000,
        gid: 1000,
        gids: Vec::new(),
        machine: "test".to_owned(),
    };
    let verifier = Verifier { bytes: [7; 8] };
    let config = ClientConfig::new(b"over rdma".to_vec(), verifier, identity);
    let rdma = Rdma::new(Arc::new(Iwarp::default()), Config::default());
    let connector = Arc::new(RdmaConnector::new(
        Context::new(TransportLimits::default()),
        vec![rdma],
    ));
    let client = Client::connect(vec![Address::Rdma(address)], connector, config)
        .await
        .unwrap();
    for name in 0..300 {
        client.mkdir(format!("/{name}"), 0o755).await.unwrap();
    }
    let entries = client.read_dir("/").await.unwrap().rest().await.unwrap();
    assert_eq!(entries.len(), 300);
    assert_eq!(counted(dir.path(), "rdma_connections"), 1);
    assert!(counted(dir.path(), "rdma_inline_bytes_in") > 300 * 100);
    // The list is longer than a message.
    assert!(counted(dir.path(), "rdma_reply_chunk_bytes_out") > 4096);
    let shown = &status(dir.path()).unwrap()["mds"]["rdma_busiest"];
    assert_eq!(shown.as_array().map(Vec::len), Some(1));
    let count = |name: &str| shown[0][name].as_u64().unwrap();
    assert!(count("calls_in") > 300);
    assert!(count("chunks_in") > 0, "the list went into a reply chunk");
    assert!(count("invalidations") > 0, "with the reply that used it");
    // Nobody lacks a credit: one client, and a stock for many.
    assert_eq!((count("credit_stalls"), count("credits_short")), (0, 0));
    let lent = counted(dir.path(), "rdma_credits_lent");
    assert!(lent <= counted(dir.path(), "rdma_credits_stock"));
    assert!(counted(dir.path(), "rdma_credits_stock") >= 4096);
    let free = counted(dir.path(), "rdma_bulk_free_bytes");
    assert!(free <= 512 << 20, "{free}");
    assert!(count("bytes_in") > 300 * 100 && count("bytes_out") > 4096);
    assert_eq!(shown[0]["local"].as_str(), Some(&address.to_string()[..]));
    client.close().await.unwrap();
}
