//! Goal: no more is lent than there is, and every connection keeps one credit. A peer that stays within its grant finds
//! a receive whatever the others do. What is lent comes back. Method: the ledger by itself. Then servers' engines that
//! share a pool and a queue of receives. Their clients are ours, and others that ignore their credits, hold what they
//! got, or never answer.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::prelude::*;

use super::sim::Rng;
use crate::header::{FixedFields, encode_error_reply};
use crate::*;

/// A connection: the engine of the server, what is on its way to it, and its share of the queue.
struct Server {
    engine: Engine,
    account: u64,
    /// Messages of the client that are not delivered.
    wire: VecDeque<Bytes>,
    /// Messages that the provider lets through, beside those that are excused.
    admitted: u32,
    /// Such came.
    was_excused: bool,
    /// Calls that are being executed.
    running: VecDeque<u32>,
}

/// Servers that share a pool and a queue.
struct Host {
    pool: CreditPool,
    /// As software iWARP; else as a device.
    holds_back: bool,
    /// Receives in the queue.
    posted: u32,
    servers: Vec<Server>,
}

fn config() -> EngineConfig {
    EngineConfig {
        grant: 64,
        credits_requested: 64,
        ..EngineConfig::default()
    }
}

fn call(xid: u32) -> Message {
    let words = [xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0];
    let head = words.iter().flat_map(|word: &u32| word.to_be_bytes());
    Message::new(head.collect::<Bytes>(), Vec::new(), Vec::new())
}

fn reply(xid: u32) -> Message {
    let words = [xid, 1, 0, 0, 0, 0];
    let head = words.iter().flat_map(|word: &u32| word.to_be_bytes());
    Message::new(head.collect::<Bytes>(), Vec::new(), Vec::new())
}

/// A call as somebody sends it who keeps no books.
fn raw_call(xid: u32) -> Bytes {
    let header = [xid, 1, 64, 0, 0, 0, 0];
    let words = header.iter().flat_map(|word: &u32| word.to_be_bytes());
    words.chain(call(xid).head().iter().copied()).collect()
}

impl Host {
    fn new(stock: u32, count: usize, holds_back: bool) -> Self {
        let pool = CreditPool::new(stock);
        let server = |_| {
            let account = pool.open();
            Server {
                account: account.id(),
                engine: Engine::new(config()).lending(account, holds_back),
                wire: VecDeque::new(),
                admitted: 0,
                was_excused: false,
                running: VecDeque::new(),
            }
        };
        let servers: Vec<_> = (0..count).map(server).collect();
        let mut host = Self {
            pool: pool.clone(),
            holds_back,
            posted: 0,
            servers,
        };
        for at in 0..count {
            host.admit(at);
        }
        host
    }

    fn admit(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let wanted = server.engine.receives();
        let more = wanted.saturating_sub(server.admitted);
        server.admitted += more;
        self.posted += more;
        let less = server.admitted.saturating_sub(wanted);
        assert!(!self.holds_back || less == 0, "what may come stays");
        server.admitted -= less;
        self.posted -= less;
    }

    /// Messages of a client that need not wait, and do not end its connection.
    fn lets_through(&self, at: usize) -> u32 {
        let server = &self.servers[at];
        let excused = if self.holds_back {
            0
        } else {
            server.engine.excused()
        };
        server.admitted + excused
    }

