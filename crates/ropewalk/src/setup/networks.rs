//! The networks that this machine is on, and its addresses in them.
//!
//! Reads what the kernel says in /proc/net; asks no network. A socket that is connected to an address sends nothing: the kernel
//! chooses the source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Most networks that are looked at.
const NETWORKS_MAX: usize = 256;
/// Flags of an IPv6 address that is not for long: temporary, deprecated, of a failed check for duplicates, tentative.
const PASSING: u32 = 0x01 | 0x20 | 0x08 | 0x40;
/// The scope of IPv6 addresses that are good everywhere.
const SCOPE_GLOBAL: u32 = 0;
/// Any port: nothing is sent.
const PORT: u16 = 9;

/// An address of this machine, and its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnAddress {
    pub(super) ip: IpAddr,
    pub(super) prefix_bits: u8,
}

impl OwnAddress {
    /// The network, as an export names it.
    pub(super) fn network(&self) -> String {
        let bits = u32::from(self.prefix_bits);
        let network = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
        };
        format!("{network}/{bits}")
    }

    /// Whether its network is nobody's on the internet (RFC 1918, RFC 4193).
    pub(super) fn is_private(&self) -> bool {
        match self.ip {
            IpAddr::V4(ip) => ip.is_private(),
            IpAddr::V6(ip) => ip.is_unique_local(),
        }
    }
}

/// Addresses of this machine that others can use, those of IPv4 first.
pub(super) fn own() -> Vec<OwnAddress> {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let v4 = connected(&read("/proc/net/route"));
    let v4 = v4.into_iter().filter_map(|(network, prefix_bits)| {
        let neighbour = network.to_bits().checked_add(1)?;
        let ip = source_for((Ipv4Addr::from_bits(neighbour), PORT).into())?;
        Some(OwnAddress { ip, prefix_bits })
    });
    let mut own: Vec<OwnAddress> = v4.collect();
    own.extend(lasting(&read("/proc/net/if_inet6")));
    own.dedup();
    own
}

/// The address of this machine that packets to `target` come from.
pub(super) fn source_for(target: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Networks of IPv4 that are reached without a gateway, by /proc/net/route.
fn connected(routes: &str) -> Vec<(Ipv4Addr, u8)> {
    let network = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The kernel prints the bytes of an address as one number of this machine.
        let at = |index: usize| {
            let number = u32::from_str_radix(words.get(index)?, 16).ok()?;
            Some(Ipv4Addr::from(number.to_ne_bytes()))
        };
        let (network, gateway, mask) = (at(1)?, at(2)?, at(7)?);
        let bits = u8::try_from(mask.to_bits().leading_ones()).ok()?;
        let is_near = gateway.is_unspecified() && (1..32).contains(&bits);
        let is_of_link = network.is_link_local() || network.is_loopback();
        (is_near && !is_of_link && !network.is_multicast()).then_some((network, bits))
    };
    let lines = routes.lines().skip(1).take(NETWORKS_MAX);
    lines.filter_map(network).collect()
}

/// Addresses of IPv6 that stay, by /proc/net/if_inet6.
fn lasting(addresses: &str) -> Vec<OwnAddress> {
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
        let ip = u128::from_str_radix(words.first()?, 16).ok()?;
        let (bits, scope, flags) = (number(2)?, number(3)?, number(4)?);
        let stays = scope == SCOPE_GLOBAL && flags & PASSING == 0;
        let prefix_bits = u8::try_from(bits).ok().filter(|bits| *bits <= 128)?;
        let ip = IpAddr::V6(Ipv6Addr::from_bits(ip));
        stays.then_some(OwnAddress { ip, prefix_bits })
    };
    let lines = addresses.lines().take(NETWORKS_MAX);
    lines.filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: networks are those that the kernel names, without those of the link, and strange lines do no harm.
    use super::*;

    #[test]
    fn networks_without_a_gateway_are_connected() {
        let number = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let line = |network, gateway, mask| {
            let (network, gateway, mask) = (number(network), number(gateway), number(mask));
            format!("eth0\t{network}\t{gateway}\t0001\t0\t0\t0\t{mask}\t0\t0\t0\n")
        };
        let none = [0; 4];
        let text = "Iface\tDestination\n".to_owned()
            + &line(none, [192, 0, 2, 1], none)
            + &line([192, 0, 2, 0], none, [255, 255, 255, 0])
            + &line([10, 0, 0, 0], [192, 0, 2, 9], [255, 0, 0, 0])
            + &line([169, 254, 0, 0], none, [255, 255, 0, 0])
            + &line([198, 51, 100, 7], none, [255; 4])
            + "eth0\tzz\n\n"
            + &line([172, 16, 0, 0], none, [255, 240, 0, 0]);
        let found: Vec<String> = connected(&text)
            .iter()
            .map(|(network, bits)| format!("{network}/{bits}"))
            .collect();
        assert_eq!(found, ["192.0.2.0/24", "172.16.0.0/12"]);
    }

    #[test]
    fn passing_addresses_of_ipv6_are_left_out() {
        let text = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                    fd000000000000000000000000000003 04 40 00 01     eth0\n\
                    fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                    00000000000000000000000000000001 01 80 10 80       lo\n\
                    strange\n";
        let found = lasting(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].network(), "fd00::/64");
        assert!(found[0].is_private());
    }

    #[test]
    fn a_network_has_no_bits_of_a_host() {
        for (ip, prefix_bits, network, private) in [
            ("10.1.2.3", 8, "10.0.0.0/8", true),
            ("203.0.113.9", 24, "203.0.113.0/24", false),
            ("2001:db8::9", 64, "2001:db8::/64", false),
            ("10.1.2.3", 0, "0.0.0.0/0", true),
        ] {
            let ip = ip.parse().unwrap();
            let own = OwnAddress { ip, prefix_bits };
            assert_eq!(
                (own.network().as_str(), own.is_private()),
                (network, private)
            );
        }
    }

    #[test]
    fn this_machine_talks_to_itself_by_loopback() {
        let itself = source_for((Ipv4Addr::LOCALHOST, PORT).into());
        assert_eq!(itself, Some(Ipv4Addr::LOCALHOST.into()));
        assert!(own().iter().all(|own| !own.ip.is_loopback()));
    }
}
