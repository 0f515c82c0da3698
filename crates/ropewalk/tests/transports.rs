//! Goal: each path takes the transport that it was told to, RDMA never falls back unasked, and a fallback shows.
//! Method: the real program with software iWARP, its own counters, our own client.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use bytes::Bytes;
use client::{Client, ClientConfig, OpenOptions, UserIdentity, Verifier};
use rig::{Up, run, sentence, status};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use transport::tcp::TcpConnector;
use transport::{Address, Context, TransportLimits};

const BYTES: u64 = 3_000_000;

fn address(dir: &Path, key: &str) -> SocketAddr {
    let text = std::fs::read_to_string(dir.join("mds/mds.toml")).unwrap();
    let config: toml::Table = text.parse().unwrap();
    config[key][0].as_str().unwrap().parse().unwrap()
}

/// A counter of the data servers' transports, added up.
fn count(dir: &Path, servers: u32, name: &str) -> u64 {
    let status = status(dir).unwrap();
    let of = |number| status[format!("ds-{number}")]["transport"][name].as_u64();
    (1..=servers).map(|number| of(number).unwrap()).sum()
}

/// Writes through the metadata server, as a client without layouts.
fn write_proxied(mds: SocketAddr) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(try_proxied(mds));
}

async fn try_proxied(mds: SocketAddr) {
    let identity = UserIdentity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        gids: Vec::new(),
        machine: "test".to_owned(),
    };
    let verifier = Verifier { bytes: [7; 8] };
    let config = ClientConfig {
        pnfs: false,
        ..ClientConfig::new(b"proxied".to_vec(), verifier, identity)
    };
    let connector = Arc::new(TcpConnector::new(Context::new(TransportLimits::default())));
    let client = Client::connect(vec![Address::Tcp(mds)], connector, config)
        .await
        .unwrap();
    let file = client
        .open("/proxied", OpenOptions::create(0o600))
        .await
        .unwrap();
    file.write_at(0, Bytes::from(vec![5; 100_000]))
        .await
        .unwrap();
    file.close().await.unwrap();
    client.close().await.unwrap();
}

#[test]
fn data_take_the_transport_that_a_url_names_and_fall_back_only_where_that_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--ds", "2", "--port", "0", "--transport", "auto"];
    let up = Up::start(dir.path(), &options);
    assert!(up.ready.contains("proto=rdma,port="), "{}", up.ready);
    assert!(up.ready.contains("modprobe siw"), "{}", up.ready);
    let (tcp, rdma) = (
        address(dir.path(), "listen"),
        address(dir.path(), "rdma_listen"),
    );
    let source = dir.path().join("source");
    let content: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    let target = format!("nfs://{rdma}/file?transport=rdma");
    let copied = run(&["cp", source.to_str().unwrap(), &target]);
    assert!(copied.status.success(), "{copied:?}");
    let fetched = count(dir.path(), 2, "rdma_read_chunk_bytes_in");
    assert!(
        fetched >= BYTES,
        "{fetched} bytes were fetched by RDMA Read"
    );
    let back = run(&["cat", &format!("nfs://{tcp}/file")]);
    assert!(back.stdout == content);
    assert_eq!(count(dir.path(), 2, "rdma_write_chunk_bytes_out"), 0);
    let back = run(&["cat", &target]);
    assert!(back.stdout == content);
    assert!(count(dir.path(), 2, "rdma_write_chunk_bytes_out") >= BYTES);
    write_proxied(tcp);
    let control = |name: &str| {
        status(dir.path()).unwrap()["mds"]["control_transport"][name]
            .as_u64()
            .unwrap()
    };
    assert!(control("rdma_read_chunk_bytes_out") >= 100_000);
    assert_eq!(control("rdma_fallbacks"), 0);
    assert!(up.stop().success());

    // Data servers that promise RDMA where nobody answers: the metadata server takes TCP, and says so.
    for number in 1..=2 {
        let file = dir.path().join(format!("ds-{number}/ds.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("rdma_advertise = ['127.0.0.1:1']\n{text}")).unwrap();
    }
    let up = Up::start(dir.path(), &[]);
    write_proxied(tcp);
    assert!(control("rdma_fallbacks") > 0);
    let shown = run(&["status", "--dir", dir.path().to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("RDMA did not come up"), "{shown}");
    assert!(up.stop().success());

    // Without RDMA the files are there all the same, and who insists on it is told.
    let up = Up::start(dir.path(), &["--transport", "tcp"]);
    assert!(!up.ready.contains("rdma"), "{}", up.ready);
    let back = run(&["cat", &format!("nfs://{tcp}/file")]);
    assert!(back.stdout == content);
    let refused = run(&["cat", &target]);
    assert!(!refused.status.success());
    assert!(sentence(&refused).contains("over RDMA"), "{refused:?}");
    assert!(up.stop().success());
}
