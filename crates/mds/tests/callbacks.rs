//! Goal: what a client is asked reaches it in the end, also one that is slow or was cut off, and its back channel outlives that
//! (RFC 8881 §2.10.6, §20.1, §20.3). Method: clients behind a gate that holds their callbacks up, or cuts their connections, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use nfs4::NfsStatus;
use rig::delegated::{self, BOTH, Back, User};
use rig::gate::gated;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Files that are asked about: more than a back channel has slots.
const FILES: usize = 12;

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_slow_to_tell_the_size_can_still_be_called_back() {
    let (rig, _port, _ds) = delegated::cluster().await;
    let back = Arc::new(Back::default());
    let (client, gate) = gated(&rig, "alice", back.clone()).await;
    let alice = User { client, back };
    let bob = Arc::new(User::new(&rig, "bob").await);
    let mut files = Vec::new();
    for n in 0..FILES {
        files.push(alice.open(&format!("f{n}"), BOTH).await);
    }
    gate.be_busy(true);
    let mut asks = JoinSet::new();
    for file in &files {
        let (bob, fh) = (Arc::clone(&bob), file.fh.clone());
        asks.spawn(async move { bob.attrs(&fh).await.err() });
    }
    // Nobody waits for long for somebody else's client.
    let asked = Instant::now();
    while let Some(refused) = asks.join_next().await {
        assert_eq!(refused.unwrap(), Some(NfsStatus::Delay));
    }
    assert!(asked.elapsed() < Duration::from_secs(3));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(alice.recalls(), 0);
    gate.be_busy(false);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(alice.recalls(), FILES, "each has been recalled meanwhile");
}
