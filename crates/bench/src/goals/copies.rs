//! Two copies of data against one, and how long writes wait when a data server goes away.

use super::links;
use super::table::{Denominator, Shape};
use super::trial::{Ground, Stage, Trial};
use super::{Planning, Row};
use crate::net::Link;
use crate::nfs::absence::{Absence, Store};
use crate::nfs::cluster::{Away, Carrier, ClientLinks, ClusterOptions};
use crate::nfs::commits::Commits;
use crate::nfs::failover::{Failover, Second};
use crate::nfs::filling::Filling;
use crate::nfs::io::Access;
use crate::nfs::library::Library;
use crate::runner::Metric;
use crate::suite::single_cell::SingleCell;
use crate::suite::work::Access as StreamAccess;

/// The copies that are compared.
const ONE_AND_TWO: [u32; 2] = [1, 2];
/// Size of the file of streams, and of that of `--quick`.
const FILE_BYTES: u64 = 512 << 20;
const FILE_BYTES_QUICK: u64 = 64 << 20;
/// Size of the file of small durable writes: a few stripes of each place.
const STABLE_FILE_BYTES: u64 = 16 << 20;
/// What is written before each COMMIT, and with `--quick`.
const BEHIND_BYTES: u64 = 64 << 20;
const BEHIND_BYTES_QUICK: u64 = 8 << 20;
/// What is filled over a link, and with `--quick`.
const FILLED_BYTES: u64 = 256 << 20;
const FILLED_BYTES_QUICK: u64 = 8 << 20;
/// Payload of a request over links, unless a goal says another.
const RECORD_BYTES: u32 = 32 << 10;
/// Files that a cluster has when a member goes away, their sizes, and those that are written meanwhile; and with `--quick`.
const STORE: Store = Store {
    files_count: 4096,
    file_bytes: 256 << 10,
    written_count: 256,
};
const STORE_QUICK: Store = Store {
    files_count: 64,
    file_bytes: 64 << 10,
    written_count: 16,
};
const LINK: Link = links::link(200_000_000);
/// The link of a client that is slower than those of data servers with two copies together.
const CLIENT_LINK: Link = links::link(100_000_000);

/// Two copies against one with a file over all data servers.
pub(super) fn ratios(planning: &Planning<'_>) -> Vec<Trial> {
    let grounds = [
        (Ground::Tmpfs, Denominator::OneCopyTmpfs),
        (Ground::Disk, Denominator::OneCopyDisk),
    ];
    let shapes = planning.table.shapes(Row::Copies);
    let mut trials = Vec::new();
    for shape in &shapes {
        let has_goal = |to| {
            let mut goals = planning.table.of(Row::Copies);
            goals.any(|goal| goal.shape == *shape && goal.to == to)
        };
        let wanted = grounds.into_iter().filter(|(_, to)| has_goal(*to));
        trials.extend(wanted.filter_map(|ground| ratio(planning, shape, ground)));
    }
    trials
}

fn ratio(
    planning: &Planning<'_>,
    shape: &Shape,
    (ground, to): (Ground, Denominator),
) -> Option<Trial> {
    let file_bytes = planning.pick(FILE_BYTES, FILE_BYTES_QUICK);
    let behind_bytes = planning.pick(BEHIND_BYTES, BEHIND_BYTES_QUICK);
    let library = |access, file_bytes, request_bytes| {
        Box::new(move |cluster| Library {
            cluster,
            access,
            file_bytes,
            request_bytes,
        })
    };
    let size_bytes = shape.size_bytes.map(u64::from);
    let mut trial = Trial::new(shape.text(), ground, shape.connections);
    let (metric, [one, two]) = match shape.operation.as_str() {
        "striped write" => {
            let make = library(Access::Write, file_bytes, size_bytes);
            (Metric::MegabytesPerSecond, add(&mut trial, shape, &make))
        }
        "striped read" => {
            let make = library(Access::Read, file_bytes, size_bytes);
            (Metric::MegabytesPerSecond, add(&mut trial, shape, &make))
        }
        "FILE_SYNC WRITE" => {
            let make = library(Access::StableWrite, STABLE_FILE_BYTES, size_bytes);
            (Metric::LatencyP50Us, add(&mut trial, shape, &make))
        }
        "COMMIT after 64 MiB" => {
            let make = move |cluster| Commits {
                cluster,
                behind_bytes,
            };
            (Metric::LatencyP50Us, add(&mut trial, shape, &make))
        }
        _ => return None,
    };
    trial.claim(shape, two, (to, one), metric);
    Some(trial)
}

