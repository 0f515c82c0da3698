//! What cells run against: clusters of our own, bare servers, and what the user named.

use super::job::Place;
use crate::suite::work::BareServers;

use super::options::{Options, Peer};
use super::plan::{Own, Server};
use super::spec::{Create, Store, Transport};
use crate::net::{self, Link, NameSpace, Network};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::providers::{self, Carriers};
use crate::peer::{Fsal, Ganesha, GaneshaOptions};
use crate::process::{Launcher, ServerProcess};
use crate::{BenchError, load, own, pattern, peer};
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::{NamedTempFile, TempDir};

/// Size of the files of the bare servers.
const BARE_FILE_BYTES: u64 = 64 << 20;
/// Hosts of the bare servers and of a client, where they have links.
const BARE_HOST: usize = 0;
const CLIENT_HOST: usize = 1;

/// Where and with what is measured.
#[derive(Debug)]
pub(crate) struct Environment {
    /// What the user named, unless clusters are our own.
    pub(crate) given: Option<Place>,
    /// Who carries requests.
    pub(crate) carriers: Carriers,
    link: Option<net::Rate>,
    /// The peer's program.
    ganesha: Option<PathBuf>,
    program: PathBuf,
    memory_dir: PathBuf,
    disk_dir: PathBuf,
    launcher: Launcher,
    /// Shared by the workers of a run.
    scratch: TempDir,
}

impl Environment {
    pub(crate) fn new(options: &Options, launcher: &Launcher) -> Result<Self, BenchError> {
        if options.link.is_some() {
            net::need()?;
        }
        let ganesha = match options.peer {
            Some(Peer::Ganesha) => Some(find_ganesha()?),
            None => None,
        };
        let given = match (&options.target, &options.mounted) {
            (Some(url), _) => Some(Place::Url(url.trim_end_matches('/').to_owned())),
            (None, Some(dir)) => Some(Place::Dir(
                dir.canonicalize()
                    .map_err(BenchError::io("find the mounted directory"))?,
            )),
            (None, None) => None,
        };
        let carriers = Carriers {
            own_rdma: options.own_rdma(),
            given: match &given {
                Some(Place::Url(url)) => load::runtime()?.block_on(providers::at(url)),
                _ => None,
            },
        };
        let program = &launcher.ropewalk(options.ropewalk.as_ref())?;
        own::tell_of_left(&[&options.dir, &options.disk_dir]);
        let own = Self::of(program, &options.dir, &options.disk_dir, launcher)?;
        Ok(Self {
            given,
            carriers,
            link: options.link,
            ganesha,
            ..own
        })
    }

    /// Clusters of our own of this program, in these folders.
    pub(crate) fn of(
        program: &Path,
        memory_dir: &Path,
        disk_dir: &Path,
        launcher: &Launcher,
    ) -> Result<Self, BenchError> {
        let scratch = own::folder(memory_dir).map_err(BenchError::io("make a folder in memory"))?;
        Ok(Self {
            given: None,
            carriers: Carriers::default(),
            link: None,
            ganesha: None,
            program: program.to_owned(),
            memory_dir: memory_dir.to_owned(),
            disk_dir: disk_dir.to_owned(),
            launcher: launcher.clone(),
            scratch,
        })
    }

