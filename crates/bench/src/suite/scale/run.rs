//! One run of the experiment: what calibrates the model is measured first, then what it must predict.

use super::ScaleWork;
use super::loads::{Kind, Load as Asks};
use super::mds::Mds;
use super::predict::{self, Calibration, Check};
use super::recorder::{Place, Recorder, one_server};
use super::rig::{RENEW_EVERY_MS, ScaleRig, Seen, Times};
use crate::load::Load;
use crate::nfs::Form;
use crate::nfs::cluster::Cluster;
use crate::nfs::host::Host;
use crate::nfs::io::{Access, FileIo, Order};
use crate::nfs::metadata::{Metadata, Operation};
use crate::runner::Metric;
use crate::suite::environment::Environment;
use crate::suite::plan::{Setting, X};
use crate::suite::progress::Progress;
use crate::suite::spec::Store;
use crate::{BenchError, Sample, Subject};
use model::{ClusterSize, Costs};
use std::time::Duration;

/// Pause between two heartbeats of a data server, as the metadata server asks for it.
const HEARTBEAT_EVERY_S: f64 = 0.6;
/// READs that calibrate, and those that are predicted.
const READS: [u32; 2] = [64 * 1024, 1024 * 1024];
const READ_CHECKED: u32 = 256 * 1024;
/// Bytes of the file that is read.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// How much is measured.
#[derive(Debug, Clone)]
pub(super) struct Size {
    /// Data servers and sessions: those that calibrate, and then those that are predicted.
    steps: Vec<ScaleWork>,
    /// How long each of them is watched.
    times: Times,
    /// Data servers of a file.
    widths: Vec<u32>,
    /// Connections that calibrate, and those that are predicted.
    few: u32,
    many: u32,
    /// Connections whose READs are predicted: all are of one client, which may have 16 sessions.
    readers: u32,
    /// How long each load lasts.
    measure: Duration,
}

impl Size {
    pub(super) fn of(setting: &Setting) -> Self {
        let full: &[(u32, u32)] = &[(250, 2000), (500, 4000), (1000, 8000)];
        let steps = setting.pick(full, &[(8, 40), (16, 80)]);
        let work = |(ds_count, sessions_count): &(u32, u32)| ScaleWork {
            ds_count: *ds_count,
            sessions_count: *sessions_count,
        };
        Self {
            steps: steps.iter().map(work).collect(),
            times: Times {
                settle: Duration::from_millis(setting.pick(3_000, 250)),
                window: Duration::from_millis(setting.pick(20_000, 500)),
            },
            // Up to the widest that a file may have.
            widths: setting.pick(&[1, 4, 16, 32, 58][..], &[1, 4]).to_vec(),
            few: setting.pick(8, 2),
            many: setting.pick(32, 4),
            readers: setting.pick(16, 4),
            measure: Duration::from_millis(setting.time_ms(2_000)),
        }
    }

    fn load(&self, connections_count: u32) -> Load {
        Load {
            connections_count: connections_count as usize,
            warm_up: self.measure / 4,
            measure: self.measure,
        }
    }
}

