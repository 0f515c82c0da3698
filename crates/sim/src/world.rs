//! One run: hosts, clients, trouble, and the judgement at the end.

use crate::check::{
    Findings, credits, data, delegations, guarded, locks, names, replicas, shares, times,
};
use crate::client::{
    Client, DataParts, DataWorker, Guest, GuestParts, Holder, HolderParts, Locker0, Locker1,
    Locker3, LockerParts, Meddler, MeddlerParts, OlderClient, OlderParts, PLACES, Parts, Place,
    Worker, first_mode,
};
use crate::config::Config;
use crate::connector::{OverRdma, Wires, ds_name};
use crate::ds_node::{self, DsNode};
use crate::greedy_client::GreedyClient;
use crate::history::History;
use crate::injected_bug::InjectedBug;
use crate::mds_node::MdsNode;
use crate::mover::{self, Mover};
use crate::nemesis::Nemesis;
use crate::net::{Net, NetFaults};
use crate::older::Older;
use crate::panics;
use crate::rng::Rng;
use crate::tap::Tap;
use crate::trace::{MDS_NAME, Trace};
use nfs4::FileHandle;
use objects::ObjectStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Virtual time that a run may take before it counts as stuck: ten times the usual.
const RUN_SECS_MAX: u64 = 1_200;
/// Virtual time after which trouble ends though clients still work: five times the usual. Where a promise needs all copies, trouble
/// without an end can delay one for good. Once all is calm, nothing may.
const TROUBLE_SECS_MAX: u64 = 600;
/// Virtual time in which the removals of a run must be done once all is calm.
const DRAIN_SECS_MAX: u64 = 300;
/// Longest time until all members of places are in sync, once all is calm.
const LEVEL_SECS_MAX: u64 = 300;
/// How long they must be so where disks were in trouble.
const LEVEL_FOR_SECS: u64 = 4;
/// Credits that each server lends where there are greedy_clients: fewer than its clients can use.
const LENT_TO_GLUTTONS: u32 = 16;
/// Directories that all clients share.
const DIRS: usize = 2;

/// How a run went.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Broken promises; empty is good.
    pub findings: Vec<String>,
    /// The hash of the trace.
    pub hash: u64,
    /// Events.
    pub events: u64,
    /// Virtual milliseconds.
    pub virtual_ms: u64,
    /// Whether each search of an order came to an end.
    pub decided: bool,
    /// The story.
    pub lines: Vec<String>,
}

/// Runs the world of a seed.
///
/// # Panics
/// When the runtime cannot be made.
#[must_use]
pub fn run(seed: u64, config: &Config) -> Report {
    panics::watch();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    let mut report = runtime.block_on(async {
        let mut world = World::new(seed, config.clone());
        let limit = Duration::from_secs(RUN_SECS_MAX);
        let decided = match tokio::time::timeout(limit, world.live()).await {
            Ok(Ok(decided)) => decided,
            Ok(Err(text)) => {
                world.findings.add(text);
                false
            }
            Err(_) => {
                world.findings.add("the run does not come to an end".into());
                false
            }
        };
        Report {
            seed,
            findings: world.findings.list(),
            hash: world.trace.hash(),
            events: world.trace.events(),
            virtual_ms: world.trace.now_ms(),
            decided,
            lines: world.trace.lines(),
        }
    });
    drop(runtime);
    report.findings.extend(panics::seen());
    report
}

/// The client of NFSv3 that changes files which others are delegated.
const MEDDLER: &str = "meddler";
/// Sets the choice of clients of NFSv3 apart from all other draws.
const OLDER_SALT: u64 = 0x6e66_7333;
/// What a seed may choose as the share of clients that speak NFSv3, in 1000.
const OLDER_SHARES: [u32; 3] = [350, 700, 1000];

/// Sets the choices of lockers apart from all other draws.
const LOCKERS_SALT: u64 = 0x6c6f_636b;
/// Steps of a locker for each of a worker.
const LOCKERS_STEPS: u32 = 2;

/// Sets the generator of the transports apart from that of the world.
const WIRES_SALT: u64 = 0x7264_6d61;

