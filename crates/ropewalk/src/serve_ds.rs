//! `ropewalk ds`: a data server as a process.
//!
//! # Ownership
//! `state_dir` holds `process.lock`, `admin.sock`, `identity.pem`, `mds.json` (where the MDS is), the index in `index` and the
//! objects in `data`.
//!
//! # Ordering
//! A new server writes down where the MDS is, joins with its token, and serves; a later start finds the identity. The process
//! that watches ([`watch`]) gives it the listening sockets when its stores are open. NFS is served from then on, and refuses
//! I/O until the MDS has given a lease.
//!
//! # Failure
//! Without an identity and without a token the process ends and says what to do. When the MDS puts the server out the
//! process ends with the MDS's reason: starting it again cannot help. The watcher is told of each orderly end, and
//! starts the server again after any other.

mod reload;

use crate::admin::{AdminSocket, Handler, LocalDesk, Refusal, Request};
use crate::cli::DaemonArgs;
use crate::config::{self, DsConfig, StoreKind};
use crate::daemon::{self, STOP_MAX, Serving, Signals, StateDir, TransportView};
use crate::failure::{Failure, Outcome, cannot, failed, usage};
use crate::logging;
use crate::metrics::{self, Watched};
use crate::out;
use crate::rdma::{self, RdmaListen};
use crate::status::{DsStatus, STATE_EXPELLED, STATE_SERVING, ServerStatus};
use crate::traces;
use crate::up::cluster::IDENTITY_NAME;
use crate::watch;
use crate::watch::line::ParentLine;
use crate::watch::ports::Ports;
use crate::watch::pulse::Pulse;
use cluster_tls::{Identity, JoinToken};
use control::{NetAddr, Status, Text};
use ds::copies::{self, CopiesConfig, PartsProgram};
use ds::join::{JoinConfig, join};
use ds::link::{self, LinkConfig, LinkEnd};
use ds::sums::SumsConfig;
use ds::{Ds, DsConfig as Parts, LeaseState, Membership};
use meta::{MemStore, MetaError, MetaStore};
use meta_fjall::FjallStore;
use nfs4::NfsTime;
use objects::{MemObjects, MemOptions, ObjectStore};
use objects_dir::DirObjects;
use redo::RedoLog;
use reload::{Live, Peers};
use ring_log::FileRedo;
use rustix::time::{ClockId, clock_gettime};
use server::Nfsd;
use state::ClientLimits;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use transport::tcp::TcpConnector;
use transport::workers::Shutdown;
use transport::{Address, AnyConnector, Connector, Context, TransportLimits};

/// Why a data server stops that was put out of its cluster.
const UNWANTED: &str = "the metadata server wants it no more";
/// How often leases of clients are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Name of the file that says where the MDS is.
const MDS_FILE: &str = "mds.json";
/// Bytes of the largest such file.
const MDS_FILE_BYTES_MAX: u64 = 64 * 1024;
/// The object store's own file about its index.
const OBJECTS_ID: &str = "data/index";
/// Name of the redo log.
const REDO_NAME: &str = "redo.log";
/// Size of the redo log. A start reads it in less than a second.
const REDO_BYTES: u64 = 64 * 1024 * 1024;
/// Size of the index's own log.
const INDEX_LOG_BYTES: u64 = 8 * 1024 * 1024;
/// Free space that is left to the index.
const INDEX_RESERVE_BYTES: u64 = 32 * 1024 * 1024;

/// `ropewalk ds`: the process that watches, or the one that serves.
pub(crate) fn run(daemon: &DaemonArgs, is_watched: bool) -> Outcome {
    let passed = systemd::take_passed();
    let file = &daemon.config;
    let config: DsConfig = config::load(file)?;
    if daemon.check_config {
        return out::line(&format!("{} is a valid configuration", file.display()));
    }
    logging::init_logging(config.log_format);
    logging::set_log(config.log.as_deref()).map_err(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot("start the runtime"))?;
    if is_watched {
        let line = ParentLine::adopt()?;
        runtime.block_on(serve(file, &config, &line))
    } else {
        runtime.block_on(watch::run(daemon, config, passed))
    }
}