fn cores() -> f64 {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The cluster of a point, for the model.
fn modelled(work: ScaleWork) -> ClusterSize {
    ClusterSize {
        ds_count: f64::from(work.ds_count),
        sessions_count: f64::from(work.sessions_count),
        heartbeat_every_s: HEARTBEAT_EVERY_S,
        renewal_every_s: Duration::from_millis(RENEW_EVERY_MS).as_secs_f64(),
    }
}

fn per_s(sample: &Sample) -> f64 {
    Metric::RequestsPerSecond.of(sample)
}

/// What a run has come to.
#[derive(Debug)]
pub(super) struct ScaleRun {
    calibration: Calibration,
    checks: Vec<Check>,
}

/// What is measured on clusters of their own.
struct Apart {
    reads: [(u32, Sample); 2],
    read_checked: Sample,
    durable_alone: Sample,
    durable_together: Sample,
}

impl Apart {
    fn measure(
        environment: &Environment,
        size: &Size,
        recorder: &mut Recorder,
    ) -> Result<Self, BenchError> {
        let mut read = |io_bytes: u32, connections_count: u32| {
            let mut reads = FileIo {
                host: Host::Ropewalk(environment.cluster(one_server(Store::Memory))),
                form: Form::Wire,
                access: Access::Read,
                order: Order::Walk,
                own_files: false,
                file_bytes: FILE_BYTES,
                io_bytes,
                is_inline: false,
            };
            let sample = reads.run(&size.load(connections_count))?;
            let x = X::size(u64::from(io_bytes));
            enter(
                recorder,
                "reads",
                x,
                Store::Memory,
                connections_count,
                &sample,
            );
            Ok::<_, BenchError>(sample)
        };
        let [small, large] = READS;
        let reads = [
            (small, read(small, size.few)?),
            (large, read(large, size.few)?),
        ];
        let read_checked = read(READ_CHECKED, size.readers)?;
        let mut creates = |connections_count: u32| {
            let mut creates = Metadata {
                host: Host::Ropewalk(environment.cluster(one_server(Store::Disk))),
                form: Form::Wire,
                operation: Operation::Create,
            };
            let sample = creates.run(&size.load(connections_count))?;
            let x = X::count(u64::from(connections_count));
            enter(
                recorder,
                "durable",
                x,
                Store::Disk,
                connections_count,
                &sample,
            );
            Ok::<_, BenchError>(sample)
        };
        Ok(Self {
            reads,
            read_checked,
            durable_alone: creates(1)?,
            durable_together: creates(size.few)?,
        })
    }

    fn checks(&self, costs: &Costs, size: &Size) -> [Check; 2] {
        let read_bytes = f64::from(READ_CHECKED);
        [
            Check {
                name: format!(
                    "READs of {} KiB over {} connections",
                    READ_CHECKED / 1024,
                    size.readers
                ),
                unit: "MB/s",
                predicted: predict::reads_per_s(costs, cores(), READ_CHECKED, size.readers)
                    * read_bytes
                    / 1e6,
                measured: Metric::MegabytesPerSecond.of(&self.read_checked),
            },
            Check {
                name: format!("durable creates over {} connections", size.few),
                unit: "1/s",
                predicted: predict::durable_per_s(costs, cores(), size.few),
                measured: per_s(&self.durable_together),
            },
        ]
    }
}

fn enter(
    recorder: &mut Recorder,
    group: &'static str,
    x: X,
    store: Store,
    connections_count: u32,
    sample: &Sample,
) {
    let place = Place {
        group,
        x,
        work: ScaleWork::default(),
        store,
        connections_count,
    };
    recorder.enter(place, "requests", sample.clone());
}

/// Memory and CPU of those that only live.
fn living(costs: &Costs, step: ScaleWork, seen: &Seen) -> [Check; 2] {
    let cluster = modelled(step);
    let (ds, sessions) = (step.ds_count, step.sessions_count);
    let who = format!("{ds} data servers and {sessions} sessions");
    [
        Check {
            name: format!("memory with {who}"),
            unit: "MB",
            predicted: costs.memory_bytes(&cluster) / 1e6,
            measured: seen.memory_bytes / 1e6,
        },
        Check {
            name: format!("CPU with {who}"),
            unit: "cores",
            predicted: costs.background_cores(&cluster),
            measured: seen.cores,
        },
    ]
}

impl ScaleRun {
    /// Steps that progress shows.
    pub(super) const STEPS_COUNT: u64 = 4;

    pub(super) fn run(
        environment: &Environment,
        size: &Size,
        recorder: &mut Recorder,
        progress: &mut Progress,
    ) -> Result<Self, BenchError> {
        progress.step("scale: READs, and durable creates");
        let apart = Apart::measure(environment, size, recorder)?;
        progress.step("scale: data servers and sessions");
        let started = Cluster::start(&environment.cluster(one_server(Store::Memory)))?;
        let mut rig = ScaleRig::start(Mds::of(started)?, size.times, environment.launcher())?;
        let mut seen = Vec::new();
        for step in &size.steps {
            let (ds, sessions) = (step.ds_count, step.sessions_count);
            progress.say(&format!("{ds} data servers, {sessions} sessions"));
            seen.push(rig.grow(*step, recorder)?);
        }
        progress.step("scale: layouts");
        for width in &size.widths {
            rig.layouts(*width, recorder)?;
        }
        progress.step("scale: operations");
        let mut asked = |name: &str, place: u32, asks, connections_count| {
            let sample = rig.ask(asks, &size.load(connections_count))?;
            let x = X::named(f64::from(place), name);
            enter(
                recorder,
                "operations",
                x,
                Store::Memory,
                connections_count,
                &sample,
            );
            Ok::<_, BenchError>(sample)
        };
        let mut operations = Vec::new();
        for (place, kind) in (0..).zip(Kind::ALL) {
            operations.push((kind, asked(kind.name(), place, Asks::Of(kind), size.few)?));
        }
        let mix = asked("a mix", u32::MAX, Asks::Mix, size.many)?;
        let first = &seen[0];
        let calibration = Calibration {
            idle: rig.idle,
            repeats: 1.0,
            ds: first.ds,
            heartbeats: first.heartbeats,
            sessions: first.sessions,
            renewals: first.renewals,
            operations,
            reads: apart.reads.clone(),
            durable: apart.durable_alone.clone(),
        };
        let costs = calibration.costs();
        let mut checks = Vec::new();
        for (step, seen) in size.steps.iter().zip(&seen).skip(1) {
            checks.extend(living(&costs, *step, seen));
        }
        let last = modelled(rig.now);
        checks.push(Check {
            name: format!("a mix of operations over {} connections", size.many),
            unit: "1/s",
            predicted: predict::mix_per_s(&costs, cores(), &last, size.many),
            measured: per_s(&mix),
        });
        checks.extend(apart.checks(&costs, size));
        Ok(Self {
            calibration,
            checks,
        })
    }
}

/// What all runs have come to, in words.
pub(super) fn notes(runs: &[ScaleRun]) -> Vec<String> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let mut out = vec![
        "Data servers are tasks that join over TLS, say HELLO and HEARTBEAT (each 0.6 s) and hold no data; a session is a client with a loopback address of its own, which renews its \
         lease each 40 s. Memory and CPU are those of the metadata server's process."
            .to_owned(),
    ];
    let mut verdicts = Vec::new();
    for (number, check) in first.checks.iter().enumerate() {
        let runs: Vec<Check> = runs
            .iter()
            .filter_map(|run| run.checks.get(number).cloned())
            .collect();
        out.extend(predict::check_text(&check.name, check.unit, &runs));
        verdicts.extend(predict::is_within(&runs).map(|within| (check.name.as_str(), within)));
    }
    out.insert(0, predict::verdict_text(&verdicts));
    let mut all = first.calibration.clone();
    others.iter().for_each(|other| all.add(&other.calibration));
    let costs = all.costs();
    out.push(predict::costs_text(&costs));
    out.extend(predict::limits_text(
        &costs,
        &modelled(ScaleWork::default()),
    ));
    out
}
