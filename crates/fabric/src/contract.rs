//! What every provider must do, as tests that each adapter runs.
//!
//! An adapter calls [`contract_tests!`](crate::contract_tests) with three things. They are a function that makes its
//! [`Fabric`], the address to listen on, and a function that runs a future. Every promise becomes a test of its own.
//! The functions panic where the provider breaks its promise.

mod connecting;
mod ending;
mod faults;
mod files;
mod moving;
mod registering;
mod sharing;

pub use connecting::*;
pub use ending::*;
pub use faults::*;
pub use files::*;
pub use moving::*;
pub use registering::*;
pub use sharing::*;

use crate::{
    Buffer, Completion, Connected, Done, Ended, Endpoint, EndpointConfig, Fabric, Listener, Memory,
    Part, Pool, PoolConfig, Receive, Remote, Work, WorkStatus,
};
use bytes::Bytes;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};

const WHY: &str = "the contract's connections are healthy";
/// Bytes of the buffers that the tests use.
const BUFFER_BYTES: usize = 256 * 1024;
/// Receives that each side has from the beginning.
const RECEIVES: u64 = 32;
const RECEIVE_BYTES: usize = 4096;

/// One `#[test]` for each promise of the contract.
#[macro_export]
macro_rules! contract_tests {
    ($fabric:expr, $address:expr, $run:expr) => {
        $crate::contract_tests!(@each $fabric, $address, $run;
            private_data_travel_both_ways a_rejection_says_why too_much_private_data_are_refused
            either_side_sends_first
            memory_is_registered_once messages_of_every_size_arrive writes_and_reads_move_bytes nothing_moves_as_well
            files_are_written_from_where_they_lie a_file_that_is_too_short_ends_the_connection
            completions_come_once_and_in_order reads_beyond_the_depth_wait_their_turn
            a_read_of_many_parts_completes_once a_read_fails_as_a_whole
            a_peer_without_read_depth_is_not_asked
            a_full_queue_is_a_value what_does_not_fit_is_refused
            reads_are_answered_beside_queued_writes both_sides_may_be_full_of_work
            invalidation_ends_access remote_invalidation_ends_access
            forbidden_access_ends_that_connection_only a_message_needs_a_receive_that_holds_it
            only_exposed_keys_can_be_invalidated what_is_not_admitted_waits_alone
            answers_pass_what_is_not_admitted what_is_not_admitted_ends_its_connection_alone
            a_flood_ends_its_connection_alone what_is_excused_arrives_without_being_admitted
            ended_connections_leave_the_queue_whole
            draining_completes_what_was_posted closing_flushes_what_was_posted
            a_vanished_peer_flushes_everything);
    };
    (@each $fabric:expr, $address:expr, $run:expr; $($name:ident)+) => {
        $(#[test] fn $name() {
            let fabric = $fabric;
            $run($crate::contract::$name(&fabric, $address));
        })+
    };
}

/// One side of a connection and what it has seen.
pub struct Side {
    endpoint: Box<dyn Endpoint>,
    pool: Pool,
    small: Pool,
    seen: Vec<Completion>,
    ended: Option<Ended>,
}

