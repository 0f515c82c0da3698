//! The metadata server as a host that can crash and start again.
//!
//! # Ownership
//! A running server is a set of tasks and a store. A crash drops the tasks and keeps what the disk would hold.
//!
//! # Ordering
//! The image of the disk is taken first and at one moment; nothing that the dying tasks still say is heard.

use crate::connector::Wires;
use crate::disk::DiskTrouble;
use crate::injected_bug::{self, InjectedBug, Nameless};
use crate::join;
use crate::net::Net;
use crate::older::Older;
use crate::rng::Rng;
use crate::store::SimStore;
use crate::tap::Tap;
use crate::trace::{MDS_NAME, Trace};
use cluster::{ControlService, KeyTimes};
use fs::{Creation, DataConfig};
use mds::{Mds, MdsConfig};
use namespace::Time;
use server::Nfsd;
use server::exports::{Exports, Squash};
use state::DelegationLimits;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use transport::workers::Shutdown;
use transport::{Context, DynService, Preference, TransportLimits};

/// Lease of clients in milliseconds: short, so that a run sees expiries and grace periods.
pub(crate) const LEASE_MS: u64 = 8_000;
/// Lease of data servers in milliseconds.
pub(crate) const DS_LEASE_MS: u32 = 3_000;
/// Bytes of a stripe unit.
pub(crate) const STRIPE_UNIT_BYTES: u32 = 4_096;
/// Below it clients write through the metadata server, so that a file's first bytes and its later ones take different ways.
const MDS_THRESHOLD_BYTES: u64 = 8_192;
/// What the largest inline file may be: at each start another one, so that the setting changes on a cluster in use.
const INLINE_MAX_BYTES: [u64; 4] = [0, 2_048, 20_480, 65_536];
/// Half of the copies of data clients are longer.
const COPY_ASYNC_ABOVE_BYTES: u64 = 6_144;
/// Pause between two ticks in milliseconds.
const TICK_MS: u64 = 1_000;
/// A data server that is away for so long is given up.
const REPLACE_AFTER: Duration = Duration::from_secs(15);
/// Short, so that keys change under every load.
const KEY_TIMES: KeyTimes = KeyTimes {
    rotation_ms: 15_000,
    overlap_ms: 4_000,
};
/// Wall time at the start of a run, in seconds.
const EPOCH_SECS: i64 = 1_700_000_000;

struct Running {
    nfsd: Arc<Nfsd<Mds>>,
    tasks: JoinSet<()>,
    /// Keeps the listeners' stop signal from being given.
    _shutdown: Shutdown,
}

/// The host.
pub(crate) struct MdsNode {
    creation: Creation,
    copies: u32,
    copies_min: u32,
    lease_ms: u64,
    bug: Option<InjectedBug>,
    /// Whether it speaks NFSv3 too.
    older: Option<Older>,
    wires: Wires,
    net: Net,
    tap: Tap,
    trace: Trace,
    rng: Rng,
    store: Arc<SimStore>,
    start: Instant,
    incarnation: u32,
    running: Option<Running>,
}

impl MdsNode {
    /// See [`SimStore::nameless`].
    pub(crate) fn nameless(&self) -> Nameless {
        self.store.nameless()
    }

    /// A host that is switched off, with an empty disk.
    #[must_use]
    pub(crate) fn new(
        wires: Wires,
        net: Net,
        tap: Tap,
        trace: Trace,
        mut rng: Rng,
        (bug, creation, (copies, copies_min), lease_ms): (
            Option<InjectedBug>,
            Creation,
            (u32, u32),
            u64,
        ),
    ) -> Self {
        let of_store = bug.filter(|bug| !bug.is_of_index());
        let store = SimStore::new(rng.split(), of_store, DiskTrouble::default());
        Self {
            creation,
            copies,
            copies_min,
            lease_ms,
            bug,
            older: None,
            wires,
            net,
            tap,
            trace,
            rng,
            store,
            start: Instant::now(),
            incarnation: 0,
            running: None,
        }
    }

