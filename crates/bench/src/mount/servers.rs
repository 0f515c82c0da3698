//! Servers beside each other for one kernel that mounts them: a cluster of Ropewalk, nfs-ganesha on the same storage, and others
//! by URL. Ours are in a network namespace of their own, at one end of the kernel's only link.
//!
//! # Ownership
//! [`Servers`] owns the processes, their folders and the namespace, and keeps the calling thread inside while it lives.
//!
//! May call: [`crate::nfs::cluster`], [`crate::peer`], [`crate::net`]. It mounts nothing.

use super::guest::Export;
use super::relay;
use crate::BenchError;
use crate::net::{Inside, NameSpace};
use crate::nfs::cluster::{ClientNet, Cluster, ClusterOptions, file_system};
use crate::peer::{self, Fsal, Ganesha, GaneshaOptions};
use crate::process::Launcher;
use client::NfsUrl;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The device at the servers' end of the link, its address, and that of the guest: a network that RFC 5737 keeps for documents.
pub(super) const TAP: &str = "tap0";
pub(super) const NET: ClientNet = ClientNet {
    address: Ipv4Addr::new(192, 0, 2, 1),
    bits: 24,
};
pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// Its name, and that of the other server that is started.
const OURS: &str = "ropewalk";
const PEER: &str = "nfs-ganesha";

/// A server elsewhere, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedServer {
    /// Its name in tables.
    pub name: String,
    /// Host and port.
    pub server: (String, u16),
    /// The path on it.
    pub path: String,
}

impl FromStr for NamedServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, url) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or("say NAME=nfs://HOST[:PORT]/PATH")?;
        let url = NfsUrl::parse(url).map_err(|e| e.to_string())?;
        let [(false, port)] = url.ports()[..] else {
            return Err("only TCP is measured: leave the transport out".to_owned());
        };
        if url.version.is_some() {
            return Err("only NFSv4.2 is measured: leave the version out".to_owned());
        }
        let path = String::from_utf8(url.path).map_err(|_| "the path is no UTF-8")?;
        Ok(Self {
            name: name.to_owned(),
            server: (url.host, port),
            path,
        })
    }
}

/// What to start.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) launcher: &'a Launcher,
    /// The program that the cluster is made of.
    pub(super) ropewalk: PathBuf,
    /// Where all servers that are started keep their data.
    pub(super) dir: &'a Path,
    pub(super) ds_count: u16,
    /// Servers elsewhere.
    pub(super) others: &'a [NamedServer],
}

/// Running servers. Dropping it stops those that it started.
#[derive(Debug)]
pub(super) struct Servers {
    exports: Vec<Export>,
    settings: Value,
    words: Vec<String>,
    _peer: Option<Ganesha>,
    _cluster: Cluster,
    // Left after the servers are gone, and taken back then.
    _inside: Inside,
    _space: NameSpace,
}

impl Servers {
    /// Starts them and waits until they are ready. From then on the calling thread is in their network.
    ///
    /// # Errors
    /// What the one that does not start has said, or that a server elsewhere does not answer.
    pub(super) fn start(plan: &Plan<'_>) -> Result<Self, BenchError> {
        let space = NameSpace::make().map_err(as_guest)?;
        space.batch("ip", &link()).map_err(as_guest)?;
        // Their connections begin in the network of this machine, so they come before this thread leaves it.
        let others = plan.others.iter().map(|other| export(other, &space));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let inside = space.enter()?;
        let cluster_options = ClusterOptions {
            ds_count: plan.ds_count,
            in_memory: false,
            network: Some(NET),
            launcher: Some(plan.launcher.clone()),
            ..ClusterOptions::new(plan.ropewalk.clone(), plan.dir.to_owned())
        };
        let cluster = Cluster::start(&cluster_options)?;
        let peer_options = peer::find().map(|program| GaneshaOptions {
            launcher: plan.launcher.clone(),
            program,
            dir: plan.dir.to_owned(),
            fsal: Fsal::Vfs { is_durable: false },
            listen: NET.address,
        });
        let peer = peer_options.as_ref().map(Ganesha::start).transpose()?;
        let mut exports = vec![ours(OURS, cluster.server().address)];
        exports.extend(peer.as_ref().map(|peer| ours(PEER, peer.address())));
        exports.extend(others);
        let peer_settings = peer_options.as_ref().map(GaneshaOptions::settings);
        Ok(Self {
            exports,
            settings: json!({ OURS: cluster_options.settings(), PEER: peer_settings }),
            words: words(plan, peer.is_some()),
            _peer: peer,
            _cluster: cluster,
            _inside: inside,
            _space: space,
        })
    }

