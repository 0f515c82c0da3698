//! What the configurations of both daemons share: reading a file, its errors, and values with the same meaning.

use crate::failure::{Failure, failed, usage};
use crate::traces::TRACES_EVERY;
use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

/// Bytes of the largest configuration file that is read.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// A configuration that cannot be used; the text says which file, what and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    text: String,
    /// A later try may work though nobody changes the configuration: its disk gave an error.
    may_pass: bool,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConfigError {}

pub(super) fn wrong(text: impl Into<String>) -> ConfigError {
    ConfigError {
        text: text.into(),
        may_pass: false,
    }
}

/// A file that cannot be read, for this reason: "WHAT: REASON".
pub(super) fn unread(what: impl std::fmt::Display, why: &std::io::Error) -> ConfigError {
    use std::io::ErrorKind as Kind;
    let by_its_name = [
        Kind::NotFound,
        Kind::PermissionDenied,
        Kind::NotADirectory,
        Kind::IsADirectory,
        Kind::InvalidData,
        Kind::InvalidInput,
    ];
    ConfigError {
        text: format!("{what}: {why}"),
        may_pass: !by_its_name.contains(&why.kind()),
    }
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

/// Reads and checks a configuration file.
///
/// # Errors
/// One sentence that names the file.
pub(crate) fn load<T: for<'de> Deserialize<'de> + Checked>(path: &Path) -> Result<T, ConfigError> {
    let shown = path.display();
    let cannot = |e: std::io::Error| unread(format_args!("{shown}: cannot read"), &e);
    let meta = std::fs::metadata(path).map_err(cannot)?;
    if meta.len() > CONFIG_BYTES_MAX {
        let text = format!("{shown}: {} bytes is no configuration", meta.len());
        return Err(wrong(text));
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    parse(&text).map_err(|e| ConfigError {
        text: format!("{shown}: {e}"),
        ..e
    })
}

/// Reads and checks the text of a configuration.
///
/// # Errors
/// One sentence.
pub(crate) fn parse<T: for<'de> Deserialize<'de> + Checked>(text: &str) -> Result<T, ConfigError> {
    let config: T = toml::from_str(text).map_err(|e| wrong(syntax(text, &e)))?;
    config.check()?;
    Ok(config)
}

/// One line for an error of the parser: where, which key, what.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    let message = super::unknown::suggestion(&message).unwrap_or(message);
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

/// Writes a size so that reading it gives the same: whole MiB or KiB, or else bytes.
pub(super) fn exact_size<S: serde::Serializer>(size: &ByteSize, out: S) -> Result<S::Ok, S::Error> {
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

pub(super) const fn default_rdma_crc() -> bool {
    true
}

pub(crate) fn default_rdma_inline() -> ByteSize {
    ByteSize(transport::rdma::Config::default().inline_bytes.into())
}

pub(super) fn default_nfs_listen() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 2049))]
}

/// What a server's configuration says of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connections {
    /// Most of clients.
    pub(crate) max: u32,
    /// Most of one address, unless that is a quarter.
    pub(crate) per_address_max: Option<u32>,
    /// Microseconds for which a thread asks its busy connection before it sleeps.
    pub(crate) busy_poll_us: u32,
    /// After how long without a request they are closed.
    pub(crate) idle_close: Option<Duration>,
}

/// `connections_max` when a configuration does not say.
pub(crate) fn default_connections_max() -> u32 {
    transport::TransportLimits::CONNECTIONS_MAX_DEFAULT
}

/// `busy_poll_us` when a configuration does not say.
pub(crate) const fn default_busy_poll_us() -> u32 {
    30
}

/// `traces_every` when a configuration does not say.
pub(crate) const fn default_traces_every() -> NonZeroU32 {
    TRACES_EVERY
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Self {
        match e.may_pass {
            true => failed(e.text),
            false => usage(e.text),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a service manager tries again only when that may help.
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn what_is_wrong_stays_so_and_a_disk_may_come_back() {
        for (error, exit_code) in [
            (wrong("`copies` must be between 1 and 4"), 2),
            (unread("/f", &ErrorKind::NotFound.into()), 2),
            (unread("/f", &ErrorKind::PermissionDenied.into()), 2),
            (unread("/f", &Error::from_raw_os_error(5)), 1),
            (unread("/f", &ErrorKind::TimedOut.into()), 1),
        ] {
            let text = error.to_string();
            let failure = Failure::from(error);
            assert_eq!(failure.exit_code(), exit_code, "{text}");
            assert_eq!(failure.to_string(), text);
        }
    }
}
