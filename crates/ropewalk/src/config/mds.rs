//! `mds.toml`.

use super::checks::{
    is_loopback, need_busy_poll, need_collector, need_connections, need_directory, need_distinct,
    need_idle_close, need_inline, need_listener, need_log, need_reachable,
};
use super::common::{
    Checked, ConfigError, Connections, StoreKind, TransportChoice, default_busy_poll_us,
    default_connections_max, default_nfs_listen, default_rdma_crc, default_rdma_inline,
    default_traces_every, exact_size, wrong,
};
use super::tables::{
    Access, AtimeName, ExportTable, ForeignTable, PlacementTable, RootTable, SquashName,
};
use crate::logging::LogFormat;
use crate::rdma_provider::ProviderChoice;
use crate::times::Length;
use ::fs::FOREIGN_POOL_MAX;
use ::server::exports::{Atime, ClientRule, EXPORT_RULES_MAX, ExportRule, Exports, Squash};
use bytesize::ByteSize;
use cluster_tls::OwnCert;
use namespace::INLINE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Smallest and largest stripe unit.
const STRIPE_UNIT_RANGE: std::ops::RangeInclusive<u64> = 4096..=1024 * 1024 * 1024;
/// Largest `mds_threshold`: what is larger is no small file, and the metadata server is no data server.
const MDS_THRESHOLD_MAX: u64 = 1024 * 1024;
/// Shortest and longest lease in seconds.
const LEASE_SECONDS_RANGE: std::ops::RangeInclusive<u64> = 1..=3600;
/// Shortest and longest time between signing keys.
const KEY_ROTATION_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(600)..=Duration::from_secs(365 * 86_400);
/// Shortest time after which a data server that is away is given up.
const REPLACE_AFTER_MIN: Duration = Duration::from_secs(10);
/// Least `fill_rate_max` that is a limit: a block per second.
const FILL_RATE_MIN: u64 = 64 * 1024;
/// Shortest time that layouts under an older key are left alone.
const KEY_OVERLAP_MIN: Duration = Duration::from_secs(60);
/// Longest domain name (RFC 1035 §2.3.4).
const DOMAIN_BYTES_MAX: usize = 255;

