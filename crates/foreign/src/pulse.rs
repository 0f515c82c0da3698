//! The pulse of servers: a cheap call to each, so that calls for files do not find out one by one.

use crate::foreign::Foreign;
use crate::records::ServerState;
use crate::server::{PULSE_GIVE_UP, Server};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::time::Duration;
use tokio::time::Instant;

/// How often the pulse of a server is taken.
pub const PULSE_EVERY: Duration = Duration::from_secs(2);

impl Foreign {
    /// Takes pulses that are due, and tries fences that wait. To be called about every second, inside a runtime.
    pub fn tick(self: &Arc<Self>) {
        for server in self.all_servers() {
            if server.state() == ServerState::Removed || !server.is_pulse_due() {
                continue;
            }
            if server.is_pulsing.swap(true, AcqRel) {
                continue;
            }
            let foreign = Arc::clone(self);
            tokio::spawn(async move {
                let was_up = server.is_up();
                server.take_pulse().await;
                foreign.learn_code(&server).await;
                server.is_pulsing.store(false, Release);
                if !was_up && server.is_up() {
                    foreign.deliver_fences();
                }
            });
        }
        self.deliver_fences();
    }
}

impl Server {
    fn is_pulse_due(&self) -> bool {
        let last = self.health.lock().pulse_at;
        last.is_none_or(|at| at.elapsed() >= PULSE_EVERY)
    }

    /// FSSTAT, and a look whether the export is the one that was added. Any failure says that the server is down.
    pub(crate) async fn take_pulse(&self) {
        self.health.lock().pulse_at = Some(Instant::now());
        let root = self.record().root.clone();
        let asked = self.pulse.fsstat(&self.root_caller, &root);
        let room = match tokio::time::timeout(PULSE_GIVE_UP, asked).await {
            Ok(Ok(room)) => room,
            Ok(Err(error)) => return self.went_down(&error.to_string()),
            Err(_) => return self.went_down("the server does not answer"),
        };
        match self.wrong_place(&self.pulse).await {
            Ok(None) => self.went_up(&room),
            Ok(Some(why)) => self.went_down(&why),
            Err(error) => self.went_down(&error.to_string()),
        }
    }
}
