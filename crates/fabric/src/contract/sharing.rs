//! Receives that connections share.

use super::{Pair, RECEIVE_BYTES, Side, WHY, both, pattern, pools};
use crate::{Close, Ended, EndpointConfig, Fabric, Fault, Listener, Memory, ReceiveQueue, Work};
use bytes::Bytes;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

/// A connection whose accepting side takes its receives from `queue`, the first `messages` of them admitted. It exposes nothing, as a
/// server: devices share only where nothing is exposed.
async fn sharing(
    fabric: &dyn Fabric,
    listener: &mut dyn Listener,
    queue: &ReceiveQueue,
    messages: u32,
) -> (Side, Side) {
    sharing_and_exposing(fabric, listener, queue, messages, 0).await
}

async fn sharing_and_exposing(
    fabric: &dyn Fabric,
    listener: &mut dyn Listener,
    queue: &ReceiveQueue,
    messages: u32,
    exposed_max: u32,
) -> (Side, Side) {
    let config = EndpointConfig::default();
    let mut claim = queue.claim();
    assert_eq!(claim.admit(messages), messages);
    let connecting = fabric.connect(listener.local(), config, Bytes::new(), Vec::new());
    let accepting = async {
        let incoming = listener.accept().await.expect(WHY);
        let config = EndpointConfig {
            exposed_max,
            ..config
        };
        let accepting = incoming.accept_sharing(config, Bytes::new(), claim);
        accepting.await.expect(WHY)
    };
    let (a, b) = both(connecting, accepting).await;
    let side = |connected| {
        let (pool, small) = pools();
        Side::new(connected, pool, small)
    };
    (side(a.expect(WHY)), side(b))
}

/// Who sends more than was admitted to it waits, without a fault, until more is. Who shares the queue with it does not notice, and the queue
/// never has fewer receives than it must.
pub async fn what_is_not_admitted_waits_alone(fabric: &dyn Fabric, address: SocketAddr) {
    let limits = fabric.limits();
    if !limits.shares_receives || !limits.holds_back {
        return;
    }
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 2).await;
    let mut greedy = Pair::of(a, b);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 1).await;
    let mut modest = Pair::of(a, b);
    assert_eq!(queue.posted(), 3);
    for id in 0..5 {
        let data = vec![Bytes::from(vec![
            u8::try_from(id).expect("few");
            RECEIVE_BYTES
        ])];
        let invalidate = None;
        greedy.a.post(id, Work::Send { data, invalidate });
    }
    greedy.until(|_, b| b.messages() == 2).await;
    modest.a.send(1, b"modest");
    modest.until(|_, b| b.messages() == 1).await;
    assert_eq!((greedy.b.messages(), queue.posted()), (2, 0));
    let mut arrived = 0;
    for more in [1, 2] {
        assert_eq!(greedy.b.endpoint.admit(more), more);
        let until = 2 + if more == 1 { 1 } else { 3 };
        greedy.until(|_, b| b.messages() + arrived == until).await;
        while greedy.b.messages() > 0 {
            let (id, buffer, _) = greedy.b.message();
            let expected = u8::try_from(arrived).expect("few");
            assert_eq!((id, buffer.len(), buffer[0]), (0, RECEIVE_BYTES, expected));
            arrived += 1;
        }
    }
    assert_eq!((arrived, queue.posted()), (5, 0));
    assert_eq!(greedy.b.endpoint.admit(3), 3);
    assert_eq!(queue.posted(), 3);
    drop(greedy);
    modest.a.endpoint.close(Close::Now);
    modest.until_ended().await;
    drop(modest);
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}

/// Messages that wait to be admitted do not stand in the way of an answer to a read that was sent after them. What
/// admits them may need it. They come in order all the same, and invalidate when they come.
pub async fn answers_pass_what_is_not_admitted(fabric: &dyn Fabric, address: SocketAddr) {
    let limits = fabric.limits();
    if !limits.shares_receives || !limits.holds_back {
        return;
    }
    const BYTES: usize = 100_000;
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing_and_exposing(fabric, &mut *listener, &queue, 1, 1).await;
    let mut pair = Pair::of(a, b);
    let key = pair.b.expose_buffer(10).key;
    for id in 0..5 {
        let bytes = vec![u8::try_from(id).expect("few"); RECEIVE_BYTES];
        let (data, invalidate) = (vec![bytes.into()], (id == 3).then_some(key));
        pair.a.post(id, Work::Send { data, invalidate });
    }
    let bytes = pair.a.filled(BYTES, 7);
    let source = pair.a.expose(Memory::Bytes(bytes));
    pair.until(|_, b| b.messages() == 1).await;
    assert_eq!(pair.b.message().1[0], 0);
    for id in 20..22 {
        pair.b.read(id, source);
        pair.until(|_, b| b.ids().contains(&id)).await;
        let sink = pair.b.take_sink(id);
        assert_eq!(&sink[..BYTES], pattern(BYTES, 7));
        assert_eq!(pair.b.messages(), 0);
    }
    for (expected, more) in [(1, 1), (2, 3), (3, 0), (4, 0)] {
        assert_eq!(pair.b.endpoint.admit(more), more);
        pair.until(|_, b| b.messages() > 0).await;
        let (id, buffer, invalidated) = pair.b.message();
        assert_eq!((id, buffer.len(), buffer[0]), (0, RECEIVE_BYTES, expected));
        assert_eq!(
            invalidated.map(|(key, _)| key),
            (expected == 3).then_some(key)
        );
    }
    assert_eq!(queue.posted(), 0);
    drop(pair);
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}

