//! Receives that connections share.

use super::{Pair, RECEIVE_BYTES, Side, WHY, both, pattern, pools};
use crate::{EndpointConfig, Fabric, Listener, Memory, ReceiveQueue, Work};
use bytes::Bytes;
use std::net::SocketAddr;

/// A connection whose accepting side takes its receives from `queue`, the first `messages` of them admitted.
async fn sharing(
    fabric: &dyn Fabric,
    listener: &mut dyn Listener,
    queue: &ReceiveQueue,
    messages: u32,
) -> (Side, Side) {
    let config = EndpointConfig::default();
    let mut claim = queue.claim();
    assert_eq!(claim.admit(messages), messages);
    let connecting = fabric.connect(listener.local(), config, Bytes::new(), Vec::new());
    let accepting = async {
        let incoming = listener.accept().await.expect(WHY);
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

/// Who sends more than was admitted to it waits, without a fault, until more is; who shares the queue with it does not notice, and the queue
/// never has fewer receives than it must.
pub async fn what_is_not_admitted_waits_alone(fabric: &dyn Fabric, address: SocketAddr) {
    if !fabric.limits().shares_receives {
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
    modest.a.endpoint.close(crate::Close::Now);
    modest.until_ended().await;
    drop(modest);
    assert_eq!((queue.posted(), small.taken()), (0, 0));
}

/// Messages that wait to be admitted do not stand in the way of an answer to a read that was sent behind them: what admits them may
/// need it. They come in order all the same, and invalidate when they come.
pub async fn answers_pass_what_is_not_admitted(fabric: &dyn Fabric, address: SocketAddr) {
    if !fabric.limits().shares_receives {
        return;
    }
    const BYTES: usize = 100_000;
    let (_, small) = pools();
    let queue = ReceiveQueue::new(small.clone());
    let mut listener = fabric.listen(address).await.expect(WHY);
    let (a, b) = sharing(fabric, &mut *listener, &queue, 1).await;
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
