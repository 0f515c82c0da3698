//! NFSv3 through the metadata server: beside nfs-ganesha's, what passing data on costs, and several clients behind links.
//!
//! All is in memory. The client is a blocking socket for each connection, with files of its own. Behind links it is the client
//! library, in a process for each client.

use super::links;
use super::peers::Peers;
use super::table::{Denominator, Shape};
use super::trial::{Ground, Look, Stage, Trial};
use super::{Planning, Row};
use crate::net::Link;
use crate::nfs::cluster::{Carrier, ClientLinks, Role};
use crate::nfs::host::Host;
use crate::nfs::requests3::{Request3, Requests3};
use crate::peer::{self, Fsal};
use crate::runner::Metric;
use crate::suite::single_cell::SingleCell;
use crate::suite::work::Access;

/// Size of the file of each connection.
const FILE_BYTES: u64 = 4 << 20;
/// Payload of a request, unless a goal says another.
const IO_BYTES: u32 = 1 << 20;
/// Links of servers and of clients: ten to one, as the published measurement had 10 Gbit/s and 1 Gbit/s. So much slower that neither
/// five clients nor two processors are the limit.
const SERVER_LINK: Link = links::link(400_000_000);
const CLIENT_LINK: Link = links::link(40_000_000);
/// Records of clients behind links, unless a goal says another.
const RECORD_BYTES: u32 = 4096;

/// nfs-ganesha, where it can serve NFSv3; says what is missing.
pub(super) fn find() -> Peers {
    let peers = Peers::find(false);
    if peers.ganesha.is_some() && !peer::older::can_be_started() {
        eprintln!(
            "{}: nothing is compared with it",
            peer::older::HOW_TO_INSTALL
        );
        return Peers::default();
    }
    peers
}

fn request(shape: &Shape) -> Option<Request3> {
    let all = Request3::ALL.into_iter();
    { all }.find(|request| request.name() == shape.operation)
}

fn add(
    trial: &mut Trial,
    shape: &Shape,
    request: Request3,
    counts: Option<Role>,
    host: impl FnOnce(&Stage<'_>) -> Host + 'static,
) -> usize {
    let io_bytes = shape.size_bytes.unwrap_or(IO_BYTES);
    trial.add(move |stage| {
        Ok(Requests3 {
            host: host(stage),
            request,
            file_bytes: FILE_BYTES,
            io_bytes,
            counts,
        })
    })
}

fn ours(stage: &Stage<'_>) -> Host {
    Host::Ropewalk(stage.cluster(1, Carrier::Tcp))
}

/// Metadata and data beside nfs-ganesha's NFSv3.
pub(super) fn beside_ganesha(planning: &Planning<'_>) -> Vec<Trial> {
    let trial = |shape: &Shape| {
        let request = request(shape)?;
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        trial.look = Look::Servers;
        let own = add(&mut trial, shape, request, None, ours);
        if let Some(host) = planning.peers.host(Fsal::Vfs { is_durable: false }) {
            let peer = add(&mut trial, shape, request, None, host);
            let to = (Denominator::GaneshaTmpfs, peer);
            trial.claim(shape, own, to, Metric::RequestsPerSecond);
        }
        Some(trial)
    };
    let shapes = planning.table.shapes(Row::V3);
    shapes.iter().filter_map(trial).collect()
}

/// What the metadata server takes to pass data on, against what the data server takes for the same load.
pub(super) fn passed_on(planning: &Planning<'_>) -> Vec<Trial> {
    let trial = |shape: &Shape| {
        let request = request(shape)?;
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let [data, metadata] = [Role::Data, Role::Metadata]
            .map(|role| add(&mut trial, shape, request, Some(role), ours));
        let to = (Denominator::DataServerAlone, data);
        trial.claim(shape, metadata, to, Metric::CpuSecondsPerGigabyte);
        Some(trial)
    };
    let shapes = planning.table.shapes(Row::V3Proxy);
    shapes.iter().filter_map(trial).collect()
}

/// Several clients behind links of their own, against one.
pub(super) fn clients(planning: &Planning<'_>) -> Vec<Trial> {
    if !planning.has_links {
        return Vec::new();
    }
    let trial = |shape: &Shape| {
        let access = match shape.operation.as_str() {
            "write over links of 40 Mbit/s" => Access::Write,
            "read over links of 40 Mbit/s" => Access::Read,
            _ => return None,
        };
        let record_bytes = shape.size_bytes.unwrap_or(RECORD_BYTES);
        let count = u16::try_from(shape.connections).ok()?;
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let [one, all] = [1, count].map(|count| {
            trial.add(move |stage: &Stage<'_>| {
                let environment = links::environment(stage)?;
                let servers = (1, SERVER_LINK);
                let streams = SingleCell::streams(environment, servers, access, record_bytes);
                let links = ClientLinks {
                    count,
                    link: CLIENT_LINK,
                };
                Ok(streams.behind_links(links).by_nfs3())
            })
        });
        let to = (Denominator::OneClient, one);
        trial.claim(shape, all, to, Metric::MegabytesPerSecond);
        Some(trial)
    };
    let shapes = planning.table.shapes(Row::V3Clients);
    shapes.iter().filter_map(trial).collect()
}