/// `ropewalk mds --config F`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MdsConfig {
    /// Directory of all durable state; made when it does not exist.
    pub state_dir: PathBuf,
    /// NFS listeners.
    #[serde(default = "default_nfs_listen")]
    pub listen: Vec<SocketAddr>,
    /// NFS listeners over RDMA, on port 20049 as a rule; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma_listen: Vec<SocketAddr>,
    /// What RDMA runs on.
    #[serde(default)]
    pub rdma_provider: ProviderChoice,
    /// Checksums over the frames of software iWARP, also when a peer could do without.
    #[serde(default = "default_rdma_crc")]
    pub rdma_crc: bool,
    /// Longest message over RDMA, and bytes of a receive: what is longer goes by chunks. Peers that say less get less.
    #[serde(default = "default_rdma_inline", serialize_with = "exact_size")]
    pub rdma_inline: ByteSize,
    /// Addresses that clients mount from; default `listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<SocketAddr>,
    /// What clients are told of data servers: addresses of which transports.
    #[serde(default)]
    pub data_transport: TransportChoice,
    /// How this server reaches data servers for proxied I/O.
    #[serde(default)]
    pub proxy_transport: TransportChoice,
    /// Listeners of the control program, for data servers.
    #[serde(default = "default_control_listen")]
    pub control_listen: Vec<SocketAddr>,
    /// Addresses that join tokens name; default `control_listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_advertise: Vec<SocketAddr>,
    /// Where metadata are kept.
    #[serde(default)]
    pub store: StoreKind,
    /// Lease of clients in seconds.
    #[serde(default = "default_lease_seconds")]
    pub lease_seconds: u64,
    /// Whether clients are granted delegations of files that nobody else uses.
    #[serde(default = "default_delegations")]
    pub delegations: bool,
    /// Whether clients that ask for it keep the times of files that they make, until they return the delegation (RFC 9754).
    #[serde(default)]
    pub delegated_times: bool,
    /// Copies of new files, each at another data server: 1 to 4.
    #[serde(default = "default_copies")]
    pub copies: u32,
    /// With fewer copies in sync writes wait, and reads go on: 1 to `copies`.
    #[serde(default = "default_copies_min")]
    pub copies_min: u32,
    /// A data server that is away for so long is given up: others get the copies that it had.
    #[serde(default = "default_replace_after")]
    pub replace_after: Length,
    /// Bytes per second at which each data server sends copies that are made anew or moved; 0 for no limit.
    #[serde(default = "default_fill_rate_max", serialize_with = "exact_size")]
    pub fill_rate_max: ByteSize,
    /// Stripe unit of new files.
    #[serde(default = "default_stripe_unit", serialize_with = "exact_size")]
    pub stripe_unit: ByteSize,
    /// Files below this size are written through the metadata server; 0 sends all to the data servers.
    #[serde(default = "default_mds_threshold", serialize_with = "exact_size")]
    pub mds_threshold: ByteSize,
    /// Largest file whose bytes lie in the metadata store; 0 sends those of all files to data servers.
    #[serde(default = "default_inline_max", serialize_with = "exact_size")]
    pub inline_max: ByteSize,
    /// How old the key that signs handles for data servers becomes before a new one takes over.
    #[serde(default = "default_key_rotation")]
    pub key_rotation: Length,
    /// How long a new key may sign before layouts under older ones are recalled.
    #[serde(default = "default_key_overlap")]
    pub key_overlap: Length,
    /// Worker threads; 0 means one for each core.
    #[serde(default)]
    pub workers: usize,
    /// Connections of clients; more are refused.
    #[serde(default = "default_connections_max")]
    pub connections_max: u32,
    /// Of those, connections of one address (one /64 of IPv6); default a quarter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_address_max: Option<u32>,
    /// Connections without a request for so long are closed; clients connect again when they need to. Never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_close: Option<Length>,
    /// Microseconds for which a thread with one busy connection asks its socket before it sleeps; 0 means never.
    #[serde(default = "default_busy_poll_us")]
    pub busy_poll_us: u32,
    /// Listeners of `/metrics` and `/health`; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_listen: Vec<SocketAddr>,
    /// Listeners of the administration API and the dashboard; none by default. Beyond loopback they use TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admin_listen: Vec<SocketAddr>,
    /// Host names and addresses by which browsers reach `admin_listen`: its certificate is good for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admin_names: Vec<String>,
    /// The certificate that `admin_listen` shows instead of one of the cluster's CA: a PEM file, with those that lead to its CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_cert: Option<PathBuf>,
    /// The key of `admin_cert`: a PEM file that only the server's user can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_key: Option<PathBuf>,
    /// What is logged, as in RUST_LOG, which counts without this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// What a line of the log is.
    #[serde(default)]
    pub log_format: LogFormat,
    /// A collector of OpenTelemetry, `http://HOST:PORT`, that gets traces of requests; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_endpoint: Option<String>,
    /// One request of so many is traced.
    #[serde(default = "default_traces_every")]
    pub traces_every: NonZeroU32,
    /// Who may mount. Required when a listener is not on loopback.
    #[serde(default, rename = "export", skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<ExportTable>,
    /// Whether NFSv3 is served as well, with MOUNT and locks (NLM) on the same port.
    #[serde(default)]
    pub nfs3: bool,
    /// Whether NFSv4.0 is served beside NFSv4.1 and NFSv4.2, without layouts.
    #[serde(default = "default_nfs40")]
    pub nfs40: bool,
    /// Whether NFSv3, MOUNT and NLM are registered with this machine's rpcbind.
    #[serde(default)]
    pub register_rpcbind: bool,
    /// Whether users have the groups that this machine knows, rather than the 16 at most that a client sends.
    #[serde(default)]
    pub manage_gids: bool,
    /// Domain of owners' names on the wire; without one owners are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The root directory of a new file system; later `ropewalk chown` and `ropewalk chmod` of `admin:/` change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootTable>,
    /// How new files come to their data servers.
    #[serde(default)]
    pub placement: PlacementTable,
    /// NFSv3 servers of others that have data of files.
    #[serde(default)]
    pub foreign: ForeignTable,
}