struct World {
    config: Config,
    rng: Rng,
    /// Chooses who speaks NFSv3, and how.
    older: Rng,
    /// Clients that do, in 1000.
    older_share: u32,
    lockers: Rng,
    /// The files of lockers.
    places: Vec<Place>,
    trace: Trace,
    findings: Findings,
    history: History,
    net: Net,
    wires: Wires,
    credits: credits::Checker,
    mds: Arc<Mutex<MdsNode>>,
    ds: Vec<Arc<Mutex<DsNode>>>,
}

impl World {
    fn new(seed: u64, config: Config) -> Self {
        let mut rng = Rng::new(seed);
        let trace = Trace::new();
        let findings = Findings::default();
        let tap = Tap::new(trace.clone(), findings.clone(), config.copies_min);
        let net = Net::new(rng.split(), NetFaults::NONE, trace.clone(), tap.clone());
        // Of its own, so that the choice of transports shifts no other draw.
        let wires_rng = Rng::new(seed ^ WIRES_SALT);
        let credits = credits::Checker::new(LENT_TO_GLUTTONS, trace.clone(), findings.clone());
        let has_greedy = config.greedy_clients > 0;
        let over = OverRdma {
            share: config.rdma,
            lent: has_greedy.then_some(LENT_TO_GLUTTONS),
            credits: has_greedy.then(|| credits.clone()),
            bug: config.bug,
        };
        let wires = Wires::new(net.clone(), tap.clone(), trace.clone(), wires_rng, over);
        let history = History::new(trace.clone());
        let mds = MdsNode::new(
            wires.clone(),
            net.clone(),
            tap.clone(),
            trace.clone(),
            rng.split(),
            (
                config.bug,
                config.creation(),
                config.told_copies(),
                config.lease_ms(),
            ),
        );
        let older = Older {
            history: history.clone(),
            bug: config.bug,
            nlm: config.nlm,
        };
        let has_older = config.nfs3 || config.nfs40 || config.nlm;
        let mds = mds.with_older(has_older.then_some(older));
        let mut older = Rng::new(seed ^ OLDER_SALT);
        let ds = (0..config.ds).map(|index| {
            let node = DsNode::new(ds_node::Parts {
                index,
                wires: wires.clone(),
                net: net.clone(),
                tap: tap.clone(),
                trace: trace.clone(),
                rng: rng.split(),
                bug: config.bug,
                nameless: mds.nameless(),
            });
            Arc::new(Mutex::new(node))
        });
        let ds = ds.collect();
        Self {
            config,
            history,
            older_share: OLDER_SHARES[older.index(OLDER_SHARES.len())],
            older,
            lockers: Rng::new(seed ^ LOCKERS_SALT),
            places: Vec::new(),
            rng,
            trace,
            findings,
            net,
            wires,
            credits,
            mds: Arc::new(Mutex::new(mds)),
            ds,
        }
    }

    fn client(&mut self, name: &str) -> Arc<Client> {
        Client::new(Parts {
            name: name.to_owned(),
            wires: self.wires.clone(),
            rng: self.rng.split(),
            history: self.history.clone(),
            trace: self.trace.clone(),
            findings: self.findings.clone(),
        })
    }

    fn holder(&mut self, name: &str) -> Holder {
        Holder::new(HolderParts {
            name: name.to_owned(),
            wires: self.wires.clone(),
            rng: self.rng.split(),
            history: self.history.clone(),
            trace: self.trace.clone(),
            findings: self.findings.clone(),
            files: self.config.files,
            bug: self.config.bug,
        })
    }

    async fn meddler(&mut self) -> Result<Meddler, String> {
        Meddler::connect(MeddlerParts {
            name: MEDDLER.to_owned(),
            wires: self.wires.clone(),
            rng: self.rng.split(),
            history: self.history.clone(),
            findings: self.findings.clone(),
            files: self.config.files,
        })
        .await
    }

    /// Whether the next client speaks NFSv3, where the last one of its kind does if no other has.
    fn is_older(&mut self, must: bool) -> bool {
        let share = self.older_share;
        self.config.nfs3 && (self.older.chance(share) || must)
    }

    async fn data_client(
        &mut self,
        name: &str,
        is_pnfs: bool,
        older: Option<bool>,
    ) -> Result<DataWorker, String> {
        DataWorker::connect(DataParts {
            name: name.to_owned(),
            wires: self.wires.clone(),
            rng: self.rng.split(),
            history: self.history.clone(),
            trace: self.trace.clone(),
            findings: self.findings.clone(),
            is_pnfs,
            older,
            files: self.config.files,
            copies: self.config.copies,
            times: self.config.times,
            writes_again: self.config.bug == Some(InjectedBug::WriteAgain),
        })
        .await
    }

