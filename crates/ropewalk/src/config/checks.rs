//! What no server can run with, whichever it is: one sentence each.

use super::common::{ConfigError, unread, wrong};
use crate::logging::check_log;
use crate::times::Length;
use crate::traces::check_endpoint;
use bytesize::ByteSize;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Fewest and most connections of clients.
const CONNECTIONS_RANGE: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// Smallest and largest messages over RDMA.
const INLINE_BYTES_RANGE: std::ops::RangeInclusive<u64> = 4096..=65_536;

/// Shortest time after which idle connections are closed.
const IDLE_CLOSE_MIN: Duration = Duration::from_secs(10);

/// Longest time for which a thread asks a socket instead of sleeping: others of its connections may wait so long.
const BUSY_POLL_US_MAX: u32 = 1000;

pub(super) fn need_listener(key: &str, listen: &[SocketAddr]) -> Result<(), ConfigError> {
    if listen.is_empty() {
        return Err(wrong(format!(
            "`{key}` is empty: name at least one ADDRESS:PORT"
        )));
    }
    Ok(())
}

/// Each listener once, and none of them twice under two keys.
pub(super) fn need_distinct(lists: &[(&str, &[SocketAddr])]) -> Result<(), ConfigError> {
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
pub(super) fn need_directory(dir: &Path) -> Result<(), ConfigError> {
    let above = dir.ancestors().find(|a| a.symlink_metadata().is_ok());
    match above.map(|a| (a, a.metadata())) {
        Some((a, Ok(m))) if !m.is_dir() => Err(wrong(format!(
            "`state_dir` cannot be {}: {} is no directory",
            dir.display(),
            a.display()
        ))),
        Some((a, Err(e))) => {
            let (dir, above) = (dir.display(), a.display());
            Err(unread(
                format_args!("`state_dir` cannot be {dir}: {above}"),
                &e,
            ))
        }
        _ => Ok(()),
    }
}

pub(super) fn need_connections(
    connections_max: u32,
    per_address_max: Option<u32>,
) -> Result<(), ConfigError> {
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

pub(super) fn need_busy_poll(busy_poll_us: u32) -> Result<(), ConfigError> {
    if busy_poll_us > BUSY_POLL_US_MAX {
        return Err(wrong(format!(
            "`busy_poll_us` must be at most {BUSY_POLL_US_MAX}"
        )));
    }
    Ok(())
}

/// A receive of each size class holds so much.
pub(super) fn need_inline(size: ByteSize) -> Result<(), ConfigError> {
    let bytes = size.as_u64();
    if INLINE_BYTES_RANGE.contains(&bytes) && bytes.is_multiple_of(1024) {
        return Ok(());
    }
    Err(wrong(
        "`rdma_inline` must be a multiple of 1 KiB between 4 KiB and 64 KiB",
    ))
}

pub(super) fn need_idle_close(length: Option<Length>) -> Result<(), ConfigError> {
    match length {
        Some(Length(length)) if length < IDLE_CLOSE_MIN => Err(wrong(
            "`idle_close` must be at least 10s: clients connect again for each request after it",
        )),
        _ => Ok(()),
    }
}

pub(super) fn need_log(log: Option<&str>) -> Result<(), ConfigError> {
    let checked = log.map_or(Ok(()), check_log);
    checked.map_err(|why| wrong(format!("`log`: {why}")))
}

/// An address to which traces can be sent.
pub(super) fn need_collector(endpoint: Option<&str>) -> Result<(), ConfigError> {
    let checked = endpoint.map_or(Ok(()), check_endpoint);
    checked.map_err(|why| wrong(format!("`traces_endpoint`: {why}")))
}

/// Addresses that others can connect to.
pub(super) fn need_reachable(key: &str, addresses: &[SocketAddr]) -> Result<(), ConfigError> {
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

pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