async fn serve(file: &Path, config: &DsConfig, line: &ParentLine) -> Outcome {
    let (mut signals, hangup) = (Signals::take()?, crate::reload::hangup()?);
    let state = StateDir::take_over(&config.state_dir)?;
    let context = Context::new(daemon::transport_limits(&config.connections()));
    let peers = Peers::of(config)?;
    let (index, nfsd) = open(config, &peers, state.path()).await?;
    let link_config = enter_cluster(file, config, &nfsd, state.path()).await?;
    let _traces = traces::begin("ropewalk-ds", config.traces(), nfsd.traces())?;

    let pulse = Pulse::start(line.clone(), probed_files(config))?;
    let Some(sockets) = line.take_sockets()? else {
        tracing::info!("the watcher is gone or stops");
        return Ok(());
    };
    let ports = Ports::adopt(sockets, config)?;
    let rdma_listen = listen_rdma(file, config, ports.rdma)?;
    let rdma_provider = rdma_listen.provider();
    let (workers, shutdown) = (ports.nfs.len(), Shutdown::new());
    let socket = AdminSocket::bind(state.path())?;
    let parts = PartsProgram::new(Arc::clone(&nfsd));
    let nfs = Arc::new(Arc::clone(&nfsd).with_programs(vec![parts]));
    let serving = Serving::start("nfs", ports.nfs, rdma_listen, nfs, &context, &shutdown)?;
    let live = Live::new(&context, peers, line, file, config);
    reload::on_hangup(hangup, Arc::clone(&live));
    let view = Arc::new(View {
        nfsd: Arc::clone(&nfsd),
        live,
        config: config.clone(),
        rdma_provider,
        transport: serving.transport(),
        started: Instant::now(),
    });
    let admin = tokio::spawn(socket.serve(LocalDesk::new(handler(Arc::clone(&view)))));
    let metrics = tokio::spawn(metrics::serve(ports.metrics, view));
    let tick = tokio::spawn(tick(Arc::clone(&nfsd)));
    let copies = tokio::spawn(copies::run(Arc::clone(&nfsd), to_others(config, &context)?));
    let sums = tokio::spawn(keep_sums(config.store, Arc::clone(&nfsd)));
    let turns = tokio::spawn(pulse.turns());
    line.serving();
    tracing::info!(listen = ?config.listen, workers, ds_id = link_config.membership.ds_id, "serving");
    let link = link::run(Arc::clone(&nfsd), link_config);
    let end = tokio::select! {
        // Without the worker nobody is served well: this process ends at once, which the stores survive, for another to start.
        why = daemon::until_stopped(&mut signals, true, &shutdown) => Ok(why?),
        end = link => out_of_cluster(end),
    };
    line.leaving();
    let why = *end.as_ref().unwrap_or(&UNWANTED);
    tracing::info!(why, "stopping");
    let stop = async {
        if let Err(error) = nfsd.role().hand_over().await {
            tracing::debug!("the metadata server was not told of the stop: {error}");
        }
        shutdown.trigger();
        serving.ended().await;
        for task in [tick, copies, sums, turns, admin, metrics] {
            task.abort();
        }
        index.durable(index.applied()).await?;
        if let Err(error) = nfsd.role().announce_last().await {
            tracing::warn!("the metadata server was not told of the last changes: {error}");
        }
        Ok::<_, MetaError>(())
    };
    daemon::stop_in_time(&mut signals, STOP_MAX, stop)
        .await?
        .map_err(cannot("sync the index"))?;
    tracing::info!("stopped");
    end.map(drop)
}

fn listen_rdma(file: &Path, config: &DsConfig, sockets: Vec<TcpListener>) -> Outcome<RdmaListen> {
    let change = format!("change `rdma_listen` in {}", file.display());
    RdmaListen::reserve(config.rdma(), &config.rdma_listen, sockets, &change)
}

/// Sums of what lies on the disk. A store in memory has none.
async fn keep_sums(store: StoreKind, nfsd: Arc<Nfsd<Ds>>) {
    match store {
        StoreKind::Disk => ds::sums::run(nfsd).await,
        StoreKind::Memory => std::future::pending().await,
    }
}

/// How this data server reaches others, to pass on what it writes.
fn to_others(config: &DsConfig, context: &Context) -> Outcome<CopiesConfig> {
    let providers = rdma::connecting(config.rdma())?;
    let connector = Arc::new(AnyConnector::new(&context.sibling(), providers));
    Ok(CopiesConfig { connector })
}

