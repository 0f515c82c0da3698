//! What a peer must not do, and what becomes of it: its connection, and no other.

use super::{Pair, RECEIVE_BYTES, Side};
use crate::{
    Blame, Done, Ended, EndpointConfig, Fabric, Fault, Memory, Part, Remote, Work, WorkStatus,
};
use bytes::Bytes;
use std::net::SocketAddr;

/// The end of both sides when `a` did what it must not.
async fn assert_cut_off(fabric: &dyn Fabric, mut pair: Pair, faults: &[Fault], what: &str) {
    pair.until_ended().await;
    assert_blamed(fabric, &pair, faults, what);
    for side in [&pair.a, &pair.b] {
        assert_first_failure_then_flushed(side, what);
    }
    pair.assert_all_back();
}

/// `a` was wrong, and both know as much of it as the fabric tells.
pub(super) fn assert_blamed(fabric: &dyn Fabric, pair: &Pair, faults: &[Fault], what: &str) {
    let ends = (pair.a.ended, pair.b.ended);
    let is_blamed = match (fabric.limits().blame, ends) {
        (Blame::Rule, (Some(Ended::Accused(a)), Some(Ended::Faulted(b)))) => {
            faults.contains(&a) && faults.contains(&b)
        }
        (Blame::Side, (Some(Ended::Accused(_) | Ended::PeerClosed), Some(Ended::Faulted(_)))) => {
            true
        }
        // Neither has closed it, and nobody blames himself.
        (Blame::Nobody, (Some(a), Some(b))) => {
            let closed = [a, b].contains(&Ended::Closed);
            !closed && !matches!(a, Ended::Faulted(_)) && !matches!(b, Ended::Accused(_))
        }
        _ => false,
    };
    assert!(is_blamed, "{what}: {ends:?}");
}

/// Work completes well, then at most one request failed, then all are flushed.
pub(super) fn assert_first_failure_then_flushed(side: &Side, what: &str) {
    let ours = |c: &&crate::Completion| !matches!(c.done, Done::Receive { .. });
    let statuses: Vec<WorkStatus> = side.seen.iter().filter(ours).map(|c| c.status).collect();
    let well = statuses
        .iter()
        .take_while(|s| **s == WorkStatus::Ok)
        .count();
    let rest = statuses[well..].iter().skip(1);
    assert!(
        rest.clone().all(|status| *status == WorkStatus::Flushed),
        "{what}: {statuses:?}"
    );
}

enum Try {
    Write(Remote, usize),
    Read(Remote),
}

/// Stale, foreign or made-up keys, bytes out of bounds, and access of the wrong kind end that connection with a word for it. A
/// second connection between the same two goes on.
pub async fn forbidden_access_ends_that_connection_only(fabric: &dyn Fabric, address: SocketAddr) {
    use Fault::{BadKey, OutOfBounds, WrongRights};
    const LEN: u32 = 1000;
    let mut other = Pair::new(fabric, address).await;
    let foreign = other.b.expose_buffer(1000);
    let foreign_source = other
        .b
        .expose(Memory::Bytes(Bytes::from_static(&[1; 1000])));
    for case in 0..10 {
        let mut pair = Pair::new(fabric, address).await;
        let target = pair.b.expose_buffer(1000);
        let source = pair.b.expose(Memory::Bytes(Bytes::from_static(&[1; 1000])));
        let made_up = Remote {
            key: target.key ^ 0x5555_5500,
            ..target
        };
        let longer = |remote: Remote| Remote {
            len: LEN + 1,
            ..remote
        };
        let wraps = |remote: Remote| Remote {
            offset: u64::MAX - 5000,
            ..remote
        };
        let (what, attempt, faults): (_, _, &[Fault]) = match case {
            0 => ("write, made up", Try::Write(made_up, 10), &[BadKey]),
            1 => ("read, made up", Try::Read(made_up), &[BadKey]),
            2 => ("write, foreign", Try::Write(foreign, 10), &[BadKey]),
            3 => ("read, foreign", Try::Read(foreign_source), &[BadKey]),
            4 => (
                "write, longer",
                Try::Write(longer(target), 1001),
                &[OutOfBounds],
            ),
            5 => ("read, longer", Try::Read(longer(source)), &[OutOfBounds]),
            6 => ("write, far", Try::Write(wraps(target), 10), &[OutOfBounds]),
            7 => ("read, far", Try::Read(wraps(source)), &[OutOfBounds]),
            8 => ("write into bytes", Try::Write(source, 10), &[WrongRights]),
            _ => ("read a buffer", Try::Read(target), &[WrongRights]),
        };
        pair.a.write(1, vec![Bytes::from_static(b"fine")], target);
        match attempt {
            Try::Write(remote, len) => pair.a.write(2, vec![Bytes::from(vec![0; len])], remote),
            Try::Read(remote) => pair.a.read(2, remote),
        }
        pair.a.read(3, source);
        pair.a.send(4, b"never");
        assert_cut_off(fabric, pair, faults, what).await;
        other.assert_works().await;
        for at in [&mut other.a, &mut other.b] {
            let (id, mut buffer, _) = at.message();
            buffer.set_len(RECEIVE_BYTES);
            assert!(at.endpoint.post_receive(id, buffer).is_ok());
        }
    }
    other.assert_all_back();
}

