//! A changed configuration is taken by a running data server: what can change, and what needs a restart.
//!
//! # Ordering
//! The file is read and checked whole before anything changes. One reload runs at a time.
//!
//! # Failure
//! A file with an error changes nothing.

use crate::config::{self, DsConfig};
use crate::daemon;
use crate::failure::Outcome;
use crate::logging;
use crate::reload::{self, Reloaded};
use crate::watch::line::ParentLine;
use ::ds::PeerFilter;
use parking_lot::{Mutex, RwLock};
use server::exports::ClientRule;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::Signal;
use transport::Context;

/// Settings that change while the server runs.
const LIVE_KEYS: [&str; 5] = [
    "clients",
    "log",
    "connections_max",
    "connections_per_address_max",
    "idle_close",
];

/// Who may connect.
#[derive(Debug, Clone)]
pub(super) struct Peers(Arc<RwLock<Vec<ClientRule>>>);

impl Peers {
    /// As the configuration says.
    ///
    /// # Errors
    /// A text that is no network.
    pub(super) fn of(config: &DsConfig) -> Outcome<Self> {
        Ok(Self(Arc::new(RwLock::new(config.networks()?))))
    }

    /// Asked once for each connection. Everybody may connect where nobody is named.
    pub(super) fn filter(&self) -> PeerFilter {
        let networks = Arc::clone(&self.0);
        Arc::new(move |peer| {
            let networks = networks.read();
            networks.is_empty() || networks.iter().any(|network| network.contains(peer))
        })
    }
}

/// What can be changed, and by what.
pub(super) struct Live {
    /// Of the clients' connections.
    context: Context,
    peers: Peers,
    /// The watcher takes the same file again.
    line: ParentLine,
    path: PathBuf,
    current: Mutex<DsConfig>,
}

impl Live {
    /// Of a server that was started with `config`, which `file` has.
    pub(super) fn new(
        context: &Context,
        peers: Peers,
        line: &ParentLine,
        file: &Path,
        config: &DsConfig,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            peers,
            line: line.clone(),
            path: file.to_owned(),
            current: Mutex::new(config.clone()),
        })
    }
}

/// Takes the configuration file again, or says what that would change.
///
/// # Errors
/// One sentence: what is wrong with the file. Nothing has changed then.
pub(super) async fn run(live: &Arc<Live>, only_check: bool) -> Result<Reloaded, String> {
    let (of, line) = (Arc::clone(live), live.line.clone());
    // Reading a file may wait for a disk.
    let working = tokio::task::spawn_blocking(move || take(&of, only_check));
    let told = working.await.map_err(|e| e.to_string())?;
    if !only_check {
        line.reloaded();
        reload::log(&told);
    }
    told
}

/// Takes the configuration file again at each SIGHUP. Needs a runtime.
pub(super) fn on_hangup(mut hangup: Signal, live: Arc<Live>) {
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            // The log has what came of it.
            let _told = run(&live, false).await;
        }
    });
}

fn take(live: &Live, only_check: bool) -> Result<Reloaded, String> {
    let mut current = live.current.lock();
    let new: DsConfig = config::load(&live.path).map_err(|e| e.to_string())?;
    let told = reload::compare(&*current, &new, &LIVE_KEYS)?;
    if only_check {
        return Ok(told);
    }
    let networks = new.networks().map_err(|e| e.to_string())?;
    logging::set_log(new.log.as_deref())?;
    *live.peers.0.write() = networks;
    let limits = daemon::transport_limits(&new.connections());
    live.context.limit_connections(&limits);
    current.clients = new.clients;
    current.log = new.log;
    current.connections_max = new.connections_max;
    current.connections_per_address_max = new.connections_per_address_max;
    current.idle_close = new.idle_close;
    Ok(told)
}

#[cfg(test)]
mod tests {
    //! Goal: a reload changes what it says it changes. Method: a file, and a server's parts without the server.
    use super::*;
    use std::os::unix::net::UnixStream;
    use transport::TransportLimits;

    #[test]
    fn the_manual_names_all_settings_that_change_at_once() {
        crate::documented::need_named_as_live(&LIVE_KEYS);
    }

    #[test]
    fn who_may_connect_changes_and_a_wrong_file_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ds.toml");
        let write = |more: &str| {
            let text = format!("state_dir = '{}'\n{more}", dir.path().display());
            std::fs::write(&path, text).unwrap();
        };
        write("");
        let config: DsConfig = config::load(&path).unwrap();
        let peers = Peers::of(&config).unwrap();
        let (admits, (_ours, theirs)) = (peers.filter(), UnixStream::pair().unwrap());
        let context = Context::new(TransportLimits::default());
        let line = ParentLine::of(theirs.into());
        let live = Live::new(&context, peers, &line, &path, &config);
        let [near, far] = ["10.1.2.3", "192.0.2.1"].map(|ip| ip.parse().unwrap());
        assert!(admits(near) && admits(far));
        write("workers = 3\nclients = ['10.0.0.0/8']");
        let told = take(&live, true).unwrap();
        assert_eq!(told.changed, ["clients"]);
        assert_eq!(told.needs_restart, ["workers"]);
        assert!(admits(far));
        assert_eq!(take(&live, false), Ok(told));
        assert!(admits(near) && !admits(far));
        write("clients = ['10.0.0.0/99']");
        take(&live, false).unwrap_err();
        assert!(admits(near) && !admits(far));
        write("workers = 3");
        assert_eq!(take(&live, false).unwrap().changed, ["clients"]);
        assert!(admits(far));
    }
}