/// The subject with one copy and with two; returns their places.
fn add<S: crate::Subject + 'static>(
    trial: &mut Trial,
    shape: &Shape,
    make: &(impl Fn(ClusterOptions) -> S + Clone + 'static),
) -> [usize; 2] {
    let ds_count = shape.data_servers;
    ONE_AND_TWO.map(|copies| {
        let make = make.clone();
        trial.add(move |stage| {
            Ok(make(ClusterOptions {
                copies,
                ..stage.cluster(ds_count, Carrier::Tcp)
            }))
        })
    })
}

/// Data servers behind links: two copies against one, and a filling against the line.
pub(super) fn over_links(planning: &Planning<'_>) -> Vec<Trial> {
    if !planning.has_links {
        return Vec::new();
    }
    let file_bytes = planning.pick(FILLED_BYTES, FILLED_BYTES_QUICK);
    let shapes = planning.table.shapes(Row::CopiesLink);
    let trial = |shape: &Shape| {
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let (to, base, ours) = match shape.operation.as_str() {
            "write over 200 Mbit/s links" => {
                let [one, two] = ONE_AND_TWO.map(|copies| streams(&mut trial, shape, copies, None));
                (Denominator::OneCopy, one, two)
            }
            "write by clients behind 100 Mbit/s links" => {
                let clients = u16::try_from(shape.connections).ok()?;
                let links = Some(ClientLinks {
                    count: clients,
                    link: CLIENT_LINK,
                });
                let [one, two] =
                    ONE_AND_TWO.map(|copies| streams(&mut trial, shape, copies, links));
                (Denominator::OneCopy, one, two)
            }
            "filling of an idle place over 200 Mbit/s links" => {
                let line = trial.add(|stage: &Stage<'_>| {
                    let environment = links::environment(stage)?;
                    Ok(SingleCell::line(environment, LINK, StreamAccess::Write))
                });
                let ds_count = shape.data_servers;
                let filling = trial.add(move |stage| {
                    Ok(Filling {
                        cluster: ClusterOptions {
                            copies: 2,
                            ds_idle_count: 1,
                            link: Some(LINK),
                            ..stage.cluster(ds_count, Carrier::Tcp)
                        },
                        file_bytes,
                    })
                });
                (Denominator::Line, line, filling)
            }
            _ => return None,
        };
        trial.claim(shape, ours, (to, base), Metric::MegabytesPerSecond);
        Some(trial)
    };
    shapes.iter().filter_map(trial).collect()
}

fn streams(trial: &mut Trial, shape: &Shape, copies: u32, clients: Option<ClientLinks>) -> usize {
    let record_bytes = shape.size_bytes.unwrap_or(RECORD_BYTES);
    let ds_count = shape.data_servers;
    trial.add(move |stage: &Stage<'_>| {
        let environment = links::environment(stage)?;
        let access = StreamAccess::Write;
        let streams = SingleCell::streams(environment, (ds_count, LINK), access, record_bytes);
        let streams = streams.with_copies(copies);
        Ok(match clients {
            Some(links) => streams.behind_links(links),
            None => streams,
        })
    })
}

/// How long writes wait when a data server goes away, and how soon one that comes back is in sync.
pub(super) fn failover(planning: &Planning<'_>) -> Vec<Trial> {
    let store = planning.pick(STORE, STORE_QUICK);
    let trial = |shape: &Shape| {
        let away = match shape.operation.as_str() {
            "write after SIGKILL, without restart" => Some(Away::Killed),
            "write after SIGKILL, with restart" => Some(Away::KilledAndRestarted),
            "write after SIGTERM" => Some(Away::Terminated),
            "write after SIGSTOP" => Some(Away::Stopped),
            "write after a link is down" => Some(Away::Unplugged),
            "in sync after 10 s away under 1,000 writes/s" => None,
            _ => return None,
        };
        let link = (away == Some(Away::Unplugged)).then_some(LINK);
        if link.is_some() && !planning.has_links {
            return None;
        }
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let ds_count = shape.data_servers;
        let cluster = move |stage: &Stage<'_>| ClusterOptions {
            copies: 2,
            is_apart: true,
            link,
            ..stage.cluster(ds_count, Carrier::Tcp)
        };
        let ours = match away {
            Some(away) => trial.add(move |stage| {
                let cluster = cluster(stage);
                Ok(Failover { cluster, away })
            }),
            None => trial.add(move |stage| {
                let cluster = cluster(stage);
                Ok(Absence { cluster, store })
            }),
        };
        let second = trial.add(|_| Ok(Second));
        let to = (Denominator::Second, second);
        trial.claim(shape, ours, to, Metric::LongestSeconds);
        Some(trial)
    };
    let shapes = planning.table.shapes(Row::Failover);
    shapes.iter().filter_map(trial).collect()
}
