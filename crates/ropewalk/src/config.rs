//! The TOML configuration of the daemons: what may be said, the defaults, and one clear sentence for
//! everything that is wrong.
//!
//! Parsing knows no running server: [`MdsConfig`] and [`DsConfig`] are checked values, ready to use. Unknown keys are
//! errors, because a misspelt limit that is ignored is worse than a refused start.

use crate::rdma::ProviderChoice;
use crate::times::Length;
use bytesize::ByteSize;
use cluster_tls::JoinToken;
use mds::exports::{ANONYMOUS_ID, Clients, ExportRule, Exports, Squash};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the largest configuration file that is read.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Smallest and largest stripe unit.
const STRIPE_UNIT_RANGE: std::ops::RangeInclusive<u64> = 4096..=1024 * 1024 * 1024;
/// Largest `mds_threshold`: what is larger is no small file, and the metadata server is no data server.
const MDS_THRESHOLD_MAX: u64 = 1024 * 1024;
/// Fewest and most connections of clients.
const CONNECTIONS_RANGE: std::ops::RangeInclusive<u32> = 1..=1_000_000;
/// Shortest and longest lease in seconds.
const LEASE_SECONDS_RANGE: std::ops::RangeInclusive<u64> = 1..=3600;

/// Shortest and longest time between signing keys.
const KEY_ROTATION_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(600)..=Duration::from_secs(365 * 86_400);
/// Shortest time that layouts under an older key are left alone.
const KEY_OVERLAP_MIN: Duration = Duration::from_secs(60);

/// A configuration that cannot be used; the text says which file, what and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError(String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

fn wrong(text: impl Into<String>) -> ConfigError {
    ConfigError(text.into())
}

/// Which transport a path takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TransportChoice {
    /// RDMA where the other side offers it, else TCP.
    #[default]
    Auto,
    /// RDMA and nothing else.
    Rdma,
    /// TCP and nothing else.
    Tcp,
}

impl From<TransportChoice> for transport::Preference {
    fn from(choice: TransportChoice) -> Self {
        match choice {
            TransportChoice::Auto => Self::Auto,
            TransportChoice::Rdma => Self::Rdma,
            TransportChoice::Tcp => Self::Tcp,
        }
    }
}

/// Where state is kept: files, or memory that a restart empties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// In files under `state_dir`.
    #[default]
    Disk,
    /// In memory: gone when the process ends.
    Memory,
}

/// One `[[export]]` table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportTable {
    /// `*`, an address, or ADDRESS/BITS.
    pub clients: String,
    /// `rw` or `ro`.
    #[serde(default)]
    pub access: Access,
    /// `root` (default), `all` or `none`.
    #[serde(default)]
    pub squash: SquashName,
    /// uid of squashed callers.
    #[serde(default = "anonymous")]
    pub anonymous_uid: u32,
    /// gid of squashed callers.
    #[serde(default = "anonymous")]
    pub anonymous_gid: u32,
}

fn anonymous() -> u32 {
    ANONYMOUS_ID
}

/// `access` of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Read and write.
    #[default]
    Rw,
    /// Read only.
    Ro,
}

/// `squash` of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SquashName {
    /// Root becomes anonymous.
    #[default]
    Root,
    /// Everyone becomes anonymous.
    All,
    /// No one does.
    None,
}

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
    /// Stripe unit of new files.
    #[serde(default = "default_stripe_unit", serialize_with = "exact_size")]
    pub stripe_unit: ByteSize,
    /// Files below this size are written through the metadata server; 0 sends all to the data servers.
    #[serde(default = "default_mds_threshold", serialize_with = "exact_size")]
    pub mds_threshold: ByteSize,
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
    /// Listeners of `/metrics` and `/health`; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_listen: Vec<SocketAddr>,
    /// Who may mount. Required when a listener is not on loopback.
    #[serde(default, rename = "export", skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<ExportTable>,
    /// Whether users have the groups that this machine knows, rather than the 16 at most that a client sends.
    #[serde(default)]
    pub manage_gids: bool,
    /// Domain of owners' names on the wire; without one owners are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The root directory of a new file system; later it is changed with chown and chmod.
    #[serde(default)]
    pub root: RootTable,
    /// How new files come to their data servers.
    #[serde(default)]
    pub placement: PlacementTable,
}

/// The `[placement]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlacementTable {
    /// When the objects of a new file are made.
    pub create: CreateChoice,
}

/// When the objects of a new file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CreateChoice {
    /// By the first write to each data server.
    #[default]
    Lazy,
    /// With the file, on all of its data servers.
    Eager,
}