impl Side {
    fn new(connected: Connected, pool: Pool, small: Pool) -> Self {
        Self {
            endpoint: connected.endpoint,
            pool,
            small,
            seen: Vec::new(),
            ended: None,
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) {
        while self.ended.is_none() {
            match self.endpoint.poll_completions(cx, &mut self.seen) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(ended)) => self.ended = Some(ended),
                Poll::Pending => break,
            }
        }
    }

    fn buffer(&self) -> Buffer {
        self.pool.take().expect("the pool is large")
    }

    fn filled(&self, len: usize, seed: u8) -> Bytes {
        let mut buffer = self.buffer();
        buffer[..len].copy_from_slice(&pattern(len, seed));
        buffer.freeze(0..len)
    }

    fn post(&mut self, id: u64, work: Work) {
        if let Err(refused) = self.endpoint.post(id, work, true) {
            panic!("{id}: {}", refused.why);
        }
    }

    fn expose(&mut self, memory: Memory) -> Remote {
        match self.endpoint.expose(memory) {
            Ok(remote) => remote,
            Err(refused) => panic!("{}", refused.why),
        }
    }

    fn expose_buffer(&mut self, len: usize) -> Remote {
        let mut buffer = self.buffer();
        buffer.set_len(len);
        buffer.fill(0);
        self.expose(Memory::Buffer(buffer))
    }

    fn write(&mut self, id: u64, data: Vec<Bytes>, remote: Remote) {
        self.post(id, Work::Write { data, remote });
    }

    fn send(&mut self, id: u64, data: &'static [u8]) {
        let data = vec![Bytes::from_static(data)];
        let invalidate = None;
        self.post(id, Work::Send { data, invalidate });
    }

    fn read(&mut self, id: u64, remote: Remote) {
        self.read_parts(id, vec![Part { at: 0, remote }]);
    }

    fn read_parts(&mut self, id: u64, parts: Vec<Part>) {
        let sink = self.buffer();
        self.post(id, Work::Read { sink, parts });
    }

    /// Ids of completions other than receives, in order.
    fn ids(&self) -> Vec<u64> {
        let ours = |c: &&Completion| !matches!(c.done, Done::Receive { .. } | Done::Exposed { .. });
        self.seen.iter().filter(ours).map(|c| c.id).collect()
    }

    /// Messages that have arrived and are not taken yet.
    fn messages(&self) -> usize {
        let arrived =
            |c: &&Completion| c.status == WorkStatus::Ok && matches!(c.done, Done::Receive { .. });
        self.seen.iter().filter(arrived).count()
    }

    fn count(&self, wanted: impl Fn(&Completion) -> bool) -> usize {
        self.seen.iter().filter(|c| wanted(c)).count()
    }

    /// Takes the first completion of this id that is no receive.
    fn take(&mut self, id: u64) -> Completion {
        let ours = |c: &Completion| c.id == id && !matches!(c.done, Done::Receive { .. });
        let at = self.seen.iter().position(ours);
        self.seen.remove(at.expect("it is complete"))
    }

    /// Takes what a read has filled.
    fn take_sink(&mut self, id: u64) -> Buffer {
        match self.take(id).done {
            Done::Read { sink } => sink,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the first message.
    fn message(&mut self) -> (u64, Buffer, Option<(u32, Memory)>) {
        let arrived =
            |c: &Completion| c.status == WorkStatus::Ok && matches!(c.done, Done::Receive { .. });
        let at = self.seen.iter().position(arrived);
        let completion = self.seen.remove(at.expect("a message has arrived"));
        match completion.done {
            Done::Receive {
                buffer,
                invalidated,
            } => (completion.id, buffer, invalidated),
            _ => unreachable!("it was just asked for"),
        }
    }

    /// Everything that this side's pools gave out is back, once the caller dropped what it has.
    fn assert_all_back(mut self) {
        self.seen.clear();
        drop(self.endpoint);
        assert_eq!((self.pool.taken(), self.small.taken()), (0, 0));
    }
}

/// Two connected sides: who connected, and who accepted.
pub struct Pair {
    a: Side,
    b: Side,
    /// Kept, since a provider may need it.
    _listener: Option<Box<dyn Listener>>,
}

fn pools() -> (Pool, Pool) {
    let pool = |buffer_bytes, count| {
        Pool::new(PoolConfig {
            buffer_bytes,
            slab_bytes: buffer_bytes * 16,
            bytes_max: buffer_bytes * count,
            free_bytes_max: usize::MAX,
        })
    };
    (pool(BUFFER_BYTES, 128), pool(RECEIVE_BYTES, 64))
}

fn receives(small: &Pool, count: u64) -> Vec<Receive> {
    let receive = |id| Receive {
        id,
        buffer: small.take().expect("the pool is large"),
    };
    (0..count).map(receive).collect()
}

impl Pair {
    async fn new(fabric: &dyn Fabric, address: SocketAddr) -> Self {
        Self::with(fabric, address, EndpointConfig::default(), RECEIVES).await
    }

    async fn with(
        fabric: &dyn Fabric,
        address: SocketAddr,
        config: EndpointConfig,
        receive_count: u64,
    ) -> Self {
        let mut listener = fabric.listen(address).await.expect(WHY);
        let (pool_a, small_a) = pools();
        let (pool_b, small_b) = pools();
        let for_a = receives(&small_a, receive_count);
        let for_b = receives(&small_b, receive_count);
        let connecting = fabric.connect(listener.local(), config, Bytes::new(), for_a);
        let accepting = async {
            let incoming = listener.accept().await.expect(WHY);
            incoming
                .accept(config, Bytes::new(), for_b)
                .await
                .expect(WHY)
        };
        let (a, b) = both(connecting, accepting).await;
        Self {
            a: Side::new(a.expect(WHY), pool_a, small_a),
            b: Side::new(b, pool_b, small_b),
            _listener: Some(listener),
        }
    }

    fn of(a: Side, b: Side) -> Self {
        let _listener = None;
        Self { a, b, _listener }
    }

    /// Moves both sides forward until this holds.
    async fn until(&mut self, mut holds: impl FnMut(&Side, &Side) -> bool) {
        poll_fn(|cx| {
            self.a.step(cx);
            self.b.step(cx);
            if holds(&self.a, &self.b) {
                Poll::Ready(())
            } else {
                assert!(
                    self.a.ended.is_none() || self.b.ended.is_none(),
                    "both have ended: {:?} {:?}",
                    self.a.ended,
                    self.b.ended
                );
                Poll::Pending
            }
        })
        .await;
    }

    async fn until_ended(&mut self) {
        self.until(|a, b| a.ended.is_some() && b.ended.is_some())
            .await;
    }

    /// One message in each direction arrives.
    async fn assert_works(&mut self) {
        let (a, b) = (self.a.messages(), self.b.messages());
        self.a.send(1_000_001, b"ping");
        self.b.send(1_000_002, b"pong");
        self.until(|at_a, at_b| at_a.messages() > a && at_b.messages() > b)
            .await;
    }

    fn assert_all_back(self) {
        self.a.assert_all_back();
        self.b.assert_all_back();
    }
}

/// Bytes that tell where they belong.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    let byte = |n: usize| {
        let [a, b, c, ..] = n.to_le_bytes();
        a.wrapping_mul(31) ^ b.wrapping_mul(17) ^ c ^ seed
    };
    (0..len).map(byte).collect()
}

/// Both futures, run in one task.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut from_a, mut from_b) = (None, None);
    poll_fn(move |cx| {
        if from_a.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            from_a = Some(value);
        }
        if from_b.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            from_b = Some(value);
        }
        match (from_a.take(), from_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (from_a, from_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}
