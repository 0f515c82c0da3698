//! The sockets on which hosts of NFSv3 say by datagrams that they have restarted (NSM over UDP). Nothing else is served over UDP.
//!
//! # Failure
//! What comes faster than [`DATAGRAMS_PER_SECOND_MAX`], or while [`HEARD_AT_ONCE_MAX`] are being heard, is dropped: hosts send
//! again until they are answered. A port that is taken is a warning, since a host's next lock says the same.

use mds3::{DATAGRAM_BYTES_MAX, Nsm};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use transport::Endpoint;

/// Datagrams that are heard in a second. A thousand hosts that start together send some thousand, for a quarter of an hour.
const DATAGRAMS_PER_SECOND_MAX: u32 = 256;
/// Datagrams that are heard at once: one whose host does not answer takes many seconds.
const HEARD_AT_ONCE_MAX: usize = 128;
/// Pause after a failure to receive.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens at each of these addresses that has a port, until what it returns is dropped.
pub(crate) fn serve(listeners: &[SocketAddr], nsm: &Arc<Nsm>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for address in listeners.iter().filter(|a| a.port() != 0) {
        match bind(*address) {
            Ok(socket) => {
                tasks.spawn(receive(Arc::new(socket), Arc::clone(nsm)));
            }
            Err(error) => tracing::warn!(
                %address,
                %error,
                "no UDP socket: locks of NFSv3 hosts that restart end with their next lock"
            ),
        }
    }
    tasks
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

async fn receive(socket: Arc<UdpSocket>, nsm: Arc<Nsm>) {
    let places = Arc::new(Semaphore::new(HEARD_AT_ONCE_MAX));
    let mut heard = JoinSet::new();
    let mut rate = Rate::new(Instant::now());
    // One byte more: a longer datagram is cut, and must not look like a whole one.
    let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
    loop {
        let (len, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "a datagram");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while heard.try_join_next().is_some() {}
        let Some(datagram) = buffer.get(..len).filter(|_| rate.takes(Instant::now())) else {
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (socket, nsm, datagram) = (Arc::clone(&socket), Arc::clone(&nsm), datagram.to_vec());
        heard.spawn(async move {
            let answer = nsm.datagram(&Endpoint::Socket(from), &datagram).await;
            if let Some(answer) = answer
                && let Err(error) = socket.send_to(&answer, from).await
            {
                tracing::debug!(%error, %from, "the answer to a datagram");
            }
            drop(place);
        });
    }
}

/// How many datagrams the current second has brought.
struct Rate {
    began: Instant,
    count: u32,
}

impl Rate {
    const fn new(now: Instant) -> Self {
        Self {
            began: now,
            count: 0,
        }
    }

    fn takes(&mut self, now: Instant) -> bool {
        if now.duration_since(self.began) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        self.count = self.count.saturating_add(1);
        self.count <= DATAGRAMS_PER_SECOND_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_datagrams_and_the_next_one_as_many() {
        let began = Instant::now();
        let mut rate = Rate::new(began);
        for second in 0..3 {
            let now = began + Duration::from_secs(second);
            let taken = (0..1000).filter(|_| rate.takes(now)).count();
            assert_eq!(taken, DATAGRAMS_PER_SECOND_MAX as usize);
        }
    }
}
