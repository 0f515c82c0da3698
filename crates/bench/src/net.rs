//! Links with a cap: hosts as network namespaces of this machine, joined by a switch, each behind a link with a rate.
//!
//! ```text
//!   hub: the switch, and clients without a cap --+-- tbf ===== tbf -- a server's namespace
//!                                                +-- tbf ===== tbf -- another's
//! ```
//! Links of hosts may differ. A link is a pair of veth devices with a token bucket (tc-tbf(8)) at each end. It has its rate in both directions at once.
//!
//! # Ownership
//! Namespaces have no names and belong to nobody else. Each lives as long as a process in it: its holder (a `cat` whose
//! input we hold) or what is started inside. The switch and the links live in them. The network of the machine itself
//! is not touched.
//!
//! # Failure
//! When this process ends in any way, also by SIGKILL, the input of holders and servers ends, and so do they. The kernel then
//! takes namespaces, links and switch back. No run leaves anything that a later one would have to find.

mod link;
mod space;
mod words;

pub use link::{Link, MTU_DEFAULT, Rate, RateError};
pub(crate) use space::{Inside, NameSpace};

use crate::BenchError;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// Addresses are of the network that RFC 2544 keeps for benchmarks.
const NET_BITS: u8 = 16;
/// All addresses, as an export names them.
pub(crate) const NET: &str = "198.18.0.0/16";
/// The switch's own address: that of clients without a cap.
const HUB: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Hosts of one network at most.
const HOSTS_MAX: usize = 200;

/// Whether there can be such networks on this machine, as this user.
///
/// # Errors
/// [`BenchError::Links`], which says what is missing.
pub(crate) fn need() -> Result<(), BenchError> {
    let why = if rustix::process::geteuid().is_root() {
        let missing = ["ip", "tc", "unshare"]
            .into_iter()
            .find(|tool| crate::process::find(tool).is_none());
        missing.map(|tool| {
            format!("there is no `{tool}` (Debian: apt-get install iproute2 util-linux)")
        })
    } else {
        Some(
            "they are network namespaces, which only root can make: run as root, or without --link"
                .to_owned(),
        )
    };
    why.map_or(Ok(()), |why| Err(BenchError::Links(why)))
}

/// Hosts on one switch.
#[derive(Debug)]
pub(crate) struct Network {
    hub: NameSpace,
    hosts: Vec<NameSpace>,
}

impl Network {
    /// Makes `hosts_count` hosts, each behind a link of that kind.
    ///
    /// # Errors
    /// [`BenchError::Links`] with the last words of the tool that failed.
    pub(crate) fn make(link: Link, hosts_count: usize) -> Result<Self, BenchError> {
        Self::of(&vec![link; hosts_count])
    }

    /// Makes a host for each link, behind that link.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub(crate) fn of(links: &[Link]) -> Result<Self, BenchError> {
        need()?;
        let hosts_count = links.len();
        if hosts_count > HOSTS_MAX {
            return Err(BenchError::Links(format!(
                "{hosts_count} hosts are too many"
            )));
        }
        let hub = NameSpace::make()?;
        let hosts = (0..hosts_count)
            .map(|_| NameSpace::make())
            .collect::<Result<Vec<_>, _>>()?;
        let pids: Vec<u32> = hosts.iter().map(NameSpace::holder_pid).collect();
        hub.batch("ip", &hub_links(links, &pids))?;
        hub.batch("tc", &hub_caps(links))?;
        for (number, (host, link)) in hosts.iter().zip(links).enumerate() {
            host.batch("ip", &host_links(number))?;
            host.batch("tc", &cap("eth0", *link))?;
        }
        Ok(Self { hub, hosts })
    }

    /// Where clients without a cap are.
    pub(crate) const fn hub(&self) -> &NameSpace {
        &self.hub
    }

    /// Takes the link of a host down: what is sent to it is lost, and nothing comes from it.
    ///
    /// # Errors
    /// [`BenchError::Links`] with the last words of the tool.
    pub(crate) fn unplug(&self, number: usize) -> Result<(), BenchError> {
        self.hub.batch("ip", &format!("link set h{number} down\n"))
    }

    /// A host.
    pub(crate) fn host(&self, number: usize) -> &NameSpace {
        &self.hosts[number]
    }
}

