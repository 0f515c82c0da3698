//! What systemd hears of a metadata server: that it serves, and that it still can.
//!
//! # Failure
//! While the store makes nothing durable there is no sign. systemd ends the process after WatchdogSec=, and starts another one.

use super::view::View;
use crate::metrics::Watched;
use std::sync::Arc;
use systemd::Manager;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Tells the manager that the server serves, and shows it from then on that the store still makes durable.
pub(super) async fn show(manager: Manager, view: Arc<View>) {
    let serving = format!(
        "serving at {:?}, start {}",
        view.config.listen,
        view.fs().namespace().boot()
    );
    manager.status(&serving);
    manager.ready();
    let Some(every) = manager.alive_every() else {
        return;
    };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_well = true;
    loop {
        ticks.tick().await;
        let asked = timeout(every, view.health()).await;
        let health = asked.unwrap_or_else(|_| Err("the metadata store does not answer".to_owned()));
        match &health {
            Ok(()) => manager.alive(),
            Err(why) => manager.status(why),
        }
        if health.is_ok() && !was_well {
            manager.status(&serving);
        }
        was_well = health.is_ok();
    }
}
