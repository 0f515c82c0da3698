//! Every experiment in a tiny form: its cells on a temporary directory, with workers as threads of this process. Nothing here is a
//! measurement; what counts is that all phases come through, that bytes are right, and that nothing is left behind.

use super::experiment::Experiment;
use super::job::{Job, Place, Said};
use super::link::Link;
use super::measure::{Used, jobs, sample};
use super::options::{BOTH, Peer};
use super::plan::{Cell, Setting};
use super::spec::{ClusterSpec, Create, Transport};
use super::worker;
use super::worker_group::{self, Around, Member, Phase};
use super::{job::Work, plan, work::BtioWork};
use crate::BenchError;
use crate::nfs::cluster::options::MEMORY_TOTAL_BYTES;
use crate::nfs::providers::OwnRdma;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

const SETTING: Setting = Setting {
    own_rdma: OwnRdma::SOFTWARE,
    quick: true,
    own: false,
    spec: ClusterSpec {
        ds_count: None,
        copies: None,
        transport: None,
        store: None,
        create: None,
    },
    transports: None,
    link: None,
    peer: None,
};

/// A worker in a thread.
struct Thread {
    said: mpsc::Receiver<Said>,
    go: Option<tokio::sync::mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(job: Job) -> Self {
        let (say, said) = mpsc::sync_channel(4);
        let (go, gone) = tokio::sync::mpsc::channel(2);
        let say = move |what: &Said| say.send(what.clone()).map_err(io::Error::other);
        let thread = std::thread::spawn(move || {
            // A parent that has failed does not listen any more.
            let _ = worker::execute(&job, Link::new(Box::new(say), gone));
        });
        Self {
            said,
            go: Some(go),
            thread: Some(thread),
        }
    }
}

impl Member for Thread {
    fn hear(&mut self) -> Result<Said, BenchError> {
        self.said.recv().map_err(|_| BenchError::Alone)
    }

