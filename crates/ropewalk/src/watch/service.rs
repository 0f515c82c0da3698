//! What systemd hears of a data server. It hears the watcher, which is the process that it has started.
//!
//! # Ordering
//! The server is ready once its process serves. Signs of life go on while that process is replaced. Replacing it is the watcher's
//! work, and nothing that systemd could do would be faster.
//!
//! # Failure
//! When nobody has served for [`UNSERVED_MAX`] the signs end. systemd then ends both processes after WatchdogSec=, and starts anew.

use crate::failure::{Outcome, cannot};
use rustix::process::Pid;
use std::time::Duration;
use systemd::Manager;
use tokio::time::Instant;

/// How long the watcher tries to have a process that serves.
const UNSERVED_MAX: Duration = Duration::from_secs(600);
/// How long a reload may take. A process that has said nothing of it until then hangs or is gone, and the watcher sees to that.
const RELOAD_MAX: Duration = Duration::from_secs(5);

/// The watcher's side.
#[derive(Debug)]
pub(super) struct Service {
    manager: Manager,
    /// When the last sign of life was sent.
    sign: Option<Instant>,
    /// When a reload began.
    reloading: Option<Instant>,
    /// Whether the server has been ready. Before that a reload must not say so.
    was_ready: bool,
}

impl Service {
    /// Of the manager that the environment names.
    pub(super) fn of_environment() -> Outcome<Self> {
        let manager = Manager::from_environment().map_err(cannot("reach NOTIFY_SOCKET"))?;
        Ok(Self::of(manager))
    }

    const fn of(manager: Manager) -> Self {
        Self {
            manager,
            sign: None,
            reloading: None,
            was_ready: false,
        }
    }

    pub(super) const fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The process serves.
    pub(super) fn serving(&mut self, pid: Pid) {
        self.was_ready = true;
        self.manager
            .status(&format!("process {} serves", pid.as_raw_nonzero()));
        self.manager.ready();
    }

    /// Nobody serves, for this reason.
    pub(super) fn unserved(&self, why: &str) {
        self.manager.status(why);
    }

    pub(super) fn stopping(&self) {
        self.manager.stopping();
    }

    pub(super) fn reloading(&mut self) {
        if !self.was_ready {
            return;
        }
        self.manager.reloading();
        self.reloading = Some(Instant::now());
    }

    pub(super) fn reloaded(&mut self) {
        if self.reloading.take().is_some() {
            self.manager.ready();
        }
    }

    /// Looks at the clocks. The watcher has had nobody who serves since `gone_since`. One that hangs is taken for gone.
    pub(super) fn tick(&mut self, gone_since: Option<Instant>) {
        let now = Instant::now();
        let past = |since: Option<Instant>, limit| since.is_some_and(|since| now - since >= limit);
        if past(self.reloading, RELOAD_MAX) {
            self.reloaded();
        }
        let Some(every) = self.manager.alive_every() else {
            return;
        };
        let is_due = self.sign.is_none_or(|last| now - last >= every);
        if is_due && !past(gone_since, UNSERVED_MAX) {
            self.sign = Some(now);
            self.manager.alive();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: signs of life are regular, and end when nobody serves for long; a reload always ends. Method: a paused clock, and a
    //! socket in the place of systemd.
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use tokio::time::advance;

    const STEP: Duration = Duration::from_secs(1);

    /// What systemd hears within so many ticks.
    async fn heard(
        service: &mut Service,
        systemd: &UnixDatagram,
        gone_since: Option<Instant>,
        ticks: u64,
    ) -> Vec<String> {
        let mut heard = Vec::new();
        for _ in 0..ticks {
            advance(STEP).await;
            service.tick(gone_since);
            let mut bytes = [0; 100];
            while let Ok(len) = systemd.recv(&mut bytes) {
                heard.push(String::from_utf8_lossy(&bytes[..len]).into_owned());
            }
        }
        heard
    }

    #[tokio::test(start_paused = true)]
    async fn signs_end_when_nobody_serves_and_a_reload_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).expect("a socket");
        systemd.set_nonblocking(true).expect("set");
        let manager = Manager::at(path.as_os_str(), Some(20 * STEP)).expect("an address");
        let mut service = Service::of(manager);
        assert_eq!(
            heard(&mut service, &systemd, None, 20).await,
            ["WATCHDOG=1"; 2]
        );
        let gone = Some(Instant::now());
        let most = UNSERVED_MAX.as_secs();
        let signs = heard(&mut service, &systemd, gone, most - 1).await;
        assert_eq!(signs.len() as u64, most / 10);
        assert!(heard(&mut service, &systemd, gone, 60).await.is_empty());
        assert_eq!(heard(&mut service, &systemd, None, 1).await, ["WATCHDOG=1"]);
        service.reloading();
        service.reloaded();
        assert!(heard(&mut service, &systemd, None, 1).await.is_empty());
        service.serving(Pid::INIT);
        assert_eq!(heard(&mut service, &systemd, None, 1).await.len(), 2);
        service.reloading();
        let signs = heard(&mut service, &systemd, None, RELOAD_MAX.as_secs()).await;
        assert!(signs[0].starts_with("RELOADING=1"), "{signs:?}");
        assert_eq!(signs[1..], ["READY=1"]);
        service.reloaded();
        assert!(heard(&mut service, &systemd, None, 1).await.is_empty());
    }
}
