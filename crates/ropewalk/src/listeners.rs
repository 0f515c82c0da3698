//! Listening sockets, and why there are none.

use crate::failure::{Failure, Outcome, failed};
use std::io::ErrorKind;
use std::net::SocketAddr;
use transport::tcp::Listener;

/// Listens on every address with one socket per worker; the sockets of each worker. `change` says how to choose another port.
pub(crate) fn listen(
    addresses: &[SocketAddr],
    workers: usize,
    change: &str,
) -> Outcome<Vec<Vec<Listener>>> {
    bind(addresses, workers, change).map(|sockets| by_worker(sockets, workers))
}

/// The same; the sockets of each address.
pub(crate) fn bind(
    addresses: &[SocketAddr],
    workers: usize,
    change: &str,
) -> Outcome<Vec<Vec<Listener>>> {
    let bind = |address: &SocketAddr| {
        transport::tcp::bind(*address, workers).map_err(|e| busy(*address, &e, change))
    };
    addresses.iter().map(bind).collect()
}

/// From the sockets of each address to those of each worker.
pub(crate) fn by_worker(by_address: Vec<Vec<Listener>>, workers: usize) -> Vec<Vec<Listener>> {
    let mut by_worker: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
    for sockets in by_address {
        for (worker, socket) in by_worker.iter_mut().zip(sockets) {
            worker.push(socket);
        }
    }
    by_worker
}

/// Why an address cannot be listened on, and what to do.
pub(crate) fn busy(address: SocketAddr, error: &std::io::Error, change: &str) -> Failure {
    let why = match error.kind() {
        ErrorKind::AddrInUse => format!("port {} is in use by another program", address.port()),
        ErrorKind::PermissionDenied => format!("port {} needs privileges", address.port()),
        ErrorKind::AddrNotAvailable => format!("this machine has no address {}", address.ip()),
        _ => error.to_string(),
    };
    failed(format!("cannot listen on {address}: {why}; {change}"))
}