    fn go(&mut self) -> io::Result<()> {
        let go = self.go.as_ref().unwrap();
        go.blocking_send(()).map_err(io::Error::other)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.go.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Notes the phases.
#[derive(Default)]
struct Noted(Vec<String>);

impl Around for Noted {
    fn before(&mut self, phase: &str) -> Result<(), BenchError> {
        self.0.push(format!("before {phase}"));
        Ok(())
    }

    fn after(&mut self, phase: &str) -> Result<(), BenchError> {
        self.0.push(format!("after {phase}"));
        Ok(())
    }
}

fn run(cell: &Cell) -> Result<Vec<Phase>, BenchError> {
    let dir = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let place = Place::Dir(dir.path().to_owned());
    let jobs = jobs(cell, &place, scratch.path().to_owned(), "test");
    let mut members: Vec<Thread> = jobs.into_iter().map(Thread::start).collect();
    let mut noted = Noted::default();
    let phases = worker_group::lead(&mut members, &mut noted)?;
    drop(members);
    for folder in [&dir, &scratch] {
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "{}: something is left behind", cell.text());
    }
    assert_eq!(noted.0.len(), 2 * phases.len());
    Ok(phases)
}

#[test]
fn every_experiment_runs_in_a_tiny_form() {
    for experiment in Experiment::ALL {
        let plan = experiment.plan(&SETTING);
        let mut seen: Vec<(&str, String)> = Vec::new();
        for cell in &plan.cells {
            let phases = run(cell).unwrap_or_else(|e| panic!("{}: {e}", cell.text()));
            for phase in phases {
                // What is read again and again must not come from this machine's memory.
                let again = matches!(&cell.work, Work::Stream(work) if work.reads_again());
                assert_eq!(phase.bypass.is_some(), again, "{}", cell.text());
                let (name, sample) = sample(phase, Used::default());
                assert!(sample.requests_count > 0, "{} {name}", cell.text());
                assert!(!sample.latency_ns.is_empty());
                seen.push((cell.group, name));
            }
        }
        for figure in &plan.figures {
            for wanted in figure.phases {
                let found = seen.iter().any(|(g, p)| *g == figure.group && p == wanted);
                assert!(found, "{} {}: no phase {wanted}", plan.name, figure.id);
            }
        }
    }
}

#[test]
fn what_reads_again_is_known() {
    for experiment in Experiment::ALL {
        for quick in [false, true] {
            let cells = experiment.plan(&Setting { quick, ..SETTING }).cells;
            let again = |cell: &Cell| match &cell.work {
                Work::Stream(work) => work.reads_again(),
                _ => false,
            };
            let expected = matches!(
                experiment,
                Experiment::Cached | Experiment::Threads | Experiment::Incast | Experiment::Zipf
            );
            assert!(
                cells.iter().all(|cell| again(cell) == expected),
                "{experiment:?}"
            );
        }
    }
}

#[test]
fn plans_have_each_point_once() {
    let own = Setting {
        own: true,
        ..SETTING
    };
    let full = Setting {
        quick: false,
        ..own
    };
    let rate = "500mbit".parse().unwrap();
    let linked = |setting: Setting| Setting {
        link: Some(rate),
        peer: Some(Peer::Ganesha),
        transports: Some(BOTH),
        ..setting
    };
    for setting in [SETTING, own, full, linked(own), linked(full)] {
        for experiment in Experiment::ALL {
            let plan = experiment.plan(&setting);
            for (n, cell) in plan.cells.iter().enumerate() {
                let same = |other: &&Cell| {
                    other.group == cell.group && other.series == cell.series && other.x == cell.x
                };
                let earlier = plan.cells[..n].iter().find(same);
                assert!(earlier.is_none(), "{}: {} twice", plan.name, cell.text());
            }
            for figure in &plan.figures {
                let shows = |cell: &Cell| cell.group == figure.group;
                assert!(plan.cells.iter().any(shows), "{}", figure.id);
                if let Some(whole) = figure.share_of {
                    let is_whole = |cell: &&Cell| shows(cell) && cell.series == whole;
                    assert!(plan.cells.iter().any(|cell| is_whole(&cell)), "{whole}");
                }
            }
        }
    }
}

#[test]
fn clusters_in_memory_have_room_for_what_is_written() {
    let setting = Setting {
        transports: Some(BOTH),
        ..Setting::full("store=memory")
    };
    for experiment in Experiment::ALL {
        for cell in experiment.plan(&setting).cells {
            // Pages and objects cost something too, and stripes are not all of one size.
            let needed = cell.memory_bytes() / 8 * 9;
            assert!(needed <= MEMORY_TOTAL_BYTES, "{}", cell.text());
        }
    }
}

#[test]
fn a_laid_down_cluster_is_used_by_every_experiment() {
    let spec: ClusterSpec = "ds=3,store=disk".parse().unwrap();
    let setting = Setting {
        own: true,
        spec,
        ..SETTING
    };
    for experiment in Experiment::ALL {
        for cell in experiment.plan(&setting).cells {
            let text = cell.server.text();
            let is_cluster = matches!(cell.server, plan::Server::Own(_));
            let is_as_laid_down = text.starts_with("3 data servers, disk, ");
            assert!(!is_cluster || is_as_laid_down, "{text}");
        }
    }
}

#[test]
fn transports_stand_beside_each_other_where_that_is_wanted() {
    let setting = |text: &str, transports| Setting {
        own: true,
        spec: text.parse().unwrap(),
        transports,
        ..SETTING
    };
    let of = |setting: &Setting, experiment: Experiment| {
        let cells = experiment.plan(setting).cells;
        Transport::ALL.map(|transport| {
            let over = cells
                .iter()
                .filter(|c| c.server.transport() == Some(transport));
            over.count()
        })
    };
    for experiment in Experiment::ALL {
        let both = of(&setting("", Some(BOTH)), experiment);
        // Bare streams and the local disk are no servers of ours.
        assert!(both[1] > 0 && both[0] >= both[1], "{experiment:?} {both:?}");
        let rdma = of(&setting("", Some(&[Transport::Rdma])), experiment);
        assert_eq!(rdma[1], both[1], "{experiment:?}");
    }
    // The paper compares them in these.
    for experiment in [
        Experiment::SmallOps,
        Experiment::Create,
        Experiment::Sequential,
    ] {
        assert!(of(&setting("", None), experiment)[1] > 0, "{experiment:?}");
    }
    assert_eq!(of(&setting("", None), Experiment::Sweep)[1], 0);
}

#[test]
fn the_peer_stands_beside_ours_where_there_is_one_server() {
    let setting = Setting {
        own: true,
        peer: Some(Peer::Ganesha),
        ..SETTING
    };
    for experiment in Experiment::ALL {
        let cells = experiment.plan(&setting).cells;
        let theirs = cells
            .iter()
            .filter(|cell| matches!(cell.server, plan::Server::Ganesha { .. }));
        let has_peer = matches!(
            experiment,
            Experiment::Records
                | Experiment::Threads
                | Experiment::Cached
                | Experiment::Clients
                | Experiment::Metadata
        );
        assert_eq!(theirs.clone().count() > 0, has_peer, "{experiment:?}");
        for cell in theirs {
            // The same work by the same workers beside it.
            let is_same =
                |other: &Cell| matches!(other.server, plan::Server::Own(_)) && other.is_like(cell);
            assert!(cells.iter().any(is_same), "{}", cell.text());
        }
    }
}

#[test]
fn lazy_and_eager_creation_stand_beside_each_other() {
    let setting = |text: &str| Setting {
        own: true,
        spec: text.parse().unwrap(),
        ..SETTING
    };
    let plan = Experiment::Create.plan(&setting("ds=2"));
    for create in Create::ALL {
        for transport in Transport::ALL {
            let is_wanted = |cell: &Cell| matches!(cell.server, plan::Server::Own(own) if own.create == create && own.transport == transport);
            assert!(plan.cells.iter().any(is_wanted), "{create:?} {transport:?}");
        }
    }
    assert!(
        plan.figures
            .iter()
            .all(|f| f.remark.is_some_and(|r| r.contains("TLS on TCP")))
    );
    let eager = Experiment::Create.plan(&setting("create=eager"));
    assert!(
        eager
            .cells
            .iter()
            .all(|cell| cell.server.text().contains("eager"))
    );
}

#[test]
fn a_worker_that_fails_ends_the_run_with_its_reason() {
    let cell = Cell {
        group: "g",
        x: plan::X::count(3),
        series: String::new(),
        server: plan::Server::Given,
        workers: crate::suite::work::Workers::processes(3),
        work: Work::Btio(BtioWork {
            points_count: 12,
            steps_count: 1,
        }),
        cold: false,
    };
    let error = run(&cell).unwrap_err().to_string();
    assert!(error.contains("a square"), "{error}");
}

#[test]
fn btio_is_verified_with_several_processes() {
    for processes in [1, 4, 9] {
        let cell = Cell {
            group: "g",
            x: plan::X::count(1),
            series: String::new(),
            server: plan::Server::Given,
            workers: crate::suite::work::Workers::processes(processes),
            work: Work::Btio(BtioWork {
                points_count: 13,
                steps_count: 3,
            }),
            cold: false,
        };
        let phases = run(&cell).unwrap();
        for phase in phases {
            // Every byte of every step is written, and read, once.
            assert_eq!(phase.tally.payload_bytes, 13 * 13 * 13 * 40 * 3);
        }
    }
}
