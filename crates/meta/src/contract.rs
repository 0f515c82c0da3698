//! What every metadata store must do, as tests that each adapter runs.
//!
//! An adapter implements [`Subject`] and calls [`contract_tests!`](crate::contract_tests) with an expression
//! that makes one; every function here becomes a test of its own. The functions panic where the store
//! breaks its promise. Crashes are not here: how a store may lose power is each adapter's own matter.

use crate::{
    KEY_BYTES_MAX, MetaError, MetaStore, Seq, TX_BYTES_MAX, Tx, TxOutcome, VALUE_BYTES_MAX,
};
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

const WHY: &str = "the contract's stores are healthy";

/// Makes the stores under test.
pub trait Subject {
    /// A store without any pair.
    fn fresh(&mut self) -> Arc<dyn MetaStore>;

    /// Closes the newest store of [`Subject::fresh`], whose other handles are gone, and opens it again.
    /// `None` when it does not outlive its process.
    fn reopen(&mut self, store: Arc<dyn MetaStore>) -> Option<Arc<dyn MetaStore>> {
        drop(store);
        None
    }
}

/// One `#[test]` for each promise of the contract.
#[macro_export]
macro_rules! contract_tests {
    ($subject:expr) => {
        $crate::contract_tests!(@each $subject;
            reads_see_own_writes scan_merges_writes_with_the_store deletion_is_seen_and_kept
            scan_is_ordered_and_bounded abort_leaves_nothing error_of_the_body_leaves_nothing
            limits_are_errors_and_change_nothing large_scans_are_whole no_update_is_lost
            readers_see_whole_transactions sequence_rises_with_each_commit
            durable_returns_only_when_it_is every_waiter_is_woken
            dropping_a_waiter_disturbs_nobody reopening_keeps_everything
            what_is_put_later_comes_with_its_number
            a_transaction_overrules_what_was_put_later many_pairs_put_later_are_bounded);
    };
    (@each $subject:expr; $($name:ident)+) => {
        $(#[test] fn $name() { $crate::contract::$name(&mut $subject); })+
    };
}

/// Runs a future on this thread, asleep while it is pending.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn commit(store: &dyn MetaStore, mut writes: impl FnMut(&mut dyn Tx)) -> Seq {
    let done = store.transact(&mut |tx| {
        writes(tx);
        Ok(TxOutcome::Commit)
    });
    done.expect(WHY)
}

fn value(store: &dyn MetaStore, key: &[u8]) -> Option<Bytes> {
    store.get(key).expect(WHY)
}

fn all(store: &dyn MetaStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = store.scan(b"", &[0xff; 4], usize::MAX).expect(WHY);
    pairs
        .into_iter()
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect()
}

