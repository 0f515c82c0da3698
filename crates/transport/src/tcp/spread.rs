//! A place for each new connection: with the worker that has the fewest.
//!
//! The kernel spreads connections over the sockets that share a port by a hash of their addresses. That is even for thousands; of four
//! connections to two workers, it gives all to one of them in one case of eight. So the accepting worker hands a connection on,
//! once and before its first byte is read. Its requests never change their thread.
//!
//! # Ownership
//! A connection takes its place with a [`Taken`] and gives it back by dropping that.
//!
//! # Failure
//! A worker that has not begun or has ended gets nothing, and one with a full queue either: the connection stays where it was accepted.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context as TaskContext, Poll};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Connections that wait for a worker to take them over.
const HANDED_MAX: usize = 64;

/// A socket that listens, one of those that [`bind`](super::bind) made for one address.
#[derive(Debug)]
pub struct Listener {
    socket: StdListener,
    place: Place,
}

impl Listener {
    /// Listeners that share the connections of one address.
    pub(super) fn sharing(sockets: Vec<StdListener>) -> Vec<Self> {
        let (seats, queues): (Vec<_>, Vec<_>) = sockets
            .iter()
            .map(|_| {
                let (sender, queue) = channel(HANDED_MAX);
                let seat = Seat {
                    begun: AtomicBool::new(false),
                    connections: AtomicUsize::new(0),
                    queue: sender,
                };
                (seat, queue)
            })
            .unzip();
        let seats: Arc<[Seat]> = seats.into();
        let listener = |(own, (socket, queue))| {
            let seats = Arc::clone(&seats);
            let place = Place { own, seats, queue };
            Self { socket, place }
        };
        sockets
            .into_iter()
            .zip(queues)
            .enumerate()
            .map(listener)
            .collect()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The socket alone, for who serves it by himself.
    #[must_use]
    pub fn into_socket(self) -> StdListener {
        self.socket
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A worker, as the others see it.
#[derive(Debug)]
struct Seat {
    begun: AtomicBool,
    connections: AtomicUsize,
    /// Closed when the worker has ended.
    queue: Sender<Arrival<StdStream>>,
}

/// A worker, as it sees itself.
#[derive(Debug)]
struct Place {
    own: usize,
    seats: Arc<[Seat]>,
    queue: Receiver<Arrival<StdStream>>,
}

/// A connection and its place.
#[derive(Debug)]
pub(super) struct Arrival<S> {
    pub(super) stream: S,
    pub(super) peer: SocketAddr,
    pub(super) taken: Taken,
}

impl Arrival<StdStream> {
    /// In the runtime of the worker that takes it over.
    fn register(self) -> io::Result<Arrival<TcpStream>> {
        Ok(Arrival {
            stream: TcpStream::from_std(self.stream)?,
            peer: self.peer,
            taken: self.taken,
        })
    }
}

/// Counts a connection for its worker while it lives.
#[derive(Debug)]
pub(super) struct Taken {
    seats: Arc<[Seat]>,
    index: usize,
}

impl Taken {
    fn of(seats: &Arc<[Seat]>, index: usize) -> Self {
        seats[index].connections.fetch_add(1, Relaxed);
        let seats = Arc::clone(seats);
        Self { seats, index }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats[self.index].connections.fetch_sub(1, Relaxed);
    }
}

impl Seat {
    fn serves(&self) -> bool {
        self.begun.load(Relaxed) && !self.queue.is_closed()
    }
}

impl Place {
    /// The worker with the fewest connections; this one, if it has no more than any other.
    fn choose(&self) -> usize {
        let all = 0..self.seats.len();
        all.filter(|&index| self.seats[index].serves())
            .min_by_key(|&index| {
                let connections = self.seats[index].connections.load(Relaxed);
                (connections, index != self.own)
            })
            .unwrap_or(self.own)
    }

    /// Hands a connection to the worker that shall have it; returns it when that is this one.
    fn assign(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<Option<Arrival<TcpStream>>> {
        let chosen = self.choose();
        if chosen != self.own
            && let Ok(room) = self.seats[chosen].queue.try_reserve()
        {
            let taken = Taken::of(&self.seats, chosen);
            let stream = stream.into_std()?;
            room.send(Arrival {
                stream,
                peer,
                taken,
            });
            return Ok(None);
        }
        let taken = Taken::of(&self.seats, self.own);
        Ok(Some(Arrival {
            stream,
            peer,
            taken,
        }))
    }
}

/// A listener in its worker's runtime.
pub(super) struct Serving {
    socket: TcpListener,
    place: Place,
}

impl Serving {
    /// From now on connections may be handed to this worker.
    pub(super) fn begin(listener: Listener) -> io::Result<Self> {
        let Listener { socket, place } = listener;
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        place.seats[place.own].begun.store(true, Relaxed);
        Ok(Self { socket, place })
    }

    /// The next connection for this worker: one that another has handed over, or one that came here and stays.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut TaskContext<'_>,
    ) -> Poll<io::Result<Arrival<TcpStream>>> {
        // Never `None`: the seats hold a sender.
        if let Poll::Ready(Some(handed)) = self.place.queue.poll_recv(cx) {
            return Poll::Ready(handed.register());
        }
        while let Poll::Ready(accepted) = self.socket.poll_accept(cx) {
            let assigned = accepted.and_then(|(stream, peer)| self.place.assign(stream, peer));
            if let Some(own) = assigned.transpose() {
                return Poll::Ready(own);
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each connection is served once, by the worker that has the fewest. Method: workers are polled by hand.
    use std::future::poll_fn;
    use std::task::Waker;

    use super::super::bind;
    use super::*;

    /// Connects, and lets each of the workers look once, the others' hand-overs included.
    async fn connect(workers: &mut [Serving]) -> (usize, Arrival<TcpStream>, StdStream) {
        let address = workers[0].socket.local_addr().unwrap();
        let client = StdStream::connect(address).unwrap();
        let (index, arrival) = poll_fn(|cx| {
            // A hand-over wakes its worker; here all are looked at again.
            for _ in 0..2 {
                for (index, worker) in workers.iter_mut().enumerate() {
                    if let Poll::Ready(arrival) = worker.poll_next(cx) {
                        return Poll::Ready((index, arrival.unwrap()));
                    }
                }
            }
            Poll::Pending
        })
        .await;
        (index, arrival, client)
    }

    fn counts(workers: &[Serving]) -> Vec<usize> {
        let seats = &workers[0].place.seats;
        seats.iter().map(|s| s.connections.load(Relaxed)).collect()
    }

    #[tokio::test]
    async fn connections_go_to_the_worker_that_has_the_fewest() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let begun = listeners.into_iter().map(Serving::begin);
        let mut workers = begun.collect::<io::Result<Vec<_>>>().unwrap();
        let mut held = Vec::new();
        for round in 1..=4 {
            for _ in 0..3 {
                held.push(connect(&mut workers).await);
            }
            assert_eq!(counts(&workers), [round; 3]);
        }
        held.retain(|(index, ..)| *index != 1);
        assert_eq!(counts(&workers), [4, 0, 4]);
        for _ in 0..4 {
            let newest = connect(&mut workers).await;
            assert_eq!(newest.0, 1);
            held.push(newest);
        }
    }

    #[tokio::test]
    async fn nothing_is_handed_to_a_worker_that_does_not_serve() {
        let mut listeners = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let _never = listeners.pop().unwrap().into_socket();
        let mut worker = Serving::begin(listeners.pop().unwrap()).unwrap();
        assert_eq!(worker.place.choose(), 0);
        let _busy = Taken::of(&worker.place.seats, 0);
        assert_eq!(worker.place.choose(), 0);
        let mut cx = TaskContext::from_waker(Waker::noop());
        assert!(worker.poll_next(&mut cx).is_pending());
    }
}
