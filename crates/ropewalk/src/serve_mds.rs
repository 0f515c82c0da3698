//! `ropewalk mds`: the metadata server as a process.
//!
//! # Ownership
//! `state_dir` holds `process.lock`, `admin.sock`, `ca.pem` and the store in `meta`. The service is shared by the worker
//! threads; the control port, the tick and the admin socket run on the main thread.
//!
//! # Ordering
//! Ports are bound before the store is opened: a busy port is told before anything changes. systemd keeps them for the next
//! process, and hears that this one serves when it does. Connections are accepted
//! only after the start is durable. At the end NFS drains first, the control port last: what is still being served may
//! need the data servers.
//!
//! # Failure
//! Everything before "serving" ends the process with one sentence. Later, a failed store stops replies (see
//! `mds`); the process goes on, so that its status can be asked.

mod access;
mod desk;
mod health;
mod orders;
mod readings;
mod reload;
mod rows;

use crate::admin::AdminSocket;
use crate::cli::DaemonArgs;
use crate::config::{self, MdsConfig, RootTable, StoreKind};
use crate::daemon::{self, STOP_MAX, Serving, Signals, StateDir, TransportView};
use crate::expel::Loss;
use crate::failure::{Outcome, cannot, failed};
use crate::listeners::{self, Keeper, Wanted};
use crate::logging;
use crate::metrics::{self, Watched};
use crate::nss::NameService;
use crate::older_nfs::OlderNfs;
use crate::out;
use crate::rdma::{self, RdmaListen};
use crate::scrub::DamagedFile;
use crate::status::lag::LagRow;
use crate::status::redundancy::PlacesSummary;
use crate::status::{KeyRow, MdsStatus, PlaceRow, ServerStatus};
use crate::token::{Token, WaitingToken};
use ::cluster::{
    Cluster, ControlService, KeyState, KeyTimes, ServerState, add_token, expel, expel_spare,
    tls_peer, waiting_tokens,
};
use ::fs::{
    COPY_ASYNC_ABOVE_BYTES, DataConfig, Fs, FsStatus, NamedFile, REMOVALS_COUNTED_MAX, file_paths,
    lost_files, removals_waiting,
};
use cluster_tls::{CertRole, ClusterCa, JoinToken};
use desk::MdsDesk;
use mds::identities::{Directory, IdentityConfig};
use mds::{Mds, MdsConfig as Parts};
use meta::{MemStore, MetaError, MetaStore};
use meta_fjall::FjallStore;
use namespace::{Cred, FileId, NamespaceLimits, Op, PAGE_MAX, SetAttr, Time};
use reload::Live;
use rows::{clash_row, filling_row, foreign_rows, groups, place_row, row};
use server::Nfsd;
use state::DelegationLimits;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use systemd::{Manager, PassedFd};
use tokio::task::JoinHandle;
use transport::tcp::Listener;
use transport::workers::Shutdown;
use transport::{AnyConnector, Context, TransportLimits};

/// Lease of data servers: how long a lost one delays what must be known everywhere.
const DS_LEASE_MS: u32 = 5_000;
/// `change` of a root directory that nobody has touched.
const ROOT_CHANGE_AT_FORMAT: u64 = 1;
/// How often time-driven work is done.
const TICK: Duration = Duration::from_secs(1);
/// How often the store is looked at.
const STORE_LOOK: Duration = Duration::from_secs(1);

/// Bytes of a token's hash that are shown.
const HASH_BYTES_SHOWN: usize = 6;

/// `ropewalk mds`.
pub(crate) fn run(args: &DaemonArgs) -> Outcome {
    let passed = systemd::take_passed();
    let config: MdsConfig = config::load(&args.config)?;
    if args.check_config {
        return out::line(&format!(
            "{} is a valid configuration",
            args.config.display()
        ));
    }
    logging::init_logging(config.log_format);
    logging::set_log(config.log.as_deref()).map_err(failed)?;
    without_huge_pages();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(cannot("start the runtime"))?
        .block_on(serve(args, &config, passed))
}

/// Asks the system for no huge pages in this process. The store's memory grows by small entries under its writer lock. All changes
/// wait while a page of 2 MiB is cleared (5 ms on a virtual machine whose host has to find it first).
fn without_huge_pages() {
    if let Err(e) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("huge pages stay on: {e}");
    }
}