/// The index, and the server upon its stores.
async fn open(
    config: &DsConfig,
    peers: &Peers,
    state_dir: &Path,
) -> Outcome<(Arc<dyn MetaStore>, Arc<Nfsd<Ds>>)> {
    let (index, objects, redo) = open_stores(config, state_dir)?;
    let parts = Parts {
        index: Arc::clone(&index),
        objects,
        redo,
        random: Arc::new(daemon::random_u64),
        clock: Arc::new(wall_time),
        lease_clock: Arc::new(boot_time),
        offload: true,
        peers: Some(peers.filter()),
        clients: ClientLimits::default(),
        sums: SumsConfig {
            verify_reads: config.verify_reads,
            scrub_interval: config.scrub_interval.0,
            ..SumsConfig::default()
        },
    };
    let nfsd = Ds::open(parts)
        .await
        .map_err(cannot("open the data server's store"))?;
    Ok((index, nfsd))
}

/// What the disk is asked for while the server is watched; small files of both places that may be disks of their own.
fn probed_files(config: &DsConfig) -> Vec<PathBuf> {
    match config.store {
        StoreKind::Disk => [IDENTITY_NAME, OBJECTS_ID]
            .map(|name| config.state_dir.join(name))
            .to_vec(),
        StoreKind::Memory => Vec::new(),
    }
}

/// The control connection came to its end: by order, or because the MDS wants this server no more.
fn out_of_cluster(end: LinkEnd) -> Outcome<&'static str> {
    match end {
        LinkEnd::Shutdown { .. } => Ok("the metadata server stops this data server"),
        LinkEnd::Expelled { reason } => Err(Failure::Expelled(format!(
            "the metadata server has put this data server out of the cluster: {reason}"
        ))),
        LinkEnd::Refused(refusal) if refusal.status == Status::Expelled => Err(Failure::Expelled(
            format!("the metadata server refuses this data server: {refusal}"),
        )),
        LinkEnd::Refused(refusal) => Err(failed(format!(
            "the metadata server refuses this data server: {refusal}"
        ))),
    }
}

type Stores = (
    Arc<dyn MetaStore>,
    Arc<dyn ObjectStore>,
    Option<Arc<dyn RedoLog>>,
);

fn open_stores(config: &DsConfig, state_dir: &Path) -> Outcome<Stores> {
    if config.store == StoreKind::Memory {
        tracing::warn!("objects are in memory: they end with this process");
        let options = MemOptions {
            capacity_bytes: config.memory_size.as_u64(),
            ..MemOptions::default()
        };
        // An earlier process's identity belongs to a store that is gone.
        let _ = std::fs::remove_file(state_dir.join(IDENTITY_NAME));
        return Ok((
            Arc::new(MemStore::new()),
            Arc::new(MemObjects::new(options)),
            None,
        ));
    }
    let options = meta_fjall::Options {
        cache_bytes: 32 * 1024 * 1024,
        journal_bytes: meta_fjall::JOURNAL_BYTES_MIN,
        memtable_bytes: 8 * 1024 * 1024,
        reserve_bytes: INDEX_RESERVE_BYTES,
        log_bytes: INDEX_LOG_BYTES,
    };
    let index = FjallStore::open(&state_dir.join("index"), options)
        .map_err(cannot("open the object index"))?;
    let objects = DirObjects::open(&state_dir.join("data"), objects_dir::Options::default())
        .map_err(cannot("open the object store"))?;
    let log = FileRedo::open(&state_dir.join(REDO_NAME), REDO_BYTES)
        .map_err(cannot("open the redo log"))?;
    Ok((Arc::new(index), Arc::new(objects), Some(Arc::new(log))))
}

/// Time since the machine was booted. It goes on while the machine is suspended.
fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