/// One part that the peer does not grant fails the read of which it is one. Its sink and what was posted after come
/// back.
pub async fn a_read_fails_as_a_whole(fabric: &dyn Fabric, address: SocketAddr) {
    for wrong in 0..3 {
        let mut pair = Pair::new(fabric, address).await;
        let source = pair.b.expose(Memory::Bytes(Bytes::from_static(&[1; 1000])));
        let made_up = Remote {
            key: source.key ^ 0x5555_5500,
            ..source
        };
        let part = |n: usize| Part {
            at: n * 1000,
            remote: if n == wrong { made_up } else { source },
        };
        pair.a.read(1, source);
        pair.a.read_parts(2, (0..3).map(part).collect());
        pair.a.read_parts(3, vec![part(3), part(4)]);
        pair.until(|a, _| a.ids().len() == 3).await;
        assert_eq!(pair.a.ids(), [1, 2, 3]);
        // Parts that were granted do not make it a success, nor what was granted after it.
        for id in 2..=3 {
            assert!(pair.a.count(|c| c.id == id && c.status == WorkStatus::Ok) == 0);
        }
        assert_cut_off(fabric, pair, &[Fault::BadKey], "one part of three").await;
    }
}

/// A message that no receive waits for, or that is longer than it, ends the connection, unless the fabric has it wait.
pub async fn a_message_needs_a_receive_that_holds_it(fabric: &dyn Fabric, address: SocketAddr) {
    let config = EndpointConfig::default();
    let mut pair = Pair::with(fabric, address, config, 1).await;
    let data = vec![Bytes::from(vec![0; RECEIVE_BYTES + 1])];
    let invalidate = None;
    pair.a.post(1, Work::Send { data, invalidate });
    assert_cut_off(fabric, pair, &[Fault::ReceiveTooSmall], "too long").await;

    let mut pair = Pair::with(fabric, address, config, 1).await;
    pair.a.send(1, b"one");
    pair.a.send(2, b"two");
    if !fabric.limits().waits_for_receives {
        return assert_cut_off(fabric, pair, &[Fault::NoReceive], "no receive").await;
    }
    pair.until(|_, b| b.messages() == 1).await;
    let buffer = pair.b.buffer();
    assert!(pair.b.endpoint.post_receive(2, buffer).is_ok());
    pair.until(|_, b| b.messages() == 2).await;
    pair.assert_all_back();
}

/// Invalidating what was never exposed, or no longer is, ends the connection.
pub async fn only_exposed_keys_can_be_invalidated(fabric: &dyn Fabric, address: SocketAddr) {
    for stale in [false, true] {
        let mut pair = Pair::new(fabric, address).await;
        let exposed = pair.b.expose_buffer(10);
        let key = if stale {
            exposed.key
        } else {
            exposed.key ^ 0x1234_5600
        };
        if stale {
            pair.b.post(9, Work::Invalidate { key });
            pair.until(|_, b| b.ids() == [9]).await;
        }
        let work = Work::Send {
            data: Vec::new(),
            invalidate: Some(key),
        };
        pair.a.post(1, work);
        assert_cut_off(fabric, pair, &[Fault::CannotInvalidate], "invalidate").await;
    }
}