async fn serve(args: &DaemonArgs, config: &MdsConfig, passed: Vec<PassedFd>) -> Outcome {
    let mut signals = Signals::take()?;
    let manager = Manager::from_environment().map_err(cannot("reach NOTIFY_SOCKET"))?;
    let state = StateDir::take(&config.state_dir)?;
    let sockets = Sockets::bind(args, config, &manager, passed)?;
    let change = format!("change `rdma_listen` in {}", args.config.display());
    let rdma = RdmaListen::reserve(config.rdma(), &config.rdma_listen, &change)?;
    let (rdma_provider, workers) = (rdma.provider(), sockets.nfs.len());
    let context = Context::new(daemon::transport_limits(&config.connections()));
    let control_context = Context::new(TransportLimits::default());

    let store = open_store(config, state.path())?;
    let nfsd = open_mds(config, &store, &control_context).await?;
    prepare_root(&nfsd, config).await?;
    let ca = Arc::new(open_ca(config, state.path(), &nfsd)?);

    let (shutdown, control_shutdown) = (Shutdown::new(), Shutdown::new());
    let control_port = serve_control(
        &nfsd,
        &ca,
        sockets.control,
        control_context.clone(),
        &control_shutdown,
    )?;
    let socket = AdminSocket::bind(state.path())?;
    let older = OlderNfs::new(config, &nfsd, &control_context);
    let all = older.beside(&nfsd);
    let nfs = Arc::clone(&all);
    let serving = Serving::start("nfs", sockets.nfs, rdma, all, &context, &shutdown)?;
    let view = Arc::new(View {
        nfsd: Arc::clone(&nfsd),
        ca,
        config: config.clone(),
        live: Live::new(&nfsd, &context, &manager, args, config),
        rdma_provider,
        transport: serving.transport(),
        control: control_context,
        started: Instant::now(),
    });
    let desk = MdsDesk::new(Arc::clone(&view), nfs, context.sibling());
    let admin = desk.serve(socket, sockets.admin)?;
    reload::on_hangup(Arc::clone(&view.live))?;
    let metrics = tokio::spawn(metrics::serve(sockets.metrics, Arc::clone(&view)));
    let tick = tokio::spawn(tick(Arc::clone(&nfsd)));
    let _older = older.start(config)?;
    tell_serving(config, workers, &nfsd);
    tokio::spawn(health::show(manager.clone(), view));

    let end = tokio::select! {
        why = daemon::until_stopped(&mut signals, args.exit_with_parent, &shutdown) => {
            why.map(|why| tracing::info!(why, "stopping"))
        }
        // Nothing can be promised any more: whoever supervises this process starts a new one, which reads what is durable.
        error = store_failed(&*store) => Err(failed(format!("the metadata store stopped: {error}"))),
    };
    manager.stopping();
    shutdown.trigger();
    let stop = async {
        serving.ended().await;
        control_shutdown.trigger();
        let _ = control_port.await;
        tick.abort();
        drop(admin);
        metrics.abort();
        store.durable(store.applied()).await
    };
    let synced = daemon::stop_in_time(&mut signals, STOP_MAX, stop).await?;
    end?;
    let stopped = synced.map(|()| tracing::info!("stopped"));
    stopped.map_err(cannot("sync the store"))
}

/// What this server listens on over TCP.
struct Sockets {
    /// For NFS, those of each worker.
    nfs: Vec<Vec<Listener>>,
    control: Vec<Listener>,
    metrics: Vec<Listener>,
    admin: Vec<Listener>,
}

impl Sockets {
    /// Binds them, but for those that were passed to this process.
    fn bind(
        args: &DaemonArgs,
        config: &MdsConfig,
        manager: &Manager,
        passed: Vec<PassedFd>,
    ) -> Outcome<Self> {
        let workers = daemon::workers_count(config.workers);
        let all = [
            ("listen", &config.listen, workers),
            ("control_listen", &config.control_listen, 1),
            ("metrics_listen", &config.metrics_listen, 1),
            ("admin_listen", &config.admin_listen, 1),
        ];
        let wanted = all.map(|(key, addresses, count)| Wanted {
            key,
            addresses,
            count,
        });
        let mut keeper = Keeper::new(manager.clone(), passed, &wanted);
        let mut bind = |wanted: Wanted<'_>| {
            let change = format!("change `{}` in {}", wanted.key, args.config.display());
            keeper.bind(wanted, &change)
        };
        let [nfs, control, metrics, admin] = wanted;
        Ok(Self {
            nfs: listeners::by_worker(bind(nfs)?, workers),
            control: bind(control)?.into_iter().flatten().collect(),
            metrics: bind(metrics)?.into_iter().flatten().collect(),
            admin: bind(admin)?.into_iter().flatten().collect(),
        })
    }
}

