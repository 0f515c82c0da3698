//! What is to be written, and how its values are read and written.
//!
//! Pure, but for the directory that a path is relative to. Knows neither server.

use crate::config_cmd::ServerRole;
use crate::failure::{Outcome, failed};
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The port of NFS.
pub(super) const NFS_PORT: u16 = 2049;
/// Where the units of systemd look for configurations.
pub(crate) const CONFIG_DIR: &str = "/etc/ropewalk";

/// What both have in common.
#[derive(Debug, Default, Args)]
pub(super) struct WriteArgs {
    /// The file to write [default: /etc/ropewalk/mds.toml or ds.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    pub(super) force: bool,
    /// Take a directory that the unit of systemd hides from the server (below /home, /root, /run/user, /tmp or /var/tmp)
    #[arg(long)]
    pub(super) hidden_dir: bool,
    /// Print the file, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Then start the server by systemd, now and at each boot
    #[arg(long, conflicts_with_all = ["dry_run", "output"])]
    pub(super) start: bool,
    /// Ask nothing: what is not said has its default, or is missing
    #[arg(long)]
    pub(super) yes: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What is to be written, and what comes after it.
pub(super) struct Plan {
    pub(super) role: ServerRole,
    /// The text of the configuration.
    pub(super) text: String,
    /// What of it is not shown.
    pub(super) secret: Option<String>,
    pub(super) state_dir: PathBuf,
    /// A file that the server reads once, and the option that names it.
    pub(super) reads: Option<(PathBuf, &'static str)>,
    /// Addresses that must be free, and the option that chooses others.
    pub(super) listen: Vec<(SocketAddr, &'static str)>,
    /// What to know, a sentence each.
    pub(super) notes: Vec<String>,
    /// What to do when the server runs.
    pub(super) then: Vec<String>,
}

/// The configuration that the unit of systemd reads.
pub(crate) fn packaged_file(role: ServerRole) -> PathBuf {
    Path::new(CONFIG_DIR).join(format!("{}.toml", role.word()))
}

/// `ADDR` or `ADDR:PORT`.
pub(super) fn parse_address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let refuse =
        |_| format!("`{text}` is no address: write ADDR or ADDR:PORT, as in 10.0.0.1:2049");
    text.parse().map_err(refuse)
}

pub(super) fn parse_nfs_address(text: &str) -> Result<SocketAddr, String> {
    parse_address(text, NFS_PORT)
}

/// An absolute path: the server may start elsewhere.
pub(super) fn absolute(path: &Path) -> Outcome<PathBuf> {
    let cannot = |e| failed(format!("cannot use {}: {e}", path.display()));
    std::path::absolute(path).map_err(cannot)
}

/// A setting of a configuration, with its comment above.
pub(super) fn setting(comment: &str, key: &str, value: impl Into<toml::Value>) -> String {
    let value: toml::Value = value.into();
    format!("# {comment}\n{key} = {value}\n\n")
}

/// Addresses as a value.
pub(super) fn addresses(list: &[SocketAddr]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// A path as a value.
pub(super) fn path_value(path: &Path) -> Outcome<String> {
    let refuse = || failed(format!("{} is not UTF-8: choose another", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    //! Goal: addresses are read with and without a port.
    use super::*;

    #[test]
    fn addresses_have_a_port_or_get_one() {
        for (text, address) in [
            ("10.0.0.1", Some("10.0.0.1:2049")),
            ("10.0.0.1:99", Some("10.0.0.1:99")),
            ("fd00::1", Some("[fd00::1]:2049")),
            ("[fd00::1]", Some("[fd00::1]:2049")),
            ("[fd00::1]:99", Some("[fd00::1]:99")),
            ("host", None),
            ("10.0.0.1:70000", None),
        ] {
            let read = parse_nfs_address(text).ok().map(|a| a.to_string());
            assert_eq!(read.as_deref(), address, "{text}");
        }
    }
}
