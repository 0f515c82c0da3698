//! Metadata operations beside nfs-ganesha, and with one request outstanding beside the bare servers.
//!
//! All servers stand on one file system, a [`LoopDisk`] where it can be made. Ours answers a create or a remove when it is durable. So there are two forms of
//! the peer for these: on a folder whose changes ext4 writes at once, the one that counts, and as it comes, when a power cut takes away what was answered.

use super::{Bench, Goal, Measured, Verdict, bare_creates, place};
use crate::bare::ping_pong::{Form, PingPong};
use crate::disk::LoopDisk;
use crate::nfs::metadata::{Host, Metadata, Operation};
use crate::peer::{self, GaneshaOptions};
use crate::runner::{Comparison, Metric, Spread};
use crate::{BenchError, Subject, interrupt, report};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Requests that wait at the same time.
const OUTSTANDING: [usize; 3] = [1, 16, 64];
/// The rate of ours to the peer's, where more than one request waits.
const PEER_GOAL: f64 = 2.0;
/// Columns of the table.
const COLUMNS: [(&str, Metric); 5] = [
    ("requests_per_s", Metric::RequestsPerSecond),
    ("p50_us", Metric::LatencyP50Us),
    ("p99_us", Metric::LatencyP99Us),
    ("server_cpu_us", Metric::CpuUsPerRequest),
    ("client_cpu_us", Metric::ClientCpuUsPerRequest),
];

/// The file system that all servers stand on.
struct Ground {
    dir: PathBuf,
    /// Whether the peer's folder can be one that is written at once.
    is_known: bool,
    _disk: Option<LoopDisk>,
}

impl Ground {
    /// A disk of its own below `dir`, or `dir` itself when that cannot be.
    fn make(dir: PathBuf) -> Result<Self, BenchError> {
        interrupt::watch()?;
        match LoopDisk::make(&dir) {
            Ok(disk) => Ok(Self {
                dir: disk.path().to_owned(),
                is_known: true,
                _disk: Some(disk),
            }),
            Err(BenchError::Disk(why)) => {
                eprintln!(
                    "no file system of its own ({why}): all stand on {}, and what nfs-ganesha creates and removes is not durable",
                    place(&dir)
                );
                Ok(Self {
                    dir,
                    is_known: false,
                    _disk: None,
                })
            }
            Err(e) => Err(e),
        }
    }
}

/// The subjects of one comparison, and where each stands in it.
struct Cast {
    subjects: Vec<Box<dyn Subject>>,
    peer: Option<usize>,
    ping_pong: Option<usize>,
    store: Option<usize>,
}

/// Ours, the first of a comparison.
const OURS: usize = 0;

impl Cast {
    fn add(&mut self, subject: Box<dyn Subject>) -> usize {
        self.subjects.push(subject);
        self.subjects.len() - 1
    }
}

/// What a latency with one request outstanding is held against.
const fn floor_goal(operation: Operation) -> Option<f64> {
    match operation {
        Operation::Getattr | Operation::Lookup | Operation::Create | Operation::Remove => Some(1.5),
        Operation::OpenClose => Some(3.0),
        Operation::Readdir | Operation::Lock => None,
    }
}

