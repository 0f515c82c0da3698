//! A configuration with all that is not said in it, as TOML without secrets.

use super::common::{ConfigError, wrong};
use super::ds::DsConfig;
use super::mds::MdsConfig;
use crate::failure::Outcome;
use serde::Serialize;

/// Keys whose values are secrets.
const SECRET_KEYS: [&str; 1] = ["join_token"];

impl MdsConfig {
    /// The same, with what follows from other settings.
    pub(crate) fn effective(&self) -> Self {
        let root = self.root_of_new();
        Self {
            advertise: self.advertised().to_vec(),
            control_advertise: self.control_advertised().to_vec(),
            connections_per_address_max: Some(per_address(
                self.connections_per_address_max,
                self.connections_max,
            )),
            root: Some(root),
            ..self.clone()
        }
    }
}

impl DsConfig {
    /// The same, with what follows from other settings.
    pub(crate) fn effective(&self) -> Self {
        Self {
            advertise: self.advertised().to_vec(),
            rdma_advertise: self.rdma_advertised().to_vec(),
            connections_per_address_max: Some(per_address(
                self.connections_per_address_max,
                self.connections_max,
            )),
            ..self.clone()
        }
    }
}

fn per_address(said: Option<u32>, max: u32) -> u32 {
    said.unwrap_or((max / 4).max(1))
}

/// As TOML, without secrets.
///
/// # Errors
/// It cannot be written, which is a bug.
pub(crate) fn to_toml(config: &impl Serialize) -> Result<String, ConfigError> {
    let cannot = |e: toml::ser::Error| wrong(format!("cannot write the configuration: {e}"));
    let mut table = toml::Table::try_from(config).map_err(cannot)?;
    for key in SECRET_KEYS {
        table.remove(key);
    }
    toml::to_string(&table).map_err(cannot)
}

/// Prints a configuration.
pub(crate) fn print(config: &impl Serialize) -> Outcome {
    crate::out::print(&to_toml(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_effective_reads_back_and_says_all_defaults() {
        let config = MdsConfig::at(Path::new("/s"));
        let text = to_toml(&config.effective()).unwrap();
        let read: MdsConfig = toml::from_str(&text).unwrap();
        assert_eq!(read.advertise, config.listen);
        assert_eq!(to_toml(&read).unwrap(), text);
        for line in [
            "lease_seconds = 60",
            "connections_per_address_max = 4096",
            "stripe_unit = \"1MiB\"",
            "mode = \"1777\"",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn secrets_are_left_out() {
        let text = "state_dir = \"/s\"\njoin_token = \"s3cret\"\n";
        let config: DsConfig = toml::from_str(text).unwrap();
        let shown = to_toml(&config.effective()).unwrap();
        assert!(!shown.contains("s3cret") && shown.contains("state_dir"));
    }
}