fn wall_time() -> NfsTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    NfsTime {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Joins when that was not done yet, and says how the MDS is reached from now on.
async fn enter_cluster(
    file: &Path,
    config: &DsConfig,
    nfsd: &Nfsd<Ds>,
    state_dir: &Path,
) -> Outcome<LinkConfig> {
    let identity_path = state_dir.join(IDENTITY_NAME);
    let tcp = config.advertised().iter();
    let rdma = config.rdma_advertised().iter();
    let advertise: Vec<NetAddr> = tcp
        .map(|a| rpc::UniversalAddress::tcp(*a).into())
        .chain(rdma.map(|a| rpc::UniversalAddress::rdma(*a).into()))
        .collect();
    let membership = match (nfsd.role().membership(), identity_path.exists()) {
        (Some(membership), true) => membership,
        (None, false) => join_now(file, config, nfsd, state_dir, advertise.clone()).await?,
        (Some(_), false) => {
            return Err(failed(format!(
                "the store in {} belongs to a cluster but {IDENTITY_NAME} is gone: restore that file",
                state_dir.display()
            )));
        }
        (None, true) => {
            return Err(failed(format!(
                "{} has an {IDENTITY_NAME} but its store is new: restore the store, or join as a new data \
                 server with an empty state_dir",
                state_dir.display()
            )));
        }
    };
    let identity = Identity::load(&identity_path).map_err(cannot("load this server's identity"))?;
    let tls = cluster_tls::client_config(&identity).map_err(cannot("set up TLS"))?;
    let connector = connector(tls);
    let named = if config.mds.is_empty() {
        read_mds_file(state_dir)?
    } else {
        config.mds.clone()
    };
    Ok(LinkConfig {
        membership,
        connector,
        mds: resolve(&named).await?,
        advertise,
        location: Text::cut(&config.location),
    })
}

fn connector(tls: rustls::ClientConfig) -> Arc<dyn Connector> {
    let context = Context::new(TransportLimits::default());
    Arc::new(TcpConnector::with_tls(context, Arc::new(tls)))
}

async fn join_now(
    file: &Path,
    config: &DsConfig,
    nfsd: &Nfsd<Ds>,
    state_dir: &Path,
    advertise: Vec<NetAddr>,
) -> Outcome<Membership> {
    let Some(text) = config.token()? else {
        return Err(usage(format!(
            "this data server has not joined a cluster: run `ropewalk token create` at the metadata server and set \
             `join_token` in {}",
            file.display()
        )));
    };
    let token = JoinToken::parse(&text)
        .map_err(|e| usage(format!("{}: `join_token`: {e}", file.display())))?;
    let in_token = token
        .addresses
        .0
        .iter()
        .map(|a| a.as_str().to_owned())
        .collect();
    let named: Vec<String> = if config.mds.is_empty() {
        in_token
    } else {
        config.mds.clone()
    };
    write_mds_file(state_dir, &named)?;
    let tls = cluster_tls::join_config(token.ca).map_err(cannot("set up TLS"))?;
    let connector = connector(tls);
    let join_config = JoinConfig {
        token: &token,
        connector: &*connector,
        mds: &resolve(&named).await?,
        advertise,
        identity_path: &state_dir.join(IDENTITY_NAME),
    };
    let membership = join(nfsd, join_config)
        .await
        .map_err(cannot("join the cluster"))?;
    tracing::info!(ds_id = membership.ds_id, "joined the cluster");
    Ok(membership)
}

/// Looks the MDS's names up.
async fn resolve(named: &[String]) -> Outcome<Vec<Address>> {
    let mut addresses = Vec::new();
    for name in named {
        let found = tokio::net::lookup_host(name.as_str())
            .await
            .map_err(cannot(format_args!("find the metadata server `{name}`")))?;
        let server_name = mds_name();
        addresses.extend(found.map(|address: SocketAddr| Address::Tls {
            address,
            server_name: server_name.clone(),
        }));
    }
    if addresses.is_empty() {
        return Err(usage(
            "no address of the metadata server is known: set `mds`",
        ));
    }
    Ok(addresses)
}

fn mds_name() -> String {
    cluster_tls::mds_name().to_str().into_owned()
}

fn write_mds_file(state_dir: &Path, named: &[String]) -> Outcome {
    let path = state_dir.join(MDS_FILE);
    let what = format!("write {}", path.display());
    let text = serde_json::to_vec(named).map_err(cannot(&what))?;
    let partial = path.with_extension("json.new");
    let write = || {
        let mut file = std::fs::File::create(&partial)?;
        std::io::Write::write_all(&mut file, &text)?;
        file.sync_all()?;
        std::fs::rename(&partial, &path)
    };
    write().map_err(cannot(&what))
}

fn read_mds_file(state_dir: &Path) -> Outcome<Vec<String>> {
    let path = state_dir.join(MDS_FILE);
    let what = format!(
        "read {} (or set `mds` in the configuration)",
        path.display()
    );
    let len = std::fs::metadata(&path).map_err(cannot(&what))?.len();
    if len > MDS_FILE_BYTES_MAX {
        return Err(failed(format!(
            "{} is no list of addresses",
            path.display()
        )));
    }
    let text = std::fs::read(&path).map_err(cannot(&what))?;
    serde_json::from_slice(&text).map_err(cannot(&what))
}

async fn tick(nfsd: Arc<Nfsd<Ds>>) {
    // It waits for the disk, so the clients' clock does not wait for it.
    let sync_records = async {
        loop {
            tokio::time::sleep(TICK).await;
            nfsd.role().tick().await;
        }
    };
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let expire = async {
        loop {
            ticks.tick().await;
            nfsd.expire().await;
            nfsd.clients().recall_slots();
        }
    };
    tokio::join!(sync_records, expire);
}

/// What the admin socket looks at.
struct View {
    nfsd: Arc<Nfsd<Ds>>,
    /// What RDMA runs on, where anything listens for it.
    rdma_provider: Option<&'static str>,
    /// As it was at the start.
    config: DsConfig,
    live: Arc<Live>,
    transport: TransportView,
    started: Instant,
}

fn handler(view: Arc<View>) -> Handler {
    Arc::new(move |request| {
        let view = Arc::clone(&view);
        Box::pin(async move {
            let value = match request {
                Request::Status => serde_json::to_value(ServerStatus::Ds(Box::new(view.status()))),
                Request::Reload { check } => {
                    serde_json::to_value(reload::run(&view.live, check).await?)
                }
                _ => {
                    let why = "this is a data server: ask the metadata server".to_owned();
                    return Err(Refusal::NotFound(why));
                }
            };
            value.map_err(|e| Refusal::Failed(e.to_string()))
        })
    })
}

impl Watched for View {
    fn snapshot(&self) -> ServerStatus {
        ServerStatus::Ds(Box::new(self.status()))
    }

    async fn health(&self) -> Result<(), String> {
        match self.nfsd.role().status().lease {
            LeaseState::Serving { .. } => Ok(()),
            other => Err(state_name(other).to_owned()),
        }
    }
}

const fn state_name(lease: LeaseState) -> &'static str {
    match lease {
        LeaseState::Serving { .. } => STATE_SERVING,
        LeaseState::CatchingUp => "catching up",
        LeaseState::Away => "away",
        LeaseState::Expelled => STATE_EXPELLED,
    }
}