fn pair(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

/// A transaction reads what it wrote, and what it removed is gone for it.
pub fn reads_see_own_writes(subject: &mut dyn Subject) {
    let store = subject.fresh();
    commit(&*store, |tx| tx.put(b"old", b"1"));
    commit(&*store, |tx| {
        tx.put(b"new", b"2");
        assert_eq!(tx.get(b"new").expect(WHY).as_deref(), Some(&b"2"[..]));
        assert_eq!(tx.get(b"old").expect(WHY).as_deref(), Some(&b"1"[..]));
        tx.put(b"new", b"3");
        assert_eq!(tx.get(b"new").expect(WHY).as_deref(), Some(&b"3"[..]));
        tx.delete(b"old");
        assert_eq!(tx.get(b"old").expect(WHY), None);
        tx.put(b"old", b"");
        assert_eq!(tx.get(b"old").expect(WHY).as_deref(), Some(&b""[..]));
        tx.delete(b"old");
    });
    assert_eq!(all(&*store), [pair(b"new", b"3")]);
}

/// A scan inside a transaction is that of the store with the transaction's writes laid over it.
pub fn scan_merges_writes_with_the_store(subject: &mut dyn Subject) {
    let store = subject.fresh();
    commit(&*store, |tx| {
        for key in [b"b", b"d", b"f", b"h"] {
            tx.put(key, b"old");
        }
    });
    commit(&*store, |tx| {
        tx.put(b"a", b"new");
        tx.put(b"d", b"new");
        tx.delete(b"f");
        tx.delete(b"g");
        tx.put(b"i", b"new");
        let seen = |limit| -> Vec<(Bytes, Bytes)> { tx.scan(b"a", b"i", limit).expect(WHY) };
        let keys: Vec<Bytes> = seen(9).into_iter().map(|(k, _)| k).collect();
        assert_eq!(keys, ["a", "b", "d", "h"]);
        let values: Vec<Bytes> = seen(9).into_iter().map(|(_, v)| v).collect();
        assert_eq!(values, ["new", "old", "new", "old"]);
        // The limit counts what is left after the merge.
        let keys: Vec<Bytes> = seen(3).into_iter().map(|(k, _)| k).collect();
        assert_eq!(keys, ["a", "b", "d"]);
        assert!(seen(0).is_empty());
    });
    assert_eq!(all(&*store).len(), 5);
}

/// What is removed is gone, and may come back.
pub fn deletion_is_seen_and_kept(subject: &mut dyn Subject) {
    let store = subject.fresh();
    commit(&*store, |tx| tx.put(b"k", b"1"));
    commit(&*store, |tx| tx.delete(b"k"));
    assert_eq!(value(&*store, b"k"), None);
    assert!(all(&*store).is_empty());
    commit(&*store, |tx| tx.delete(b"never"));
    commit(&*store, |tx| tx.put(b"k", b"2"));
    assert_eq!(value(&*store, b"k").as_deref(), Some(&b"2"[..]));
}

/// Keys come in byte order, within the bounds, at most as many as asked for.
pub fn scan_is_ordered_and_bounded(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let keys: [&[u8]; 7] = [&[0], &[0, 0], &[0, 255], &[1], &[127], &[128], &[255, 255]];
    commit(&*store, |tx| {
        keys.iter().rev().for_each(|key| tx.put(key, key));
    });
    let scan = |start: &[u8], end: &[u8], limit| -> Vec<Vec<u8>> {
        let pairs = store.scan(start, end, limit).expect(WHY);
        pairs.into_iter().map(|(k, _)| k.to_vec()).collect()
    };
    assert_eq!(scan(&[0], &[255; 3], 99), keys);
    assert_eq!(scan(&[0, 0], &[128], 99), keys[1..5]);
    assert_eq!(scan(&[0, 1], &[128], 2), keys[2..4]);
    assert!(scan(&[5], &[5], 99).is_empty());
    assert!(scan(&[9], &[5], 99).is_empty());
    commit(&*store, |tx| {
        assert!(tx.scan(&[9], &[5], 99).expect(WHY).is_empty());
    });
}

/// An aborted transaction has changed nothing and has no number of its own.
pub fn abort_leaves_nothing(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let before = commit(&*store, |tx| tx.put(b"k", b"1"));
    let aborted = store.transact(&mut |tx| {
        tx.put(b"k", b"2");
        tx.put(b"l", b"2");
        Ok(TxOutcome::Abort)
    });
    assert_eq!(aborted.expect(WHY), before);
    assert_eq!(all(&*store), [pair(b"k", b"1")]);
    let empty = store.transact(&mut |_| Ok(TxOutcome::Commit));
    assert_eq!(empty.expect(WHY), before);
}

/// A body that fails hands its error out and has changed nothing; the store goes on.
pub fn error_of_the_body_leaves_nothing(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let failed = store.transact(&mut |tx| {
        tx.put(b"k", b"1");
        Err(MetaError::Corrupt("said the body".into()))
    });
    assert!(matches!(failed, Err(MetaError::Corrupt(what)) if what == "said the body"));
    assert!(all(&*store).is_empty());
    assert_eq!(store.applied(), Seq(0));
    commit(&*store, |tx| tx.put(b"k", b"2"));
}

/// Keys, values and transactions at their limits work; above, the transaction fails and nothing else does.
pub fn limits_are_errors_and_change_nothing(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let (key, big) = (vec![7; KEY_BYTES_MAX + 1], vec![8; VALUE_BYTES_MAX + 1]);
    let longest = &key[1..];
    let seq = commit(&*store, |tx| tx.put(longest, &big[1..]));
    assert_eq!(
        value(&*store, longest).map(|v| v.len()),
        Some(VALUE_BYTES_MAX)
    );
    let refused = |write: &dyn Fn(&mut dyn Tx)| {
        let outcome = store.transact(&mut |tx| {
            tx.put(b"beside", b"");
            write(tx);
            Ok(TxOutcome::Commit)
        });
        assert!(matches!(outcome, Err(MetaError::TooLarge)));
        assert_eq!(store.applied(), seq);
        assert_eq!(value(&*store, b"beside"), None);
    };
    refused(&|tx| tx.put(&key, b""));
    refused(&|tx| tx.delete(&key));
    refused(&|tx| tx.put(b"", b""));
    refused(&|tx| tx.put(b"k", &big));
    refused(&|tx| {
        for i in 0..=TX_BYTES_MAX / VALUE_BYTES_MAX {
            tx.put(&i.to_be_bytes(), &big[1..]);
        }
    });
    assert_eq!(value(&*store, &key), None);
    commit(&*store, |tx| tx.delete(longest));
    assert!(all(&*store).is_empty());
}

/// A scan over many pairs misses none and repeats none, in one piece or in pages.
pub fn large_scans_are_whole(subject: &mut dyn Subject) {
    const PAIRS: u32 = 20_000;
    let store = subject.fresh();
    for chunk in 0..PAIRS / 1000 {
        commit(&*store, |tx| {
            for i in 0..1000 {
                let n = (chunk * 1000 + i).wrapping_mul(7919) % PAIRS;
                tx.put(&n.to_be_bytes(), &n.to_le_bytes());
            }
        });
    }
    let whole = all(&*store);
    assert_eq!(whole.len(), PAIRS as usize);
    for (i, (key, _)) in whole.iter().enumerate() {
        assert_eq!(key[..], u32::try_from(i).expect("few").to_be_bytes());
    }
    let (mut start, mut paged) = (vec![0], 0);
    loop {
        let page = store.scan(&start, &[0xff; 4], 777).expect(WHY);
        let Some((last, _)) = page.last() else { break };
        start = last.to_vec();
        start.push(0);
        paged += page.len();
    }
    assert_eq!(paged, whole.len());
}

/// Transactions of many threads do not run into each other.
pub fn no_update_is_lost(subject: &mut dyn Subject) {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    let store = subject.fresh();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let seq = commit(&*store, |tx| {
                        let old = tx.get(b"n").expect(WHY);
                        let old =
                            old.map_or(0, |v| u64::from_be_bytes((*v).try_into().expect(WHY)));
                        tx.put(b"n", &(old + 1).to_be_bytes());
                    });
                    if round % 50 == 0 {
                        block_on(store.durable(seq)).expect(WHY);
                    }
                }
            });
        }
    });
    let sum = value(&*store, b"n").expect(WHY);
    assert_eq!(sum[..], (THREADS * ROUNDS).to_be_bytes());
    assert_eq!(store.applied(), Seq(THREADS * ROUNDS));
}