    /// The same host, which speaks NFSv3 too where there is [`Older`].
    #[must_use]
    pub(crate) fn with_older(self, older: Option<Older>) -> Self {
        Self { older, ..self }
    }

    /// The disk.
    #[must_use]
    pub(crate) fn store(&self) -> &Arc<SimStore> {
        &self.store
    }

    /// The service, while it runs.
    #[must_use]
    pub(crate) fn nfsd(&self) -> Option<&Arc<Nfsd<Mds>>> {
        self.running.as_ref().map(|r| &r.nfsd)
    }

    fn config(&mut self) -> MdsConfig {
        let start = self.start;
        let connector = self.wires.connector(&self.name());
        let inline_max_bytes = INLINE_MAX_BYTES[self.rng.split().index(INLINE_MAX_BYTES.len())];
        MdsConfig {
            delegations: Some(DelegationLimits::default()),
            delegates_times: true,
            serves_minor_0: true,
            store: self.store.clone(),
            exports: Exports::loopback(Squash::None),
            identities: mds::identities::IdentityConfig::default(),
            lease_ms: self.lease_ms,
            clock: Arc::new(move || {
                let run = start.elapsed();
                Time {
                    secs: EPOCH_SECS + i64::try_from(run.as_secs()).unwrap_or(i64::MAX),
                    nanos: run.subsec_nanos(),
                }
            }),
            random: self.rng.split().into_source(),
            limits: namespace::NamespaceLimits::default(),
            data: DataConfig {
                stripe_unit_bytes: STRIPE_UNIT_BYTES,
                copies: self.copies,
                copies_min: self.copies_min,
                replace_after: REPLACE_AFTER,
                mds_threshold_bytes: MDS_THRESHOLD_BYTES,
                inline_max_bytes,
                copy_async_above_bytes: COPY_ASYNC_ABOVE_BYTES,
                creation: self.creation,
                foreign_pool: 4,
                ds_lease_ms: DS_LEASE_MS,
                connector,
                proxy_transport: Preference::Auto,
                data_transport: Preference::Auto,
                keys: KEY_TIMES,
            },
        }
    }

    fn name(&self) -> String {
        format!("mds/{}", self.incarnation)
    }

    /// Switches the host on.
    ///
    /// # Errors
    /// Why the server does not start: a finding.
    pub(crate) async fn start(&mut self) -> Result<(), String> {
        self.incarnation += 1;
        self.trace
            .tell("mds", format_args!("! starts as {}", self.incarnation));
        self.tap.incarnation("mds", self.incarnation);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&self.store).run());
        let config = self.config();
        let nfsd = Mds::open(config)
            .await
            .map_err(|e| format!("mds does not start: {e}"))?;
        self.net.up("mds");
        let shutdown = Shutdown::new();
        let served: Arc<dyn DynService> = match &self.older {
            Some(older) => {
                let connector = self.wires.connector(&self.name());
                older.beside(&nfsd, connector, &mut tasks)
            }
            None => nfsd.clone(),
        };
        let served = injected_bug::mds_service(self.bug, served);
        let serving = self.wires.serve(MDS_NAME, served, &shutdown, &mut tasks);
        serving.await?;
        let control = self.wires.listen(join::CONTROL_NAME)?;
        let service = ControlService::new(
            Arc::clone(nfsd.role().fs().cluster()),
            Arc::clone(nfsd.role().fs()),
            Arc::new(join::peer_of),
            Arc::new(join::SimIssuer),
        );
        let context = Context::new(TransportLimits::default());
        tasks.spawn(control.serve(Arc::new(service), context, shutdown.signal()));
        let ticking = Arc::clone(&nfsd);
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
                Mds::tick(&ticking).await;
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
        self.net.down("mds");
        self.net.kill(&self.name());
        let (left, lost) = self.store.crash();
        self.trace.tell(
            "mds",
            format_args!("! crashes; {lost} transactions are lost"),
        );
        self.store = left;
        running.tasks.abort_all();
        while running.tasks.join_next().await.is_some() {}
    }
}
