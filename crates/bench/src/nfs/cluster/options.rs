//! What cluster is to be started.

use super::file_system::file_system;
use crate::net::Link;
use crate::nfs::providers::OwnRdma;
use crate::nfs::server::Transport;
use crate::process::Launcher;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// The cluster's own folder in the one that is made for it.
pub(super) const STATE_DIR: &str = "state";
/// What the data of a cluster in memory may take: more than any experiment makes. It is taken only as far as there are data.
pub(crate) const MEMORY_TOTAL_BYTES: u64 = 8 << 30;

/// What carries requests, as goals tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// TCP of the kernel.
    #[default]
    Tcp,
    /// Software iWARP.
    Iwarp,
    /// The same without checksums.
    IwarpWithoutCrc,
}

impl Carrier {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Iwarp => "iwarp",
            Self::IwarpWithoutCrc => "iwarp without crc",
        }
    }

    /// The transport.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::Tcp => Transport::Tcp,
            Self::Iwarp | Self::IwarpWithoutCrc => Transport::Rdma,
        }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The program.
    pub program: PathBuf,
    /// Where the cluster's folder is made.
    pub dir: PathBuf,
    /// Data servers.
    pub ds_count: u16,
    /// Copies of each stripe, at so many data servers.
    pub copies: u32,
    /// Data servers that come when the first files can be made already, where servers are started one by one.
    pub ds_idle_count: u16,
    /// Whether servers are started one by one, so that one can be sent away; with links they always are.
    pub is_apart: bool,
    /// Whether metadata and objects stay in memory.
    pub in_memory: bool,
    /// What all paths use.
    pub transport: Transport,
    /// Whether frames of RDMA have checksums.
    pub rdma_crc: bool,
    /// Whether NFSv3 is served as well.
    pub nfs3: bool,
    /// Whether the objects of a file are made with it, on all of its data servers.
    pub is_eager: bool,
    /// Whether clients of NFSv3 are served too, by `ropewalk up`.
    pub speaks_nfs3: bool,
    /// Whether somebody follows the event stream, and scrapes the metrics each second; by `ropewalk up`.
    pub is_watched: bool,
    /// The address of a device that servers listen on, for RDMA over it; without one they are at loopback.
    pub device: Option<IpAddr>,
    /// What each server is behind; without one all share the loopback interface.
    pub link: Option<Link>,
    /// So many clients behind links of their own, where servers have links; without them one, behind a link as servers have.
    pub clients: Option<ClientLinks>,
    /// Where servers over TCP listen, and the network of their clients; without one they are at loopback.
    pub network: Option<ClientNet>,
    /// How to start a child that the kernel kills when the thread that started it ends; without one a cluster outlives a
    /// process that is killed.
    pub launcher: Option<Launcher>,
}

/// Clients, each behind a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientLinks {
    /// How many.
    pub count: u16,
    /// What each is behind.
    pub link: Link,
}

/// An address in a network of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientNet {
    /// Where servers listen.
    pub address: Ipv4Addr,
    /// So many bits of the address are those of the network.
    pub bits: u8,
}

impl ClientNet {
    /// The network, as an export names it.
    #[must_use]
    pub fn clients(self) -> String {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.bits));
        let first = self.address.to_bits() & mask.unwrap_or(0);
        format!("{}/{}", Ipv4Addr::from_bits(first), self.bits)
    }
}

impl ClusterOptions {
    /// One data server in memory, over TCP, all else as it comes.
    #[must_use]
    pub const fn new(program: PathBuf, dir: PathBuf) -> Self {
        Self {
            program,
            dir,
            ds_count: 1,
            copies: 1,
            ds_idle_count: 0,
            is_apart: false,
            in_memory: true,
            transport: Transport::Tcp,
            rdma_crc: true,
            nfs3: false,
            is_eager: false,
            speaks_nfs3: false,
            is_watched: false,
            device: None,
            link: None,
            clients: None,
            network: None,
            launcher: None,
        }
    }

    /// The same cluster with another number of data servers.
    #[must_use]
    pub fn with_ds_count(&self, ds_count: u16) -> Self {
        Self {
            ds_count,
            ..self.clone()
        }
    }

    /// The same cluster with another carrier on all paths.
    #[must_use]
    pub fn over(&self, carrier: Carrier) -> Self {
        Self {
            transport: carrier.transport(),
            rdma_crc: carrier != Carrier::IwarpWithoutCrc,
            ..self.clone()
        }
    }

    /// What carries requests to it.
    #[must_use]
    pub const fn carrier(&self) -> Carrier {
        match (self.transport, self.rdma_crc) {
            (Transport::Tcp, _) => Carrier::Tcp,
            (Transport::Rdma, true) => Carrier::Iwarp,
            (Transport::Rdma, false) => Carrier::IwarpWithoutCrc,
        }
    }

    /// What a reader must know to repeat a run.
    #[must_use]
    pub fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "ds_count": self.ds_count,
            "copies": self.copies,
            "in_memory": self.in_memory,
            "dir": self.dir,
            "file_system": file_system(&self.dir),
            "transport": self.transport.name(),
            "provider": OwnRdma::SOFTWARE.provider(self.transport),
            "rdma_crc": (self.transport == Transport::Rdma).then_some(self.rdma_crc),
            "nfs3": self.nfs3,
            "create": if self.is_eager { "eager" } else { "lazy" },
            "link": self.link,
            "clients": self.clients,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_names_the_network_and_not_the_server() {
        let net = |bits| ClientNet {
            address: Ipv4Addr::new(192, 0, 2, 129),
            bits,
        };
        let all = [0, 24, 25, 32].map(|bits| net(bits).clients());
        let expected = [
            "0.0.0.0/0",
            "192.0.2.0/24",
            "192.0.2.128/25",
            "192.0.2.129/32",
        ];
        assert_eq!(all, expected);
    }
}