impl From<CreateChoice> for mds::data::Creation {
    fn from(choice: CreateChoice) -> Self {
        match choice {
            CreateChoice::Lazy => Self::Lazy,
            CreateChoice::Eager => Self::Eager,
        }
    }
}

/// The `[root]` table: owner and mode of the root directory when the file system is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RootTable {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits as an octal string, for example "0755".
    pub mode: OctalMode,
}

impl Default for RootTable {
    fn default() -> Self {
        Self {
            uid: 0,
            gid: 0,
            mode: OctalMode(0o755),
        }
    }
}

impl RootTable {
    /// A root directory in which whoever starts a private cluster can write: his own, or with root, who is squashed,
    /// one that everybody can write to as to /tmp.
    pub(crate) fn for_invoker() -> Self {
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        if uid.is_root() {
            return Self {
                mode: OctalMode(0o1777),
                ..Self::default()
            };
        }
        Self {
            uid: uid.as_raw(),
            gid: gid.as_raw(),
            ..Self::default()
        }
    }
}

/// Permission bits, written as octal text: TOML numbers with a leading zero are errors, and without one a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct OctalMode(pub u32);

impl TryFrom<String> for OctalMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mode = u32::from_str_radix(&text, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777);
        mode.map(Self)
            .ok_or_else(|| format!("`{text}` is no mode: write octal digits, as in \"0755\""))
    }
}

impl From<OctalMode> for String {
    fn from(mode: OctalMode) -> Self {
        format!("{:04o}", mode.0)
    }
}

/// `ropewalk ds --config F`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DsConfig {
    /// Directory of all durable state; made when it does not exist.
    pub state_dir: PathBuf,
    /// Where objects are kept.
    #[serde(default)]
    pub store: StoreKind,
    /// Bytes that a memory store holds.
    #[serde(default = "default_memory_size", serialize_with = "exact_size")]
    pub memory_size: ByteSize,
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
    /// Addresses that clients are told; default `listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<SocketAddr>,
    /// Addresses over RDMA that clients are told; default `rdma_listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma_advertise: Vec<SocketAddr>,
    /// Control addresses of the MDS, HOST:PORT each; default those of the join token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mds: Vec<String>,
    /// Join token from `ropewalk token create`; needed until the server has joined.
    #[serde(default)]
    pub join_token: Option<String>,
    /// File that holds the join token, instead of `join_token`.
    #[serde(default)]
    pub join_token_file: Option<PathBuf>,
    /// Worker threads; 0 means one for each core.
    #[serde(default)]
    pub workers: usize,
    /// Connections of clients; more are refused.
    #[serde(default = "default_connections_max")]
    pub connections_max: u32,
    /// Of those, connections of one address (one /64 of IPv6); default a quarter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_address_max: Option<u32>,
    /// Networks that may connect, the metadata server's included; everybody by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Listeners of `/metrics` and `/health`; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_listen: Vec<SocketAddr>,
}

/// Writes a size so that reading it gives the same: whole MiB or KiB, or else bytes.
fn exact_size<S: serde::Serializer>(size: &ByteSize, out: S) -> Result<S::Ok, S::Error> {
    let bytes = size.as_u64();
    let text = if bytes.is_multiple_of(1 << 20) {
        format!("{}MiB", bytes >> 20)
    } else if bytes.is_multiple_of(1 << 10) {
        format!("{}KiB", bytes >> 10)
    } else {
        format!("{bytes}B")
    };
    out.serialize_str(&text)
}

const fn default_rdma_crc() -> bool {
    true
}

fn default_nfs_listen() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 2049))]
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

fn default_stripe_unit() -> ByteSize {
    ByteSize::mib(1)
}

fn default_mds_threshold() -> ByteSize {
    ByteSize::kib(32)
}

fn default_key_rotation() -> Length {
    Length(Duration::from_secs(24 * 3600))
}

fn default_key_overlap() -> Length {
    Length(Duration::from_secs(3600))
}

/// `connections_max` when a configuration does not say.
pub(crate) fn default_connections_max() -> u32 {
    transport::Limits::CONNECTIONS_MAX_DEFAULT
}

fn default_memory_size() -> ByteSize {
    ByteSize::gib(4)
}

