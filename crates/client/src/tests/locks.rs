//! Goal: locks keep others out until they are given up, also over restarts of the server. A lock that is lost is never
//! taken for one that is held.

use super::*;
use crate::{LockConflict, LockKind};

const FILE: std::ops::Range<u64> = 0..u64::MAX;

async fn two() -> (Cluster, (Client, File), (Client, File)) {
    let (cluster, alice) = rig(1).await;
    let bob = connect(&cluster, config("b")).await;
    let (his, _) = new_file(&alice).await;
    let others = bob.open("/f", OpenOptions::read_write()).await.unwrap();
    (cluster, (alice, his), (bob, others))
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_lock_keeps_others_out_until_it_is_given_up() {
    let (_cluster, (_a, hers), (_b, his)) = two().await;
    let taken = LockConflict {
        kind: LockKind::Exclusive,
        range: 10..20,
    };
    hers.lock(LockKind::Exclusive, 10..20).await.unwrap();
    let met = his.try_lock(LockKind::Shared, 0..11).await.unwrap();
    assert_eq!(met, Some(taken.clone()));
    let met = his.lock_conflict(LockKind::Shared, FILE).await.unwrap();
    assert_eq!(met, Some(taken));
    assert_eq!(
        his.try_lock(LockKind::Exclusive, 20..30).await.unwrap(),
        None
    );

    // A part of it becomes shared, another part free.
    assert_eq!(hers.try_lock(LockKind::Shared, 10..13).await.unwrap(), None);
    hers.unlock(16..18).await.unwrap();
    for (range, is_free) in [
        (10..13, true),
        (12..14, false),
        (16..18, true),
        (18..19, false),
    ] {
        let met = his.try_lock(LockKind::Shared, range.clone()).await.unwrap();
        assert_eq!(met.is_none(), is_free, "{range:?}");
    }
    let empty = his.lock(LockKind::Shared, 5..5).await;
    assert!(matches!(empty, Err(Error::Status(NfsStatus::Inval))));
}

#[tokio::test(start_paused = true)]
async fn a_lock_waits_for_another_and_comes_with_its_end() {
    let (_cluster, (_a, hers), (b, his)) = two().await;
    hers.lock(LockKind::Exclusive, FILE).await.unwrap();
    let waiting = tokio::spawn(async move {
        his.lock(LockKind::Exclusive, FILE).await.unwrap();
        his
    });
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    assert!(!waiting.is_finished());
    hers.close().await.unwrap();
    let his = waiting.await.unwrap();
    drop(his);
    b.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn locks_are_reclaimed_from_a_restarted_server() {
    let (cluster, (_a, hers), (_b, his)) = two().await;
    hers.lock(LockKind::Exclusive, 0..10).await.unwrap();
    hers.lock(LockKind::Shared, 20..u64::MAX).await.unwrap();
    hers.unlock(5..30).await.unwrap();
    for restarts in 1..=3 {
        cluster.restart_mds().await;
        hers.write_at(0, Bytes::from_static(b"x")).await.unwrap();
        hers.flush().await.unwrap();
        let met = his.try_lock(LockKind::Exclusive, 0..5).await.unwrap();
        assert!(met.is_some(), "after {restarts} restarts");
        let met = his.try_lock(LockKind::Shared, 5..u64::MAX).await.unwrap();
        assert_eq!(met, None, "given up");
        let met = his.try_lock(LockKind::Exclusive, 30..31).await.unwrap();
        assert!(met.is_some(), "the rest of what was shared");
        his.unlock(FILE).await.unwrap();
        assert_eq!(cluster.state.lock().lock_reclaims, 2 * restarts);
    }
    // What is locked afterwards goes under the new stateid.
    hers.lock(LockKind::Exclusive, 100..101).await.unwrap();
    hers.unlock(FILE).await.unwrap();
    let met = his.try_lock(LockKind::Exclusive, FILE).await.unwrap();
    assert_eq!(met, None);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_ends_the_use_of_its_file() {
    let (cluster, (a, hers), (_b, his)) = two().await;
    hers.lock(LockKind::Exclusive, 0..10).await.unwrap();
    cluster.state.lock().refuse_lock_reclaims = true;
    cluster.restart_mds().await;
    let is_lost = |done: Result<(), Error>| matches!(done, Err(Error::LocksLost));
    a.metadata("/f").await.unwrap();
    assert!(is_lost(hers.read_at(0, 1).await.map(drop)));
    assert!(is_lost(hers.write_at(0, Bytes::from_static(b"x")).await));
    assert!(is_lost(hers.lock(LockKind::Shared, 50..51).await));
    assert!(is_lost(hers.unlock(0..10).await));
    assert_eq!(his.try_lock(LockKind::Exclusive, FILE).await.unwrap(), None);
    his.close().await.unwrap();
    hers.close().await.unwrap();

    // The same when the server forgets the open: whoever came between may have had the lock.
    cluster.state.lock().refuse_lock_reclaims = false;
    let hers = a.open("/f", OpenOptions::read_write()).await.unwrap();
    hers.lock(LockKind::Exclusive, 0..10).await.unwrap();
    cluster.forget_opens();
    assert!(is_lost(hers.lock(LockKind::Exclusive, 10..20).await));
    hers.close().await.unwrap();
    // Without locks it is opened again, as for I/O.
    let hers = a.open("/f", OpenOptions::read_write()).await.unwrap();
    cluster.forget_opens();
    hers.lock(LockKind::Exclusive, 10..20).await.unwrap();
}
