//! Goal: messages that were not admitted never stand before an answer that this side needs. They arrive in order once
//! they are admitted, take nobody's receive, and are bounded. Method: two machines, with bytes moved between them in
//! pieces; no sockets, no clock. The one that accepts takes its receives from a shared queue.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rig;

use bytes::Bytes;
use fabric::{
    Completion, Done, Ended, Fault, Memory, Part, Pool, PoolConfig, ReceiveQueue, Remote, Work,
};
use rig::{Party, Roll, agreed, deliver, pair, pattern, written};
use ropewalk_fabric_iwarp::Owed;
use ropewalk_fabric_iwarp::machine::Machine;
use ropewalk_fabric_iwarp::mpa::Rtr;

const MULPDU: usize = 1448;
const RECEIVE_BYTES: usize = 4096;
const RECEIVES: usize = 512;
/// Of messages put aside, with their books.
const ASIDE_BYTES: usize = 64 * 1024;

/// Who connected, who accepted with so many messages admitted, and where its receives come from.
struct Rig {
    a: Party,
    b: Party,
    pool: Pool,
    queue: ReceiveQueue,
    done: Vec<Completion>,
}

impl Rig {
    fn new(admitted: u32) -> Self {
        let (a, mut b) = pair(MULPDU, agreed(4, true, Rtr::Write));
        let pool = Pool::new(PoolConfig {
            buffer_bytes: RECEIVE_BYTES,
            slab_bytes: RECEIVE_BYTES * RECEIVES,
            bytes_max: RECEIVE_BYTES * RECEIVES,
            free_bytes_max: usize::MAX,
        });
        let queue = ReceiveQueue::new(pool.clone());
        let mut claim = queue.claim();
        assert_eq!(claim.admit(admitted), admitted);
        b.machine.share(claim);
        let done = Vec::new();
        Self {
            a,
            b,
            pool,
            queue,
            done,
        }
    }

    fn send(&mut self, data: Vec<u8>) {
        let data = vec![Bytes::from(data)];
        let invalidate = None;
        self.a.post(0, Work::Send { data, invalidate });
    }

    fn read(&mut self, id: u32, remote: Remote) {
        let sink = self.b.pool.take().unwrap();
        let parts = vec![Part { at: 0, remote }];
        self.b.post(id, Work::Read { sink, parts });
    }

    /// All that the first side has to say arrives.
    fn a_speaks(&mut self) {
        let said = self.a.said();
        self.b_reads(&said);
    }

    /// All of this is read.
    fn b_reads(&mut self, bytes: &[u8]) {
        assert_eq!(feed(&mut self.b.machine, bytes), bytes.len());
        self.b.take(&mut self.done);
    }

    fn b_speaks(&mut self) {
        let said = self.b.said();
        deliver(&mut self.a.machine, &said);
    }

    /// First bytes of the messages that have arrived.
    fn messages(&self) -> Vec<u8> {
        let first = |c: &Completion| match &c.done {
            Done::Receive { buffer, .. } => Some(buffer[0]),
            _ => None,
        };
        self.done.iter().filter_map(first).collect()
    }

    fn reads(&self) -> usize {
        let is_read = |c: &&Completion| matches!(c.done, Done::Read { .. });
        self.done.iter().filter(is_read).count()
    }
}

