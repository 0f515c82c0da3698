//! Which addresses of a data server a client is told, in which order (RFC 8881 §13.2: the preferred one first).
//!
//! Linux tries the addresses of a multipath list in their order and takes what answers first. Kernels before 5.11 speak TCP whatever
//! the netid says, and skip any other. A client without RDMA that learned of RDMA first would wait for it at each data server.
//! So with [`Preference::Auto`] only a client that came over RDMA learns of RDMA, before TCP.

use nfs4::NetAddr;
use transport::{Preference, TransportKind};

pub(super) fn offered(
    preference: Preference,
    kind: TransportKind,
    addresses: Vec<NetAddr>,
) -> Vec<NetAddr> {
    let is = |a: &NetAddr, names: [&[u8]; 2]| names.contains(&&a.netid.0[..]);
    let is_rdma = |a: &NetAddr| is(a, [b"rdma", b"rdma6"]);
    let is_tcp = |a: &NetAddr| is(a, [b"tcp", b"tcp6"]);
    let (rdma, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_rdma);
    match (preference, kind) {
        (Preference::Auto, TransportKind::Rdma) => rdma.into_iter().chain(others).collect(),
        // A data server without TCP is better told of than not.
        (Preference::Auto, _) if others.is_empty() => rdma,
        (Preference::Auto | Preference::Tcp, _) => others,
        (Preference::Rdma, _) => {
            let neither = others.into_iter().filter(|a| !is_tcp(a));
            rdma.into_iter().chain(neither).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a client is told what it can use, preferred first, and a client on TCP never waits for RDMA by `auto`.
    use super::*;

    fn addresses(netids: &[&str]) -> Vec<NetAddr> {
        let address = |netid: &&str| NetAddr {
            netid: netid.as_bytes().into(),
            uaddr: b"127.0.0.1.8.1"[..].into(),
        };
        netids.iter().map(address).collect()
    }

    #[test]
    fn what_is_told_depends_on_the_setting_and_on_how_the_client_came() {
        use Preference::{Auto, Rdma, Tcp};
        let (over_tcp, over_rdma) = (TransportKind::Tcp, TransportKind::Rdma);
        for (preference, kind, has, told) in [
            (Auto, over_tcp, &["tcp", "rdma"][..], &["tcp"][..]),
            (Auto, over_rdma, &["tcp", "rdma"], &["rdma", "tcp"]),
            (Auto, over_rdma, &["tcp6"], &["tcp6"]),
            (Auto, over_tcp, &["rdma6"], &["rdma6"]),
            (Tcp, over_rdma, &["tcp", "tcp6", "rdma"], &["tcp", "tcp6"]),
            (
                Rdma,
                over_tcp,
                &["tcp", "rdma", "rdma6"],
                &["rdma", "rdma6"],
            ),
            (Rdma, over_rdma, &["tcp"], &[]),
            (Rdma, over_tcp, &["tcp", "memory"], &["memory"]),
        ] {
            let got = offered(preference, kind, addresses(has));
            assert_eq!(got, addresses(told), "{preference:?} {kind:?} {has:?}");
        }
    }
}