/// Where nobody can be held back, who sends more than was admitted to it loses its connection; what was admitted arrives before. Who
/// shares the queue with it does not notice.
pub async fn what_is_not_admitted_ends_its_connection_alone(
    fabric: &dyn Fabric,
    address: SocketAddr,
) {
    let limits = fabric.limits();
    if !limits.shares_receives || limits.holds_back {
        return;
    }
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 1).await;
    let mut modest = Pair::of(a, b);
    for round in 0..3 {
        let (a, b) = sharing(fabric, &mut *listener, &queue, 2).await;
        let mut greedy = Pair::of(a, b);
        (0..5).for_each(|id| greedy.a.send(id, b"greedy"));
        greedy.until(|_, b| b.ended.is_some()).await;
        let ended = Some(Ended::Faulted(Fault::NoReceive));
        assert_eq!((greedy.b.messages(), greedy.b.ended), (2, ended));
        greedy.until_ended().await;
        drop(greedy);
        modest.a.send(round, b"modest");
        modest.until(|_, b| b.messages() == 1).await;
        assert_eq!(&*modest.b.message().1, b"modest");
        assert_eq!(modest.b.endpoint.admit(1), 1);
    }
    drop(modest);
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}

/// A peer that sends as fast as it can while nobody looks at its messages delays others no longer than until somebody does.
pub async fn a_flood_ends_its_connection_alone(fabric: &dyn Fabric, address: SocketAddr) {
    const FLOOD: u64 = 200;
    let limits = fabric.limits();
    if !limits.shares_receives || limits.holds_back {
        return;
    }
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 1).await;
    let mut modest = Pair::of(a, b);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 2).await;
    let mut greedy = Pair::of(a, b);
    (0..FLOOD).for_each(|id| greedy.a.send(id, b"greedy"));
    poll_fn(|cx| {
        greedy.a.step(cx);
        if greedy.a.ids().len() >= 10 || greedy.a.ended.is_some() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    modest.a.send(1, b"modest");
    modest.a.endpoint.ring();
    greedy.until(|_, b| b.ended.is_some()).await;
    let ended = Some(Ended::Faulted(Fault::NoReceive));
    assert_eq!((greedy.b.messages(), greedy.b.ended), (2, ended));
    modest.until(|_, b| b.messages() == 1).await;
    assert_eq!(modest.b.endpoint.admit(16), 16);
    (0..16).for_each(|id| modest.a.send(id, b"modest"));
    modest.until(|_, b| b.messages() == 17).await;
    drop((greedy, modest));
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}

/// What a peer had begun before it heard that it may send less is excused, and no more than that.
pub async fn what_is_excused_arrives_without_being_admitted(
    fabric: &dyn Fabric,
    address: SocketAddr,
) {
    let limits = fabric.limits();
    if !limits.shares_receives || limits.holds_back {
        return;
    }
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 6).await;
    let mut pair = Pair::of(a, b);
    assert_eq!(pair.b.endpoint.retract(4), 4);
    pair.b.endpoint.excuse(3);
    (0..5).for_each(|id| pair.a.send(id, b"excused"));
    pair.until(|_, b| b.messages() == 5).await;
    assert_eq!(pair.b.ended, None);
    assert_eq!(pair.b.endpoint.retract(1), 0, "all that was admitted came");
    pair.a.send(5, b"too much");
    pair.until(|_, b| b.ended.is_some()).await;
    let ended = Some(Ended::Faulted(Fault::NoReceive));
    assert_eq!((pair.b.messages(), pair.b.ended), (5, ended));
    drop(pair);
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}

/// It does not matter how many connections end with messages that nobody took, or how they end. The others find a
/// receive for each message that is admitted, and everything goes back in the end.
pub async fn ended_connections_leave_the_queue_whole(fabric: &dyn Fabric, address: SocketAddr) {
    const MESSAGES: u32 = 4;
    if !fabric.limits().shares_receives {
        return;
    }
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 1).await;
    let mut survivor = Pair::of(a, b);
    // Together they take more receives than the pool has.
    for round in 0..24 {
        let (mut a, b) = sharing(fabric, &mut *listener, &queue, MESSAGES).await;
        // One round of three leaves some that never come.
        let count = if round % 3 == 0 { 2 } else { MESSAGES };
        (0..count).for_each(|id| a.send(id.into(), b"not taken"));
        let sent = usize::try_from(count).expect("few");
        poll_fn(|cx| {
            a.step(cx);
            if a.ids().len() == sent {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        if round % 2 == 0 {
            drop(b);
        } else {
            a.endpoint.close(Close::Now);
            Pair::of(a, b).until_ended().await;
        }
    }
    assert_eq!(survivor.b.endpoint.admit(16), 16);
    (0..17).for_each(|id| survivor.a.send(id, b"survivor"));
    survivor.until(|_, b| b.messages() == 17).await;
    drop(survivor);
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}
