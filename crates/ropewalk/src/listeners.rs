//! Listening sockets: bound here, or kept by systemd while one process of a service follows another.
//!
//! # Ownership
//! A [`Keeper`] hands out the sockets, and systemd has a copy of each that it keeps. A socket that both have goes on listening when
//! this process ends: who connects meanwhile waits in its queue (decision 19).
//!
//! # Ordering
//! Sockets that nobody wants any more are shut before others are bound, since an address may have come to another setting.
//!
//! # Failure
//! Without systemd sockets are bound as ever. A group that is not whole is of no use: connections in the queue of a socket that
//! is missing are lost already. It is shut, and bound anew.

use crate::failure::{Failure, Outcome, failed};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, Shutdown, SocketType};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use systemd::{Manager, PassedFd};
use transport::tcp::Listener;

/// What a setting asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The setting; sockets are kept under its name.
    pub key: &'static str,
    /// Where it listens.
    pub addresses: &'a [SocketAddr],
    /// Sockets of each address.
    pub count: usize,
}

/// Sockets of one address that listen already.
#[derive(Debug)]
struct Group {
    key: &'static str,
    /// As the setting has it; port 0 stands for any.
    address: SocketAddr,
    sockets: Vec<TcpListener>,
}

/// Hands out sockets, those that systemd has kept first.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    manager: Manager,
    groups: Vec<Group>,
}