    /// The whole run. Returns whether all searches came to an end; an error is a finding.
    async fn live(&mut self) -> Result<bool, String> {
        let dirs = self.furnish().await?;
        let mut data = Vec::new();
        for number in 0..self.config.data_clients {
            // The last one goes through the MDS.
            let is_pnfs = number + 1 < self.config.data_clients.max(2);
            let is_older = self.is_older(number + 1 == self.config.data_clients);
            let older = is_older.then(|| self.older.chance(500));
            let name = format!("data-{number}");
            data.push(self.data_client(&name, is_pnfs, older).await?);
        }
        let meddler = match self.config.nfs3 && self.config.holders > 0 {
            true => Some(self.meddler().await?),
            false => None,
        };
        self.net.set(self.config.net_faults);
        let mut work = JoinSet::new();
        for worker in data {
            work.spawn(worker.work(self.config.steps));
        }
        for number in 0..self.config.clients {
            if self.is_older(number + 1 == self.config.clients) {
                self.employ_older(&mut work, &format!("client-{number}"), &dirs);
                continue;
            }
            let client = self.client(&format!("client-{number}"));
            self.employ(&mut work, &client, &dirs);
        }
        for number in 0..self.config.holders {
            let holder = self.holder(&format!("holder-{number}"));
            work.spawn(holder.work(self.config.steps));
        }
        if let Some(meddler) = meddler {
            work.spawn(meddler.work(self.config.steps));
        }
        self.employ_lockers(&mut work).await?;
        for number in 0..self.config.guests {
            work.spawn(self.guest(number).work(self.config.steps));
        }
        let mut spoilers = self.spoil();
        let trouble = Duration::from_secs(TROUBLE_SECS_MAX);
        let is_done = tokio::time::timeout(trouble, self.all_done(&mut work)).await;
        spoilers.shutdown().await;
        self.calm().await?;
        if is_done.is_err() {
            self.all_done(&mut work).await;
        }
        self.settle(&dirs).await?;
        Ok(self.judge().await)
    }

    /// Waits until all workers have done what they were told to.
    async fn all_done(&self, work: &mut JoinSet<()>) {
        while let Some(done) = work.join_next().await {
            if done.is_err() {
                self.findings.add("a worker panicked".into());
            }
        }
    }

    /// What makes it hard for the clients.
    fn spoil(&mut self) -> JoinSet<()> {
        let mut spoilers = JoinSet::new();
        if self.config.greedy_clients == 0 {
            spoilers.spawn(self.nemesis().run());
        }
        if self.config.moves {
            spoilers.spawn(self.mover().run());
        }
        for number in 0..self.config.greedy_clients {
            let servers = (0..self.config.ds).map(ds_name);
            let greedy = GreedyClient::new(
                number,
                self.wires.clone(),
                self.rng.split(),
                self.trace.clone(),
                servers.chain([MDS_NAME.to_owned()]).collect(),
            );
            spoilers.spawn(greedy.feast());
        }
        spoilers
    }

    fn guest(&mut self, number: usize) -> Guest {
        Guest::new(GuestParts {
            name: format!("{}{number}", credits::GUEST),
            wires: self.wires.clone(),
            rng: self.rng.split(),
            trace: self.trace.clone(),
            findings: self.findings.clone(),
            is_busy: number == 0,
        })
    }

    fn employ(&mut self, work: &mut JoinSet<()>, client: &Arc<Client>, dirs: &[FileHandle]) {
        let steps = self.config.steps;
        let workers: Vec<Worker> = (0..self.config.workers)
            .map(|w| {
                let rng = self.rng.split();
                Worker::new(Arc::clone(client), &format!("w{w}"), rng, dirs.to_vec())
            })
            .collect();
        let client = Arc::clone(client);
        work.spawn(async move {
            client.start().await;
            let mut threads = JoinSet::new();
            for worker in workers {
                threads.spawn(worker.work(steps));
            }
            while threads.join_next().await.is_some() {}
        });
    }

