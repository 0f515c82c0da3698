//! A changed configuration is taken by a running metadata server: what can change, and what needs a restart.
//!
//! # Ordering
//! The file is read and checked whole before anything changes. One reload runs at a time.
//!
//! # Failure
//! A file with an error changes nothing.

use crate::config::{self, MdsConfig};
use crate::failure::{Outcome, cannot};
use crate::logging;
use crate::reload::Reloaded;
use mds::Mds;
use parking_lot::Mutex;
use server::Nfsd;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Settings that change while the server runs.
const LIVE_KEYS: [&str; 3] = ["export", "fill_rate_max", "log"];

/// What can be changed, and by what.
pub(super) struct Live {
    nfsd: Arc<Nfsd<Mds>>,
    path: PathBuf,
    current: Mutex<MdsConfig>,
}

impl Live {
    /// Of a server that was started with `config`, which `path` has.
    pub(super) fn new(nfsd: Arc<Nfsd<Mds>>, path: PathBuf, config: MdsConfig) -> Arc<Self> {
        Arc::new(Self {
            nfsd,
            path,
            current: Mutex::new(config),
        })
    }

    /// The configuration that is in force.
    pub(super) fn current(&self) -> MdsConfig {
        self.current.lock().clone()
    }
}

/// Takes the configuration file again.
///
/// # Errors
/// One sentence: what is wrong with the file. Nothing has changed then.
pub(super) async fn run(live: &Arc<Live>) -> Result<Reloaded, String> {
    let live = Arc::clone(live);
    let reloading = tokio::task::spawn_blocking(move || take(&live));
    let told = reloading.await.map_err(|e| e.to_string())?;
    match &told {
        Ok(told) => {
            tracing::info!(changed = ?told.changed, needs_restart = ?told.needs_restart, "configuration read again");
        }
        Err(why) => tracing::warn!("the configuration is not taken, nothing has changed: {why}"),
    }
    told
}

/// Takes the configuration file again at each SIGHUP. Needs a runtime.
///
/// # Errors
/// The signal cannot be taken over.
pub(super) fn on_hangup(live: Arc<Live>) -> Outcome {
    let hangup = signal(SignalKind::hangup());
    let mut hangup = hangup.map_err(cannot("listen to SIGHUP"))?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // The log has what came of it.
            let _told = run(&live).await;
        }
    });
    Ok(())
}

fn take(live: &Live) -> Result<Reloaded, String> {
    let mut current = live.current.lock();
    let new: MdsConfig = config::load(&live.path).map_err(|e| e.to_string())?;
    let exports = new.export_list().map_err(|e| e.to_string())?;
    let told = compare(&current, &new)?;
    logging::set_log(new.log.as_deref())?;
    let mds = live.nfsd.role();
    // What an order has set since stays, unless the file says something new.
    if new.fill_rate_max != current.fill_rate_max {
        (mds.fs().cluster()).set_fill_rate(new.fill_rate_max.as_u64());
    }
    mds.set_exports(exports);
    current.exports = new.exports;
    current.fill_rate_max = new.fill_rate_max;
    current.log = new.log;
    Ok(told)
}

/// Which settings differ.
fn compare(current: &MdsConfig, new: &MdsConfig) -> Result<Reloaded, String> {
    let table = |config: &MdsConfig| toml::Table::try_from(config).map_err(|e| e.to_string());
    let (current, new) = (table(current)?, table(new)?);
    let mut keys: Vec<&String> = current.keys().chain(new.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let differing = keys.into_iter().filter(|k| current.get(*k) != new.get(*k));
    let (changed, needs_restart) = differing
        .cloned()
        .partition(|key| LIVE_KEYS.contains(&key.as_str()));
    Ok(Reloaded {
        changed,
        needs_restart,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_at_once_and_what_needs_a_restart_are_told_apart() {
        let read = |more: &str| -> MdsConfig {
            toml::from_str(&format!("state_dir = \"/s\"\n{more}")).unwrap()
        };
        let old = read("copies = 1\nfill_rate_max = '1MiB'");
        assert_eq!(compare(&old, &old), Ok(Reloaded::default()));
        let new =
            read("copies = 2\nlog = 'debug'\nfill_rate_max = '1024KiB'\n[[export]]\nclients = '*'");
        let told = compare(&old, &new).unwrap();
        assert_eq!(told.changed, ["export", "log"]);
        assert_eq!(told.needs_restart, ["copies"]);
    }
}