/// A scan sees a transaction as a whole or not at all, and never one that `applied` does not name.
pub fn readers_see_whole_transactions(subject: &mut dyn Subject) {
    const ROUNDS: u64 = 2000;
    let store = subject.fresh();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                commit(&*store, |tx| {
                    for key in 0..8_u8 {
                        tx.put(&[key], &round.to_be_bytes());
                    }
                });
            }
        });
        let mut newest = 0;
        while newest < ROUNDS {
            let seen = store.scan(&[0], &[9], 9).expect(WHY);
            let Some((_, first)) = seen.first() else {
                continue;
            };
            let round = u64::from_be_bytes((**first).try_into().expect(WHY));
            assert!(round >= newest, "a read went back in time");
            assert!(
                seen.len() == 8 && seen.iter().all(|(_, v)| v == first),
                "half a transaction"
            );
            assert!(
                store.applied() >= Seq(round),
                "applied is behind what a read saw"
            );
            newest = round;
        }
    });
}

/// Each commit has the next number.
pub fn sequence_rises_with_each_commit(subject: &mut dyn Subject) {
    let store = subject.fresh();
    assert_eq!((store.applied(), store.durable_through()), (Seq(0), Seq(0)));
    for n in 1..=100_u64 {
        assert_eq!(commit(&*store, |tx| tx.put(b"k", &n.to_be_bytes())), Seq(n));
        assert_eq!(store.applied(), Seq(n));
        assert!(store.durable_through() <= Seq(n));
    }
}

/// When `durable` has returned, the watermark covers it, and waiting again costs nothing.
pub fn durable_returns_only_when_it_is(subject: &mut dyn Subject) {
    let store = subject.fresh();
    block_on(store.durable(Seq(0))).expect(WHY);
    for n in 0..50_u8 {
        let seq = commit(&*store, |tx| tx.put(&[n], &[n]));
        block_on(store.durable(seq)).expect(WHY);
        assert!(store.durable_through() >= seq);
        let again = pin!(store.durable(seq)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(again.is_ready(), "already durable");
    }
}

/// Many threads that wait at once are all served.
pub fn every_waiter_is_woken(subject: &mut dyn Subject) {
    let store = subject.fresh();
    std::thread::scope(|scope| {
        for thread in 0..32_u8 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..10_u8 {
                    let seq = commit(&**store, |tx| tx.put(&[thread, round], b""));
                    block_on(store.durable(seq)).expect(WHY);
                    assert!(store.durable_through() >= seq);
                }
            });
        }
    });
    assert_eq!(all(&*store).len(), 320);
}