fn tell_serving(config: &MdsConfig, workers: usize, nfsd: &Nfsd<Mds>) {
    tracing::info!(
        listen = ?config.listen,
        rdma = ?config.rdma_listen,
        control = ?config.control_listen,
        workers,
        boot = nfsd.role().fs().namespace().boot(),
        "serving"
    );
}

/// Returns when the store has failed for good.
async fn store_failed(store: &dyn MetaStore) -> MetaError {
    loop {
        tokio::time::sleep(STORE_LOOK).await;
        if let Err(error) = store.durable(store.applied()).await {
            return error;
        }
    }
}

/// Serves the control program to data servers.
fn serve_control(
    nfsd: &Arc<Nfsd<Mds>>,
    ca: &Arc<ClusterCa>,
    listeners: Vec<Listener>,
    context: Context,
    shutdown: &Shutdown,
) -> Outcome<JoinHandle<std::io::Result<()>>> {
    let tls = ca
        .issue_identity(CertRole::Mds)
        .and_then(|own| cluster_tls::server_config(&own));
    let tls = Arc::new(tls.map_err(cannot("set up TLS for data servers"))?);
    let issuer = Arc::clone(ca);
    let service = ControlService::new(
        Arc::clone(nfsd.role().fs().cluster()),
        Arc::clone(nfsd.role().fs()),
        Arc::new(tls_peer),
        issuer,
    );
    Ok(tokio::spawn(transport::tcp::serve_tls(
        listeners,
        tls,
        Arc::new(service),
        context,
        shutdown.signal(),
    )))
}

fn open_store(config: &MdsConfig, state_dir: &Path) -> Outcome<Arc<dyn MetaStore>> {
    if config.store == StoreKind::Memory {
        tracing::warn!("metadata are in memory: they end with this process");
        return Ok(Arc::new(MemStore::new()));
    }
    let options = meta_fjall::Options::default();
    let store = FjallStore::open(&state_dir.join("meta"), options)
        .map_err(cannot("open the metadata store"))?;
    if store.torn_bytes() > 0 {
        tracing::info!(
            bytes = store.torn_bytes(),
            "cut an unfinished end of the journal"
        );
    }
    Ok(Arc::new(store))
}

async fn open_mds(
    config: &MdsConfig,
    store: &Arc<dyn MetaStore>,
    proxy_context: &Context,
) -> Outcome<Arc<Nfsd<Mds>>> {
    let unit = config.stripe_unit.as_u64();
    let parts = Parts {
        store: Arc::clone(store),
        exports: config.export_list()?,
        identities: identities(config),
        lease_ms: config.lease_seconds * 1000,
        clock: Arc::new(wall_time),
        random: Arc::new(daemon::random_u64),
        limits: NamespaceLimits::default(),
        delegations: config.delegations.then(DelegationLimits::default),
        delegates_times: config.delegated_times,
        serves_minor_0: config.nfs40,
        data: DataConfig {
            stripe_unit_bytes: u32::try_from(unit)
                .map_err(|_| failed("`stripe_unit` is too large"))?,
            copies: config.copies,
            copies_min: config.copies_min,
            replace_after: config.replace_after.0,
            mds_threshold_bytes: config.mds_threshold.as_u64(),
            inline_max_bytes: config.inline_max.as_u64(),
            copy_async_above_bytes: COPY_ASYNC_ABOVE_BYTES,
            creation: config.placement.create.into(),
            foreign_pool: config.foreign.pool,
            ds_lease_ms: DS_LEASE_MS,
            connector: Arc::new(AnyConnector::new(
                proxy_context,
                rdma::connecting(config.rdma())?,
            )),
            proxy_transport: config.proxy_transport.into(),
            data_transport: config.data_transport.into(),
            keys: KeyTimes {
                rotation_ms: config.key_rotation.as_ms(),
                overlap_ms: config.key_overlap.as_ms(),
            },
        },
    };
    let opened = Mds::open(parts).await;
    let nfsd = opened.map_err(cannot("open the file system"))?;
    let cluster = nfsd.role().fs().cluster();
    cluster.set_fill_rate(config.fill_rate_max.as_u64());
    Ok(nfsd)
}

/// How users and groups are translated. Without a wish for it the name service is never asked.
fn identities(config: &MdsConfig) -> IdentityConfig {
    let wanted = config.manage_gids || config.domain.is_some();
    IdentityConfig {
        directory: wanted.then(|| Arc::new(NameService) as Arc<dyn Directory>),
        manage_gids: config.manage_gids,
        domain: config.domain.clone(),
    }
}