/// Reads and checks a configuration file.
///
/// # Errors
/// One sentence that names the file.
pub(crate) fn load<T: for<'de> Deserialize<'de> + Checked>(path: &Path) -> Result<T, ConfigError> {
    let at = |what: String| wrong(format!("{}: {what}", path.display()));
    let meta = std::fs::metadata(path).map_err(|e| at(format!("cannot read: {e}")))?;
    if meta.len() > CONFIG_BYTES_MAX {
        return Err(at(format!("{} bytes is no configuration", meta.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|e| at(format!("cannot read: {e}")))?;
    let config: T = toml::from_str(&text).map_err(|e| at(syntax(&text, &e)))?;
    config.check().map_err(|e| at(e.0))?;
    Ok(config)
}

/// One line for an error of the parser: where, which key, what.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    let Some(start) = error.span().map(|span| span.start.min(text.len())) else {
        return message;
    };
    let before = text.get(..start).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    match line.split_once('=') {
        Some((key, _)) => format!("line {number}, `{}`: {message}", key.trim()),
        None => format!("line {number}: {message}"),
    }
}

/// A configuration whose values can contradict each other.
pub(crate) trait Checked {
    /// Refuses what no server can run with.
    ///
    /// # Errors
    /// One sentence.
    fn check(&self) -> Result<(), ConfigError>;
}

fn need_listener(key: &str, listen: &[SocketAddr]) -> Result<(), ConfigError> {
    if listen.is_empty() {
        return Err(wrong(format!(
            "`{key}` is empty: name at least one ADDRESS:PORT"
        )));
    }
    Ok(())
}

/// Each listener once, and none of them twice under two keys.
fn need_distinct(lists: &[(&str, &[SocketAddr])]) -> Result<(), ConfigError> {
    let mut seen: Vec<(&str, SocketAddr)> = Vec::new();
    for (key, list) in lists {
        for address in list.iter().filter(|a| a.port() != 0) {
            match seen.iter().find(|(_, other)| other == address) {
                Some((other, _)) if other == key => {
                    return Err(wrong(format!("`{key}` has {address} twice")));
                }
                Some((other, _)) => {
                    return Err(wrong(format!("{address} is in `{other}` and in `{key}`")));
                }
                None => seen.push((key, *address)),
            }
        }
    }
    Ok(())
}

/// A directory that is there, or can be made: the nearest one above it that exists is a directory.
fn need_directory(dir: &Path) -> Result<(), ConfigError> {
    let above = dir.ancestors().find(|a| a.symlink_metadata().is_ok());
    match above.map(|a| (a, a.metadata())) {
        Some((a, Ok(m))) if !m.is_dir() => Err(wrong(format!(
            "`state_dir` cannot be {}: {} is no directory",
            dir.display(),
            a.display()
        ))),
        Some((a, Err(e))) => Err(wrong(format!(
            "`state_dir` cannot be {}: {}: {e}",
            dir.display(),
            a.display()
        ))),
        _ => Ok(()),
    }
}

fn need_connections(connections_max: u32, per_address_max: Option<u32>) -> Result<(), ConfigError> {
    if CONNECTIONS_RANGE.contains(&connections_max) {
        return match per_address_max {
            Some(max) if max == 0 || max > connections_max => Err(wrong(
                "`connections_per_address_max` must be at least 1, and no more than `connections_max`",
            )),
            _ => Ok(()),
        };
    }
    let (least, most) = (CONNECTIONS_RANGE.start(), CONNECTIONS_RANGE.end());
    Err(wrong(format!(
        "`connections_max` must be between {least} and {most}"
    )))
}

/// Longest domain name (RFC 1035 §2.3.4).
const DOMAIN_BYTES_MAX: usize = 255;

/// Addresses that others can connect to.
fn need_reachable(key: &str, addresses: &[SocketAddr]) -> Result<(), ConfigError> {
    match addresses
        .iter()
        .find(|a| a.ip().is_unspecified() || a.port() == 0)
    {
        Some(a) => Err(wrong(format!(
            "others cannot connect to {a}: set `{key}` to addresses with a host and a port"
        ))),
        None => Ok(()),
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
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
        ])?;
        need_directory(&self.state_dir)?;
        need_reachable("control_advertise", self.control_advertised())?;
        need_connections(self.connections_max, self.connections_per_address_max)?;
        if !LEASE_SECONDS_RANGE.contains(&self.lease_seconds) {
            return Err(wrong("`lease_seconds` must be between 1 and 3600"));
        }
        let unit = self.stripe_unit.as_u64();
        if !STRIPE_UNIT_RANGE.contains(&unit) || !unit.is_multiple_of(4096) {
            return Err(wrong(
                "`stripe_unit` must be a multiple of 4096 bytes, at most 1 GiB",
            ));
        }
        if self.mds_threshold.as_u64() > MDS_THRESHOLD_MAX {
            return Err(wrong("`mds_threshold` must be at most 1 MiB"));
        }
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
    /// Most connections of clients, and of one address.
    pub(crate) fn connections(&self) -> (u32, Option<u32>) {
        (self.connections_max, self.connections_per_address_max)
    }

    /// All defaults, with state in `state_dir`.
    pub(crate) fn at(state_dir: &Path) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            listen: default_nfs_listen(),
            rdma_listen: Vec::new(),
            rdma_provider: ProviderChoice::default(),
            rdma_crc: default_rdma_crc(),
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
            stripe_unit: default_stripe_unit(),
            mds_threshold: default_mds_threshold(),
            workers: 0,
            connections_max: default_connections_max(),
            connections_per_address_max: None,
            metrics_listen: Vec::new(),
            exports: Vec::new(),
            manage_gids: false,
            domain: None,
            root: RootTable::default(),
            placement: PlacementTable::default(),
        }
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
        if self.exports.len() > mds::exports::EXPORT_RULES_MAX {
            return Err(wrong("more than 1024 [[export]] tables"));
        }
        let rule = |t: &ExportTable| {
            let clients: Clients = t
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
            })
        };
        self.exports
            .iter()
            .map(rule)
            .collect::<Result<Vec<_>, _>>()
            .map(Exports::new)
    }
}

