//! A directory that is measured, and one measurement in it.

use super::counts::Counts;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A directory to measure, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name in tables.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, dir) = text.split_once('=').unwrap_or((text, text));
        if name.is_empty() || dir.is_empty() {
            return Err("say DIR, or NAME=DIR".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            dir: PathBuf::from(dir),
        })
    }
}

/// One piece of work, done once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    /// When it began, nanoseconds since 1970.
    pub(crate) began_ns: u64,
    #[serde(rename = "seconds", with = "seconds")]
    pub(crate) elapsed: Duration,
    /// Of an NFS mount.
    #[serde(rename = "operations")]
    pub(crate) counts: Option<Counts>,
}

impl Run {
    /// When it began and ended, nanoseconds since 1970.
    pub(crate) fn times_ns(&self) -> (u64, u64) {
        let elapsed_ns = u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX);
        (self.began_ns, self.began_ns.saturating_add(elapsed_ns))
    }
}

/// A time in JSON.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(de::Error::custom)
    }
}