    /// All of them; the first is Ropewalk.
    pub(super) fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Which of them listens on a port; what none of the others has is a data server's of the first.
    pub(super) fn place_of(&self, port: u16) -> usize {
        let found = self.exports.iter().position(|e| e.server.port() == port);
        found.unwrap_or(0)
    }

    /// What a reader must know to repeat a run.
    pub(super) fn settings(&self) -> &Value {
        &self.settings
    }

    /// The same in words.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }
}

fn ours(name: &str, address: SocketAddr) -> Export {
    Export {
        name: name.to_owned(),
        server: SocketAddrV4::new(NET.address, address.port()),
        path: "/".to_owned(),
    }
}

/// The way to a server elsewhere.
fn export(other: &NamedServer, space: &NameSpace) -> Result<Export, BenchError> {
    let (host, port) = &other.server;
    let why = |error: std::io::Error| {
        let name = &other.name;
        BenchError::Guest(format!(
            "{name}, {host} port {port}, is out of reach: {error}"
        ))
    };
    let resolved: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, *port)],
        Err(_) => (host.as_str(), *port)
            .to_socket_addrs()
            .map_err(why)?
            .collect(),
    };
    let target = relay::reachable(&resolved).map_err(why)?;
    Ok(Export {
        name: other.name.clone(),
        server: relay::start(space, NET.address, target)?,
        path: other.path.clone(),
    })
}

fn words(plan: &Plan<'_>, has_peer: bool) -> Vec<String> {
    let (ds_count, disk) = (plan.ds_count, file_system(plan.dir));
    let dir = plan.dir.display();
    let mut words = vec![format!(
        "{OURS}: {ds_count} data servers, its data on {disk} in {dir}"
    )];
    words.push(match has_peer {
        true => format!(
            "{PEER}: FSAL_VFS on the same storage; it does not wait for the disk when it makes or removes names"
        ),
        false => format!("{}: Ropewalk is measured alone", peer::HOW_TO_INSTALL),
    });
    for NamedServer { name, server, .. } in plan.others {
        let (host, port) = server;
        words.push(format!("{name}: {host} port {port}, through a relay"));
    }
    words
}

/// Lines for ip(8): the loopback interface and the link to the guest.
fn link() -> String {
    let ClientNet { address, bits } = NET;
    format!(
        "link set lo up\ntuntap add {TAP} mode tap\naddr add {address}/{bits} dev {TAP}\nlink set {TAP} up\n"
    )
}

/// Its links have no cap.
fn as_guest(error: BenchError) -> BenchError {
    match error {
        BenchError::Links(why) => BenchError::Guest(why),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_elsewhere_have_a_name_and_a_url() {
        let parse = |text: &str| text.parse::<NamedServer>();
        let named = parse("a=nfs://host:7/x%20y").unwrap();
        assert_eq!((&named.name[..], &named.path[..]), ("a", "/x y"));
        assert_eq!(named.server, ("host".to_owned(), 7));
        assert_eq!(parse("a=nfs://[::1]").unwrap().server.1, 2049);
        for wrong in [
            "nfs://host/",
            "=nfs://host/",
            "a=host:/x",
            "a=nfs://host/?transport=rdma",
            "a=nfs://host/?vers=3",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_link_has_both_ends_in_one_network() {
        assert!(link().contains("addr add 192.0.2.1/24 dev tap0\n"));
        assert_eq!(NET.clients(), "192.0.2.0/24");
        assert_eq!(GUEST.octets()[..3], NET.address.octets()[..3]);
    }
}