impl Bench<'_> {
    pub(super) fn metadata(
        &self,
        done: &mut dyn FnMut(Measured) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let program = peer::find();
        if program.is_none() {
            eprintln!(
                "{}; only the bare servers are compared with",
                peer::HOW_TO_INSTALL
            );
        }
        let operations = match self.options.operation.as_slice() {
            [] => Operation::value_variants(),
            some => some,
        };
        let counts = match self.options.outstanding.as_slice() {
            [] => &OUTSTANDING,
            some => some,
        };
        let ground = Ground::make(self.dir(&self.options.disk_dir))?;
        for operation in operations {
            for count in counts {
                let cast = self.cast(&ground, program.as_deref(), *operation, *count)?;
                done(self.played(&ground, cast, *operation, *count)?)?;
            }
        }
        Ok(())
    }

    fn cast(
        &self,
        ground: &Ground,
        program: Option<&Path>,
        operation: Operation,
        count: usize,
    ) -> Result<Cast, BenchError> {
        let ours = Metadata {
            host: Host::Ropewalk(self.cluster(ground.dir.clone(), 1, false)),
            operation,
        };
        let floor = floor_goal(operation).filter(|_| count == 1);
        let sizes = floor.map(|_| ours.sizes()).transpose()?;
        let mut cast = Cast {
            subjects: vec![Box::new(ours)],
            peer: None,
            ping_pong: None,
            store: None,
        };
        let peer = |is_durable| -> Option<Box<dyn Subject>> {
            Some(Box::new(Metadata {
                host: Host::Ganesha(GaneshaOptions {
                    launcher: self.launcher.clone(),
                    program: program?.to_owned(),
                    dir: ground.dir.clone(),
                    is_durable,
                }),
                operation,
            }))
        };
        // Where nothing is to be durable there is one form of the peer; where nothing can be, the other.
        let is_durable = ground.is_known && operation.is_durable();
        cast.peer = peer(is_durable).map(|subject| cast.add(subject));
        if is_durable {
            cast.subjects.extend(peer(false));
        }
        if let Some(sizes) = sizes {
            cast.ping_pong = Some(cast.add(Box::new(PingPong {
                launcher: self.launcher.clone(),
                form: Form::Thread,
                sizes,
            })));
            if operation.is_durable() {
                cast.store = Some(cast.add(bare_creates(&ground.dir)));
            }
        }
        Ok(cast)
    }

    fn played(
        &self,
        ground: &Ground,
        cast: Cast,
        operation: Operation,
        count: usize,
    ) -> Result<Measured, BenchError> {
        let Cast {
            subjects,
            peer,
            ping_pong,
            store,
        } = cast;
        let comparison = self.compare(count, subjects)?;
        let what = format!("{}, {count} outstanding", operation.name());
        let mut verdicts = Vec::new();
        if let Some(peer) = peer {
            verdicts.push(Verdict {
                what: format!("{what}, to {}", comparison.subjects[peer].name),
                metric: Metric::RequestsPerSecond,
                goal: (count > 1).then_some(Goal::AtLeast(PEER_GOAL)),
                ratio: comparison.ratio_to(OURS, peer, Metric::RequestsPerSecond),
            });
        }
        if let Some(ping_pong) = ping_pong {
            let bases: Vec<usize> = [ping_pong].into_iter().chain(store).collect();
            let with_store = store.map_or("", |_| " and the bare store");
            verdicts.push(Verdict {
                what: format!("{what}, to the ping-pong{with_store}"),
                metric: Metric::LatencyP50Us,
                goal: floor_goal(operation).map(Goal::AtMost),
                ratio: comparison.ratio_to_sum(OURS, &bases, Metric::LatencyP50Us),
            });
        }
        let title = format!("{what}; all on {}", place(&ground.dir));
        let mut text = String::new();
        report::heading(&mut text, &title, &comparison, &self.machine)
            .expect("a string takes all text");
        report::align(&mut text, &lines(&comparison));
        Ok(Measured {
            title,
            comparison,
            text,
            verdicts,
        })
    }
}

/// A line for each server.
fn lines(comparison: &Comparison) -> Vec<Vec<String>> {
    let mut header = vec!["server".to_owned()];
    header.extend(COLUMNS.map(|(name, _)| name.to_owned()));
    header.push("rate of ours to it".to_owned());
    let mut lines = vec![header];
    for (index, runs) in comparison.subjects.iter().enumerate() {
        let mut line = vec![runs.name.clone()];
        line.extend(COLUMNS.map(|(_, metric)| report::cell(runs.spread(metric))));
        let ratio: Option<Spread> = (index != OURS)
            .then(|| comparison.ratio_to(OURS, index, Metric::RequestsPerSecond))
            .flatten();
        line.push(report::cell(ratio));
        lines.push(line);
    }
    lines
}