impl View {
    fn status(&self) -> DsStatus {
        let s = self.nfsd.role().status();
        let counters = self.nfsd.counters();
        let named = [
            ("reads", s.reads),
            ("writes", s.writes),
            ("commits", s.commits),
            ("cold_reads", s.cold_reads),
            ("parts_compared", s.parts_compared),
            ("sizes_asked", s.sizes_asked),
            ("wrote_reports", s.wrote_reports),
            ("refused_forged", s.refusals.forged),
            ("refused_of_others", s.refusals.of_others),
            ("refused_fenced", s.refusals.fenced),
            ("refused_removed", s.refusals.removed),
            ("refused_rights", s.refusals.rights),
            ("refused_not_serving", s.refusals.not_serving),
            ("refused_stateids", s.refusals.stateids),
            ("objects_lost", s.objects_lost),
            ("io_errors", s.io_errors),
            ("no_space", s.no_space),
            ("store_copied_bytes", s.store_copied_bytes),
            ("floors", s.floors_count),
            ("compounds", counters.compounds.load(Relaxed)),
            ("replays", counters.replays.load(Relaxed)),
            (
                "reply_cache_bytes",
                self.nfsd.clients().lock().reply_cache_bytes(),
            ),
            ("malformed", counters.malformed.load(Relaxed)),
            ("refused", counters.refused.load(Relaxed)),
        ];
        DsStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            ds_id: s.ds_id,
            store_id: format!("{:016x}", s.store_id),
            state: state_name(s.lease).to_owned(),
            uptime_seconds: self.started.elapsed().as_secs(),
            listen: self.config.listen.clone(),
            rdma_provider: self.rdma_provider.map(str::to_owned),
            connections: self.transport.connections(),
            rdma_busiest: self.transport.rdma_busiest(),
            total_bytes: s.total_bytes,
            free_bytes: s.free_bytes,
            index_bytes: s.index_bytes,
            redo_used_bytes: s.redo_used_bytes,
            redo_capacity_bytes: s.redo_capacity_bytes,
            objects: s.objects_count,
            client_read_bytes: s.client_read_bytes,
            client_written_bytes: s.client_written_bytes,
            proxy_read_bytes: s.proxy_read_bytes,
            proxy_written_bytes: s.proxy_written_bytes,
            counters: named.map(|(name, n)| (name.to_owned(), n)).into(),
            operations: daemon::operations(counters),
            latency: crate::status::latency::rows(counters),
            transport: self.transport.named(),
        }
    }
}
