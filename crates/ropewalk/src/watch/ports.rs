//! The listening sockets of a data server, which outlive its process.
//!
//! # Ownership
//! The watcher holds [`HeldPorts`], and the server the very same sockets: one for each worker and address, since each
//! socket has a queue of its own. systemd keeps them too, for the next watcher. Software iWARP listens with such sockets as
//! well. What listens on an RDMA device is the server's alone and goes with it: it cannot be handed to another process.
//!
//! # Ordering
//! The watcher decides whether software serves RDMA, when it binds. The server follows: it has sockets for that or not.
//!
//! # Failure
//! A connection that comes while no server is there waits in the queue of its socket. [`HeldPorts::shut`] refuses it, also when a
//! process that does not end still holds the sockets.

use crate::config::DsConfig;
use crate::daemon;
use crate::failure::{Outcome, cannot, failed};
use crate::listeners::{self, Keeper};
use crate::rdma;
use crate::rdma_provider::ProviderChoice;
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
    rdma_listen: Vec<SocketAddr>,
    rdma_provider: ProviderChoice,
    metrics_listen: Vec<SocketAddr>,
}

/// The settings, under whose names systemd keeps sockets.
const LISTEN: &str = "listen";
const RDMA_LISTEN: &str = "rdma_listen";
const METRICS_LISTEN: &str = "metrics_listen";

impl Wanted {
    /// For [`Keeper`]. Those of RDMA come last: there are none where a device serves.
    fn groups(&self, rdma_by_software: bool) -> Vec<listeners::Wanted<'_>> {
        let wanted = |key, addresses, count| listeners::Wanted {
            key,
            addresses,
            count,
        };
        let mut groups = vec![
            wanted(LISTEN, &self.listen, self.workers),
            wanted(METRICS_LISTEN, &self.metrics_listen, 1),
        ];
        if rdma_by_software {
            groups.push(wanted(RDMA_LISTEN, &self.rdma_listen, self.workers));
        }
        groups
    }

    fn of(config: &DsConfig) -> Self {
        Self {
            listen: config.listen.clone(),
            workers: daemon::workers_count(config.workers),
            rdma_listen: config.rdma_listen.clone(),
            rdma_provider: config.rdma_provider,
            metrics_listen: config.metrics_listen.clone(),
        }
    }
}

/// The sockets of the watcher.
#[derive(Debug)]
pub(super) struct HeldPorts {
    wanted: Wanted,
    /// By address and worker, those of NFS first and those of RDMA last.
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
        let by_software = rdma::is_by_software(config.rdma(), &config.rdma_listen)?;
        let groups = wanted.groups(by_software);
        let mut keeper = Keeper::new(manager.clone(), passed, &groups);
        let mut sockets = Vec::new();
        for group in groups {
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
        for key in [LISTEN, METRICS_LISTEN, RDMA_LISTEN] {
            manager.forget(key);
        }
    }
}

/// The sockets of the server.
pub(crate) struct Ports {
    /// For NFS, those of each worker.
    pub(crate) nfs: Vec<Vec<Listener>>,
    /// For metrics.
    pub(crate) metrics: Vec<Listener>,
    /// For software iWARP; none where a device serves.
    pub(crate) rdma: Vec<TcpListener>,
}

impl Ports {
    /// Sorts what the watcher handed over.
    pub(crate) fn adopt(sockets: Vec<OwnedFd>, config: &DsConfig) -> Outcome<Self> {
        let wanted = Wanted::of(config);
        let count = wanted.listen.len() * wanted.workers + wanted.metrics_listen.len();
        let of_rdma = wanted.rdma_listen.len() * wanted.workers;
        if sockets.len() != count && sockets.len() != count + of_rdma {
            return Err(failed(
                "the configuration changed while the data server started",
            ));
        }
        let has_rdma = sockets.len() > count;
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
        let rdma = match has_rdma {
            true => adopt(&wanted.rdma_listen, wanted.workers)?,
            false => Vec::new(),
        };
        let rdma = rdma.into_iter().flatten().map(Listener::into_socket);
        Ok(Self {
            rdma: rdma.collect(),
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
    fn software_iwarp_has_a_socket_for_each_worker() {
        let rdma = "rdma_listen = ['127.0.0.1:0']\nrdma_provider = 'iwarp'";
        let config = config(&format!("listen = ['127.0.0.1:0']\n{rdma}"));
        let held = hold(&config);
        let ports = Ports::adopt(copies(&held), &config).expect("adopted");
        let local = |socket: &TcpListener| socket.local_addr().expect("an address");
        let ports: Vec<_> = ports.rdma.iter().map(local).collect();
        assert_eq!(ports.len(), 2);
        assert_eq!(ports[0], ports[1]);
        assert!(held.addresses().contains(&ports[0]));
        // Where a device serves, the watcher has none.
        let others = copies(&held).into_iter().take(2).collect();
        assert!(
            Ports::adopt(others, &config)
                .expect("adopted")
                .rdma
                .is_empty()
        );
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
