//! `ropewalk mds`: the metadata server as a process.
//!
//! # Ownership
//! `state_dir` holds `process.lock`, `admin.sock`, `admin.pem`, `ca.pem` and the store in `meta`. The service is shared by the worker
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
mod certs;
mod desk;
mod health;
mod orders;
mod readings;
mod refusals;
mod reload;
mod rows;
mod view;

use crate::admin::AdminSocket;
use crate::cli::DaemonArgs;
use crate::config::{self, MdsConfig, RootTable, StoreKind};
use crate::daemon::{self, STOP_MAX, Serving, Signals, StateDir};
use crate::failure::{Outcome, cannot, failed, usage};
use crate::listeners::{self, Keeper, Wanted};
use crate::logging;
use crate::metrics;
use crate::nss::NameService;
use crate::older_nfs::OlderNfs;
use crate::out;
use crate::rdma::{self, RdmaListen};
use crate::traces;
use ::admin::Samples;
use ::cluster::{ControlService, KeyTimes, tls_peer};
use ::fs::{COPY_ASYNC_ABOVE_BYTES, DataConfig};
use cluster_tls::{CertRole, ClusterCa};
use desk::MdsDesk;
use mds::identities::{Directory, IdentityConfig};
use mds::{Mds, MdsConfig as Parts};
use meta::{MemStore, MetaError, MetaStore};
use meta_fjall::FjallStore;
use namespace::{Cred, FileId, NamespaceLimits, Op, SetAttr};
use reload::Live;
use server::Nfsd;
use state::DelegationLimits;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use systemd::{Manager, PassedFd};
use tokio::task::JoinHandle;
use transport::tcp::Listener;
use transport::workers::Shutdown;
use transport::{AnyConnector, Context, TransportLimits};
use view::{View, wall_time};

/// Lease of data servers: how long a lost one delays what must be known everywhere.
const DS_LEASE_MS: u32 = 5_000;
/// `change` of a root directory that nobody has touched.
const ROOT_CHANGE_AT_FORMAT: u64 = 1;
/// How often time-driven work is done.
const TICK: Duration = Duration::from_secs(1);
/// How often the store is looked at.
const STORE_LOOK: Duration = Duration::from_secs(1);

/// `ropewalk mds`.
pub(crate) fn run(args: &DaemonArgs) -> Outcome {
    let passed = systemd::take_passed();
    let config: MdsConfig = config::load(&args.config)?;
    if args.check_config {
        config.own_cert().map_err(usage)?;
        return out::line(&format!(
            "{} is a valid configuration",
            args.config.display()
        ));
    }
    logging::init_logging(config.log_format);
    logging::set_log(config.log.as_deref()).map_err(usage)?;
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
    let (mut signals, hangup) = (Signals::take()?, crate::reload::hangup()?);
    let manager = Manager::from_environment().map_err(cannot("reach NOTIFY_SOCKET"))?;
    let state = StateDir::take(&config.state_dir)?;
    let sockets = Sockets::bind(args, config, &manager, passed)?;
    let change = format!("change `rdma_listen` in {}", args.config.display());
    let (wish, addresses) = (config.rdma(), &config.rdma_listen);
    let rdma = RdmaListen::reserve(wish, addresses, sockets.rdma, &change)?;
    let (rdma_provider, workers) = (rdma.provider(), sockets.nfs.len());
    let context = Context::new(daemon::transport_limits(&config.connections()));
    let control_context = Context::new(TransportLimits::default());
    let store = open_store(config, state.path())?;
    let nfsd = open_mds(config, &store, &control_context).await?;
    let _traces = traces::begin("ropewalk-mds", config.traces(), nfsd.traces())?;
    let ca = Arc::new(open_ca(config, state.path(), &nfsd)?);
    let certs = certs::open(config, state.path(), &ca, &sockets.admin)?;

    let (shutdown, control_shutdown) = (Shutdown::new(), Shutdown::new());
    let control = (sockets.control, control_context.clone());
    let control_port = serve_control(&nfsd, &ca, control, &control_shutdown)?;
    let socket = AdminSocket::bind(state.path())?;
    let older = OlderNfs::new(config, &nfsd, &control_context);
    let all = older.beside(&nfsd);
    let serving = Serving::start("nfs", sockets.nfs, rdma, all, &context, &shutdown)?;
    let view = Arc::new(View {
        nfsd: Arc::clone(&nfsd),
        ca,
        config: config.clone(),
        live: Live::new(&nfsd, &context, &manager, certs.clone(), args, config),
        certs: certs.clone(),
        rdma_provider,
        transport: serving.transport(),
        control: control_context,
        started: Instant::now(),
        samples: Samples::default(),
    });
    let desk = MdsDesk::new(Arc::clone(&view), context.sibling());
    let admin = desk.serve(socket, sockets.admin, certs)?;
    reload::on_hangup(hangup, Arc::clone(&view.live));
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
    /// For software iWARP, as many; none where a device serves.
    rdma: Vec<TcpListener>,
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
        let rdma = match rdma::is_by_software(config.rdma(), &config.rdma_listen)? {
            true => config.rdma_listen.clone(),
            false => Vec::new(),
        };
        let all = [
            ("listen", &config.listen, workers),
            ("rdma_listen", &rdma, workers),
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
        let [nfs, rdma, control, metrics, admin] = wanted;
        let nfs = listeners::by_worker(bind(nfs)?, workers);
        let rdma = bind(rdma)?.into_iter().flatten();
        Ok(Self {
            nfs,
            rdma: rdma.map(Listener::into_socket).collect(),
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
    (listeners, context): (Vec<Listener>, Context),
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
                .map_err(|_| usage("`stripe_unit` is too large"))?,
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
    prepare_root(&nfsd, config).await?;
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
            "only root can make files in the root directory, and every [[export]] squashes root: give it an \
             owner with `ropewalk chown UID:GID admin:/`"
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
