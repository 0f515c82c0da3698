//! A data server as a host that can crash and start again.
//!
//! # Ownership
//! A running server is a set of tasks over an index, a redo log and an object store. What is kept here beside the two disks is the
//! membership, which a daemon has in the file of its identity.
//!
//! # Ordering
//! The images of all stores are taken first and at one moment, as a power cut takes them.

use crate::connector::{Wires, ds_address, ds_name};
use crate::disk::{Ailment, DiskTrouble, HostObjects};
use crate::injected_bug::{self, InjectedBug, Lie, Nameless, Unfenced};
use crate::join;
use crate::net::Net;
use crate::redo::SimRedo;
use crate::rng::Rng;
use crate::store::SimStore;
use crate::tap::Tap;
use crate::trace::Trace;
use ds::copies::{self, CopiesConfig, PartsProgram};
use ds::link::{self, LinkConfig};
use ds::sums::SumsConfig;
use ds::{Ds, DsConfig, Membership};
use mds::Mds;
use meta::Read;
use nfs4::NfsTime;
use objects::{MemObjects, MemOptions, ObjectId};
use server::Nfsd;
use state::ClientLimits;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use transport::workers::Shutdown;
use transport::{Address, Connector};

/// Room of one data server.
const CAPACITY_BYTES: u64 = 64 * 1024 * 1024;
/// Lease of clients at a data server in milliseconds.
const LEASE_MS: u64 = 8_000;
/// Pause between two ticks in milliseconds.
const TICK_MS: u64 = 1_000;
/// Wall time at the start of a run, in seconds.
const EPOCH_SECS: i64 = 1_700_000_000;
/// A pass of scrub begins so long after the last one.
const SCRUB_INTERVAL: Duration = Duration::from_secs(20);
/// Parts get their sums when they are quiet for so long.
const SUMS_QUIET: Duration = Duration::from_secs(2);

struct Running {
    nfsd: Arc<Nfsd<Ds>>,
    tasks: JoinSet<()>,
    /// Keeps the listener's stop signal from being given.
    _shutdown: Shutdown,
}

/// What a host is made of.
pub(crate) struct Parts {
    pub(crate) index: usize,
    pub(crate) wires: Wires,
    pub(crate) net: Net,
    pub(crate) tap: Tap,
    pub(crate) trace: Trace,
    pub(crate) rng: Rng,
    pub(crate) bug: Option<InjectedBug>,
    pub(crate) nameless: Nameless,
}

/// The host.
pub(crate) struct DsNode {
    parts: Parts,
    index: Arc<SimStore>,
    redo: Arc<SimRedo>,
    objects: Arc<MemObjects>,
    disk: DiskTrouble,
    start: Instant,
    incarnation: u32,
    membership: Option<Membership>,
    running: Option<Running>,
}

impl DsNode {
    /// A host that is switched off, with empty disks.
    pub(crate) fn new(mut parts: Parts) -> Self {
        let disk = DiskTrouble::default();
        let of_index = parts.bug.filter(|bug| bug.is_of_index());
        let index = SimStore::new(parts.rng.split(), of_index, disk.clone());
        let redo = SimRedo::new(parts.rng.split(), parts.bug, disk.clone());
        let objects = MemObjects::new(MemOptions {
            capacity_bytes: CAPACITY_BYTES,
            manual: true,
        });
        Self {
            parts,
            index,
            redo,
            objects: Arc::new(objects),
            disk,
            start: Instant::now(),
            incarnation: 0,
            membership: None,
            running: None,
        }
    }

    /// Its objects.
    pub(crate) fn objects(&self) -> &Arc<MemObjects> {
        &self.objects
    }

    /// Its disk is in trouble for some time.
    pub(crate) fn disk_ails(&mut self, ailment: Ailment, how_long: Duration, rng: Rng) {
        let ms = how_long.as_millis();
        self.parts.trace.tell(
            &self.host(),
            format_args!("! its disk has {ailment:?} for {ms} ms"),
        );
        self.disk.begin(ailment, how_long, rng);
    }

    /// Its disk is well.
    pub(crate) fn mend(&mut self) {
        self.disk.end();
    }

    /// What ails its disk.
    pub(crate) fn disk(&self) -> &DiskTrouble {
        &self.disk
    }

    /// Whether its index has an object: one that it does not have is not there for anybody.
    pub(crate) fn has_entry(&self, id: ObjectId) -> bool {
        let mut key = vec![b'o'];
        key.extend(id.file_id.to_be_bytes());
        key.extend(id.generation.to_be_bytes());
        key.push(id.place);
        matches!(self.index.get(&key), Ok(Some(_)))
    }