/// The address of a host.
pub(crate) fn address(number: usize) -> Ipv4Addr {
    let host = u32::try_from(number + 1).expect("hosts are few");
    Ipv4Addr::from_bits(HUB.to_bits() + host)
}

/// Lines for ip(8) in the hub: the switch, and one end of each link.
fn hub_links(links: &[Link], pids: &[u32]) -> String {
    let mut text = "link set lo up\nlink add sw type bridge\n".to_owned();
    // A bridge takes the smallest of its ports.
    let smallest = links.iter().map(|link| link.mtu_bytes).min();
    for (number, (pid, Link { mtu_bytes, .. })) in pids.iter().zip(links).enumerate() {
        let line = writeln!(
            text,
            "link add h{number} mtu {mtu_bytes} type veth peer name eth0 mtu {mtu_bytes} netns {pid}\n\
             link set h{number} master sw up"
        );
        line.expect("a string takes all text");
    }
    let mtu_bytes = smallest.unwrap_or(MTU_DEFAULT);
    text + &format!("link set sw mtu {mtu_bytes} up\naddr add {HUB}/{NET_BITS} dev sw\n")
}

/// Lines for tc(8) in the hub.
fn hub_caps(links: &[Link]) -> String {
    let links = links.iter().enumerate();
    links
        .map(|(number, link)| cap(&format!("h{number}"), *link))
        .collect()
}

/// Lines for ip(8) in a host.
fn host_links(number: usize) -> String {
    format!(
        "link set lo up\naddr add {}/{NET_BITS} dev eth0\nlink set eth0 up\n",
        address(number)
    )
}

/// A line for tc(8): what a device sends is capped.
fn cap(device: &str, link: Link) -> String {
    let Rate { bits_per_s } = link.rate;
    let (burst, queue) = (link.rate.burst_bytes(), link.rate.queue_bytes());
    format!("qdisc add dev {device} root tbf rate {bits_per_s}bit burst {burst} limit {queue}\n")
}

#[cfg(test)]
mod tests {
    //! What the tools are told, and, as root, that a network works and goes away by itself.
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const LINK: Link = Link {
        rate: Rate {
            bits_per_s: 500_000_000,
        },
        mtu_bytes: 2044,
    };

    #[test]
    fn every_host_has_a_link_with_a_cap_at_both_ends() {
        let links = hub_links(&[LINK; 2], &[11, 12]);
        assert!(
            links.contains("link add h1 mtu 2044 type veth peer name eth0 mtu 2044 netns 12\n")
        );
        assert!(links.ends_with("link set sw mtu 2044 up\naddr add 198.18.0.1/16 dev sw\n"));
        let slow = Link {
            rate: Rate {
                bits_per_s: 40_000_000,
            },
            ..LINK
        };
        let caps = hub_caps(&[LINK, slow]);
        assert_eq!(caps.lines().count(), 2);
        assert!(caps.contains("\nqdisc add dev h1 root tbf rate 40000000bit "));
        assert!(
            caps.starts_with("qdisc add dev h0 root tbf rate 500000000bit burst 262144 limit ")
        );
        assert!(host_links(1).contains("addr add 198.18.0.3/16 dev eth0\n"));
    }

    #[test]
    fn who_is_not_root_is_told_so() {
        match need() {
            Ok(()) => assert!(rustix::process::geteuid().is_root()),
            Err(e) => assert!(e.to_string().contains("links with a cap: "), "{e}"),
        }
    }

    #[test]
    fn hosts_reach_each_other_and_leave_nothing() {
        if need().is_err() {
            eprintln!("not root: nothing is tested");
            return;
        }
        let network = Network::make(LINK, 2).unwrap();
        let listener = {
            let _inside = network.host(0).enter().unwrap();
            TcpListener::bind((address(0), 0)).unwrap()
        };
        let server = listener.local_addr().unwrap();
        // The machine itself does not know the way.
        assert!(TcpListener::bind((address(0), 0)).is_err());
        for client in [network.hub(), network.host(1)] {
            let _inside = client.enter().unwrap();
            let mut stream = TcpStream::connect(server).unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            stream.write_all(b"ping").unwrap();
            let mut heard = [0; 4];
            accepted.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"ping");
        }
        let pid = network.host(0).holder_pid();
        drop(network);
        assert!(!std::path::Path::new(&format!("/proc/{pid}/ns/net")).exists());
    }
}