fn wall_time() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}

/// Makes the root directory what it is to be, or says that nobody can use it.
async fn prepare_root(nfsd: &Nfsd<Mds>, config: &MdsConfig) -> Outcome {
    make_root(nfsd, config.root_of_new()).await?;
    warn_of_closed_root(nfsd, config);
    Ok(())
}

/// Gives the root directory the configured owner and mode while nobody has touched the file system. That is at its
/// first start, and at the next one when a crash came between.
async fn make_root(nfsd: &Nfsd<Mds>, wanted: RootTable) -> Outcome {
    let fs = nfsd.role().fs();
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let what = "prepare the root directory";
    let root = fs
        .namespace()
        .getattr(&mut op, FileId::ROOT)
        .map_err(cannot(what))?;
    let untouched = root.change == ROOT_CHANGE_AT_FORMAT && root.ctime == root.btime;
    if !untouched || wanted == RootTable::default() {
        return Ok(());
    }
    let attrs = SetAttr {
        mode: Some(wanted.mode.0),
        uid: Some(wanted.uid),
        gid: Some(wanted.gid),
        ..SetAttr::default()
    };
    fs.namespace()
        .setattr(&mut op, FileId::ROOT, &attrs, false)
        .map_err(cannot(what))?;
    fs.store()
        .durable(op.observed())
        .await
        .map_err(cannot(what))
}

/// Says so when no client can make anything in the root directory, and what to do.
fn warn_of_closed_root(nfsd: &Nfsd<Mds>, config: &MdsConfig) {
    const OTHERS_WRITE: u32 = 0o002;
    let fs = nfsd.role().fs();
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let Ok(root) = fs.namespace().getattr(&mut op, FileId::ROOT) else {
        return;
    };
    let is_closed = root.uid == 0 && root.mode & OTHERS_WRITE == 0 && root.acl().is_none();
    if is_closed && config.squashes_root() {
        tracing::warn!(
            mode = format_args!("{:04o}", root.mode),
            "only root can make files in the root directory, and every [[export]] squashes root: give one client \
             squash = \"none\", or a new file system another [root], and set owner and mode with chown and chmod"
        );
    }
}

/// The cluster's CA. That of a cluster in memory is made anew at each start, where it replaces no real one.
fn open_ca(config: &MdsConfig, state_dir: &Path, nfsd: &Nfsd<Mds>) -> Outcome<ClusterCa> {
    let cluster_id = nfsd.role().fs().cluster().id();
    let what = "open the cluster's CA";
    if config.store == StoreKind::Memory {
        let dir = state_dir.join("memory");
        daemon::make_dir(&dir)?;
        match std::fs::remove_file(ClusterCa::path(&dir)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(cannot(what)(e)),
            _ => {}
        }
        return ClusterCa::create(&dir, cluster_id).map_err(cannot(what));
    }
    if ClusterCa::path(state_dir).exists() {
        return ClusterCa::load(state_dir, cluster_id).map_err(cannot(what));
    }
    ClusterCa::create(state_dir, cluster_id).map_err(cannot(what))
}

async fn tick(nfsd: Arc<Nfsd<Mds>>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        Mds::tick(&nfsd).await;
    }
}

/// What the admin socket looks at.
struct View {
    nfsd: Arc<Nfsd<Mds>>,
    ca: Arc<ClusterCa>,
    /// What RDMA runs on, where anything listens for it.
    rdma_provider: Option<&'static str>,
    /// As it was at the start.
    config: MdsConfig,
    live: Arc<Live>,
    transport: TransportView,
    control: Context,
    started: Instant,
}

impl Watched for View {
    fn snapshot(&self) -> ServerStatus {
        ServerStatus::Mds(Box::new(self.status()))
    }

    /// The store still makes durable what it has taken: a reply can leave.
    async fn health(&self) -> Result<(), String> {
        let store = self.fs().store();
        let durable = store.durable(store.applied());
        durable.await.map_err(|e| format!("metadata store: {e}"))
    }
}

impl View {
    async fn expel(&self, ds_id: u32, yes_lose_data: bool) -> Result<(), String> {
        let (cluster, why) = (self.cluster(), "expelled by an administrator");
        let done = match yes_lose_data {
            true => expel(cluster, ds_id, why).await,
            false => expel_spare(cluster, ds_id, why).await,
        };
        done.map_err(|e| e.to_string())
    }