fn default_control_listen() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 2149))]
}

fn default_lease_seconds() -> u64 {
    60
}

fn default_delegations() -> bool {
    true
}

fn default_copies() -> u32 {
    1
}

fn default_copies_min() -> u32 {
    1
}

fn default_replace_after() -> Length {
    Length(Duration::from_secs(600))
}

fn default_fill_rate_max() -> ByteSize {
    ByteSize::b(0)
}

/// Refuses a rate that would never come to an end.
pub(crate) fn check_fill_rate(rate: ByteSize) -> Result<(), String> {
    match rate.as_u64() {
        0 | FILL_RATE_MIN.. => Ok(()),
        _ => Err("a rate must be 0 or at least 64 KiB per second".to_owned()),
    }
}

fn default_stripe_unit() -> ByteSize {
    ByteSize::mib(1)
}

fn default_mds_threshold() -> ByteSize {
    ByteSize::kib(32)
}

fn default_nfs40() -> bool {
    true
}

fn default_inline_max() -> ByteSize {
    ByteSize::kib(32)
}

fn default_key_rotation() -> Length {
    Length(Duration::from_secs(24 * 3600))
}

fn default_key_overlap() -> Length {
    Length(Duration::from_secs(3600))
}

fn need_copies(copies: u32, copies_min: u32) -> Result<(), ConfigError> {
    if !(1..=cluster::COPIES_MAX).contains(&copies) {
        return Err(wrong("`copies` must be between 1 and 4"));
    }
    if !(1..=copies).contains(&copies_min) {
        return Err(wrong("`copies_min` must be between 1 and `copies`"));
    }
    Ok(())
}

/// Most names of the API's certificate.
const ADMIN_NAMES_MAX: usize = 32;

fn need_admin_names(names: &[String]) -> Result<(), ConfigError> {
    let is_name = |name: &String| {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        let is_short = !name.is_empty() && name.len() <= DOMAIN_BYTES_MAX;
        is_short && name.chars().all(good) && !cluster_tls::is_own_name(name)
    };
    match names.len() <= ADMIN_NAMES_MAX && names.iter().all(is_name) {
        true => Ok(()),
        false => Err(wrong(format!(
            "`admin_names` must be at most {ADMIN_NAMES_MAX} host names or addresses, none below .ropewalk"
        ))),
    }
}

impl MdsConfig {
    /// The operator's certificate of the API, as its files are now.
    ///
    /// # Errors
    /// One sentence: what is wrong with the files.
    pub(crate) fn own_cert(&self) -> Result<Option<OwnCert>, String> {
        let (Some(cert), Some(key)) = (&self.admin_cert, &self.admin_key) else {
            return Ok(None);
        };
        let loaded = OwnCert::load(cert, key);
        loaded
            .map(Some)
            .map_err(|e| format!("`admin_cert`, `admin_key`: {e}"))
    }
}

fn need_pair(cert: Option<&Path>, key: Option<&Path>) -> Result<(), ConfigError> {
    match cert.is_some() == key.is_some() {
        true => Ok(()),
        false => Err(wrong("`admin_cert` and `admin_key` need each other")),
    }
}

fn need_pool(foreign: ForeignTable) -> Result<(), ConfigError> {
    match foreign.pool {
        0..=FOREIGN_POOL_MAX => Ok(()),
        _ => Err(wrong("`foreign.pool` must be at most 256")),
    }
}

