//! What the administration looks at: one metadata server with all that it counts, and what it does by order.

use super::refusals::{failed, of_cluster};
use super::reload::Live;
use super::rows::{clash_row, filling_row, foreign_rows, groups, place_row, row};
use crate::admin::Refusal;
use crate::config::MdsConfig;
use crate::daemon::{self, TransportView};
use crate::expel::Loss;
use crate::metrics::Watched;
use crate::scrub::DamagedFile;
use crate::status::lag::LagRow;
use crate::status::redundancy::PlacesSummary;
use crate::status::to_level::ToLevel;
use crate::status::{DataServerRow, KeyRow, MdsStatus, PlaceRow, ServerStatus};
use crate::token::{Token, WaitingToken};
use ::admin::Samples;
use ::cluster::{Cluster, KeyState, ServerState, add_token, expel, expel_spare, waiting_tokens};
use ::fs::{
    Fs, FsStatus, NamedFile, REMOVALS_COUNTED_MAX, file_paths, lost_files, removals_waiting,
};
use cluster_tls::{AdminCerts, ClusterCa, JoinToken};
use control::JoinSecret;
use mds::Mds;
use namespace::{Cred, FileId, Op, PAGE_MAX, Time};
use serde::Serialize;
use serde_json::Value;
use server::Nfsd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use transport::Context;

/// Walks over the name space at once: each may look at millions of names.
static WALKS: Semaphore = Semaphore::const_new(2);

/// Bytes of a token's hash that are shown.
const HASH_BYTES_SHOWN: usize = 6;

/// What the admin socket looks at.
pub(super) struct View {
    pub(super) nfsd: Arc<Nfsd<Mds>>,
    pub(super) ca: Arc<ClusterCa>,
    /// What RDMA runs on, where anything listens for it.
    pub(super) rdma_provider: Option<&'static str>,
    /// As it was at the start.
    pub(super) config: MdsConfig,
    pub(super) live: Arc<Live>,
    /// What the API shows, where it listens.
    pub(super) certs: Option<Arc<AdminCerts>>,
    pub(super) transport: TransportView,
    pub(super) control: Context,
    pub(super) started: Instant,
    /// Who follows by the API, and its tunnels.
    pub(super) samples: Samples,
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
    pub(super) async fn expel(&self, ds_id: u32, yes_lose_data: bool) -> Result<(), Refusal> {
        let (cluster, why) = (self.cluster(), "expelled by an administrator");
        let done = match yes_lose_data {
            true => expel(cluster, ds_id, why).await,
            false => expel_spare(cluster, ds_id, why).await,
        };
        done.map_err(of_cluster)
    }

    pub(super) fn fs(&self) -> &Arc<Fs> {
        self.nfsd.role().fs()
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.fs().cluster()
    }

    pub(super) async fn create_token(&self, ttl_seconds: u64) -> Result<Token, Refusal> {
        let secret = cluster_tls::random_bytes().map_err(failed)?;
        let addresses: Vec<String> = self
            .config
            .control_advertised()
            .iter()
            .map(ToString::to_string)
            .collect();
        let token = JoinToken::new(&addresses, self.ca.fingerprint(), JoinSecret(secret))
            .map_err(|_| "`control_advertise` has no address, or more than 8".to_owned())?;
        let ttl_ms = ttl_seconds.saturating_mul(1000);
        add_token(self.cluster(), &token.secret, ttl_ms)
            .await
            .map_err(of_cluster)?;
        tracing::info!(ttl_seconds, "made a join token");
        Ok(Token {
            token: token.to_text(),
        })
    }

    pub(super) fn tokens(&self) -> Result<Vec<WaitingToken>, Refusal> {
        let waiting = waiting_tokens(self.cluster()).map_err(failed)?;
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

    fn cert_not_after_s(&self) -> Option<i64> {
        self.certs.as_ref()?.own_not_after_s()
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
        // Zero says that there is none.
        let cert_until = self.cert_not_after_s().unwrap_or(0);
        let cert_until = u64::try_from(cert_until).unwrap_or(0);
        let named = [
            ("admin_certificate_expiry_timestamp_seconds", cert_until),
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
            ("event_streams", count(self.samples.streams_open())),
            ("tunnels", count(self.samples.tunnels_open())),
            ("tunnels_opened", self.samples.tunnels_opened()),
            ("tunnels_refused", self.samples.tunnels_refused()),
            (
                "admin_connections_refused",
                self.samples.connections_refused(),
            ),
        ];
        let left = status.cluster.full_redundancy_seconds;
        let left = left.map(|seconds| ("full_redundancy_seconds", seconds));
        let parts = places.lacking_parts.map(|n| ("parts_under_replicated", n));
        let all = named.into_iter().chain(left).chain(parts);
        all.map(|(name, n)| (name.to_owned(), n)).collect()
    }

    pub(super) fn status(&self) -> MdsStatus {
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
        let data_servers: Vec<DataServerRow> = cluster.servers.iter().map(row).collect();
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
            admin_cert_not_after: self.cert_not_after_s(),
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
            to_level: ToLevel::of(&data_servers),
            data_servers,
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
    pub(super) async fn accept_state(&self) -> Result<usize, Refusal> {
        let count = self.fs().cluster().accept_state().await;
        count.map_err(of_cluster)
    }

    /// What would be lost with a data server.
    pub(super) async fn loss(&self, ds_id: u32) -> Result<Loss, Refusal> {
        let places = self.cluster().last_copies(ds_id).map_err(of_cluster)?;
        let (nfsd, places_count) = (Arc::clone(&self.nfsd), count(places.len()));
        let turn = WALKS.acquire().await.map_err(failed)?;
        let walk = move || {
            let _turn = turn;
            lost_files(nfsd.role().fs(), &places)
        };
        let walked = tokio::task::spawn_blocking(walk).await;
        let found = walked.map_err(failed)?.map_err(failed)?;
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
    pub(super) async fn paths(&self, files: Vec<u64>) -> Result<Vec<DamagedFile>, Refusal> {
        let nfsd = Arc::clone(&self.nfsd);
        let turn = WALKS.acquire().await.map_err(failed)?;
        let look = move || {
            let _turn = turn;
            file_paths(nfsd.role().fs(), &files)
        };
        let looked = tokio::task::spawn_blocking(look).await;
        let found = looked.map_err(failed)?.map_err(failed)?;
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

/// What an answer is as JSON.
pub(super) fn json(answer: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(answer).map_err(failed)
}

/// The time of this machine.
pub(super) fn wall_time() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}
