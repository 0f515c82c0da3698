//! One run: hosts, clients, trouble, and the judgement at the end.

use crate::check::{Findings, credits, data, delegations, locks, names, replicas, times};
use crate::client::{
    Client, DataParts, DataWorker, Guest, GuestParts, Holder, HolderParts, Meddler, MeddlerParts,
    OlderClient, OlderParts, PLACES, Parts, Worker, first_mode,
};
use crate::connector::{MDS_NAME, OverRdma, Wires, ds_name};
use crate::ds_node::{self, DsNode};
use crate::greedy_client::GreedyClient;
use crate::history::History;
use crate::injected_bug::InjectedBug;
use crate::mds_node::{LEASE_MS, MdsNode};
use crate::mover::{self, Mover};
use crate::nemesis::Nemesis;
use crate::net::{Net, NetFaults};
use crate::older::Older;
use crate::panics;
use crate::rng::Rng;
use crate::tap::Tap;
use crate::trace::Trace;
use fs::Creation;
use nfs4::FileHandle;
use objects::ObjectStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Virtual time that a run may take before it counts as stuck: ten times the usual.
const RUN_SECS_MAX: u64 = 1_200;
/// Virtual time in which the removals of a run must be done once all is calm.
const DRAIN_SECS_MAX: u64 = 300;
/// Longest time until all members of places are in sync, once all is calm.
const LEVEL_SECS_MAX: u64 = 300;
/// How long they must be so where disks were in trouble.
const LEVEL_FOR_SECS: u64 = 4;
/// Credits that each server lends where there are greedy_clients: fewer than its clients can use.
const LENT_TO_GLUTTONS: u32 = 16;
/// The lease where there are greedy clients, in milliseconds: idle clients are asked for credits, and must have sessions then.
const LEASE_OF_IDLERS_MS: u64 = 90_000;
/// Directories that all clients share.
const DIRS: usize = 2;

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// Data servers. Without one no file can be made.
    pub ds: usize,
    /// Clients that work on names and locks.
    pub clients: usize,
    /// Workers of each of them.
    pub workers: usize,
    /// Clients that work on data; they need data servers.
    pub data_clients: usize,
    /// Clients that are delegated files.
    pub holders: usize,
    /// Clients that make many calls at a time and then none.
    pub guests: usize,
    /// Clients that do not keep to their credits.
    pub greedy_clients: usize,
    /// Files that those of a kind share.
    pub files: u64,
    /// Operations of each worker.
    pub steps: u32,
    /// The network.
    pub net_faults: NetFaults,
    /// Whether servers crash.
    pub crashes: bool,
    /// Connections over RDMA, in 1000; `None` lets the seed choose.
    pub rdma: Option<u32>,
    /// Whether clients that work on data also have servers copy, clone, make holes and take storage.
    pub copies: bool,
    /// Whether clients that work on data also set modification times.
    pub times: bool,
    /// Whether objects are made with their files.
    pub eager: bool,
    /// Copies of each stripe.
    pub replicas: u32,
    /// Copies that must be in sync for a write.
    pub copies_min: u32,
    /// Whether data servers are drained and made level meanwhile.
    pub moves: bool,
    /// Whether files are also restriped, with `moves`.
    pub restripes: bool,
    /// Whether some of the clients speak NFSv3; the seed chooses which.
    pub nfs3: bool,
    /// A built-in fault.
    pub bug: Option<InjectedBug>,
}

impl Config {
    /// Names, locks and sessions. Files are made only where there is a data server.
    #[must_use]
    pub const fn names() -> Self {
        Self {
            ds: 1,
            clients: 3,
            workers: 2,
            data_clients: 0,
            holders: 0,
            guests: 0,
            greedy_clients: 0,
            files: 3,
            steps: 40,
            net_faults: NetFaults::ROUGH,
            crashes: true,
            rdma: None,
            copies: false,
            times: false,
            eager: false,
            replicas: 1,
            copies_min: 1,
            moves: false,
            restripes: false,
            nfs3: false,
            bug: None,
        }
    }

    fn creation(&self) -> Creation {
        if self.eager {
            Creation::Eager
        } else {
            Creation::Lazy
        }
    }

    /// Clients that keep to their credits and clients that do not, all over RDMA. There is no other trouble, so that whatever a
    /// client of the first kind suffers is the doing of the second.
    #[must_use]
    pub const fn greedy() -> Self {
        Self {
            ds: 1,
            clients: 1,
            data_clients: 1,
            guests: 3,
            greedy_clients: 4,
            steps: 30,
            net_faults: NetFaults::NONE,
            crashes: false,
            rdma: Some(1000),
            ..Self::names()
        }
    }