impl Checked for MdsConfig {
    fn check(&self) -> Result<(), ConfigError> {
        need_listener("listen", &self.listen)?;
        need_listener("control_listen", &self.control_listen)?;
        need_distinct(&[
            ("listen", &self.listen),
            ("rdma_listen", &self.rdma_listen),
            ("control_listen", &self.control_listen),
            ("metrics_listen", &self.metrics_listen),
            ("admin_listen", &self.admin_listen),
        ])?;
        need_admin_names(&self.admin_names)?;
        need_pair(self.admin_cert.as_deref(), self.admin_key.as_deref())?;
        need_directory(&self.state_dir)?;
        need_reachable("control_advertise", self.control_advertised())?;
        need_connections(self.connections_max, self.connections_per_address_max)?;
        need_busy_poll(self.busy_poll_us)?;
        need_inline(self.rdma_inline)?;
        need_idle_close(self.idle_close)?;
        if !LEASE_SECONDS_RANGE.contains(&self.lease_seconds) {
            return Err(wrong("`lease_seconds` must be between 1 and 3600"));
        }
        let unit = self.stripe_unit.as_u64();
        if !STRIPE_UNIT_RANGE.contains(&unit) || !unit.is_power_of_two() {
            return Err(wrong(
                "`stripe_unit` must be a power of two from 4 KiB to 1 GiB",
            ));
        }
        need_copies(self.copies, self.copies_min)?;
        if self.replace_after.0 < REPLACE_AFTER_MIN {
            return Err(wrong("`replace_after` must be at least 10 s"));
        }
        check_fill_rate(self.fill_rate_max)
            .map_err(|why| wrong(format!("`fill_rate_max`: {why}")))?;
        if self.mds_threshold.as_u64() > MDS_THRESHOLD_MAX {
            return Err(wrong("`mds_threshold` must be at most 1 MiB"));
        }
        if self.inline_max.as_u64() > u64::from(INLINE_BYTES_MAX) {
            return Err(wrong("`inline_max` must be at most 64 KiB"));
        }
        need_pool(self.foreign)?;
        need_log(self.log.as_deref())?;
        need_collector(self.traces_endpoint.as_deref())?;
        let mut listeners = self.listen.iter().chain(&self.rdma_listen);
        let open = listeners.find(|a| !is_loopback(a.ip()));
        if let (Some(open), true) = (open, self.exports.is_empty()) {
            return Err(wrong(format!(
                "`listen` or `rdma_listen` has {open}, beyond loopback, but there is no [[export]]: say which networks may mount, \
                 for example [[export]] with clients = \"10.0.0.0/8\""
            )));
        }
        need_reachable("advertise", self.advertised())?;
        if let Some(domain) = &self.domain {
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            if domain.is_empty() || domain.len() > DOMAIN_BYTES_MAX || !domain.chars().all(good) {
                return Err(wrong(
                    "`domain` must be a domain name, as in \"example.org\"",
                ));
            }
        }
        if !KEY_ROTATION_RANGE.contains(&self.key_rotation.0) {
            return Err(wrong("`key_rotation` must be between 10m and 365d"));
        }
        if self.key_overlap.0 < KEY_OVERLAP_MIN || self.key_overlap.0 > self.key_rotation.0 {
            return Err(wrong(
                "`key_overlap` must be at least 1m, and no longer than `key_rotation`",
            ));
        }
        self.export_list().map(drop)
    }
}

impl MdsConfig {
    /// Where traces go, and one of how many requests.
    pub(crate) fn traces(&self) -> (Option<&str>, NonZeroU32) {
        (self.traces_endpoint.as_deref(), self.traces_every)
    }

    /// What is configured of connections.
    pub(crate) fn connections(&self) -> Connections {
        Connections {
            max: self.connections_max,
            per_address_max: self.connections_per_address_max,
            busy_poll_us: self.busy_poll_us,
            idle_close: self.idle_close.map(|length| length.0),
        }
    }