    /// The provider delivers the next message, if it may.
    fn deliver(&mut self, at: usize) -> bool {
        if self.lets_through(at) == 0 {
            return false;
        }
        let server = &mut self.servers[at];
        let Some(message) = server.wire.pop_front() else {
            return false;
        };
        // What is excused takes a receive of the reserve.
        server.was_excused |= server.admitted == 0;
        if server.admitted > 0 {
            self.posted = self
                .posted
                .checked_sub(1)
                .expect("the queue never runs dry");
            server.admitted -= 1;
        }
        server.engine.received(&message, None);
        while let Some(event) = server.engine.next_event() {
            match event {
                Event::Call { xid, .. } => server.running.push_back(xid),
                Event::Reply { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        self.admit(at);
        true
    }

    /// The oldest call gets its reply; what goes to the client.
    fn answer(&mut self, at: usize) -> Option<Bytes> {
        let xid = self.servers[at].running.pop_front()?;
        self.servers[at].engine.reply(&reply(xid)).unwrap();
        self.send(at)
    }

    fn send(&mut self, at: usize) -> Option<Bytes> {
        let work = self.servers[at].engine.next_work()?;
        // What the Send allows is admitted before it leaves.
        self.admit(at);
        match work {
            SendWork::Send { data, .. } => Some(data.concat().into()),
            other => panic!("{other:?}"),
        }
    }

    /// Serves a client that answers every reply by the next call.
    fn serve(&mut self, at: usize, client: &mut Client, rounds: usize) {
        for _ in 0..rounds {
            while let Some(message) = client.sends() {
                self.servers[at].wire.push_back(message);
            }
            while self.deliver(at) {}
            while let Some(message) = self.answer(at) {
                client.receives(&message);
                client.call();
            }
            self.check();
        }
    }

    /// Makes a call to a client, which answers at once: with an error, since only that it is an answer counts.
    fn ask(&mut self, at: usize, xid: u32) {
        let engine = &mut self.servers[at].engine;
        engine.call(call(xid), &ReplyRoom::default()).unwrap();
        self.send(at).expect("a call");
        let to = FixedFields {
            xid,
            version: VERSION,
            credits: 0,
            procedure: 0,
        };
        let answer = encode_error_reply(to, 1, RdmaError::Chunk);
        self.servers[at].wire.push_back(answer.into());
        while self.deliver(at) {}
    }

    fn check(&self) {
        let admitted = self.servers.iter().map(|s| s.admitted).sum::<u32>();
        assert_eq!(
            self.posted, admitted,
            "a receive for each message that may come"
        );
        let (lent, stock) = self.pool.lent();
        let beyond = |s: &Server| s.engine.calls_allowed().max(1) - 1;
        let beyond = self.servers.iter().map(beyond).sum::<u32>();
        // Calls beyond any grant are in nobody's books.
        let are_excused = self.servers.iter().any(|s| s.was_excused);
        assert!(lent == beyond || are_excused && lent < beyond);
        assert!(lent <= stock);
        // What a device has pinned.
        let own = u32::try_from(self.servers.len()).unwrap();
        assert!(self.holds_back || admitted <= lent + own);
    }
}

/// A client of ours; every reply is answered by the next call.
struct Client {
    engine: Engine,
    next: u32,
    answered: u32,
}

impl Client {
    fn new() -> Self {
        Self {
            engine: Engine::new(config()),
            next: 1,
            answered: 0,
        }
    }

    fn call(&mut self) {
        let message = call(self.next);
        self.engine.call(message, &ReplyRoom::default()).unwrap();
        self.next += 1;
    }

    fn sends(&mut self) -> Option<Bytes> {
        match self.engine.next_work()? {
            SendWork::Send { data, .. } => Some(data.concat().into()),
            other => panic!("{other:?}"),
        }
    }

    fn receives(&mut self, message: &Bytes) {
        self.engine.received(message, None);
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Reply { outcome, .. } => {
                    outcome.unwrap();
                    self.answered += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn who_uses_all_it_has_gets_more_until_the_stock_is_gone() {
    let mut host = Host::new(100, 2, true);
    let mut clients = [Client::new(), Client::new()];
    (0..64).for_each(|_| clients[0].call());
    clients[1].call();
    for _ in 0..600 {
        for (at, client) in clients.iter_mut().enumerate() {
            while let Some(message) = client.sends() {
                host.servers[at].wire.push_back(message);
            }
            while host.deliver(at) {}
            host.check();
            while let Some(message) = host.answer(at) {
                host.check();
                client.receives(&message);
                client.call();
            }
        }
    }
    assert_eq!(host.servers[0].engine.calls_allowed(), 64);
    assert!(
        host.servers[1].engine.calls_allowed() <= 2,
        "one after the other"
    );
    host.servers.clear();
    assert_eq!((host.pool.lent().0, host.pool.accounts()), (0, 0));
}

/// A host of two: the first client holds all that it had and is idle, the second one lacks credits.
fn idle_holder(holds_back: bool) -> (Host, [Client; 2]) {
    let mut host = Host::new(70, 2, holds_back);
    let mut clients = [Client::new(), Client::new()];
    (0..64).for_each(|_| clients[0].call());
    host.serve(0, &mut clients[0], 100);
    assert_eq!(host.servers[0].engine.calls_allowed(), 64);
    assert_eq!(host.pool.round(), Round::default(), "nobody lacks anything");
    // The first one stops with nothing in progress; the other gets the rest, and lacks more.
    (0..64).for_each(|_| clients[1].call());
    host.serve(1, &mut clients[1], 100);
    assert_eq!(host.pool.lent(), (70, 70));
    let _marks = host.pool.round();
    host.serve(1, &mut clients[1], 2);
    (host, clients)
}

#[test]
fn idle_holders_are_asked_and_their_answers_give_back_what_they_hold() {
    [true, false].into_iter().for_each(give_back);
}

fn give_back(holds_back: bool) {
    let (mut host, mut clients) = idle_holder(holds_back);
    let asked = host.pool.round();
    assert_eq!(asked.ask, [host.servers[0].account]);
    // The client is asked (a call of the server), answers, and makes one call, whose reply brings the lower grant.
    host.ask(0, 7_001);
    assert_eq!(
        host.servers[0].engine.calls_allowed(),
        64,
        "it may still go by what it had"
    );
    host.servers[0].wire.push_back(raw_call(9_001));
    assert!(host.deliver(0));
    host.answer(0).expect("a reply");
    assert_eq!(host.servers[0].engine.calls_allowed(), 63);
    host.ask(0, 7_002);
    assert_eq!(
        host.servers[0].engine.calls_allowed(),
        1,
        "it has shown that it heard of it"
    );
    host.serve(1, &mut clients[1], 100);
    assert_eq!(host.servers[1].engine.calls_allowed(), 64);
}

/// The client had begun all that its older grant allowed before it heard of the lower one. It sends that after its
/// answers to two calls of the server: one that shows that it knows the lower grant, and another. Each message finds a
/// receive of its own, or where that would be pinned is excused.
#[test]
fn calls_begun_before_a_lower_grant_find_their_receives_beside_answers_to_calls() {
    [true, false].into_iter().for_each(begun_before);
}

fn begun_before(holds_back: bool) {
    let mut host = Host::new(70, 1, holds_back);
    let mut client = Client::new();
    (0..64).for_each(|_| client.call());
    host.serve(0, &mut client, 100);
    assert_eq!(host.servers[0].engine.calls_allowed(), 64);
    host.servers[0].engine.set_grant(1);
    host.servers[0].wire.push_back(raw_call(9_001));
    assert!(host.deliver(0));
    host.answer(0).expect("the reply with the lower grant");
    host.ask(0, 7_001);
    assert_eq!(host.servers[0].engine.calls_allowed(), 1);
    assert_eq!(host.posted, if holds_back { 63 } else { 1 });
    host.check();
    host.ask(0, 7_002);
    for begun in 0..63 {
        host.servers[0].wire.push_back(raw_call(10_000 + begun));
    }
    while host.deliver(0) {}
    assert_eq!(host.servers[0].wire.len(), 0, "none is held back");
    assert_eq!(host.posted, host.servers[0].admitted);
    assert_eq!(
        host.lets_through(0),
        if holds_back { 0 } else { config().overrun }
    );
}

#[test]
fn calls_that_were_begun_before_a_lower_grant_was_heard_of_are_excused_and_no_more() {
    let (mut host, _) = idle_holder(false);
    host.servers[0].wire.push_back(raw_call(9_001));
    assert!(host.deliver(0));
    host.answer(0).expect("a reply");
    let before = host.servers[0].engine.receives();
    host.ask(0, 7_001);
    let engine = &mut host.servers[0].engine;
    assert_eq!((before, engine.receives()), (63, 1));
    assert_eq!(engine.excused(), before - 1 + config().overrun);
    // All of them come at last, and no provider ends the connection for one of them: each was admitted or excused.
    for late in 0..before + config().overrun {
        assert!(engine.receives() + engine.excused() > 0, "{late}");
        engine.received(&raw_call(10_000 + late), None);
        assert!(matches!(engine.next_event(), Some(Event::Call { .. })));
    }
    assert_eq!((engine.receives(), engine.excused()), (0, 0));
    engine.received(&raw_call(20_000), None);
    let event = engine.next_event();
    assert!(matches!(
        event,
        Some(Event::Failed(FailReason::CreditFlood))
    ));
    // What the others may have is not touched by it.
    let (lent, stock) = host.pool.lent();
    assert!(lent <= stock);
}

#[test]
fn a_holder_that_never_answers_is_cut_off_and_only_while_others_lack_credits() {
    let pool = CreditPool::new(7);
    let mut holder = pool.open();
    assert_eq!(holder.answer(0, 64), 8);
    for _ in 0..10 {
        assert_eq!(pool.round(), Round::default(), "nobody lacks anything");
    }
    let mut other = pool.open();
    let mut named = Vec::new();
    for _ in 0..=ROUNDS_MAX {
        (0..32).for_each(|_| other.called(1, 0));
        assert_eq!(other.answer(0, 64), 1);
        let Round { ask, cut } = pool.round();
        named.push((ask, cut));
    }
    let asked = (vec![holder.id()], vec![]);
    let last = ROUNDS_MAX as usize;
    assert!(named[..last].iter().all(|round| *round == asked));
    assert_eq!(named[last], (vec![], vec![holder.id()]));
    drop(holder);
    (0..32).for_each(|_| other.called(1, 0));
    assert_eq!(other.answer(0, 64), 2, "its credits are back");
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Honest,
    /// Sends as it likes.
    Ignores,
    /// Uses much once, then holds it.
    Holds,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_others_do_the_queue_has_a_receive_for_each_call_that_was_allowed(
        seed: u64, holds_back: bool
    ) {
        let mut rng = Rng::new(seed);
        let count = 2 + rng.below(5);
        let stock = u32::try_from(rng.below(80)).unwrap();
        let mut host = Host::new(stock, count, holds_back);
        let manners: Vec<_> = (0..count)
            .map(|at| match rng.below(3) {
                _ if at == 0 => Manner::Honest,
                0 => Manner::Honest,
                1 => Manner::Ignores,
                _ => Manner::Holds,
            })
            .collect();
        let mut clients: Vec<_> = (0..count).map(|_| Client::new()).collect();
        let mut flood = 1_000_000;
        for step in 0..3000 {
            let at = rng.below(count);
            let client = &mut clients[at];
            match (rng.below(4), manners[at]) {
                (0, Manner::Honest) if client.next - client.answered < 40 => client.call(),
                (0, Manner::Holds) if step < 1000 && client.next - client.answered < 40 => client.call(),
                (0, Manner::Ignores) if host.servers[at].wire.len() < 50 => {
                    flood += 1;
                    host.servers[at].wire.push_back(raw_call(flood));
                }
                (1, _) => {
                    if let Some(message) = client.sends() {
                        host.servers[at].wire.push_back(message);
                    }
                }
                (2, _) => {
                    host.deliver(at);
                }
                _ => {
                    if let Some(message) = host.answer(at)
                        && manners[at] != Manner::Ignores
                    {
                        client.receives(&message);
                    }
                }
            }
            host.check();
            // Whoever is honest is never held back.
            for (at, server) in host.servers.iter().enumerate() {
                let is_honest = manners[at] != Manner::Ignores;
                let waiting = u32::try_from(server.wire.len()).unwrap();
                prop_assert!(!is_honest || waiting <= server.admitted);
            }
        }
        prop_assert!(clients[0].answered > 0);
    }
}