    fn fs(&self) -> &Arc<Fs> {
        self.nfsd.role().fs()
    }

    fn cluster(&self) -> &Cluster {
        self.fs().cluster()
    }

    async fn create_token(&self, ttl_seconds: u64) -> Result<Token, String> {
        let secret = cluster_tls::random_secret().map_err(|e| e.to_string())?;
        let addresses: Vec<String> = self
            .config
            .control_advertised()
            .iter()
            .map(ToString::to_string)
            .collect();
        let token = JoinToken::new(&addresses, self.ca.fingerprint(), secret)
            .map_err(|_| "`control_advertise` has no address, or more than 8".to_owned())?;
        let ttl_ms = ttl_seconds.saturating_mul(1000);
        add_token(self.cluster(), &token.secret, ttl_ms)
            .await
            .map_err(|e| e.to_string())?;
        tracing::info!(ttl_seconds, "made a join token");
        Ok(Token {
            token: token.to_text(),
        })
    }

    fn tokens(&self) -> Result<Vec<WaitingToken>, String> {
        let waiting = waiting_tokens(self.cluster()).map_err(|e| e.to_string())?;
        let describe = |t: ::cluster::WaitingToken| WaitingToken {
            hash: t.hash.0[..HASH_BYTES_SHOWN]
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect(),
            expires_in_seconds: t.left_ms / 1000,
        };
        Ok(waiting.into_iter().map(describe).collect())
    }

    fn keys(&self, keys: &[::cluster::KeyStatus]) -> Vec<KeyRow> {
        let now = wall_time();
        let now_s = u64::try_from(now.secs).unwrap_or(0);
        let state = self.fs().state();
        let row = |key: &::cluster::KeyStatus| KeyRow {
            id: key.id,
            state: match key.state {
                KeyState::Next => "next",
                KeyState::Active => "active",
                KeyState::Valid => "valid",
            }
            .to_owned(),
            age_seconds: now_s.saturating_sub(key.made_ms / 1000),
            layouts: count(state.layouts.count_of_key(key.id)),
        };
        keys.iter().map(row).collect()
    }

    fn counters(&self, status: &FsStatus, reply_cache_bytes: u64) -> BTreeMap<String, u64> {
        let delegations = self.fs().delegation_counts();
        let counters = self.nfsd.counters();
        let places: Vec<PlaceRow> = status.cluster.places.iter().map(place_row).collect();
        let places = PlacesSummary::of(places.iter());
        let servers = || status.cluster.servers.iter();
        let damaged_blocks = servers().map(|s| s.scrub.damaged_blocks).sum();
        let members = servers().filter(|s| s.state != ServerState::Expelled);
        let scrubbed_at = members.map(|s| s.scrub.scrubbed_at).min().unwrap_or(0);
        let scrubbed_at = u64::try_from(scrubbed_at).unwrap_or(0);
        let named = [
            ("places_replicated", places.replicated),
            ("places_under_replicated", places.under_replicated),
            ("places_filling", places.filling),
            ("places_on_last_copy", places.on_last_copy),
            ("places_not_served", places.not_served),
            ("damaged_blocks", damaged_blocks),
            ("scrubbed_timestamp_seconds", scrubbed_at),
            ("places_sharing_domains", places.sharing_domains),
            ("compounds", counters.compounds.load(Relaxed)),
            ("replays", counters.replays.load(Relaxed)),
            ("reply_cache_bytes", reply_cache_bytes),
            ("malformed", counters.malformed.load(Relaxed)),
            ("refused", counters.refused.load(Relaxed)),
            ("client_name_clashes", counters.name_clashes.load(Relaxed)),
            ("sizes_unknown", count(status.sizes_unknown)),
            ("truncations", count(status.truncations)),
            ("fences_pending", count(status.cluster.fences_pending)),
            ("layouts_too_wide", status.layouts_too_wide),
            ("delegations", count(delegations.held)),
            ("delegations_granted", delegations.granted),
            ("delegations_recalled", delegations.recalled),
            ("delegations_revoked", delegations.revoked),
        ];
        let left = status.cluster.full_redundancy_seconds;
        let left = left.map(|seconds| ("full_redundancy_seconds", seconds));
        let parts = places.lacking_parts.map(|n| ("parts_under_replicated", n));
        let all = named.into_iter().chain(left).chain(parts);
        all.map(|(name, n)| (name.to_owned(), n)).collect()
    }