/// A caller that gives up waiting takes nobody with it.
pub fn dropping_a_waiter_disturbs_nobody(subject: &mut dyn Subject) {
    let store = subject.fresh();
    for n in 0..50_u8 {
        let seq = commit(&*store, |tx| tx.put(&[n], b""));
        let mut given_up = Box::pin(store.durable(seq));
        let _ = given_up
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        drop(given_up);
        block_on(store.durable(seq)).expect(WHY);
    }
}

/// What was committed is there after a clean restart, and only that; numbers start anew.
pub fn reopening_keeps_everything(subject: &mut dyn Subject) {
    let mut store = subject.fresh();
    let mut expected = Vec::new();
    for round in 0..4_u8 {
        let seq = commit(&*store, |tx| {
            tx.put(&[round], &[round; 100]);
            tx.put(&[100, round], b"passing");
        });
        expected.push(pair(&[round], &[round; 100]));
        block_on(store.durable(seq)).expect(WHY);
        commit(&*store, |tx| tx.delete(&[100, round]));
        let Some(again) = subject.reopen(store) else {
            return;
        };
        store = again;
        assert_eq!(all(&*store), expected);
        assert_eq!(store.applied(), Seq(0));
    }
}

/// A pair that was put later is there, and outlives the store, once its number is durable; a transaction may take it along.
pub fn what_is_put_later_comes_with_its_number(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let alone = store.put_later(b"alone", b"1").expect(WHY);
    block_on(store.durable(alone)).expect(WHY);
    assert_eq!(value(&*store, b"alone").as_deref(), Some(&b"1"[..]));
    assert!(store.applied() >= alone);
    let along = store.put_later(b"along", b"2").expect(WHY);
    let taker = commit(&*store, |tx| tx.put(b"taker", b"3"));
    assert!(alone < along && along <= taker);
    assert_eq!(value(&*store, b"along").as_deref(), Some(&b"2"[..]));
    // Also after a transaction that writes nothing.
    let last = store.put_later(b"last", b"4").expect(WHY);
    let empty = store.transact(&mut |_| Ok(TxOutcome::Commit));
    empty.expect(WHY);
    block_on(store.durable(last)).expect(WHY);
    let expected = [
        pair(b"alone", b"1"),
        pair(b"along", b"2"),
        pair(b"last", b"4"),
        pair(b"taker", b"3"),
    ];
    assert_eq!(all(&*store), expected);
    if let Some(store) = subject.reopen(store) {
        assert_eq!(all(&*store), expected);
    }
    let store = subject.fresh();
    for (key, value) in [
        (vec![], vec![]),
        (vec![1; KEY_BYTES_MAX + 1], vec![]),
        (vec![1], vec![0; VALUE_BYTES_MAX + 1]),
    ] {
        let refused = store.put_later(&key, &value);
        assert!(matches!(refused, Err(MetaError::TooLarge)));
    }
}

/// Of one key the later writer counts, whichever way it wrote.
pub fn a_transaction_overrules_what_was_put_later(subject: &mut dyn Subject) {
    let store = subject.fresh();
    for round in 0..3 {
        store.put_later(b"k", b"earlier").expect(WHY);
        store.put_later(b"k", b"later").expect(WHY);
        store.put_later(b"gone", b"later").expect(WHY);
        let seq = commit(&*store, |tx| {
            tx.delete(b"gone");
            if round > 0 {
                tx.put(b"k", b"transaction");
            }
        });
        block_on(store.durable(seq)).expect(WHY);
        let expected: &[u8] = if round > 0 { b"transaction" } else { b"later" };
        assert_eq!(all(&*store), [pair(b"k", expected)]);
    }
}

/// More than a store lets wait is applied without anybody who asks for it.
pub fn many_pairs_put_later_are_bounded(subject: &mut dyn Subject) {
    const COUNT: u32 = 100;
    let store = subject.fresh();
    let big = vec![7; VALUE_BYTES_MAX / 8];
    for number in 0..COUNT {
        store.put_later(&number.to_be_bytes(), &big).expect(WHY);
    }
    let there = all(&*store).len();
    assert!(
        there >= COUNT as usize / 2,
        "{there} of {COUNT} are applied"
    );
    let last = store.put_later(b"last", b"").expect(WHY);
    block_on(store.durable(last)).expect(WHY);
    assert_eq!(all(&*store).len(), COUNT as usize + 1);
}
