//! What memory costs.

use super::{BUFFER_BYTES, Pair, WHY};
use crate::{Counters, Fabric, Memory, Work, WorkStatus};
use std::net::SocketAddr;

const ROUNDS: u64 = 4;

/// A slab is registered when a buffer of it is first used, and never again. What the peer is let into is counted each time.
pub async fn memory_is_registered_once(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let mut counted = Vec::new();
    for _ in 0..ROUNDS {
        round(&mut pair).await;
        counted.push([&pair.a, &pair.b].map(|side| side.endpoint.counters()));
    }
    let registrations = |both: &[Counters; 2]| both.each_ref().map(|c| c.registrations);
    let (first, last) = (&counted[0], counted.last().expect(WHY));
    assert_eq!(registrations(first), registrations(last));
    if fabric.is_hardware() {
        assert!(registrations(first).iter().all(|count| *count > 0));
    }
    let [exposing, reading] = last.each_ref().map(|c| c.exposures);
    assert_eq!(exposing, 2 * ROUNDS);
    // None, or the sink of each read.
    assert!(reading == 0 || reading == ROUNDS, "{reading}");
    pair.assert_all_back();
}

/// One side lets the other read and write, and takes that back; both send.
async fn round(pair: &mut Pair) {
    let source = pair.a.filled(BUFFER_BYTES, 1);
    let source = pair.a.expose(Memory::Bytes(source));
    let place = pair.a.expose_buffer(BUFFER_BYTES);
    let data = pair.b.filled(BUFFER_BYTES, 2);
    pair.b.write(1, vec![data], place);
    pair.b.read(2, source);
    pair.until(|_, b| b.ids() == [1, 2]).await;
    for id in [1, 2] {
        assert_eq!(pair.b.take(id).status, WorkStatus::Ok);
    }
    for (id, key) in [(3, source.key), (4, place.key)] {
        pair.a.post(id, Work::Invalidate { key });
    }
    pair.until(|a, _| a.ids() == [3, 4]).await;
    for id in [3, 4] {
        assert_eq!(pair.a.take(id).status, WorkStatus::Ok);
    }
    pair.assert_works().await;
    for (side, id) in [(&mut pair.a, 1_000_001), (&mut pair.b, 1_000_002)] {
        assert_eq!(side.take(id).status, WorkStatus::Ok);
        drop(side.message());
    }
}
