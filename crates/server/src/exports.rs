//! Who may mount, from where, and as whom: exports by network.
//!
//! An export list is an ordered set of rules; the first rule whose network holds the caller's address
//! decides. No rule, no access. The list also squashes identities: root by default, everyone when asked,
//! so every credential that reaches the name space has passed [`Exports::admit`].

use std::net::IpAddr;
use std::str::FromStr;

/// Most rules of one list.
pub const EXPORT_RULES_MAX: usize = 1024;
/// uid and gid of a squashed caller unless the rule says otherwise ("nobody").
pub const ANONYMOUS_ID: u32 = 65_534;

/// An IPv4 or IPv6 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Text that is no network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkError(String);

impl std::fmt::Display for NetworkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` is not a network: write an address, ADDRESS/BITS as in 10.1.0.0/16 or fd00::/8, or `*`",
            self.0
        )
    }
}

impl std::error::Error for NetworkError {}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = || NetworkError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|b| *b <= bits_max)
                .ok_or_else(refuse)?,
        };
        Ok(Self {
            address,
            prefix_bits,
        })
    }
}

impl Network {
    /// Whether `address` lies in the network. An IPv4 address that arrived on an IPv6 socket counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(host)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix_bits))
                    .unwrap_or(0);
                (net.to_bits() ^ host.to_bits()) & mask == 0
            }
            (IpAddr::V6(net), IpAddr::V6(host)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix_bits))
                    .unwrap_or(0);
                (net.to_bits() ^ host.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

/// Which callers a rule speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRule {
    /// Every address.
    Any,
    /// Those of one network.
    Network(Network),
}

impl FromStr for ClientRule {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        if text == "*" {
            Ok(Self::Any)
        } else {
            text.parse().map(Self::Network)
        }
    }
}

impl ClientRule {
    /// Whether `peer` is one of them.
    #[must_use]
    pub fn contains(&self, peer: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Network(network) => network.contains(peer),
        }
    }
}

/// Whose identity is replaced by the anonymous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// uid 0 and gid 0 (the default).
    #[default]
    Root,
    /// Everyone.
    All,
    /// No one.
    None,
}

/// What reads do to access times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Atime {
    /// They move one that is not newer than the last change, or that is a day old (the default).
    #[default]
    Relatime,
    /// Nothing.
    Off,
}

/// One rule of an export list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportRule {
    /// Callers that the rule speaks of.
    pub clients: ClientRule,
    /// Whether they may change anything.
    pub read_write: bool,
    /// Whose identity is replaced.
    pub squash: Squash,
    /// uid of the replaced.
    pub anonymous_uid: u32,
    /// gid of the replaced.
    pub anonymous_gid: u32,
    /// What reads do to access times.
    pub atime: Atime,
}

/// An admitted caller, as the name space sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// User id after squashing.
    pub uid: u32,
    /// Group id after squashing.
    pub gid: u32,
    /// Further group ids after squashing.
    pub gids: Vec<u32>,
    /// Whether changes are refused with `NFS4ERR_ROFS`.
    pub read_only: bool,
    /// What reads do to access times: nothing where changes are refused.
    pub atime: Atime,
}

impl Admitted {
    /// A caller with the identity that it tells: user, group, further groups. No export has a say.
    #[must_use]
    pub fn as_told((uid, gid, gids): (u32, u32, &[u32])) -> Self {
        Self {
            uid,
            gid,
            gids: gids.to_vec(),
            read_only: false,
            atime: Atime::Relatime,
        }
    }
}

/// An export list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exports {
    rules: Vec<ExportRule>,
}

impl Exports {
    /// A list; later rules count only where no earlier one holds the caller.
    #[must_use]
    pub fn new(rules: Vec<ExportRule>) -> Self {
        Self { rules }
    }

    /// The list of a server that listens on loopback only: this machine, read and write.
    #[must_use]
    pub fn loopback(squash: Squash) -> Self {
        let rule = |network: &str| ExportRule {
            clients: network.parse().expect("a literal network"),
            read_write: true,
            squash,
            anonymous_uid: ANONYMOUS_ID,
            anonymous_gid: ANONYMOUS_ID,
            atime: Atime::Relatime,
        };
        Self {
            rules: vec![rule("127.0.0.0/8"), rule("::1")],
        }
    }

    /// Whether any rule speaks of `peer`: nobody else is ever admitted.
    #[must_use]
    pub fn contains(&self, peer: IpAddr) -> bool {
        self.rules.iter().any(|rule| rule.clients.contains(peer))
    }

    /// Decides about a caller with an `AUTH_SYS` identity, or none (`AUTH_NONE` is anonymous).
    #[must_use]
    pub fn admit(&self, peer: IpAddr, identity: Option<(u32, u32, &[u32])>) -> Option<Admitted> {
        let rule = self.rules.iter().find(|rule| rule.clients.contains(peer))?;
        let (anon_uid, anon_gid) = (rule.anonymous_uid, rule.anonymous_gid);
        let anonymous = Admitted {
            uid: anon_uid,
            gid: anon_gid,
            gids: Vec::new(),
            read_only: !rule.read_write,
            atime: if rule.read_write {
                rule.atime
            } else {
                Atime::Off
            },
        };
        let Some((uid, gid, gids)) = identity else {
            return Some(anonymous);
        };
        Some(match rule.squash {
            Squash::All => anonymous,
            Squash::None => Admitted {
                uid,
                gid,
                gids: gids.to_vec(),
                ..anonymous
            },
            Squash::Root => {
                let group = |g: u32| if g == 0 { anon_gid } else { g };
                Admitted {
                    uid: if uid == 0 { anon_uid } else { uid },
                    gid: group(gid),
                    gids: gids.iter().map(|g| group(*g)).collect(),
                    ..anonymous
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the first matching rule decides, and nobody keeps an identity that a rule takes away.
    use super::*;

    fn rule(clients: &str, read_write: bool, squash: Squash) -> ExportRule {
        ExportRule {
            clients: clients.parse().unwrap(),
            read_write,
            squash,
            anonymous_uid: 99,
            anonymous_gid: 98,
            atime: Atime::Relatime,
        }
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        for (network, address, inside) in [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "2001:db8::1", true),
            ("10.0.0.0/8", "::ffff:10.9.9.9", true),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(
                parsed.contains(address.parse().unwrap()),
                inside,
                "{address} in {network}"
            );
        }
    }

    #[test]
    fn only_those_of_some_rule_may_connect() {
        let exports = Exports::new(vec![
            rule("10.1.0.0/16", false, Squash::All),
            rule("fd00::/8", true, Squash::None),
        ]);
        for (peer, inside) in [("10.1.0.1", true), ("fd00::1", true), ("10.2.0.1", false)] {
            assert_eq!(exports.contains(peer.parse().unwrap()), inside, "{peer}");
        }
        let all = Exports::new(vec![rule("*", false, Squash::All)]);
        assert!(all.contains("203.0.113.1".parse().unwrap()));
        assert!(!Exports::new(vec![]).contains("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network_is_refused_with_its_text() {
        for text in [
            "",
            "10.0.0.0/33",
            "fd00::/129",
            "host",
            "10.0.0.0/",
            "1.2.3/8",
        ] {
            let err = text.parse::<Network>().unwrap_err().to_string();
            assert!(err.contains(&format!("`{text}`")), "{err}");
        }
    }

    #[test]
    fn the_first_matching_rule_decides_and_no_rule_refuses() {
        let exports = Exports::new(vec![
            rule("10.1.1.1", false, Squash::None),
            rule("10.1.0.0/16", true, Squash::All),
        ]);
        let admit = |ip: &str| exports.admit(ip.parse().unwrap(), Some((5, 6, &[7])));
        assert_eq!(
            admit("10.1.1.1"),
            Some(Admitted {
                uid: 5,
                gid: 6,
                gids: vec![7],
                read_only: true,
                atime: Atime::Off
            })
        );
        assert_eq!(
            admit("10.1.9.9"),
            Some(Admitted {
                uid: 99,
                gid: 98,
                gids: vec![],
                read_only: false,
                atime: Atime::Relatime
            })
        );
        assert_eq!(admit("10.2.0.1"), None);
    }

    #[test]
    fn root_is_squashed_in_every_place_and_others_keep_their_identity() {
        let exports = Exports::new(vec![rule("*", true, Squash::Root)]);
        let admit = |id| exports.admit("192.0.2.1".parse().unwrap(), id).unwrap();
        let root = admit(Some((0, 0, &[0, 4])));
        assert_eq!((root.uid, root.gid, root.gids), (99, 98, vec![98, 4]));
        let user = admit(Some((1000, 100, &[0])));
        assert_eq!((user.uid, user.gid, user.gids), (1000, 100, vec![98]));
        assert_eq!(admit(None).uid, 99);
    }
}
