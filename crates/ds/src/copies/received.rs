//! The streams of primaries that this server takes in: who opened them, and whose turn it is in each lane.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use control::Status;
use parts::{AHEAD_MAX, CHALLENGE_BYTES, LANES, StreamOpenArgs};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;
use transport::ConnHandle;

/// Connections that have a challenge or a stream; the oldest gives way.
const CONNS_MAX: usize = 4096;

/// One lane of a stream.
#[derive(Default)]
pub(super) struct Lane {
    /// The number whose turn it is.
    pub(super) next: tokio::sync::Mutex<u64>,
    pub(super) moved: Notify,
    /// There was no room for the item whose turn it is.
    pub(super) is_full: AtomicBool,
}

/// The stream of a primary.
pub(super) struct Opened {
    pub(super) from: u32,
    from_nonce: u64,
    stream: u64,
    pub(super) lanes: Vec<Lane>,
}

pub(super) enum Conn {
    Greeted([u8; CHALLENGE_BYTES]),
    Carries(Arc<Opened>),
}

/// See the module.
#[derive(Default)]
pub(super) struct Received {
    pub(super) conns: Mutex<BTreeMap<u64, Conn>>,
    opened: Mutex<FxHashMap<u32, Arc<Opened>>>,
}

impl Received {
    pub(super) fn note(&self, conn: &ConnHandle, state: Conn) {
        let mut conns = self.conns.lock();
        if conns.len() >= CONNS_MAX && !conns.contains_key(&conn.id()) {
            conns.pop_first();
        }
        conns.insert(conn.id(), state);
    }

    /// The stream that OPEN names: the one that goes on, or a new one.
    pub(super) fn opened(&self, args: &StreamOpenArgs) -> Result<Arc<Opened>, Status> {
        let mut all = self.opened.lock();
        if let Some(known) = all.get(&args.from)
            && known.from_nonce == args.from_nonce
        {
            if known.stream == args.stream {
                return Ok(Arc::clone(known));
            }
            if known.stream > args.stream {
                return Err(Status::Invalid);
            }
        }
        let opened = Arc::new(Opened {
            from: args.from,
            from_nonce: args.from_nonce,
            stream: args.stream,
            lanes: (0..LANES).map(|_| Lane::default()).collect(),
        });
        all.insert(args.from, Arc::clone(&opened));
        Ok(opened)
    }

    /// The stream of a connection, unless another has taken its place.
    pub(super) fn carried(&self, conn: &ConnHandle) -> Result<Arc<Opened>, Status> {
        let opened = match self.conns.lock().get(&conn.id()) {
            Some(Conn::Carries(opened)) => Arc::clone(opened),
            _ => return Err(Status::Denied),
        };
        self.check_current(&opened)?;
        Ok(opened)
    }

    pub(super) fn check_current(&self, opened: &Opened) -> Result<(), Status> {
        let all = self.opened.lock();
        let is_current = all
            .get(&opened.from)
            .is_some_and(|now| (now.from_nonce, now.stream) == (opened.from_nonce, opened.stream));
        if is_current {
            Ok(())
        } else {
            Err(Status::Denied)
        }
    }
}

pub(super) type Turn<'l> = tokio::sync::MutexGuard<'l, u64>;

/// Waits for the turn of a number; `None` for one that had it before.
pub(super) async fn turn(lane: &Lane, number: u64) -> Result<Option<Turn<'_>>, Status> {
    loop {
        let moved = lane.moved.notified();
        tokio::pin!(moved);
        moved.as_mut().enable();
        let next = lane.next.lock().await;
        if number < *next {
            return Ok(None);
        }
        if number == *next {
            return Ok(Some(next));
        }
        if number - *next > AHEAD_MAX {
            return Err(Status::Invalid);
        }
        if lane.is_full.load(Relaxed) {
            return Err(Status::NoSpace);
        }
        drop(next);
        moved.await;
    }
}