/// Reads as one does from a socket: not while the machine holds the peer back. Returns how many bytes it took.
fn feed(machine: &mut Machine, bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while !rest.is_empty() && machine.ended().is_none() && !machine.is_held_back() {
        let mut room = machine.room();
        let mut count = 0;
        for place in room.pieces() {
            let len = place.len().min(rest.len());
            place[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            count += len;
        }
        machine.read(count);
    }
    bytes.len() - rest.len()
}

#[test]
fn an_answer_behind_messages_that_were_not_admitted_is_read() {
    let mut rig = Rig::new(1);
    let source = rig.a.expose_bytes(50_000, 5);
    rig.send(vec![0; 100]);
    rig.a_speaks();
    // It asks before it can know what comes.
    rig.read(9, source);
    for n in 1..10 {
        rig.send(vec![n; RECEIVE_BYTES]);
    }
    let messages = rig.a.said();
    rig.b_speaks();
    let answer = rig.a.said();
    rig.b_reads(&[messages, answer].concat());
    assert_eq!((rig.messages(), rig.reads()), (vec![0], 1));
    assert_eq!(rig.queue.posted(), 0);
    assert_eq!(rig.b.machine.admit(3), 3);
    rig.b.take(&mut rig.done);
    assert_eq!(rig.messages(), [0, 1, 2, 3]);
    // Nothing is owed and nothing read now: the next ones wait in the stream, after those that were put aside.
    rig.send(vec![10; 50]);
    rig.a_speaks();
    assert!(rig.b.machine.is_held_back());
    assert_eq!(rig.b.machine.owed(), Owed::default());
    assert_eq!(rig.b.machine.admit(20), 20);
    rig.b.take(&mut rig.done);
    assert_eq!(rig.messages(), (0..=10).collect::<Vec<_>>());
    assert_eq!((rig.queue.posted(), rig.pool.taken()), (13, 11));
}

#[test]
fn a_read_that_is_posted_while_messages_are_held_back_gets_its_answer() {
    let mut rig = Rig::new(0);
    let source = rig.a.expose_bytes(50_000, 5);
    rig.send(vec![1; 1000]);
    rig.send(vec![2; 1000]);
    let said = rig.a.said();
    rig.b_reads(&said[..said.len() - 1]);
    assert!(rig.b.machine.is_held_back());
    rig.read(9, source);
    assert!(!rig.b.machine.is_held_back());
    rig.b_reads(&said[said.len() - 1..]);
    rig.b_speaks();
    rig.a_speaks();
    assert_eq!((rig.messages(), rig.reads()), (vec![], 1));
    rig.b.machine.admit(2);
    rig.b.take(&mut rig.done);
    assert_eq!(rig.messages(), [1, 2]);
}

#[test]
fn messages_admitted_while_the_next_is_half_here_stay_in_order() {
    let mut rig = Rig::new(0);
    let source = rig.a.expose_bytes(10, 5);
    rig.send(vec![1; 3000]);
    rig.send(vec![2; 3000]);
    rig.read(9, source);
    let said = rig.a.said();
    let (most, rest) = said.split_at(said.len() - 500);
    rig.b_reads(most);
    rig.b.machine.admit(2);
    rig.b.take(&mut rig.done);
    assert_eq!(rig.messages(), [1]);
    rig.b_reads(rest);
    assert_eq!((rig.messages(), rig.queue.posted()), (vec![1, 2], 0));
}

#[test]
fn who_sends_far_more_than_was_admitted_before_an_answer_is_cut_off() {
    for (bytes, most) in [(RECEIVE_BYTES, 16), (0, ASIDE_BYTES / 64)] {
        let mut rig = Rig::new(0);
        let source = rig.a.expose_bytes(10, 5);
        rig.read(9, source);
        let mut sent = 0;
        while rig.b.machine.ended().is_none() {
            assert!(sent <= most + 1, "there is a bound");
            sent += 1;
            rig.send(vec![1; bytes]);
            let said = rig.a.said();
            feed(&mut rig.b.machine, &said);
        }
        let ended = rig.b.machine.ended();
        assert_eq!(ended, Some(Ended::Faulted(Fault::NoReceive)));
        assert!(sent > 10);
        rig.b.take(&mut rig.done);
        assert_eq!(rig.reads(), 1, "it is flushed");
        drop(rig.b);
        rig.done.clear();
        assert_eq!((rig.queue.posted(), rig.pool.taken()), (0, 0));
    }
}

#[test]
fn an_invalidation_that_was_put_aside_is_checked_when_it_is_admitted() {
    for is_right in [true, false] {
        let mut rig = Rig::new(0);
        let source = rig.a.expose_bytes(10, 5);
        let target = rig.b.expose_buffer(100);
        rig.read(9, source);
        let key = if is_right {
            target.key
        } else {
            target.key ^ 0x100
        };
        let (data, invalidate) = (vec![Bytes::from_static(b"x")], Some(key));
        rig.a.post(0, Work::Send { data, invalidate });
        rig.a_speaks();
        assert_eq!((rig.done.len(), rig.b.machine.ended()), (0, None));
        rig.b.machine.admit(1);
        rig.b.take(&mut rig.done);
        if is_right {
            let Done::Receive {
                invalidated: Some((_, Memory::Buffer(buffer))),
                ..
            } = &rig.done[0].done
            else {
                panic!("{:?}", rig.done)
            };
            assert_eq!(buffer.len(), 100);
        } else {
            let fault = Fault::CannotInvalidate;
            assert_eq!(rig.b.machine.ended(), Some(Ended::Faulted(fault)));
        }
    }
}

/// Messages of all sizes, reads at any time, admissions at any time: all arrives, in order and whole.
#[test]
fn whatever_is_admitted_when_all_arrives_in_order() {
    let mut blocked = 0;
    for seed in 0..40 {
        let mut roll = Roll::new(seed);
        let mut rig = Rig::new(0);
        let source = rig.a.expose_bytes(20_000, 3);
        let (mut sizes, mut sent, mut asked) = (Vec::new(), 0, 0_u32);
        let (mut admitted, mut on_the_way) = (0, Vec::new());
        for step in 0..100_000 {
            if sent < 60 && roll.below(3) == 0 {
                let len = 1 + roll.below(700);
                sizes.push(len);
                rig.send(vec![sent; len]);
                sent += 1;
            }
            if asked < 20 && roll.below(8) == 0 {
                rig.read(asked, source);
                asked += 1;
            }
            if admitted < 60 && roll.below(6) == 0 {
                admitted += rig.b.machine.admit(1);
            }
            let max = [1, 20, 700, 3000, 100_000][roll.below(5)];
            on_the_way.extend(written(&mut rig.a.machine, max));
            let len = roll.below(on_the_way.len() + 1);
            let taken = feed(&mut rig.b.machine, &on_the_way[..len]);
            on_the_way.drain(..taken);
            blocked += u32::from(rig.b.machine.is_held_back());
            let back = written(&mut rig.b.machine, max);
            deliver(&mut rig.a.machine, &back);
            rig.b.take(&mut rig.done);
            assert_eq!(rig.b.machine.ended(), None, "seed {seed}, step {step}");
            if rig.messages().len() == 60 && rig.reads() == 20 {
                break;
            }
        }
        assert_eq!(rig.messages(), (0..60).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!((rig.reads(), rig.queue.posted()), (20, 0));
        let lens = rig.done.iter().filter_map(|c| match &c.done {
            Done::Receive { buffer, .. } => Some(buffer.len()),
            Done::Read { sink } => {
                assert!(sink[..20_000] == pattern(20_000, 3));
                None
            }
            _ => None,
        });
        assert_eq!(lens.collect::<Vec<_>>(), sizes);
    }
    assert!(blocked > 100, "it was held back, too");
}
