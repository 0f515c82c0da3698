//! The contract of providers, on the RDMA device that has the address in `ROPEWALK_RDMA_ADDRESS`.
//!
//! `cargo xtask vm rdma` runs this program in a guest with soft-RoCE; by itself it is
//! `ROPEWALK_RDMA_ADDRESS=192.0.2.10 cargo test -p ropewalk-fabric-verbs --test contract`.

use ropewalk_fabric_verbs::Verbs;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};

fn verbs() -> Verbs {
    Verbs::open().expect("RDMA can be used")
}

fn address() -> SocketAddr {
    let text = std::env::var("ROPEWALK_RDMA_ADDRESS").expect("ROPEWALK_RDMA_ADDRESS is set");
    let ip: IpAddr = text.parse().expect("it is an address");
    SocketAddr::new(ip, 0)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

fabric::contract_tests!(verbs(), address(), run);