    /// In words, for reports.
    pub(crate) fn text(&self) -> String {
        match (&self.given, self.link) {
            (Some(Place::Url(url)), _) => format!("the server of {url}"),
            (Some(Place::Dir(dir)), _) => format!("the mounted directory {}", dir.display()),
            (Some(_), _) => "bare servers".to_owned(),
            (None, None) => {
                let words = "clusters of this program on this machine, over its loopback";
                let device = self.carriers.own_rdma.device;
                device.map_or(words.to_owned(), |at| {
                    format!("{words}; over RDMA at its device's address {at}")
                })
            }
            (None, Some(rate)) => format!(
                "clusters of this program on this machine, each server in a network namespace behind a link of {rate}"
            ),
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    pub(crate) fn scratch_dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Starts what a cell needs.
    pub(crate) fn start(&self, server: Server) -> Result<Started, BenchError> {
        match server {
            Server::Given => self.given.clone().map(Started::Place).ok_or({
                BenchError::Setting {
                    name: "the server of a cell",
                    must_be: "a cluster, or given",
                }
            }),
            Server::LocalDisk => Ok(Started::Place(Place::Dir(self.disk_dir.clone()))),
            Server::BareRpc { transport } => {
                let transport_name = format!("--transport={}", transport.name());
                let mut arguments = vec!["rpc-echo".into(), transport_name.into()];
                let device = self.carriers.own_rdma.device;
                arguments.extend(device.map(|at| format!("--device={at}").into()));
                let server = ServerProcess::start(&self.launcher, &arguments)?;
                Ok(Started::BareRpc(server, transport))
            }
            Server::BareStream { link } => self.bare_streams(link).map(Started::BareStream),
            Server::Ganesha { store, link } => self.ganesha(store, link).map(Started::Ganesha),
            Server::Own(own) => Cluster::start(&self.cluster(own)).map(Started::Cluster),
        }
    }

    fn dir(&self, store: Store) -> PathBuf {
        match store {
            Store::Memory => self.memory_dir.clone(),
            Store::Disk => self.disk_dir.clone(),
        }
    }

    fn ganesha(&self, store: Store, link: Option<Link>) -> Result<Peered, BenchError> {
        let program = self.ganesha.clone().ok_or(BenchError::Setting {
            name: "the server of a cell",
            must_be: "one that was asked for",
        })?;
        let network = link
            .map(|link| Network::make(link, CLIENT_HOST + 1))
            .transpose()?;
        let host = network.as_ref().map(|network| network.host(BARE_HOST));
        let options = GaneshaOptions {
            launcher: self.launcher.clone(),
            program,
            dir: self.dir(store),
            fsal: Fsal::Vfs { is_durable: false },
            listen: host.map_or(Ipv4Addr::LOCALHOST, |_| net::address(BARE_HOST)),
        };
        let inside = host.map(NameSpace::enter).transpose()?;
        let ganesha = Ganesha::start(&options)?;
        drop(inside);
        Ok(Peered { ganesha, network })
    }

    /// A cluster of our own.
    pub(crate) fn cluster(&self, own: Own) -> ClusterOptions {
        ClusterOptions {
            ds_count: own.ds_count,
            copies: own.copies,
            in_memory: own.store == Store::Memory,
            transport: own.transport,
            is_eager: own.create == Create::Eager,
            device: self.carriers.own_rdma.device,
            link: own.link,
            clients: own.clients,
            nfs3: own.nfs3,
            ..ClusterOptions::new(self.program.clone(), self.dir(own.store))
        }
    }

    fn bare_streams(&self, link: Option<Link>) -> Result<BareStreams, BenchError> {
        let file = || {
            let file = own::file(&self.memory_dir).map_err(BenchError::io("make the test file"))?;
            pattern::write(file.as_file(), BARE_FILE_BYTES)?;
            Ok::<_, BenchError>(file)
        };
        let files = [file()?, file()?];
        let network = link
            .map(|link| Network::make(link, CLIENT_HOST + 1))
            .transpose()?;
        let start = |kind: &str, file: &NamedTempFile| {
            let at = network
                .as_ref()
                .map_or(Ipv4Addr::LOCALHOST, |_| net::address(BARE_HOST));
            let listen = OsString::from(format!("--listen={at}"));
            let arguments = [OsString::from(kind), file.path().into(), listen];
            let host = network.as_ref().map(|network| network.host(BARE_HOST));
            let _inside = host.map(NameSpace::enter).transpose()?;
            ServerProcess::start(&self.launcher, &arguments)
        };
        Ok(BareStreams {
            writes: start("pwrite", &files[0])?,
            reads: start("sendfile", &files[1])?,
            _files: files,
            network,
        })
    }
}

/// Looks for the peer, and says what is missing.
fn find_ganesha() -> Result<PathBuf, BenchError> {
    if !rustix::process::geteuid().is_root() {
        let why = "its FSAL_VFS needs root: run as root, or without --peer";
        return Err(BenchError::Peer(why.to_owned()));
    }
    peer::find().ok_or_else(|| BenchError::Peer(peer::HOW_TO_INSTALL.to_owned()))
}

/// The peer, with its link.
#[derive(Debug)]
pub(crate) struct Peered {
    ganesha: Ganesha,
    network: Option<Network>,
}

/// The bare servers, with their files and links.
#[derive(Debug)]
pub(crate) struct BareStreams {
    writes: ServerProcess,
    reads: ServerProcess,
    _files: [NamedTempFile; 2],
    network: Option<Network>,
}

/// What a cell runs against, while it runs.
#[derive(Debug)]
pub(crate) enum Started {
    /// A cluster of our own.
    Cluster(Cluster),
    /// The bare RPC program.
    BareRpc(ServerProcess, Transport),
    /// The bare servers.
    BareStream(BareStreams),
    /// The peer.
    Ganesha(Peered),
    /// What is there in any case.
    Place(Place),
}

impl Started {
    /// Where workers find it.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Cluster(cluster) => Place::Url(cluster.url()),
            Self::BareRpc(server, transport) => Place::Rpc(crate::nfs::server::Server {
                transport: *transport,
                address: server.address(),
                rdma_crc: true,
            }),
            Self::BareStream(streams) => Place::Bare(BareServers {
                writes: streams.writes.address(),
                reads: streams.reads.address(),
                file_bytes: BARE_FILE_BYTES,
            }),
            Self::Ganesha(peer) => Place::Url(
                crate::nfs::server::Server {
                    transport: Transport::Tcp,
                    address: peer.ganesha.address(),
                    rdma_crc: true,
                }
                .url(),
            ),
            Self::Place(place) => place.clone(),
        }
    }

    /// Where the worker of a number must be, behind a link or not, when that is not just this machine.
    pub(crate) fn space(&self, behind_link: bool, worker: usize) -> Option<&NameSpace> {
        match self {
            Self::Cluster(cluster) => cluster.space(behind_link, worker),
            Self::BareStream(BareStreams { network, .. })
            | Self::Ganesha(Peered { network, .. }) => {
                let network = network.as_ref()?;
                Some(match behind_link {
                    true => network.host(CLIENT_HOST),
                    false => network.hub(),
                })
            }
            Self::BareRpc(..) | Self::Place(_) => None,
        }
    }

    /// CPU time of its processes; nothing where they are not ours.
    pub(crate) fn cpu(&self) -> Result<Duration, BenchError> {
        match self {
            Self::Cluster(cluster) => cluster.cpu(),
            Self::BareRpc(server, _) => server.cpu(),
            Self::BareStream(streams) => Ok(streams.writes.cpu()? + streams.reads.cpu()?),
            Self::Ganesha(peer) => peer.ganesha.cpu(),
            Self::Place(_) => Ok(Duration::ZERO),
        }
    }

    /// Makes the page cache forget its files, where they are ours.
    pub(crate) fn forget_cached(&self) -> Result<(), BenchError> {
        match self {
            Self::Cluster(cluster) => cluster.forget_cached(),
            Self::Ganesha(peer) => peer.ganesha.forget_cached(),
            Self::BareRpc(..) | Self::BareStream(_) | Self::Place(_) => Ok(()),
        }
    }
}
