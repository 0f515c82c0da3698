//! `ds.toml`.

use super::checks::{
    need_busy_poll, need_collector, need_connections, need_directory, need_distinct,
    need_idle_close, need_inline, need_listener, need_log, need_reachable,
};
use super::common::{
    Checked, ConfigError, Connections, StoreKind, default_busy_poll_us, default_connections_max,
    default_nfs_listen, default_rdma_crc, default_rdma_inline, default_traces_every, exact_size,
    unread, wrong,
};
use crate::logging::LogFormat;
use crate::rdma_provider::ProviderChoice;
use crate::times::Length;
use bytesize::ByteSize;
use cluster_tls::JoinToken;
use serde::{Deserialize, Serialize};
use server::exports::{ClientRule, EXPORT_RULES_MAX};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Shortest `scrub_interval`.
const SCRUB_INTERVAL_MIN: Duration = Duration::from_secs(60);

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
    /// Longest message over RDMA, and bytes of a receive: what is longer goes by chunks. Peers that say less get less.
    #[serde(default = "default_rdma_inline", serialize_with = "exact_size")]
    pub rdma_inline: ByteSize,
    /// Addresses that clients are told; default `listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<SocketAddr>,
    /// Addresses over RDMA that clients are told; default `rdma_listen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma_advertise: Vec<SocketAddr>,
    /// Failure domain: servers that may be lost together, such as those of one rack, have one name. By default each
    /// server is one by itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub location: String,
    /// Whether reads that come from the disk are compared with sums.
    #[serde(default)]
    pub verify_reads: bool,
    /// All that lies on the disk is compared with its sums so long after the last time.
    #[serde(default = "default_scrub_interval")]
    pub scrub_interval: Length,
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
    /// Connections without a request for so long are closed; clients connect again when they need to. Never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_close: Option<Length>,
    /// Networks that may connect, the metadata server's included; everybody by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Microseconds for which a thread with one busy connection asks its socket before it sleeps; 0 means never.
    #[serde(default = "default_busy_poll_us")]
    pub busy_poll_us: u32,
    /// Listeners of `/metrics` and `/health`; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_listen: Vec<SocketAddr>,
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
}

/// A week.
pub(crate) fn default_scrub_interval() -> Length {
    Length(Duration::from_secs(7 * 24 * 3600))
}

fn default_memory_size() -> ByteSize {
    ByteSize::gib(4)
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
        if self.location.len() > control::LOCATION_BYTES_MAX as usize {
            return Err(wrong("`location` is longer than 64 bytes"));
        }
        if self.scrub_interval.0 < SCRUB_INTERVAL_MIN {
            return Err(wrong("`scrub_interval` must be at least 1 min"));
        }
        need_connections(self.connections_max, self.connections_per_address_max)?;
        need_busy_poll(self.busy_poll_us)?;
        need_inline(self.rdma_inline)?;
        need_idle_close(self.idle_close)?;
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
        need_log(self.log.as_deref())?;
        need_collector(self.traces_endpoint.as_deref())?;
        self.networks().map(drop)
    }
}

impl DsConfig {
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

    /// Who may connect; everybody when there is none.
    ///
    /// # Errors
    /// A text that is no network.
    pub(crate) fn networks(&self) -> Result<Vec<ClientRule>, ConfigError> {
        if self.clients.len() > EXPORT_RULES_MAX {
            return Err(wrong("`clients` has more than 1024 networks"));
        }
        let parse = |text: &String| text.parse().map_err(|e| wrong(format!("`clients`: {e}")));
        self.clients.iter().map(parse).collect()
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
        let text = std::fs::read_to_string(path);
        let what = format!("cannot read the join token {}", path.display());
        let text = text.map_err(|e| unread(what, &e))?;
        Ok(Some(text.trim().to_owned()))
    }
}
