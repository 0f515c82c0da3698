//! The listening sockets of a data server, which outlive its process.
//!
//! # Ownership
//! The watcher holds [`HeldPorts`], and the server the very same sockets: one for each worker and address, since each
//! socket has a queue of its own. systemd keeps them too, for the next watcher. Sockets of RDMA are the server's alone and go
//! with it: a device's cannot be passed on.
//!
//! # Failure
//! A connection that comes while no server is there waits in the queue of its socket. [`HeldPorts::shut`] refuses it, also when a
//! process that does not end still holds the sockets.

use crate::config::DsConfig;
use crate::daemon;
use crate::failure::{Outcome, cannot, failed};
use crate::listeners::{self, Keeper};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use systemd::{Manager, PassedFd};
use transport::tcp::Listener;

/// What a configuration asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    listen: Vec<SocketAddr>,
    workers: usize,
    metrics_listen: Vec<SocketAddr>,
}

/// The settings, under whose names systemd keeps sockets.
const LISTEN: &str = "listen";
const METRICS_LISTEN: &str = "metrics_listen";

impl Wanted {
    /// For [`Keeper`].
    fn groups(&self) -> [listeners::Wanted<'_>; 2] {
        let wanted = |key, addresses, count| listeners::Wanted {
            key,
            addresses,
            count,
        };
        [
            wanted(LISTEN, &self.listen, self.workers),
            wanted(METRICS_LISTEN, &self.metrics_listen, 1),
        ]
    }

    fn of(config: &DsConfig) -> Self {
        Self {
            listen: config.listen.clone(),
            workers: daemon::workers_count(config.workers),
            metrics_listen: config.metrics_listen.clone(),
        }
    }
}

/// The sockets of the watcher.
#[derive(Debug)]
pub(super) struct HeldPorts {
    wanted: Wanted,
    /// By address and worker, those of NFS first.
    sockets: Vec<TcpListener>,
}

impl HeldPorts {
    /// Listens where the configuration in `file` says, with what was passed to this process as far as it fits.
    pub(super) fn bind(
        config: &DsConfig,
        file: &Path,
        manager: &Manager,
        passed: Vec<PassedFd>,
    ) -> Outcome<Self> {
        let wanted = Wanted::of(config);
        let mut keeper = Keeper::new(manager.clone(), passed, &wanted.groups());
        let mut sockets = Vec::new();
        for group in wanted.groups() {
            let change = format!("change `{}` in {}", group.key, file.display());
            let bound = keeper.bind(group, &change)?;
            sockets.extend(bound.into_iter().flatten().map(Listener::into_socket));
        }
        Ok(Self { wanted, sockets })
    }

    /// Whether these are the sockets of this configuration.
    pub(super) fn fit(&self, config: &DsConfig) -> bool {
        self.wanted == Wanted::of(config)
    }

    /// The sockets, in the order in which [`Ports::adopt`] takes them.
    pub(super) fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd).collect()
    }

    /// Where they listen.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.sockets.iter().map(TcpListener::local_addr);
        addresses.filter_map(Result::ok).collect()
    }

    /// Ends the listening for every process that holds these sockets: connections are refused from now on.
    pub(super) fn shut(self, manager: &Manager) {
        self.sockets.iter().for_each(listeners::shut);
        manager.forget(LISTEN);
        manager.forget(METRICS_LISTEN);
    }
}

/// The sockets of the server.
pub(crate) struct Ports {
    /// For NFS, those of each worker.
    pub(crate) nfs: Vec<Vec<Listener>>,
    /// For metrics.
    pub(crate) metrics: Vec<Listener>,
}