    /// Copies, and how many must be in sync, as the metadata server is told.
    fn told_copies(&self) -> (u32, u32) {
        match self.bug {
            Some(InjectedBug::PromiseToOne) => (self.replicas, 1),
            _ => (self.replicas, self.copies_min),
        }
    }

    fn lease_ms(&self) -> u64 {
        if self.greedy_clients > 0 {
            LEASE_OF_IDLERS_MS
        } else {
            LEASE_MS
        }
    }

    /// A whole cluster, with a little of everything.
    #[must_use]
    pub const fn cluster() -> Self {
        Self {
            ds: 3,
            clients: 1,
            workers: 2,
            data_clients: 3,
            ..Self::names()
        }
    }

    /// One file that all clients want, and servers that live on: what leases, recalls and fences are for.
    #[must_use]
    pub const fn contended() -> Self {
        Self {
            clients: 0,
            files: 1,
            steps: 100,
            crashes: false,
            ..Self::cluster()
        }
    }

    /// A cluster where servers work on ranges by themselves: COPY, CLONE, ALLOCATE, DEALLOCATE.
    #[must_use]
    pub const fn copies() -> Self {
        Self {
            clients: 0,
            steps: 60,
            copies: true,
            ..Self::cluster()
        }
    }

    /// The same with two files that all clients want, and servers that live on.
    #[must_use]
    pub const fn contended_copies() -> Self {
        Self {
            files: 2,
            copies: true,
            ..Self::contended()
        }
    }

    /// A cluster with two copies of each stripe, that loses data servers for longer than their lease.
    #[must_use]
    pub const fn replicated() -> Self {
        Self {
            clients: 0,
            steps: 60,
            replicas: 2,
            ..Self::cluster()
        }
    }

    /// Three copies, and no write for which fewer than two are in sync. With two copies clients would lose patience.
    #[must_use]
    pub const fn two_at_least() -> Self {
        Self {
            ds: 4,
            replicas: 3,
            copies_min: 2,
            ..Self::replicated()
        }
    }

    /// A cluster where modification times are set.
    #[must_use]
    pub const fn times() -> Self {
        Self {
            clients: 0,
            steps: 60,
            times: true,
            ..Self::cluster()
        }
    }

    /// Files that are delegated to clients, of which all want to change them now and then.
    #[must_use]
    pub const fn delegations() -> Self {
        Self {
            clients: 0,
            holders: 3,
            files: 2,
            steps: 150,
            ..Self::names()
        }
    }
}

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

/// Sets the generator of the transports apart from that of the world.
const WIRES_SALT: u64 = 0x7264_6d61;

struct World {
    config: Config,
    rng: Rng,
    /// Chooses who speaks NFSv3, and how.
    older: Rng,
    /// Clients that do, in 1000.
    older_share: u32,
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
        };
        let mds = mds.with_older(config.nfs3.then_some(older));
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
        for number in 0..self.config.guests {
            work.spawn(self.guest(number).work(self.config.steps));
        }
        let mut spoilers = self.spoil();
        while let Some(done) = work.join_next().await {
            if done.is_err() {
                self.findings.add("a worker panicked".into());
            }
        }
        spoilers.shutdown().await;
        self.settle(&dirs).await?;
        Ok(self.judge().await)
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
        Nemesis {
            rng: self.rng.split(),
            net: self.net.clone(),
            findings: self.findings.clone(),
            history: self.history.clone(),
            mds: Arc::clone(&self.mds),
            ds: self.ds.clone(),
            clients: names.chain(data).chain(holders).chain(meddler).collect(),
            crashes: self.config.crashes,
            has_replicas: self.config.replicas > 1,
            disks_ail: self.config.replicas > 1,
        }
    }

    /// No more faults, all servers up: what is there now is what clients were promised.
    async fn settle(&mut self, dirs: &[FileHandle]) -> Result<(), String> {
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
            ds.mend().await;
            if !ds.is_running() {
                ds.start(None).await?;
            }
        }
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
        delegations::check(&lists.uses, &self.findings);
        names::check_modes(first_mode(), &lists.modes, &self.findings);
        names::check(DIRS * PLACES, &lists.names, &self.findings)
    }
}
