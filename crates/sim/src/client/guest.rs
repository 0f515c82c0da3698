//! A client that makes use of credits and gives them back: many calls at a time, then a rest, in which it can be asked.

use super::shared::{root_caller, session_of};
use crate::check::Findings;
use crate::connector::Wires;
use crate::rng::Rng;
use crate::trace::Trace;
use session_client::{NoCallbacks, Session, SessionError};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Most calls at a time: the slots of a session.
const CALLS_MAX: u64 = 8;
/// Longest rest in milliseconds.
const REST_MS_MAX: u64 = 200;
/// How much longer a busy one rests and works: it lacks credits all the time, and is never idle.
const BUSY_REST_MS_MAX: u64 = 1_000;
const BUSY_STEPS: u32 = 6;
/// A long rest: more than the time after which one who keeps credits is cut off, and how rare it is.
const LONG_REST_MS: (u64, u64) = (26_000, 45_000);
const LONG_PER_MILLE: u32 = 60;

/// What a guest is made of.
pub(crate) struct GuestParts {
    pub(crate) name: String,
    pub(crate) wires: Wires,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) findings: Findings,
    /// Whether it makes as many calls as it can, and has no long rests.
    pub(crate) is_busy: bool,
}

/// A client with a session, and nothing in it.
pub(crate) struct Guest {
    parts: GuestParts,
    session: Arc<Session>,
}

impl Guest {
    pub(crate) fn new(parts: GuestParts) -> Self {
        let caller = root_caller(&parts.name);
        let callbacks = Arc::new(NoCallbacks);
        let session = session_of(&parts.name, &parts.wires, &caller, 0, Some(callbacks));
        Self { parts, session }
    }

    /// Calls so many times, and goes.
    pub(crate) async fn work(mut self, mut steps: u32) {
        if self.parts.is_busy {
            steps *= BUSY_STEPS;
        }
        if let Err(e) = self.session.establish().await {
            return self.complain(&e);
        }
        for _ in 0..steps {
            if let Err(e) = self.call().await {
                return self.complain(&e);
            }
            self.rest().await;
        }
    }

    async fn call(&mut self) -> Result<(), SessionError> {
        let few = self.parts.rng.within(1, CALLS_MAX);
        let count = if self.parts.is_busy { CALLS_MAX } else { few };
        let asked = Instant::now();
        let mut calls = JoinSet::new();
        for _ in 0..count {
            let session = Arc::clone(&self.session);
            calls.spawn(async move { session.renew().await });
        }
        while let Some(done) = calls.join_next().await {
            self.parts.wires.answered(&self.parts.name, asked);
            done.expect("a call is not ended by others")?;
        }
        Ok(())
    }

    async fn rest(&mut self) {
        let (low, high) = match self.parts.rng.chance(LONG_PER_MILLE) {
            _ if self.parts.is_busy => (0, BUSY_REST_MS_MAX),
            true => LONG_REST_MS,
            false => (0, REST_MS_MAX),
        };
        let ms = self.parts.rng.within(low, high);
        if low > 0 {
            let what = format_args!("- rests for {ms} ms");
            self.parts.trace.tell(&self.parts.name, what);
        }
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn complain(&self, error: &SessionError) {
        let text = format!("{}: {error}", self.parts.name);
        self.parts.findings.add(text);
    }
}