impl Checked for DsConfig {
    fn check(&self) -> Result<(), ConfigError> {
        need_listener("listen", &self.listen)?;
        need_distinct(&[
            ("listen", &self.listen),
            ("rdma_listen", &self.rdma_listen),
            ("metrics_listen", &self.metrics_listen),
        ])?;
        need_directory(&self.state_dir)?;
        need_reachable("advertise", self.advertised())?;
        need_reachable("rdma_advertise", self.rdma_advertised())?;
        let told = self.advertised().len() + self.rdma_advertised().len();
        if told > control::ADDRESSES_MAX as usize {
            return Err(wrong(
                "`advertise` and `rdma_advertise` have more than 16 addresses",
            ));
        }
        if self.rdma_listen.is_empty() && !self.rdma_advertise.is_empty() {
            return Err(wrong(
                "`rdma_advertise` without `rdma_listen`: nobody would answer there",
            ));
        }
        need_connections(self.connections_max, self.connections_per_address_max)?;
        let no_port = |m: &&String| {
            m.rsplit_once(':')
                .is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err())
        };
        if let Some(address) = self.mds.iter().find(no_port) {
            return Err(wrong(format!("`mds` has {address:?}: write HOST:PORT")));
        }
        if self.mds.len() > cluster_tls::TOKEN_ADDRESSES_MAX as usize {
            return Err(wrong("`mds` has more than 8 addresses"));
        }
        if self.join_token.is_some() && self.join_token_file.is_some() {
            return Err(wrong("set `join_token` or `join_token_file`, not both"));
        }
        if let Some(token) = &self.join_token {
            let read = JoinToken::parse(token);
            read.map_err(|e| wrong(format!("`join_token`: {e}")))?;
        }
        if self.store == StoreKind::Memory && self.memory_size.as_u64() < 1024 * 1024 {
            return Err(wrong("`memory_size` must be at least 1 MiB"));
        }
        self.peer_filter().map(drop)
    }
}

impl DsConfig {
    /// Most connections of clients, and of one address.
    pub(crate) fn connections(&self) -> (u32, Option<u32>) {
        (self.connections_max, self.connections_per_address_max)
    }

    /// Who may connect, when the file says so.
    ///
    /// # Errors
    /// A text that is no network.
    pub(crate) fn peer_filter(&self) -> Result<Option<ds::PeerFilter>, ConfigError> {
        if self.clients.is_empty() {
            return Ok(None);
        }
        if self.clients.len() > mds::exports::EXPORT_RULES_MAX {
            return Err(wrong("`clients` has more than 1024 networks"));
        }
        let parse = |text: &String| text.parse().map_err(|e| wrong(format!("`clients`: {e}")));
        let networks: Vec<Clients> = self.clients.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Some(Arc::new(move |peer| {
            networks.iter().any(|network| network.contains(peer))
        })))
    }

    /// Addresses that clients are told.
    pub(crate) fn advertised(&self) -> &[SocketAddr] {
        if self.advertise.is_empty() {
            &self.listen
        } else {
            &self.advertise
        }
    }

    /// Addresses over RDMA that clients are told.
    pub(crate) fn rdma_advertised(&self) -> &[SocketAddr] {
        if self.rdma_advertise.is_empty() {
            &self.rdma_listen
        } else {
            &self.rdma_advertise
        }
    }

    /// The join token, wherever it is kept.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn token(&self) -> Result<Option<String>, ConfigError> {
        let Some(path) = &self.join_token_file else {
            return Ok(self.join_token.clone());
        };
        let text = std::fs::read_to_string(path).map_err(|e| {
            wrong(format!(
                "cannot read the join token {}: {e}",
                path.display()
            ))
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests;
