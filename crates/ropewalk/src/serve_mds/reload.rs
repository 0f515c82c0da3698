//! A changed configuration is taken by a running metadata server: what can change, and what needs a restart.
//!
//! # Ordering
//! The file is read and checked whole before anything changes. One reload runs at a time.
//!
//! # Failure
//! A file with an error changes nothing.

use crate::cli::DaemonArgs;
use crate::config::{self, MdsConfig};
use crate::daemon;
use crate::logging;
use crate::reload::{self, Reloaded};
use cluster_tls::AdminCerts;
use mds::Mds;
use parking_lot::Mutex;
use server::Nfsd;
use std::path::PathBuf;
use std::sync::Arc;
use systemd::Manager;
use tokio::signal::unix::Signal;
use transport::Context;

/// The setting that is told as changed when the files of the same names have another certificate.
const CERT_KEY: &str = "admin_cert";
/// Settings that change while the server runs.
const LIVE_KEYS: [&str; 8] = [
    CERT_KEY,
    "admin_key",
    "export",
    "fill_rate_max",
    "log",
    "connections_max",
    "connections_per_address_max",
    "idle_close",
];

/// What can be changed, and by what.
pub(super) struct Live {
    nfsd: Arc<Nfsd<Mds>>,
    /// Of the clients' connections.
    context: Context,
    manager: Manager,
    /// Of `admin_listen`, where there is one.
    certs: Option<Arc<AdminCerts>>,
    path: PathBuf,
    current: Mutex<MdsConfig>,
}

impl Live {
    /// Of a server that was started with `config`, which its file has.
    pub(super) fn new(
        nfsd: &Arc<Nfsd<Mds>>,
        context: &Context,
        manager: &Manager,
        certs: Option<Arc<AdminCerts>>,
        args: &DaemonArgs,
        config: &MdsConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            nfsd: Arc::clone(nfsd),
            context: context.clone(),
            manager: manager.clone(),
            certs,
            path: args.config.clone(),
            current: Mutex::new(config.clone()),
        })
    }

    /// The configuration that is in force.
    pub(super) fn current(&self) -> MdsConfig {
        self.current.lock().clone()
    }
}

/// Takes the configuration file again, or says what that would change.
///
/// # Errors
/// One sentence: what is wrong with the file. Nothing has changed then.
pub(super) async fn run(live: &Arc<Live>, only_check: bool) -> Result<Reloaded, String> {
    if only_check {
        return off_the_runtime(live, check).await;
    }
    live.manager.reloading();
    let told = off_the_runtime(live, take).await;
    live.manager.ready();
    reload::log(&told);
    told
}

/// Reading a file may wait for a disk.
async fn off_the_runtime(
    live: &Arc<Live>,
    work: fn(&Live) -> Result<Reloaded, String>,
) -> Result<Reloaded, String> {
    let live = Arc::clone(live);
    let working = tokio::task::spawn_blocking(move || work(&live));
    working.await.map_err(|e| e.to_string())?
}

/// Takes the configuration file again at each SIGHUP, also one that came before this. Needs a runtime.
pub(super) fn on_hangup(mut hangup: Signal, live: Arc<Live>) {
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // The log has what came of it.
            let _told = run(&live, false).await;
        }
    });
}

fn check(live: &Live) -> Result<Reloaded, String> {
    let new: MdsConfig = config::load(&live.path).map_err(|e| e.to_string())?;
    new.own_cert()?;
    reload::compare(&*live.current.lock(), &new, &LIVE_KEYS)
}

fn take(live: &Live) -> Result<Reloaded, String> {
    let mut current = live.current.lock();
    let new: MdsConfig = config::load(&live.path).map_err(|e| e.to_string())?;
    let exports = new.export_list().map_err(|e| e.to_string())?;
    let own_cert = new.own_cert()?;
    let mut told = reload::compare(&*current, &new, &LIVE_KEYS)?;
    logging::set_log(new.log.as_deref())?;
    let mds = live.nfsd.role();
    // What an order has set since stays, unless the file says something new.
    if new.fill_rate_max != current.fill_rate_max {
        (mds.fs().cluster()).set_fill_rate(new.fill_rate_max.as_u64());
    }
    mds.set_exports(exports);
    let is_another = (live.certs.as_ref()).is_some_and(|certs| certs.set_own(own_cert));
    if is_another && !told.changed.iter().any(|key| key == CERT_KEY) {
        told.changed.push(CERT_KEY.to_owned());
    }
    let limits = daemon::transport_limits(&new.connections());
    live.context.limit_connections(&limits);
    current.admin_cert = new.admin_cert;
    current.admin_key = new.admin_key;
    current.exports = new.exports;
    current.fill_rate_max = new.fill_rate_max;
    current.log = new.log;
    current.connections_max = new.connections_max;
    current.connections_per_address_max = new.connections_per_address_max;
    current.idle_close = new.idle_close;
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_names_all_settings_that_change_at_once() {
        crate::documented::need_named_as_live(&LIVE_KEYS);
    }

    #[test]
    fn what_changes_at_once_and_what_needs_a_restart_are_told_apart() {
        let read = |more: &str| -> MdsConfig {
            toml::from_str(&format!("state_dir = \"/s\"\n{more}")).unwrap()
        };
        let old = read("copies = 1\nfill_rate_max = '1MiB'");
        let compare = |old: &MdsConfig, new: &MdsConfig| reload::compare(old, new, &LIVE_KEYS);
        assert_eq!(compare(&old, &old), Ok(Reloaded::default()));
        let new =
            read("copies = 2\nlog = 'debug'\nfill_rate_max = '1024KiB'\n[[export]]\nclients = '*'");
        let told = compare(&old, &new).unwrap();
        assert_eq!(told.changed, ["export", "log"]);
        assert_eq!(told.needs_restart, ["copies"]);
    }
}