    /// All defaults, with state in `state_dir`.
    pub(crate) fn at(state_dir: &Path) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            listen: default_nfs_listen(),
            rdma_listen: Vec::new(),
            rdma_provider: ProviderChoice::default(),
            rdma_crc: default_rdma_crc(),
            rdma_inline: default_rdma_inline(),
            data_transport: TransportChoice::default(),
            proxy_transport: TransportChoice::default(),
            control_listen: default_control_listen(),
            control_advertise: Vec::new(),
            advertise: Vec::new(),
            key_rotation: default_key_rotation(),
            key_overlap: default_key_overlap(),
            store: StoreKind::default(),
            lease_seconds: default_lease_seconds(),
            delegations: default_delegations(),
            delegated_times: false,
            stripe_unit: default_stripe_unit(),
            copies: default_copies(),
            copies_min: default_copies_min(),
            replace_after: default_replace_after(),
            fill_rate_max: default_fill_rate_max(),
            mds_threshold: default_mds_threshold(),
            inline_max: default_inline_max(),
            workers: 0,
            connections_max: default_connections_max(),
            connections_per_address_max: None,
            idle_close: None,
            busy_poll_us: default_busy_poll_us(),
            metrics_listen: Vec::new(),
            admin_listen: Vec::new(),
            admin_names: Vec::new(),
            admin_cert: None,
            admin_key: None,
            log: None,
            log_format: LogFormat::default(),
            traces_endpoint: None,
            traces_every: default_traces_every(),
            exports: Vec::new(),
            nfs3: false,
            nfs40: default_nfs40(),
            register_rpcbind: false,
            manage_gids: false,
            domain: None,
            root: None,
            placement: PlacementTable::default(),
            foreign: ForeignTable::default(),
        }
    }

    /// The root directory of a new file system: as `[root]` says. Without it everybody can make files there, as in /tmp,
    /// unless root can come in by some export and decide: else nobody could ever write.
    pub(crate) fn root_of_new(&self) -> RootTable {
        let by_exports = || {
            if self.squashes_root() {
                RootTable::open_to_all()
            } else {
                RootTable::default()
            }
        };
        self.root.unwrap_or_else(by_exports)
    }

    /// Whether no client can write as root.
    pub(crate) fn squashes_root(&self) -> bool {
        let mut writable = self.exports.iter().filter(|e| e.access == Access::Rw);
        writable.all(|export| export.squash != SquashName::None)
    }

    /// Addresses that clients mount from.
    pub(crate) fn advertised(&self) -> &[SocketAddr] {
        if self.advertise.is_empty() {
            &self.listen
        } else {
            &self.advertise
        }
    }

    /// Addresses that join tokens name.
    pub(crate) fn control_advertised(&self) -> &[SocketAddr] {
        if self.control_advertise.is_empty() {
            &self.control_listen
        } else {
            &self.control_advertise
        }
    }

    /// The export list; without a table, this machine only.
    pub(crate) fn export_list(&self) -> Result<Exports, ConfigError> {
        if self.exports.is_empty() {
            return Ok(Exports::loopback(Squash::Root));
        }
        if self.exports.len() > EXPORT_RULES_MAX {
            return Err(wrong("more than 1024 [[export]] tables"));
        }
        let rule = |t: &ExportTable| {
            let clients: ClientRule = t
                .clients
                .parse()
                .map_err(|e| wrong(format!("[[export]] clients: {e}")))?;
            Ok(ExportRule {
                clients,
                read_write: t.access == Access::Rw,
                squash: match t.squash {
                    SquashName::Root => Squash::Root,
                    SquashName::All => Squash::All,
                    SquashName::None => Squash::None,
                },
                anonymous_uid: t.anonymous_uid,
                anonymous_gid: t.anonymous_gid,
                atime: match t.atime {
                    AtimeName::Relatime => Atime::Relatime,
                    AtimeName::Off => Atime::Off,
                },
            })
        };
        self.exports
            .iter()
            .map(rule)
            .collect::<Result<Vec<_>, _>>()
            .map(Exports::new)
    }
}
