//! Goal: a retry in a session of an earlier run gets what was executed then, and nothing is executed twice (RFC 8881 §2.10.6.5).
//! Method: a second server has what the first one kept, whole or up to the last change. With a store: `mds/tests/mds/persist.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_imports,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use nfs4::ops::*;
use nfs4::*;
use rig::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// SEQUENCE, PUTROOTFH, then a REMOVE and a READLINK of four bytes for each name.
fn request(session: SessionId, names: &[&str], highest_slot_id: u32) -> Vec<u8> {
    compound(|b| {
        b.push(&SequenceArgs {
            highest_slot_id,
            ..sequence(session, 0, 1, true)
        });
        for name in names {
            b.push(&PutFhArgs {
                object: xdr::Opaque(&4_u32.to_be_bytes()),
            })
            .push(&remove_op(name))
            .push(&ReadLinkArgs {});
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_is_repeated_and_one_that_stops_at_a_change_goes_on_behind_it() {
    for (names, only_changes) in [
        (&["a"][..], false),
        (&["a"], true),
        (&["a", "b"], false),
        (&["a", "b"], true),
    ] {
        let keeps = Arc::new(Keeps::default());
        keeps.only_changes.store(only_changes, SeqCst);
        let rig = Rig::keeping(Some(Arc::clone(&keeps)));
        let mounted = rig
            .mount_on(rig.connect().await, "c", CREATE_SESSION_PERSIST)
            .await;
        let first = call(&mounted.conn, request(mounted.session, names, 0)).await;
        assert_eq!(outcome(&first).0, NfsStatus::Ok);
        drop(rig);
        let rig = Rig::keeping(Some(keeps));
        // The client has begun more requests since.
        let again = call(&rig.connect().await, request(mounted.session, names, 2)).await;
        assert_eq!(body(&again), body(&first), "{names:?} {only_changes}");
        assert_eq!(rig.removes(), 0, "nothing is done again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_end_of_the_server_prevented_is_left_to_the_client() {
    let keeps = Arc::new(Keeps::default());
    keeps.only_changes.store(true, SeqCst);
    let rig = Rig::keeping(Some(Arc::clone(&keeps)));
    let mounted = rig
        .mount_on(rig.connect().await, "c", CREATE_SESSION_PERSIST)
        .await;
    // It hangs in the second REMOVE until the server is gone.
    let request = request(mounted.session, &["a", "wait"], 0);
    let hanging = {
        let (conn, request) = (mounted.conn.clone(), request.clone());
        tokio::spawn(async move { try_call(&conn, request).await })
    };
    rig.settle().await;
    drop(rig);
    hanging.abort();
    let rig = Rig::keeping(Some(keeps));
    let again = call(&rig.connect().await, request).await;
    // SEQUENCE, PUTFH, REMOVE, READLINK, PUTFH, REMOVE.
    assert_eq!(outcome(&again), (NfsStatus::Delay, 6));
    assert_eq!(rig.removes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_behind_bulk_data_cannot_be_kept_and_is_refused() {
    let rig = Rig::keeping(Some(Arc::default()));
    for (flags, status) in [
        (CREATE_SESSION_PERSIST, NfsStatus::UnsafeCompound),
        (0, NfsStatus::Ok),
    ] {
        let owner = format!("c{flags}");
        let mounted = rig.mount_on(rig.connect().await, &owner, flags).await;
        let request = compound(|b| {
            b.push(&sequence(mounted.session, 0, 1, false))
                .push(&PutRootFhArgs {})
                .push(&ReadArgs {
                    stateid: Stateid::default(),
                    offset: 8,
                    count: 8,
                })
                .push(&remove_op("a"));
        });
        let reply = call(&mounted.conn, request).await;
        assert_eq!(outcome(&reply).0, status);
    }
    assert_eq!(rig.removes(), 1);
}
