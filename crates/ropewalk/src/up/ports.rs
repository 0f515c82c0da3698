//! Ports for the servers of one machine: chosen free once, kept in the configuration files, reserved from then on, and
//! checked before anything is started.

use crate::failure::{Outcome, failed};
use crate::listeners::busy;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use transport::tcp::Reservation;

/// Where a search begins when the metadata server's port is to be free too. It is below the range that kernels take
/// ports of outgoing connections from: a chosen port stays free while we are down.
const FREE_RANGE: std::ops::Range<u16> = 20_000..30_000;
/// Ports that a search tries.
const TRIES_MAX: u16 = 4096;

/// Hands out ports that nobody else has, each once, and keeps them for the servers.
pub(crate) struct Ports {
    next: u16,
    taken: BTreeSet<u16>,
    reserved: Vec<Reservation>,
}

impl Ports {
    /// A search that begins above `port`; the ports of `taken` are another's.
    pub(crate) fn above(port: u16, taken: impl IntoIterator<Item = u16>) -> Self {
        let mut taken: BTreeSet<u16> = taken.into_iter().collect();
        taken.insert(port);
        Self {
            next: port.saturating_add(1),
            taken,
            reserved: Vec::new(),
        }
    }

    /// A search from a random place; the ports of `taken` are another's.
    pub(crate) fn anywhere(taken: impl IntoIterator<Item = u16>) -> Self {
        let span = u64::from(FREE_RANGE.end - FREE_RANGE.start);
        let offset = u16::try_from(crate::daemon::random_u64() % span).expect("below the span");
        Self {
            next: FREE_RANGE.start + offset,
            taken: taken.into_iter().collect(),
            reserved: Vec::new(),
        }
    }

    /// A port that is free on all of these addresses, and from now on nobody else's.
    pub(crate) fn take(&mut self, ips: &[IpAddr]) -> Outcome<u16> {
        for _ in 0..TRIES_MAX {
            let port = self.next;
            self.next = port.checked_add(1).unwrap_or(FREE_RANGE.start);
            if port < 1024 || self.taken.contains(&port) {
                continue;
            }
            let reserve = |ip: &IpAddr| Reservation::new(SocketAddr::new(*ip, port));
            if let Ok(reserved) = ips.iter().map(reserve).collect::<Result<Vec<_>, _>>() {
                self.reserved.extend(reserved);
                self.taken.insert(port);
                return Ok(port);
            }
        }
        Err(failed(format!("found no free port on {ips:?}")))
    }

    /// What keeps the ports that were taken.
    pub(crate) fn into_reserved(self) -> Vec<Reservation> {
        self.reserved
    }
}

/// Fails when somebody listens on `address`; `change` says how to choose another port.
pub(crate) fn need_free(address: SocketAddr, change: &str) -> Outcome {
    transport::tcp::bind(address, 1)
        .map(drop)
        .map_err(|e| busy(address, &e, change))
}

#[cfg(test)]
mod tests {
    //! Goal: no port is given twice, and a busy one is named.
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn ports_are_free_and_differ() {
        let mut ports = Ports::anywhere([]);
        let first = ports.take(&[HERE]).unwrap();
        let listener = std::net::TcpListener::bind((HERE, first)).unwrap();
        let mut others = Ports::above(first - 1, []);
        let second = others.take(&[HERE]).unwrap();
        assert_ne!(first, second);
        assert_ne!(second, others.take(&[HERE]).unwrap());
        let mut more = Ports::above(second - 1, []);
        assert_ne!(second, more.take(&[HERE]).unwrap(), "reserved");
        let busy = need_free((HERE, first).into(), "choose another").unwrap_err();
        assert!(
            busy.to_string()
                .contains(&format!("port {first} is in use")),
            "{busy}"
        );
        drop(listener);
    }
}