impl Ports {
    /// Sorts what the watcher handed over.
    pub(crate) fn adopt(sockets: Vec<OwnedFd>, config: &DsConfig) -> Outcome<Self> {
        let wanted = Wanted::of(config);
        let count = wanted.listen.len() * wanted.workers + wanted.metrics_listen.len();
        if sockets.len() != count {
            return Err(failed(
                "the configuration changed while the data server started",
            ));
        }
        let mut sockets = sockets.into_iter().map(TcpListener::from);
        let mut adopt = |addresses: &[SocketAddr], workers: usize| {
            let of_address = |address: &SocketAddr| {
                let group: Vec<TcpListener> = sockets.by_ref().take(workers).collect();
                need_address(&group, *address)?;
                Ok(transport::tcp::adopt(group))
            };
            addresses
                .iter()
                .map(of_address)
                .collect::<Outcome<Vec<_>>>()
        };
        let nfs = adopt(&wanted.listen, wanted.workers)?;
        let metrics = adopt(&wanted.metrics_listen, 1)?;
        Ok(Self {
            nfs: listeners::by_worker(nfs, wanted.workers),
            metrics: metrics.into_iter().flatten().collect(),
        })
    }
}

/// Refuses sockets that listen elsewhere. Port 0 stands for any.
fn need_address(sockets: &[TcpListener], address: SocketAddr) -> Outcome {
    for socket in sockets {
        let local = socket
            .local_addr()
            .map_err(cannot("use a listening socket"))?;
        if !listeners::is_at(local, address) {
            return Err(failed(format!(
                "the configuration changed while the data server started: it was to listen on {address}, not on {local}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Goal: sockets come to the workers that they are for, and a shut one refuses. Method: sockets of this process.
    use super::*;
    use std::io::ErrorKind::ConnectionRefused;
    use std::net::TcpStream;

    fn config(listen: &str) -> DsConfig {
        let text = format!("state_dir = '/s'\nworkers = 2\n{listen}\nadvertise = ['127.0.0.1:9']");
        toml::from_str(&text).expect("a configuration")
    }

    fn hold(config: &DsConfig) -> HeldPorts {
        let manager = Manager::default();
        HeldPorts::bind(config, Path::new("ds.toml"), &manager, Vec::new()).expect("sockets")
    }

    fn copies(held: &HeldPorts) -> Vec<OwnedFd> {
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().expect("a copy");
        held.sockets().into_iter().map(copy).collect()
    }

    #[test]
    fn each_worker_gets_a_socket_of_each_address() {
        let config =
            config("listen = ['127.0.0.1:0', '127.0.0.2:0']\nmetrics_listen = ['127.0.0.1:0']");
        let held = hold(&config);
        assert!(held.fit(&config));
        let ports = Ports::adopt(copies(&held), &config).expect("adopted");
        let ip = |listener: &Listener| listener.local_addr().expect("an address").ip().to_string();
        for worker in &ports.nfs {
            let ips: Vec<_> = worker.iter().map(ip).collect();
            assert_eq!(ips, ["127.0.0.1", "127.0.0.2"]);
        }
        assert_eq!((ports.nfs.len(), ports.metrics.len()), (2, 1));
    }

    #[test]
    fn sockets_of_another_configuration_are_refused() {
        let old = config("listen = ['127.0.0.1:0']");
        let held = hold(&old);
        for new in [
            "listen = ['127.0.0.2:0']",
            "listen = ['127.0.0.1:0', '127.0.0.2:0']",
        ] {
            let new = config(new);
            assert!(!held.fit(&new));
            assert!(Ports::adopt(copies(&held), &new).is_err());
        }
    }

    #[test]
    fn a_shut_port_refuses_although_another_process_holds_it_and_can_be_had_again() {
        let config = config("listen = ['127.0.0.1:0']");
        let held = hold(&config);
        let address = held.addresses()[0];
        let _elsewhere = copies(&held);
        TcpStream::connect(address).expect("it waits in the queue");
        held.shut(&Manager::default());
        let refused = TcpStream::connect(address).expect_err("nobody listens");
        assert_eq!(refused.kind(), ConnectionRefused);
        let _again = transport::tcp::bind(address, 2).expect("the address is free");
        TcpStream::connect(address).expect("it waits in the queue");
    }
}
