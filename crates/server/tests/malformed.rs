//! Goal: whatever bytes a peer sends, the server answers or closes that one connection, counts it, and serves others.
//! Method: records by hand, and a real request cut at every byte and with every byte changed.

mod rig;

use nfs4::ops::*;
use nfs4::*;
use rig::*;
use rpc::{AcceptError, AuthStat, CallRefusal, Rejection, flavor};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use transport::CloseReason;
use xdr::Opaque;

/// Sends a record; `None` when the connection was closed or no answer came.
async fn poke(rig: &Rig, record: Vec<u8>) -> Option<bytes::Bytes> {
    let conn = rig.connect().await;
    let message = transport::Message::from_bytes(record);
    let answer = conn.call(message, Duration::from_secs(1)).await.ok();
    conn.close(transport::CloseReason::Asked);
    answer
}

#[tokio::test(start_paused = true)]
async fn other_programs_versions_and_procedures() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    let get = async |program, version, procedure| {
        let e = rpc_call(program, version, procedure, flavor::AUTH_SYS, &sys(0));
        verdict(&call(&conn, e.into_bytes()).await)
    };
    // 400122 is the probe of Linux for a server on its own host.
    for program in [400_122, 100_005, 0] {
        assert_eq!(get(program, 1, 0).await, AcceptError::ProgUnavail.into());
    }
    let mismatch = AcceptError::ProgMismatch { low: 4, high: 4 };
    assert_eq!(get(PROGRAM, 3, 0).await, mismatch.into());
    assert_eq!(get(PROGRAM, 4, 2).await, AcceptError::ProcUnavail.into());
    let null = rpc_call(PROGRAM, 4, 0, flavor::AUTH_NONE, &[]);
    assert!(body(&call(&conn, null.into_bytes()).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn credentials() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    let exchange = |flavor, cred: &[u8]| {
        let e = rpc_call(PROGRAM, VERSION, 1, flavor, cred);
        let mut b = CompoundBuilder::new(e, b"", 1);
        b.push(&exchange_args(b"a", 1, 0));
        b.finish().into_bytes()
    };
    let denied = |stat| CallRefusal::Denied(Rejection::Auth(stat));
    for (flavor, cred, stat) in [
        (flavor::AUTH_SYS, vec![1, 2, 3], AuthStat::BadCred),
        (flavor::AUTH_SYS, sys(666), AuthStat::TooWeak),
        (flavor::AUTH_SHORT, vec![], AuthStat::RejectedCred),
        (flavor::RPCSEC_GSS, vec![0; 20], AuthStat::RejectedCred),
        (flavor::AUTH_TLS, vec![], AuthStat::RejectedCred),
        (999, vec![], AuthStat::RejectedCred),
    ] {
        let record = call(&conn, exchange(flavor, &cred)).await;
        assert_eq!(verdict(&record), denied(stat), "{flavor}");
    }
    assert_eq!(rig.nfsd.counters().refused.load(SeqCst), 6);
    assert_eq!(rig.nfsd.clients().lock().clients_count(), 0);
    let record = call(&conn, exchange(flavor::AUTH_NONE, &[])).await;
    assert_eq!(outcome(&record).0, NfsStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_no_call_closes_its_connection() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    // It must look like a call to leave its sender; the rest of the RPC header is cut.
    let mut record = remove(m.session, 0, 1, "x");
    record.truncate(16);
    assert!(poke(&rig, record).await.is_none());
    assert_eq!(rig.malformed(), 1);
    let closed = rig.context().counters().snapshot();
    assert_eq!(closed.closes_for(CloseReason::MalformedMessage), 1);
    let record = call(&m.conn, remove(m.session, 0, 1, "x")).await;
    assert_eq!(outcome(&record).0, NfsStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_request_cut_at_any_byte_harms_nobody() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let whole = compound(|b| {
        b.push(&sequence(m.session, 0, 1, true))
            .push(&PutFhArgs {
                object: Opaque(b"root"),
            })
            .push(&remove_op("name"));
    });
    let compound_at = whole.len() - (8 + 4 + 4 + (4 + 32) + (4 + 8) + (4 + 8));
    let mut unanswered = 0;
    for len in 8..whole.len() {
        let before = rig.malformed();
        let Some(record) = poke(&rig, whole[..len].to_vec()).await else {
            assert!(len < compound_at, "{len}");
            assert_eq!(rig.malformed(), before + 1, "{len}");
            unanswered += 1;
            continue;
        };
        assert!(len >= compound_at, "{len}");
        if len < compound_at + 16 {
            assert_eq!(verdict(&record), AcceptError::GarbageArgs.into(), "{len}");
            assert_eq!(rig.malformed(), before + 1, "{len}");
            continue;
        }
        // What was whole is executed; the first operation that is not is BADXDR. Then the slot is used.
        let (status, _) = outcome(&record);
        assert!(
            matches!(status, NfsStatus::BadXdr | NfsStatus::SeqFalseRetry),
            "{len}: {status}"
        );
    }
    assert!(unanswered > 20);
    assert_eq!(rig.removes(), 0);
    let record = call(&m.conn, remove(m.session, 1, 1, "x")).await;
    assert_eq!(outcome(&record).0, NfsStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_fail_where_they_stand() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let mut cut = remove(m.session, 0, 1, "name");
    cut.truncate(cut.len() - 4);
    let record = call(&m.conn, cut).await;
    assert_eq!(outcome(&record), (NfsStatus::BadXdr, 3));
    let mut missing = remove(m.session, 0, 2, "name");
    missing.truncate(missing.len() - 12);
    let record = call(&m.conn, missing).await;
    assert_eq!(outcome(&record), (NfsStatus::BadXdr, 3));
    assert_eq!(rig.malformed(), 2);
    assert_eq!(rig.removes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_any_byte_changed_harms_nobody() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let requests = [
        remove(m.session, 0, 1, "name"),
        compound(|b| {
            b.push(&exchange_args(b"owner", 1, 0));
        }),
        compound(|b| {
            b.push(&create_args(m.client, 2, 0));
        }),
    ];
    for whole in &requests {
        for at in 8..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = poke(&rig, changed).await;
            }
        }
    }
    let other = rig.mount("b").await;
    let record = call(&other.conn, remove(other.session, 0, 1, "x")).await;
    assert_eq!(outcome(&record).0, NfsStatus::Ok);
}
