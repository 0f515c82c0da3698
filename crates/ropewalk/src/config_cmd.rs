//! `ropewalk config`: whether a configuration is one, and what it comes to.
//!
//! May call: the configurations, the admin socket.

use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::config::{self, DsConfig, MdsConfig};
use crate::failure::{Outcome, cannot, failed, usage};
use crate::out;
use clap::{Subcommand, ValueEnum};
use std::path::{Path, PathBuf};

/// Settings that only a data server has.
const DS_KEYS: [&str; 9] = [
    "mds",
    "join_token",
    "join_token_file",
    "memory_size",
    "clients",
    "location",
    "verify_reads",
    "scrub_interval",
    "rdma_advertise",
];

/// Whose configuration a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerRole {
    /// A metadata server's.
    Mds,
    /// A data server's.
    Ds,
}

impl ServerRole {
    /// What the server is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mds => "metadata server",
            Self::Ds => "data server",
        }
    }

    /// The command that runs it, the name of its directory, and the beginning of its file's name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Mds => "mds",
            Self::Ds => "ds",
        }
    }
}

/// `ropewalk config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong with a configuration file
    Check {
        /// The file
        file: PathBuf,
        /// Whose it is [default: found out by the file's name and keys]
        #[arg(long, value_name = "ROLE", value_enum)]
        role: Option<ServerRole>,
    },
    /// Print a configuration as TOML, without secrets
    Show {
        /// The file; without one the metadata server that runs says what it has
        file: Option<PathBuf>,
        /// With all defaults, and what follows from other settings
        #[arg(long)]
        effective: bool,
        /// Whose it is [default: found out by the file's name and keys]
        #[arg(long, value_name = "ROLE", value_enum)]
        role: Option<ServerRole>,
        #[command(flatten)]
        place: MdsPlace,
    },
}

/// `ropewalk config`.
pub(crate) fn run(command: &ConfigCommand) -> Outcome {
    match command {
        ConfigCommand::Check { file, role } => {
            match role_of(file, *role) {
                ServerRole::Mds => {
                    let mds: MdsConfig = config::load(file)?;
                    mds.own_cert().map_err(usage)?;
                }
                ServerRole::Ds => drop(config::load::<DsConfig>(file)?),
            }
            out::line(&format!("{} is a valid configuration", file.display()))
        }
        ConfigCommand::Show {
            file: Some(file),
            effective,
            role,
            ..
        } => show(file, role_of(file, *role), *effective),
        ConfigCommand::Show {
            file: None,
            effective,
            place,
            ..
        } => {
            let config: MdsConfig = ask(&mds_server(place)?, &Request::Config)?;
            match effective {
                true => config::print(&config.effective()),
                false => config::print(&config),
            }
        }
    }
}

fn show(file: &Path, role: ServerRole, effective: bool) -> Outcome {
    let (mds, ds) = match role {
        ServerRole::Mds => (Some(config::load::<MdsConfig>(file)?), None),
        ServerRole::Ds => (None, Some(config::load::<DsConfig>(file)?)),
    };
    if !effective {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(cannot(format!("read {}", file.display())))?;
        let said: toml::Table = toml::from_str(&text).map_err(|e| failed(e.message()))?;
        return config::print(&said);
    }
    match (mds, ds) {
        (Some(mds), _) => config::print(&mds.effective()),
        (_, Some(ds)) => config::print(&ds.effective()),
        (None, None) => Ok(()),
    }
}

/// Whose configuration a file is, as far as it can be told.
pub(crate) fn role_of(file: &Path, said: Option<ServerRole>) -> ServerRole {
    if let Some(role) = said {
        return role;
    }
    match file.file_name().and_then(|name| name.to_str()) {
        Some("ds.toml") => return ServerRole::Ds,
        Some("mds.toml") => return ServerRole::Mds,
        _ => {}
    }
    let is_small = |m: &std::fs::Metadata| m.len() <= config::CONFIG_BYTES_MAX;
    let is_read = std::fs::metadata(file).is_ok_and(|m| is_small(&m));
    let text = is_read
        .then(|| std::fs::read_to_string(file).ok())
        .flatten();
    let table = text.and_then(|text| toml::from_str::<toml::Table>(&text).ok());
    let is_ds = |table: toml::Table| DS_KEYS.iter().any(|key| table.contains_key(*key));
    match table.is_some_and(is_ds) {
        true => ServerRole::Ds,
        false => ServerRole::Mds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_configuration_is_is_told_by_name_then_by_keys() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text, role) in [
            ("ds.toml", "", ServerRole::Ds),
            ("mds.toml", "location = \"r\"", ServerRole::Mds),
            ("a.toml", "location = \"r\"", ServerRole::Ds),
            ("b.toml", "copies = 2", ServerRole::Mds),
            ("c.toml", "= broken", ServerRole::Mds),
        ] {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            assert_eq!(role_of(&file, None), role, "{name}");
            assert_eq!(role_of(&file, Some(ServerRole::Ds)), ServerRole::Ds);
        }
    }
}
