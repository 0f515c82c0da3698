//! Where resolving objects in doubt goes on, and when. [`crate::in_doubt`] resolves them; this module calls nobody.

use std::time::Duration;

use objects::ObjectId;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// How long a disk that has failed again is left alone.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause: they double up to it.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The object tried last, and the pause after a failure.
#[derive(Debug, Default)]
pub(crate) struct Resolving(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<ObjectId>,
    pause: Duration,
    paused_until: Option<Instant>,
}

impl Resolving {
    pub(crate) fn is_paused(&self) -> bool {
        let until = self.0.lock().paused_until;
        until.is_some_and(|until| Instant::now() < until)
    }

    /// The object that was tried last.
    pub(crate) fn last(&self) -> Option<ObjectId> {
        self.0.lock().last
    }

    pub(crate) fn tries(&self, id: ObjectId) {
        self.0.lock().last = Some(id);
    }

    pub(crate) fn failed(&self) {
        let mut state = self.0.lock();
        state.pause = (state.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        state.paused_until = Some(Instant::now() + state.pause);
    }

    pub(crate) fn succeeded(&self) {
        let mut state = self.0.lock();
        (state.pause, state.paused_until) = (Duration::ZERO, None);
    }
}