    fn employ_older(&mut self, work: &mut JoinSet<()>, name: &str, dirs: &[FileHandle]) {
        let client = OlderClient::new(OlderParts {
            name: name.to_owned(),
            wires: self.wires.clone(),
            rng: self.rng.split(),
            history: self.history.clone(),
            findings: self.findings.clone(),
            dirs: dirs.to_vec(),
        });
        for number in 0..self.config.workers {
            let worker = client.worker(number, self.rng.split());
            work.spawn(worker.work(self.config.steps));
        }
    }

    fn locker(&mut self, name: &str) -> LockerParts {
        LockerParts {
            name: name.to_owned(),
            wires: self.wires.clone(),
            rng: self.lockers.split(),
            history: self.history.clone(),
            findings: self.findings.clone(),
            bug: self.config.bug,
            places: self.places.clone(),
        }
    }

    /// Names of those who share files and lock them: of NFSv4.0, of NFSv4.1, and hosts of NLM.
    fn lockers(&self) -> [Vec<String>; 3] {
        let Config { nfs40, nlm, .. } = self.config;
        let named = |kind: &str, count: usize| (0..count).map(|n| format!("{kind}-{n}")).collect();
        [
            named("tenant", if nfs40 { 2 } else { 0 }),
            named("locker", usize::from(nfs40 || nlm)),
            named("host", if nlm { 2 } else { 0 }),
        ]
    }

    async fn employ_lockers(&mut self, work: &mut JoinSet<()>) -> Result<(), String> {
        let steps = self.config.steps * LOCKERS_STEPS;
        let [older, newer, hosts] = self.lockers();
        for name in older {
            let locker = Locker0::worker(self.locker(&name))?;
            work.spawn(locker.work(steps));
        }
        for name in newer {
            let locker = Locker1::worker(self.locker(&name));
            work.spawn(locker.work(steps));
        }
        for name in hosts {
            let locker = Locker3::worker(self.locker(&name))?;
            work.spawn(locker.work(steps));
        }
        Ok(())
    }

    /// Servers, and the shared directories, before any fault.
    async fn furnish(&mut self) -> Result<Vec<FileHandle>, String> {
        self.mds.lock().await.start().await?;
        for ds in &self.ds {
            let mds = self.mds.lock().await;
            ds.lock().await.start(mds.nfsd().map(|n| &**n)).await?;
        }
        // Until the data servers have their floors and heartbeats, and a tick has made groups of them.
        tokio::time::sleep(Duration::from_secs(5)).await;
        if self.config.data_clients > 0 {
            let first = self.data_client("judge-data", true, None).await?;
            first.furnish().await?;
        }
        let client = self.client("judge");
        client.start().await;
        let mut dirs = Vec::new();
        for at in 0..DIRS {
            let made = client.make_dir(&format!("d{at}")).await;
            dirs.push(made.ok_or("no directory in an empty name space")?);
        }
        if self.config.nfs40 || self.config.nlm {
            let parts = self.locker("judge-locks");
            let made = Locker1::furnish(parts).await;
            self.places = made.ok_or("no files for lockers")?;
        }
        Ok(dirs)
    }

    fn mover(&mut self) -> Mover {
        Mover {
            rng: self.rng.split(),
            trace: self.trace.clone(),
            mds: Arc::clone(&self.mds),
            servers: self.servers(),
            restripes: self.config.restripes,
        }
    }

    fn servers(&self) -> u32 {
        u32::try_from(self.config.ds).unwrap_or(u32::MAX)
    }

    /// Whether places have more than one member at some time.
    fn has_members(&self) -> bool {
        self.config.replicas > 1 || self.config.moves
    }

    fn nemesis(&mut self) -> Nemesis {
        let names = (0..self.config.clients).map(|n| format!("client-{n}"));
        let data = (0..self.config.data_clients).map(|n| format!("data-{n}"));
        let holders = (0..self.config.holders).map(|n| format!("holder-{n}"));
        let meddler = (self.config.nfs3 && self.config.holders > 0).then(|| MEDDLER.to_owned());
        let lockers = self.lockers().into_iter().flatten();
        Nemesis {
            rng: self.rng.split(),
            net: self.net.clone(),
            findings: self.findings.clone(),
            history: self.history.clone(),
            mds: Arc::clone(&self.mds),
            ds: self.ds.clone(),
            clients: names
                .chain(data)
                .chain(holders)
                .chain(meddler)
                .chain(lockers)
                .collect(),
            crashes: self.config.crashes,
            has_replicas: self.config.replicas > 1,
            disks_ail: self.config.replicas > 1,
        }
    }