    fn status(&self) -> MdsStatus {
        let fs = self.fs();
        let status = fs.status();
        let cluster = &status.cluster;
        let (clients, sessions, replies, in_grace) = {
            let clients = self.nfsd.clients().lock();
            (
                clients.clients_count(),
                clients.sessions_count(),
                clients.reply_cache_bytes(),
                clients.in_grace(),
            )
        };
        let (opens, locks, layouts) = fs.state().counts();
        let counters = self.nfsd.counters();
        let inline = fs.namespace().statistics().inline;
        let clashes = self.nfsd.clients().name_clashes();
        MdsStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            cluster_id: format!("{:016x}", fs.cluster().id()),
            boot: fs.namespace().boot(),
            uptime_seconds: self.started.elapsed().as_secs(),
            listen: self.config.listen.clone(),
            rdma_provider: self.rdma_provider.map(str::to_owned),
            advertise: self.config.advertised().to_vec(),
            control_listen: self.config.control_listen.clone(),
            connections: self.transport.connections(),
            rdma_busiest: self.transport.rdma_busiest(),
            in_grace,
            clients: count(clients),
            sessions: count(sessions),
            opens: count(opens),
            locks: count(locks),
            layouts: count(layouts),
            proxy_read_bytes: status.proxied_read_bytes,
            proxy_written_bytes: status.proxied_written_bytes,
            metadata_bytes: fs.store().disk_bytes(),
            inline_files: inline.files,
            inline_bytes: inline.bytes,
            stripe_unit: u64::from(fs.stripe_unit_bytes()),
            counters: self.counters(&status, replies),
            operations: daemon::operations(counters),
            latency: crate::status::latency::rows(counters),
            transport: self.transport.named(),
            control_transport: daemon::named(self.control.counters().snapshot()),
            keys: self.keys(&cluster.keys),
            removals_waiting: count(removals_waiting(fs)),
            removals_counted_max: count(REMOVALS_COUNTED_MAX),
            fences_pending: count(cluster.fences_pending),
            name_clashes: clashes.iter().map(clash_row).collect(),
            data_servers: cluster.servers.iter().map(row).collect(),
            foreign_servers: foreign_rows(fs),
            foreign_fences_waiting: count(fs.foreign().fences_waiting()),
            bad_mirror_servers_needed: ::fs::servers_waited_for(fs),
            bad_mirror_files: count(bad_mirror_files(fs)),
            bad_mirror_files_counted_max: count(PAGE_MAX),
            groups: groups(cluster),
            copies: fs.cluster().copies(),
            full_redundancy_seconds: cluster.full_redundancy_seconds,
            failure_domains: count(fs.cluster().domains()),
            fillings: cluster.fillings.iter().map(filling_row).collect(),
            lags: cluster.lags.iter().map(LagRow::from).collect(),
            rebalancing: cluster.is_rebalancing,
            fill_bytes_per_s: self.cluster().fill_rate(),
        }
    }
}

impl View {
    /// Opens the closed groups; how many there were.
    async fn accept_state(&self) -> Result<usize, String> {
        let count = self.fs().cluster().accept_state().await;
        count.map_err(|e| e.to_string())
    }

    /// What would be lost with a data server.
    async fn loss(&self, ds_id: u32) -> Result<Loss, String> {
        let places = self.cluster().last_copies(ds_id);
        let (nfsd, places_count) = (Arc::clone(&self.nfsd), count(places.len()));
        let walk = move || lost_files(nfsd.role().fs(), &places);
        let walked = tokio::task::spawn_blocking(walk).await;
        let found = walked
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())?;
        Ok(Loss {
            ds: ds_id,
            last_copies: places_count,
            files: found.count,
            files_complete: found.is_complete,
            paths: found.paths,
        })
    }
}

impl View {
    /// Paths of files that data servers name by numbers.
    async fn paths(&self, files: Vec<u64>) -> Result<Vec<DamagedFile>, String> {
        let nfsd = Arc::clone(&self.nfsd);
        let look = move || file_paths(nfsd.role().fs(), &files);
        let looked = tokio::task::spawn_blocking(look).await;
        let found = looked
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())?;
        let row = |file: NamedFile| DamagedFile {
            number: file.number,
            inode: file.inode,
            path: file.path,
        };
        Ok(found.into_iter().map(row).collect())
    }
}

/// Files with mirrors that do not count, as far as they are counted.
fn bad_mirror_files(fs: &Fs) -> usize {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let found = fs
        .namespace()
        .with_bad_mirrors(&mut op, FileId(0), PAGE_MAX);
    found.map_or(0, |files| files.len())
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
