//! The end of access to memory, and of connections.

use super::faults::{assert_blamed, assert_first_failure_then_flushed};
use super::{BUFFER_BYTES, Pair, RECEIVES, pattern};
use crate::{Close, Done, Ended, Fabric, Fault, Memory, Work, WorkRefusal, WorkStatus};
use bytes::Bytes;
use std::net::SocketAddr;

/// Memory that was invalidated is the caller's alone: what the peer writes later ends the connection instead.
pub async fn invalidation_ends_access(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let target = pair.b.expose_buffer(1000);
    pair.a.write(1, vec![Bytes::from(pattern(1000, 3))], target);
    pair.a.send(2, b"written");
    pair.until(|_, b| b.messages() == 1).await;
    // Unsignalled, and yet it completes.
    let work = Work::Invalidate { key: target.key };
    assert!(pair.b.endpoint.post(3, work, false).is_ok());
    pair.until(|_, b| b.ids() == [3]).await;
    let Done::Invalidate {
        memory: Some(Memory::Buffer(buffer)),
    } = pair.b.take(3).done
    else {
        panic!("no memory came back");
    };
    assert!(*buffer == pattern(1000, 3));
    pair.a.write(4, vec![Bytes::from_static(b"late")], target);
    pair.until_ended().await;
    assert_blamed(fabric, &pair, &[Fault::BadKey], "late");
    assert!(*buffer == pattern(1000, 3));
    drop(buffer);
    pair.assert_all_back();
}

/// The peer can give memory back with a message, once; our own invalidation that comes later finds nothing. Where a fabric
/// has no such thing, nobody is told that it may.
pub async fn remote_invalidation_ends_access(fabric: &dyn Fabric, address: SocketAddr) {
    if !fabric.limits().peers_invalidate {
        return;
    }
    let mut pair = Pair::new(fabric, address).await;
    let target = pair.b.expose_buffer(2000);
    let source = pair.b.expose(Memory::Bytes(Bytes::from_static(b"kept")));
    pair.a.write(1, vec![Bytes::from(pattern(2000, 3))], target);
    let data = vec![Bytes::from_static(b"done")];
    let invalidate = Some(target.key);
    pair.a.post(2, Work::Send { data, invalidate });
    pair.until(|_, b| b.messages() == 1).await;
    let (_, message, invalidated) = pair.b.message();
    assert_eq!(&*message, b"done");
    let Some((key, Memory::Buffer(buffer))) = invalidated else {
        panic!("no memory came back");
    };
    assert_eq!(key, target.key);
    assert!(*buffer == pattern(2000, 3));
    let again = pair.b.endpoint.post(3, Work::Invalidate { key }, true);
    assert_eq!(again.expect_err("it is gone").why, WorkRefusal::BadKey);
    // What else is exposed stays so.
    pair.a.read(4, source);
    pair.until(|a, _| a.ids().last() == Some(&4)).await;
    drop((buffer, message));
    pair.assert_all_back();
}

/// Closing by draining completes what was posted, at both sides.
pub async fn draining_completes_what_was_posted(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let source = pair
        .b
        .expose(Memory::Bytes(Bytes::from(pattern(100_000, 5))));
    let target = pair.b.expose_buffer(BUFFER_BYTES);
    for id in 0..20 {
        let data = pair.a.filled(BUFFER_BYTES, 1);
        pair.a.write(id, vec![data], target);
    }
    pair.a.read(20, source);
    pair.a.send(21, b"the last word");
    pair.a.endpoint.close(Close::Drain);
    let late = Work::Send {
        data: Vec::new(),
        invalidate: None,
    };
    let refused = pair.a.endpoint.post(22, late, true).expect_err("closed");
    assert_eq!(refused.why, WorkRefusal::Closed);
    pair.until_ended().await;
    assert_eq!(pair.a.ids(), (0..22).collect::<Vec<_>>());
    let ok = |c: &crate::Completion| c.status == WorkStatus::Ok;
    assert_eq!(pair.a.count(ok), 22);
    assert_eq!(pair.a.ended, Some(Ended::Closed));
    assert_eq!(pair.b.ended, Some(Ended::PeerClosed));
    assert_eq!(&*pair.b.message().1, b"the last word");
    pair.assert_all_back();
}