    /// Whether it is switched on.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    fn host(&self) -> String {
        ds_name(self.parts.index)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.host(), self.incarnation)
    }

    fn random(&mut self) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        match self.parts.bug {
            Some(InjectedBug::KeepVerifiers) => Rng::new(self.parts.index as u64).into_source(),
            _ => self.parts.rng.split().into_source(),
        }
    }

    fn config(&mut self) -> DsConfig {
        let start = self.start;
        let objects = HostObjects {
            objects: self.objects.clone(),
            trouble: self.disk.clone(),
            lie: Lie::of((self.parts.bug, &self.parts.nameless), self.parts.index),
        };
        DsConfig {
            index: self.index.clone(),
            objects: Arc::new(objects),
            redo: Some(self.redo.clone()),
            random: self.random(),
            clock: Arc::new(move || {
                let run = start.elapsed();
                NfsTime {
                    seconds: EPOCH_SECS + i64::try_from(run.as_secs()).unwrap_or(i64::MAX),
                    nanoseconds: run.subsec_nanos(),
                }
            }),
            lease_clock: ds::virtual_lease_clock(),
            offload: false,
            peers: None,
            clients: ClientLimits {
                lease_ms: LEASE_MS,
                ..ClientLimits::default()
            },
            sums: SumsConfig {
                verify_reads: true,
                scrub_interval: SCRUB_INTERVAL,
                quiet: SUMS_QUIET,
            },
        }
    }

    /// Switches the host on. It must have joined, unless `mds` is given to join now.
    ///
    /// # Errors
    /// Why the server does not start: a finding.
    pub(crate) async fn start(&mut self, mds: Option<&Nfsd<Mds>>) -> Result<(), String> {
        self.incarnation += 1;
        let host = self.host();
        let number = self.incarnation;
        self.parts
            .trace
            .tell(&host, format_args!("! starts as {number}"));
        self.parts.tap.incarnation(&host, self.incarnation);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&self.index).run());
        tasks.spawn(Arc::clone(&self.redo).run());
        let opened = Ds::open(self.config()).await;
        let nfsd = opened.map_err(|e| format!("{host} does not start: {e}"))?;
        self.parts.net.up(&host);
        let mut connector: Arc<dyn Connector> = self.parts.wires.connector(&self.name());
        if self.parts.bug == Some(InjectedBug::IgnoreFences) {
            connector = Arc::new(Unfenced(connector));
        }
        if let Some(mds) = mds {
            let joined = join::join(&nfsd, mds, &*connector, self.parts.index).await;
            self.membership = Some(joined.map_err(|e| format!("{host} does not join: {e}"))?);
        }
        let shutdown = Shutdown::new();
        let parts = PartsProgram::new(nfsd.clone());
        let served = Arc::new(nfsd.clone().with_programs(vec![parts]));
        let copies = CopiesConfig {
            connector: self.parts.wires.connector(&self.name()),
        };
        tasks.spawn(copies::run(Arc::clone(&nfsd), copies));
        tasks.spawn(ds::sums::run(Arc::clone(&nfsd)));
        let served = injected_bug::service(self.parts.bug, served);
        let serving = self.parts.wires.serve(&host, served, &shutdown, &mut tasks);
        serving.await?;
        let config = LinkConfig {
            membership: self.membership.ok_or("a data server that never joined")?,
            connector,
            mds: vec![Address::Memory(join::CONTROL_NAME.into())],
            advertise: vec![ds_address(self.parts.index)],
            location: control::Text::default(),
        };
        let (linked, trace, who) = (Arc::clone(&nfsd), self.parts.trace.clone(), host);
        tasks.spawn(async move {
            let end = link::run(linked, config).await;
            trace.tell(&who, format_args!("! stops: {end:?}"));
        });
        let ticking = Arc::clone(&nfsd);
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
                ticking.expire().await;
                ticking.clients().recall_slots();
                ticking.role().tick().await;
            }
        });
        self.running = Some(Running {
            nfsd,
            tasks,
            _shutdown: shutdown,
        });
        Ok(())
    }

    /// Switches the host off, as a power cut does.
    pub(crate) async fn crash(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let host = self.host();
        self.parts.net.down(&host);
        self.parts.net.kill(&self.name());
        let (index, lost) = self.index.crash();
        self.redo = self.redo.crash();
        let seed = self.parts.rng.bits();
        self.objects = Arc::new(self.objects.after_crash(seed));
        self.index = index;
        self.parts.trace.tell(
            &host,
            format_args!("! crashes; {lost} transactions of its index are lost"),
        );
        running.tasks.abort_all();
        while running.tasks.join_next().await.is_some() {}
        drop(running.nfsd);
    }
}
