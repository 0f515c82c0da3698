//! What accepted connections share: receives by size class, and the credits that go with them (R14).
//!
//! # Invariant
//! Each message that a peer may send has a receive in the queue of its class. A connection admits as many as its engine counts
//! before the Send that allows them is posted. The provider holds back what comes beyond, or ends that connection unless the
//! engine excuses it. So no peer takes what another was promised.
//!
//! # Bounds
//! One receive for each connection, and what the pool of the class has. A provider that holds back sets aside more for
//! a connection whose grant was lowered. That is what it may have begun before, less than its highest grant. That is a
//! promise, not memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fabric::{Claim, Pool, ReceiveQueue};
use parking_lot::Mutex;
use rpcrdma::{CreditAccount, CreditPool};
use tokio::time::Instant;

use super::memory;
use crate::{CloseReason, ConnHandle, DynService};

/// Bytes of a receive of the smallest class; each further one is of four times as many.
const CLASS_BYTES_MIN: u32 = 4096;
const CLASS_STEP: u32 = 4;
/// A connection without a call for so long is idle, when others lack credits. See [`rpcrdma::ROUNDS_MAX`] for how long it is asked.
pub(super) const ROUND: Duration = Duration::from_secs(5);

/// The size classes of a process, smallest first.
pub(super) struct Classes {
    classes: Vec<Arc<Class>>,
    looked_at: Mutex<Option<Instant>>,
}

struct Class {
    queue: ReceiveQueue,
    pool: CreditPool,
    /// Connections by their account.
    members: Mutex<HashMap<u64, ConnHandle>>,
}

/// A connection's place in a class.
pub(super) struct Place {
    class: Arc<Class>,
    id: u64,
}

impl Classes {
    /// Classes for messages of up to `inline_bytes`, each of which lends receives of `lent_bytes`.
    pub(super) fn new(inline_bytes: u32, lent_bytes: u32) -> Self {
        let steps = std::iter::successors(Some(CLASS_BYTES_MIN), |bytes| Some(bytes * CLASS_STEP));
        let smaller = steps.take_while(|bytes| *bytes < inline_bytes);
        let class = |bytes: u32| {
            Arc::new(Class {
                queue: ReceiveQueue::new(receives(bytes)),
                pool: CreditPool::new(lent_bytes / bytes),
                members: Mutex::default(),
            })
        };
        Self {
            classes: smaller.chain([inline_bytes]).map(class).collect(),
            looked_at: Mutex::default(),
        }
    }

    /// Binds a connection whose messages have at most so many bytes to its class.
    pub(super) fn join(&self, message_bytes: u32) -> (Place, CreditAccount) {
        let bytes = usize::try_from(message_bytes).unwrap_or(usize::MAX);
        let fits = |class: &&Arc<Class>| class.queue.receive_bytes() >= bytes;
        let found = self.classes.iter().find(fits);
        let class = found.or(self.classes.last());
        let class = Arc::clone(class.expect("there is one at least"));
        let account = class.pool.open();
        let id = account.id();
        (Place { class, id }, account)
    }

    /// Credits that are lent now, and that could be.
    pub(super) fn lent(&self) -> (u32, u32) {
        let lent = self.classes.iter().map(|class| class.pool.lent());
        lent.fold((0, 0), |sum, (lent, stock)| (sum.0 + lent, sum.1 + stock))
    }

    /// Has clients asked for credits that they do not use, where others lack some, and cuts off those that keep them all the
    /// same. To be called by each worker; the first in each [`ROUND`] does it.
    pub(super) fn look(&self, service: &dyn DynService) {
        let now = Instant::now();
        {
            let mut looked_at = self.looked_at.lock();
            if looked_at.is_some_and(|at| now < at + ROUND / 2) {
                return;
            }
            *looked_at = Some(now);
        }
        for class in &self.classes {
            let round = class.pool.round();
            if round == rpcrdma::Round::default() {
                continue;
            }
            let members = class.members.lock().clone();
            for conn in round.ask.iter().filter_map(|id| members.get(id)) {
                service.on_credits_short(conn);
            }
            for conn in round.cut.iter().filter_map(|id| members.get(id)) {
                conn.close(CloseReason::RdmaCreditsKept);
            }
        }
    }
}

impl Place {
    /// A share of the queue in which so many messages are admitted.
    pub(super) fn claim(&self, messages: u32) -> Claim {
        let mut claim = self.class.queue.claim();
        let admitted = claim.admit(messages);
        debug_assert_eq!(admitted, messages, "the pool has no limit");
        claim
    }

    /// Says which connection it is.
    pub(super) fn is_of(&self, conn: &ConnHandle) {
        self.class.members.lock().insert(self.id, conn.clone());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.class.members.lock().remove(&self.id);
    }
}

fn receives(bytes: u32) -> Pool {
    memory::receives(usize::try_from(bytes).expect("usize has 32 bits at least"))
}