    /// No more faults, and all servers up.
    async fn calm(&mut self) -> Result<(), String> {
        self.net.calm();
        self.trace.tell("world", format_args!("! all is calm"));
        self.history.disks_are_well();
        {
            let mut mds = self.mds.lock().await;
            if mds.nfsd().is_none() {
                mds.start().await?;
            }
        }
        for ds in &self.ds {
            let mut ds = ds.lock().await;
            ds.mend();
            if !ds.is_running() {
                ds.start(None).await?;
            }
        }
        Ok(())
    }

    /// Once all is calm and no client works, what is there now is what clients were promised.
    async fn settle(&mut self, dirs: &[FileHandle]) -> Result<(), String> {
        let last = self.client("judge");
        last.start().await;
        let worker = Worker::new(last, "w", self.rng.split(), dirs.to_vec());
        worker.look_everywhere().await;
        if self.config.data_clients > 0 {
            let last = self.data_client("judge-data", true, None).await?;
            last.look_everywhere().await;
        }
        self.drain().await?;
        if self.has_members() {
            mover::end(&*self.mds.lock().await, self.servers()).await;
            // A file that was restriped has left what it had.
            self.drain().await?;
            self.level().await?;
        }
        Ok(())
    }

    /// Waits until every member of every place is in sync.
    async fn level(&mut self) -> Result<(), String> {
        let mut unlevel = Vec::new();
        let mut level_for = 0;
        // A member that was full is sent what it lacks after a pause.
        let calm = if self.config.replicas > 1 {
            LEVEL_FOR_SECS
        } else {
            1
        };
        for _ in 0..LEVEL_SECS_MAX {
            let mds = self.mds.lock().await;
            let nfsd = mds.nfsd().ok_or("no metadata server")?;
            unlevel = replicas::unlevel(nfsd.role().fs().cluster());
            level_for = match unlevel.is_empty() {
                true => level_for + 1,
                false => 0,
            };
            if level_for >= calm {
                return Ok(());
            }
            drop(mds);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Err(format!(
            "members of places are not in sync long after all is calm: {}",
            unlevel.join("; ")
        ))
    }

    /// Waits until nothing is left to remove.
    async fn drain(&mut self) -> Result<(), String> {
        let mut left = String::new();
        for _ in 0..DRAIN_SECS_MAX {
            let store = Arc::clone(self.mds.lock().await.store());
            let report = namespace::check(&*store).map_err(|e| e.to_string())?;
            left = format!("{} removals, {} orphans", report.removals, report.orphans);
            if report.removals == 0 && report.orphans == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Err(format!("{left} are left long after all is calm"))
    }

    async fn judge(&mut self) -> bool {
        self.credits.judge();
        let mds = self.mds.lock().await;
        mds.store().sync();
        match namespace::check(&**mds.store()) {
            Ok(report) => report
                .problems
                .into_iter()
                .for_each(|p| self.findings.add(format!("name space: {p}"))),
            Err(e) => self.findings.add(format!("name space: {e}")),
        }
        for (index, ds) in self.ds.iter().enumerate() {
            let objects = Arc::clone(ds.lock().await.objects());
            let listed = objects.list(&mut |id, _| {
                let name = namespace::FileId(id.file_id);
                if matches!(namespace::has_objects(&**mds.store(), name), Ok(false)) {
                    let text = format!(
                        "ds-{index} has an object of file {}, which is removed",
                        id.file_id
                    );
                    self.findings.add(text);
                }
                true
            });
            if let Err(e) = listed {
                self.findings.add(format!("ds-{index}: {e}"));
            }
        }
        if let Some(nfsd) = mds.nfsd().filter(|_| self.has_members()) {
            let mut nodes = Vec::new();
            for ds in &self.ds {
                nodes.push(ds.lock().await);
            }
            replicas::check(nfsd.role().fs(), &nodes, &self.findings);
        }
        let lists = self.history.take();
        data::check(&lists.files, &self.findings);
        times::check(&lists.files, &self.findings);
        locks::check(&lists.holds, &self.findings);
        shares::check(&lists.shares, &self.findings);
        guarded::check(&lists.accesses, &self.findings);
        delegations::check(&lists.uses, &self.findings);
        names::check_modes(first_mode(), &lists.modes, &self.findings);
        names::check(DIRS * PLACES, &lists.names, &self.findings)
    }
}
