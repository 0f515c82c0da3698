//! How connections begin.

use super::{Pair, Side, WHY, both, pools, receives};
use crate::{ConnectError, EndpointConfig, Fabric};
use bytes::Bytes;
use std::net::SocketAddr;

/// What both sides say is what the other hears, up to the largest.
pub async fn private_data_travel_both_ways(fabric: &dyn Fabric, address: SocketAddr) {
    let max = fabric.limits().private_data_bytes_max;
    for len in [0, 1, crate::PRIVATE_DATA_BYTES_PORTABLE, max] {
        let mut listener = fabric.listen(address).await.expect(WHY);
        let (asked, said) = (Bytes::from(vec![1; len]), Bytes::from(vec![2; len]));
        let config = EndpointConfig::default();
        let connecting = fabric.connect(listener.local(), config, asked.clone(), Vec::new());
        let accepting = async {
            let incoming = listener.accept().await.expect(WHY);
            assert_heard(fabric, incoming.private_data(), &asked);
            incoming.accept(config, said.clone(), Vec::new()).await
        };
        let (a, b) = both(connecting, accepting).await;
        assert_heard(fabric, &a.expect(WHY).private_data, &said);
        assert_heard(fabric, &b.expect(WHY).private_data, &asked);
    }
}

/// What was said was heard, with nothing but zeros after it where the fabric has them.
fn assert_heard(fabric: &dyn Fabric, heard: &[u8], said: &[u8]) {
    let rest = heard.strip_prefix(said).expect("it was heard");
    assert!(rest.is_empty() || fabric.limits().pads_private_data);
    assert!(rest.iter().all(|byte| *byte == 0));
}

/// Who says no can say why, and goes on listening.
pub async fn a_rejection_says_why(fabric: &dyn Fabric, address: SocketAddr) {
    let mut listener = fabric.listen(address).await.expect(WHY);
    let config = EndpointConfig::default();
    for _ in 0..2 {
        let (_, small) = pools();
        let posted = receives(&small, 3);
        let connecting = fabric.connect(listener.local(), config, Bytes::new(), posted);
        let rejecting = async {
            let incoming = listener.accept().await.expect(WHY);
            incoming.reject(Bytes::from_static(b"not you")).await
        };
        let (a, b) = both(connecting, rejecting).await;
        b.expect(WHY);
        match a {
            Err(ConnectError::Rejected { private_data }) => {
                assert_heard(fabric, &private_data, b"not you");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(small.taken(), 0);
    }
}

/// Private data above the limit never reach the network.
pub async fn too_much_private_data_are_refused(fabric: &dyn Fabric, address: SocketAddr) {
    let listener = fabric.listen(address).await.expect(WHY);
    let config = EndpointConfig::default();
    let data = Bytes::from(vec![0; fabric.limits().private_data_bytes_max + 1]);
    let refused = fabric
        .connect(listener.local(), config, data, Vec::new())
        .await;
    assert!(matches!(refused, Err(ConnectError::TooMuch)), "{refused:?}");
}

/// Whoever wants may send the first message, and both may at once.
pub async fn either_side_sends_first(fabric: &dyn Fabric, address: SocketAddr) {
    let first = |side: &mut Side| side.send(1, b"first");
    for (from_a, from_b) in [(true, false), (false, true), (true, true)] {
        let mut pair = Pair::new(fabric, address).await;
        if from_a {
            first(&mut pair.a);
        }
        if from_b {
            first(&mut pair.b);
        }
        pair.until(|a, b| {
            a.messages() == usize::from(from_b) && b.messages() == usize::from(from_a)
        })
        .await;
        pair.assert_works().await;
        pair.assert_all_back();
    }
}
