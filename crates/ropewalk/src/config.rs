//! The TOML configuration of the daemons: what may be said, the defaults, and one clear sentence for
//! everything that is wrong.
//!
//! Parsing knows no running server: [`MdsConfig`] and [`DsConfig`] are checked values, ready to use. Unknown keys are
//! errors, because a misspelt limit that is ignored is worse than a refused start.

mod checks;
mod common;
mod ds;
mod effective;
mod mds;
mod tables;
mod unknown;

pub(crate) use checks::is_loopback;
pub(crate) use common::{
    CONFIG_BYTES_MAX, Checked, ConfigError, Connections, StoreKind, TransportChoice,
    default_busy_poll_us, default_connections_max, load, parse,
};
pub(crate) use ds::{DsConfig, default_scrub_interval};
pub(crate) use effective::print;
pub(crate) use mds::{MdsConfig, check_fill_rate};
pub(crate) use tables::{Access, AtimeName, CreateChoice, ExportTable, RootTable, SquashName};

#[cfg(test)]
mod examples;
#[cfg(test)]
mod tests;