/// Closing at once hands everything back, whatever state it was in.
pub async fn closing_flushes_what_was_posted(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let source = pair.b.expose(Memory::Bytes(Bytes::from(pattern(1000, 5))));
    let mine = pair.a.expose_buffer(10);
    for id in 0..10 {
        pair.a.read(id, source);
    }
    pair.a.endpoint.close(Close::Now);
    pair.until_ended().await;
    assert_eq!(pair.a.ended, Some(Ended::Closed));
    assert_eq!(pair.a.ids(), (0..10).collect::<Vec<_>>());
    let back = |c: &crate::Completion| {
        c.status == WorkStatus::Flushed && matches!(c.done, Done::Receive { .. })
    };
    assert_eq!(pair.a.count(back) as u64, RECEIVES);
    assert_eq!(pair.b.count(back) as u64, RECEIVES);
    let exposed = |c: &crate::Completion| {
        c.id == u64::from(mine.key) && matches!(c.done, Done::Exposed { .. })
    };
    assert_eq!(pair.a.count(exposed), 1);
    for (refused, why) in [
        (
            pair.a.endpoint.post_receive(1, pair.a.buffer()).err(),
            "receive",
        ),
        (
            pair.b.endpoint.post_receive(1, pair.b.buffer()).err(),
            "receive",
        ),
    ] {
        assert_eq!(refused.map(|r| r.why), Some(WorkRefusal::Closed), "{why}");
    }
    pair.assert_all_back();
}

/// A device that is taken away under load ends the connections on it at both sides, and hands everything back once, in order. What
/// runs over another device goes on. For adapters that can take a device away, by `take`: connections to the first address are on it,
/// those to the second are not.
pub async fn a_device_that_goes_away_flushes_everything(
    fabric: &dyn Fabric,
    [address, elsewhere]: [SocketAddr; 2],
    take: impl FnOnce(),
) {
    let mut other = Pair::new(fabric, elsewhere).await;
    let mut pairs = [
        Pair::new(fabric, address).await,
        Pair::new(fabric, address).await,
    ];
    for pair in &mut pairs {
        let target = pair.b.expose_buffer(BUFFER_BYTES);
        let source = pair.b.expose(Memory::Bytes(pattern(1000, 5).into()));
        let mine = pair.a.expose_buffer(500);
        for id in 0..20 {
            let data = pair.a.filled(1000, 1);
            pair.a.write(4 * id, vec![data], target);
            pair.a.read(4 * id + 1, source);
            pair.a.send(4 * id + 2, b"under load");
            // Some of it is on its way, some is not.
            if id == 9 {
                pair.a.endpoint.ring();
            }
            if id < 10 {
                pair.b.send(id, b"under load");
            }
        }
        assert_ne!(target.key, mine.key);
    }
    take();
    for mut pair in pairs {
        pair.until_ended().await;
        let lost = Some(Ended::Lost(std::io::ErrorKind::NetworkDown));
        assert_eq!((pair.a.ended, pair.b.ended), (lost, lost));
        for (side, posted) in [(&pair.a, 60), (&pair.b, 10)] {
            assert_eq!(side.ids().len(), posted);
            assert!(side.ids().is_sorted(), "in the order posted");
            assert_first_failure_then_flushed(side, "a device that goes away");
        }
        let late = pair.a.endpoint.post_receive(1, pair.a.buffer());
        assert_eq!(late.expect_err("it has ended").why, WorkRefusal::Closed);
        pair.assert_all_back();
    }
    assert!(fabric.listen(address).await.is_err());
    other.assert_works().await;
    other.assert_all_back();
}

/// A peer that is gone leaves nothing behind: work, receives and exposed memory come back as flushed.
pub async fn a_vanished_peer_flushes_everything(fabric: &dyn Fabric, address: SocketAddr) {
    let Pair {
        a,
        mut b,
        _listener,
    } = Pair::new(fabric, address).await;
    let mut a = a;
    let source = b.expose(Memory::Bytes(Bytes::from(pattern(1000, 5))));
    let exposed = a.expose_buffer(500);
    for id in 0..8 {
        a.read(id, source);
    }
    b.assert_all_back();
    std::future::poll_fn(|cx| {
        a.step(cx);
        if a.ended.is_some() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    assert!(
        matches!(a.ended, Some(Ended::PeerClosed | Ended::Lost(_))),
        "{:?}",
        a.ended
    );
    assert_eq!(a.ids(), (0..8).collect::<Vec<_>>());
    assert_eq!(
        a.count(|c| c.status == WorkStatus::Flushed) as u64,
        8 + RECEIVES + 1
    );
    assert_eq!(a.count(|c| c.id == u64::from(exposed.key)), 1);
    a.assert_all_back();
}