impl Keeper {
    /// Sorts what was passed to this process. What nobody wants is closed.
    pub(crate) fn new(manager: Manager, passed: Vec<PassedFd>, wanted: &[Wanted<'_>]) -> Self {
        let mut rest: Vec<_> = passed.into_iter().filter_map(listening).collect();
        let mut groups = Vec::new();
        for want in wanted {
            for address in want.addresses {
                let fits = |(name, local, _): &(String, SocketAddr, TcpListener)| {
                    name == want.key && is_at(*local, *address)
                };
                let Some(local) = rest.iter().find(|p| fits(p)).map(|p| p.1) else {
                    continue;
                };
                let is_one = |p: &(String, SocketAddr, TcpListener)| fits(p) && p.1 == local;
                if rest.iter().filter(|p| is_one(p)).count() != want.count {
                    continue;
                }
                let (group, others) = rest.into_iter().partition(is_one);
                rest = others;
                groups.push(Group {
                    key: want.key,
                    address: *address,
                    sockets: group.into_iter().map(|(.., socket)| socket).collect(),
                });
            }
        }
        for (name, address, socket) in rest {
            match wanted.iter().find(|want| want.key == name) {
                Some(want) => {
                    tracing::info!(%address, key = want.key, "a kept socket does not fit the configuration: shut");
                    shut(&socket);
                    manager.forget(want.key);
                }
                None => {
                    tracing::warn!(%address, name, "systemd passes a socket for no setting: closed");
                    manager.forget(&name);
                }
            }
        }
        Self { manager, groups }
    }

    /// Listens on every address with `count` sockets, which are kept; the sockets of each address. `change` says how to choose
    /// another port.
    pub(crate) fn bind(&mut self, wanted: Wanted<'_>, change: &str) -> Outcome<Vec<Vec<Listener>>> {
        let bind = |address: &SocketAddr| {
            let is_it = |g: &Group| g.key == wanted.key && g.address == *address;
            match self.groups.iter().position(is_it) {
                Some(at) => {
                    tracing::info!(%address, key = wanted.key, "goes on with sockets that systemd has kept");
                    Ok(transport::tcp::adopt(self.groups.swap_remove(at).sockets))
                }
                None => transport::tcp::bind(*address, wanted.count)
                    .map_err(|e| busy(*address, &e, change)),
            }
        };
        let bound: Vec<Vec<Listener>> =
            wanted.addresses.iter().map(bind).collect::<Outcome<_>>()?;
        let fds: Vec<BorrowedFd<'_>> = bound.iter().flatten().map(AsFd::as_fd).collect();
        self.manager.keep(wanted.key, &fds);
        Ok(bound)
    }
}

/// One of our sockets, if it is such a one. Any other is closed.
fn listening(passed: PassedFd) -> Option<(String, SocketAddr, TcpListener)> {
    let PassedFd { name, fd } = passed;
    let is_inet = matches!(
        socket_domain(&fd),
        Ok(AddressFamily::INET | AddressFamily::INET6)
    );
    let listens = socket_acceptconn(&fd) == Ok(true);
    let socket = TcpListener::from(fd);
    let local = socket.local_addr();
    match local {
        Ok(local) if is_inet && listens && socket_type(&socket) == Ok(SocketType::STREAM) => {
            Some((name, local, socket))
        }
        _ => {
            tracing::warn!(name, "systemd passes what is no listening socket: closed");
            None
        }
    }
}

/// Whether a socket listens where a setting says. Port 0 stands for any.
pub(crate) fn is_at(local: SocketAddr, address: SocketAddr) -> bool {
    local.ip() == address.ip() && (address.port() == 0 || address.port() == local.port())
}

/// Ends the listening for every process that holds this socket: connections are refused from now on.
pub(crate) fn shut(socket: &TcpListener) {
    // Fails when it does not listen any more.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

/// Listens on every address with one socket; nobody keeps them. `change` says how to choose another port.
pub(crate) fn listen_briefly(addresses: &[SocketAddr], change: &str) -> Outcome<Vec<Listener>> {
    let wanted = Wanted {
        key: "",
        addresses,
        count: 1,
    };
    let bound = Keeper::default().bind(wanted, change)?;
    Ok(bound.into_iter().flatten().collect())
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

#[cfg(test)]
mod tests {
    //! Goal: what was kept serves where the configuration wants it, and nothing else goes on listening. Method: sockets of this
    //! process, as if they were passed.
    use super::*;
    use std::io::ErrorKind::ConnectionRefused;
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::OwnedFd;

    const ANY: &str = "127.0.0.1:0";

    fn listen(key: &'static str, addresses: &[SocketAddr], count: usize) -> Vec<Vec<Listener>> {
        let wanted = Wanted {
            key,
            addresses,
            count,
        };
        Keeper::default().bind(wanted, "").expect("sockets")
    }

    fn passed(name: &str, sockets: &[Listener]) -> Vec<PassedFd> {
        let copy = |socket: &Listener| PassedFd {
            name: name.to_owned(),
            fd: socket.as_fd().try_clone_to_owned().expect("a copy"),
        };
        sockets.iter().map(copy).collect()
    }

    fn local(sockets: &[Vec<Listener>]) -> SocketAddr {
        sockets[0][0].local_addr().expect("an address")
    }

    #[test]
    fn kept_sockets_serve_where_they_are_wanted() {
        let any = [ANY.parse().unwrap()];
        let (nfs, control) = (listen("listen", &any, 2), listen("control", &any, 1));
        let mut all = passed("control", &control[0]);
        all.extend(passed("listen", &nfs[0]));
        let of_nfs = [local(&nfs)];
        let wanted = [("listen", &of_nfs, 2), ("control", &any, 1)];
        let wanted = wanted.map(|(key, addresses, count)| Wanted {
            key,
            addresses,
            count,
        });
        let mut keeper = Keeper::new(Manager::default(), all, &wanted);
        let again = wanted.map(|w| keeper.bind(w, "").expect("sockets"));
        assert_eq!(again.each_ref().map(|s| s[0].len()), [2, 1]);
        assert_eq!(
            again.each_ref().map(|s| local(s)),
            [local(&nfs), local(&control)]
        );
    }

    #[test]
    fn a_group_that_does_not_fit_is_shut_and_bound_anew() {
        let any = [ANY.parse().unwrap()];
        let old = listen("listen", &any, 2);
        let addresses = [local(&old)];
        for (name, count) in [("listen", 3), ("listen", 1), ("control", 2)] {
            let before = listen("listen", &any, 2);
            let addresses = [local(&before)];
            let wanted = Wanted {
                key: "listen",
                addresses: &addresses,
                count,
            };
            let no_control = Wanted {
                key: "control",
                addresses: &[],
                count: 1,
            };
            let passed = passed(name, &before[0]);
            let mut keeper = Keeper::new(Manager::default(), passed, &[no_control, wanted]);
            let refused = TcpStream::connect(addresses[0]).expect_err("nobody listens");
            assert_eq!(refused.kind(), ConnectionRefused);
            let anew = keeper.bind(wanted, "").expect("sockets");
            assert_eq!(anew[0].len(), count);
            TcpStream::connect(addresses[0]).expect("it waits in the queue");
        }
        // The others were shut, this one not.
        TcpStream::connect(addresses[0]).expect("it waits in the queue");
    }

    #[test]
    fn what_is_no_listening_socket_is_closed() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let datagrams = UdpSocket::bind(ANY).unwrap();
        let any = [ANY.parse().unwrap()];
        let wanted = Wanted {
            key: "listen",
            addresses: &any,
            count: 1,
        };
        let all = [OwnedFd::from(file), OwnedFd::from(datagrams)].map(|fd| PassedFd {
            name: "listen".to_owned(),
            fd,
        });
        let keeper = Keeper::new(Manager::default(), all.into(), &[wanted]);
        assert!(keeper.groups.is_empty());
    }
}
