//! How many connections each address has at a listener.
//!
//! # Failure
//! An address that has as many as it may have gets no further one. It is counted, and a line in the log tells of it at most every
//! [`LINE_PERIOD`].

use crate::samples::Samples;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Connections of one address that is not this machine's; more are closed.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 16;
/// Shortest time between two lines about refused connections.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// The connections of a listener, by address.
#[derive(Debug, Default)]
pub(crate) struct ByAddress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counts: HashMap<IpAddr, usize>,
    last_line: Option<Instant>,
    /// Refusals that no line has told of.
    untold: u64,
}

/// A connection that counts for its address until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Arc<ByAddress>,
    address: Option<IpAddr>,
}

impl ByAddress {
    /// A place for a connection. None, counted in `samples`, when its address has as many as it may have.
    pub(crate) fn place(
        self: &Arc<Self>,
        peer: Option<SocketAddr>,
        samples: &Samples,
    ) -> Option<Counted> {
        let address = peer.map(|peer| peer.ip());
        if let Some(address) = address {
            let mut state = self.0.lock();
            let count = state.counts.entry(address).or_default();
            if *count >= CONNECTIONS_PER_ADDRESS_MAX && !address.is_loopback() {
                let untold = state.refuse();
                drop(state);
                samples.count_refused_connection();
                if let Some(refused) = untold {
                    tell(address, refused);
                }
                return None;
            }
            *count += 1;
        }
        Some(Counted {
            all: Arc::clone(self),
            address,
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().counts.is_empty()
    }
}

impl State {
    /// Notes one refusal. `Some` asks for a line now and says how many it stands for.
    fn refuse(&mut self) -> Option<u64> {
        let now = Instant::now();
        self.untold += 1;
        if self.last_line.is_some_and(|last| now - last < LINE_PERIOD) {
            return None;
        }
        self.last_line = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

fn tell(address: IpAddr, refused: u64) {
    tracing::warn!(
        %address,
        max = CONNECTIONS_PER_ADDRESS_MAX,
        refused,
        "connections of the administration API refused: the address has as many as it may have"
    );
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(address) = self.address else {
            return;
        };
        let mut state = self.all.0.lock();
        if let Some(count) = state.counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                state.counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an address elsewhere has a part of the connections, and each refusal is counted and told, not each by itself.
    use super::*;

    #[tokio::test]
    async fn an_address_elsewhere_has_a_part_of_the_connections() {
        let (all, samples) = (Arc::new(ByAddress::default()), Samples::default());
        let from = |peer: &str| all.place(Some(peer.parse().unwrap()), &samples);
        let mut some: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX)
            .map(|_| from("192.0.2.1:1").unwrap())
            .collect();
        assert_eq!(samples.connections_refused(), 0);
        assert!(from("192.0.2.1:2").is_none());
        assert!(from("192.0.2.1:3").is_none());
        assert_eq!(samples.connections_refused(), 2);
        assert!(from("192.0.2.2:1").is_some());
        drop(some.pop());
        assert!(from("192.0.2.1:2").is_some());
        let own: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX * 2)
            .map(|_| from("127.0.0.1:1"))
            .collect();
        assert!(own.iter().all(Option::is_some));
        drop((some, own));
        assert!(all.is_empty());
        assert_eq!(samples.connections_refused(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_line_in_a_period_tells_of_all_refusals() {
        let mut state = State::default();
        assert_eq!(state.refuse(), Some(1));
        assert_eq!((state.refuse(), state.refuse()), (None, None));
        tokio::time::advance(LINE_PERIOD).await;
        assert_eq!(state.refuse(), Some(3));
    }
}
