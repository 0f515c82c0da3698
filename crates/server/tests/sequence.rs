//! Goal: SEQUENCE and the reply cache make requests exactly once (RFC 8881 §2.10.6, §18.46). Method: COMPOUNDs by hand to
//! a toy role that counts what it executes.

mod rig;

use nfs4::ops::*;
use nfs4::*;
use rig::*;
use ropewalk_server::LATENCY_BOUNDS_US;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use xdr::Opaque;

fn readlink(session: SessionId, seqid: u32, cache: bool, sizes: &[u32]) -> Vec<u8> {
    compound(|b| {
        b.push(&sequence(session, 0, seqid, cache));
        for size in sizes {
            b.push(&PutFhArgs {
                object: Opaque(&size.to_be_bytes()),
            })
            .push(&ReadLinkArgs {});
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_retry_on_another_connection_gets_the_same_bytes() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let first = call(&m.conn, remove(m.session, 0, 1, "x")).await;
    assert_eq!(outcome(&first), (NfsStatus::Ok, 3));
    m.conn.close(transport::CloseReason::Asked);
    let again = call(&rig.connect().await, remove(m.session, 0, 1, "x")).await;
    assert_eq!(body(&first), body(&again));
    assert_eq!(rig.removes(), 1);
    assert_eq!(rig.nfsd.counters().replays.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_small_reply_is_kept_unasked() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let request = || {
        compound(|b| {
            b.push(&sequence(m.session, 0, 1, false))
                .push(&remove_op("x"));
        })
    };
    let first = call(&m.conn, request()).await;
    assert_eq!(body(&first), body(&call(&m.conn, request()).await));
    assert_eq!(rig.removes(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_an_uncached_request_fails_at_the_second_operation() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let request = readlink(m.session, 1, false, &[2000]);
    assert_eq!(
        outcome(&call(&m.conn, request.clone()).await),
        (NfsStatus::Ok, 3)
    );
    let again = call(&m.conn, request).await;
    let mut reply = reply(&again);
    assert_eq!(reply.status, NfsStatus::RetryUncachedRep);
    assert_eq!(reply.take::<SequenceRes>().unwrap().sequence_id, 1);
    let second = reply.next_result().unwrap().unwrap();
    assert_eq!(
        (second.op, second.status),
        (OpNum::PutFh as u32, NfsStatus::RetryUncachedRep)
    );
    // The slot goes on.
    assert_eq!(
        outcome(&call(&m.conn, remove(m.session, 0, 2, "x")).await).0,
        NfsStatus::Ok
    );
}

#[tokio::test(start_paused = true)]
async fn a_payload_is_kept_only_on_request() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let request = |seqid, cache| {
        compound(|b| {
            b.push(&sequence(m.session, 0, seqid, cache))
                .push(&ReadArgs {
                    stateid: Stateid::default(),
                    offset: 0,
                    count: 101,
                });
        })
    };
    let first = call(&m.conn, request(1, true)).await;
    assert_eq!(body(&first), body(&call(&m.conn, request(1, true)).await));
    call(&m.conn, request(2, false)).await;
    let again = call(&m.conn, request(2, false)).await;
    assert_eq!(outcome(&again), (NfsStatus::RetryUncachedRep, 2));
}

#[tokio::test(start_paused = true)]
async fn another_request_or_another_user_is_a_false_retry() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    call(&m.conn, remove(m.session, 0, 1, "x")).await;
    let other = call(&m.conn, remove(m.session, 0, 1, "y")).await;
    let false_retry = (OpNum::Sequence as u32, NfsStatus::SeqFalseRetry);
    assert_eq!(only(&other), false_retry);
    let stranger = compound_as(1000, 2, |b| {
        b.push(&sequence(m.session, 0, 1, true))
            .push(&PutRootFhArgs {})
            .push(&remove_op("x"));
    });
    assert_eq!(only(&call(&m.conn, stranger).await), false_retry);
    assert_eq!(rig.removes(), 1);
}

/// Linux encodes a retry anew after it has connected again, and says then which slots it uses by now.
#[tokio::test(start_paused = true)]
async fn a_retry_may_tell_of_other_slots_in_use() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let request = |highest_slot_id| {
        compound(|b| {
            b.push(&SequenceArgs {
                highest_slot_id,
                ..sequence(m.session, 0, 1, true)
            })
            .push(&PutRootFhArgs {})
            .push(&remove_op("x"));
        })
    };
    let first = call(&m.conn, request(0)).await;
    let again = call(&m.conn, request(3)).await;
    assert_eq!(body(&again), body(&first));
    assert_eq!(rig.removes(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_running_request_gets_delay() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let conn = m.conn.clone();
    let running = tokio::spawn(async move { call(&conn, remove(m.session, 0, 1, "wait")).await });
    rig.settle().await;
    let other = rig.connect().await;
    let retry = call(&other, remove(m.session, 0, 1, "wait")).await;
    assert_eq!(only(&retry), (OpNum::Sequence as u32, NfsStatus::Delay));
    // The next sequence id has to wait too; another slot need not.
    let next = call(&other, remove(m.session, 0, 2, "x")).await;
    assert_eq!(only(&next).1, NfsStatus::SeqMisordered);
    assert_eq!(
        outcome(&call(&other, remove(m.session, 1, 1, "x")).await).0,
        NfsStatus::Ok
    );
    rig.nfsd.role().gate.add_permits(1);
    let first = running.await.unwrap();
    let retry = call(&other, remove(m.session, 0, 1, "wait")).await;
    assert_eq!(body(&first), body(&retry));
    assert_eq!(rig.removes(), 2);
}

#[tokio::test(start_paused = true)]
async fn wrong_sequence_ids_and_slots_change_nothing() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let slots = m.created.fore_chan_attrs.requests_max;
    let seqids = [(0, 2), (0, 0), (0, 5), (0, u32::MAX)];
    for (slot, seqid) in seqids {
        let record = call(&m.conn, remove(m.session, slot, seqid, "x")).await;
        assert_eq!(only(&record).1, NfsStatus::SeqMisordered, "{seqid}");
    }
    let record = call(&m.conn, remove(m.session, slots, 1, "x")).await;
    assert_eq!(only(&record).1, NfsStatus::BadSlot);
    let high = compound(|b| {
        b.push(&SequenceArgs {
            highest_slot_id: slots,
            ..sequence(m.session, 0, 1, true)
        });
    });
    assert_eq!(only(&call(&m.conn, high).await).1, NfsStatus::BadHighSlot);
    let unknown = call(&m.conn, remove(SessionId::default(), 0, 1, "x")).await;
    assert_eq!(only(&unknown).1, NfsStatus::BadSession);
    assert_eq!(rig.removes(), 0);
    assert_eq!(
        outcome(&call(&m.conn, remove(m.session, 0, 1, "x")).await).0,
        NfsStatus::Ok
    );
}

#[tokio::test(start_paused = true)]
async fn a_lowered_target_is_enforced_once_the_client_saw_it() {
    let rig = Rig::with(None, |limits| limits.slots_total_max = 4);
    let m = rig.mount("a").await;
    call(&m.conn, remove(m.session, 3, 1, "x")).await;
    // Two slots are each one's share.
    rig.mount("b").await;
    let mut enforced = Vec::new();
    for seqid in 1..=3 {
        let record = call(&m.conn, remove(m.session, 0, seqid, "x")).await;
        let res = reply(&record).take::<SequenceRes>().unwrap();
        assert_eq!(res.target_highest_slot_id, 1);
        enforced.push(res.highest_slot_id);
    }
    assert_eq!(enforced, [3, 1, 1]);
    let record = call(&m.conn, remove(m.session, 3, 2, "x")).await;
    assert_eq!(only(&record).1, NfsStatus::BadSlot);
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_session_s_limits_leave_the_slot_alone() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let many = compound(|b| {
        b.push(&sequence(m.session, 0, 1, true));
        for _ in 0..8 {
            b.push(&remove_op("x"));
        }
    });
    assert_eq!(only(&call(&m.conn, many).await).1, NfsStatus::TooManyOps);
    let mut large = remove(m.session, 0, 1, "x");
    large.resize(REQUEST_MAX as usize + 4, 0);
    assert_eq!(only(&call(&m.conn, large).await).1, NfsStatus::ReqTooBig);
    let record = call(&m.conn, remove(m.session, 0, 1, "x")).await;
    assert_eq!(outcome(&record).0, NfsStatus::Ok);
    assert_eq!(rig.removes(), 1);
}

#[tokio::test(start_paused = true)]
async fn replies_never_exceed_what_was_negotiated() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let mut seen = std::collections::BTreeSet::new();
    let mut seqid = 0;
    for cache in [false, true] {
        let max = if cache { CACHED_MAX } else { REPLY_MAX };
        for size in (max - 300..max + 8).step_by(4) {
            seqid += 1;
            let sizes = [size, 0];
            let record = call(&m.conn, readlink(m.session, seqid, cache, &sizes)).await;
            assert!(record.len() <= max as usize, "{} bytes", record.len());
            let (status, results) = outcome(&record);
            seen.insert((status as u32, results));
            if cache {
                let again = call(&m.conn, readlink(m.session, seqid, cache, &sizes)).await;
                assert_eq!(body(&record), body(&again), "kept whatever it says");
            }
        }
    }
    for too_big in [NfsStatus::RepTooBig, NfsStatus::RepTooBigToCache] {
        // At the large result, and at each operation after it.
        assert!(seen.contains(&(too_big as u32, 3)), "{seen:?}");
        assert!(seen.contains(&(too_big as u32, 4)), "{seen:?}");
    }
    assert!(seen.contains(&(0, 5)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_when_its_result_might_not_fit() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let mut executed = 0;
    for (at, size) in (500..CACHED_MAX).step_by(4).enumerate() {
        let seqid = u32::try_from(at).unwrap() + 1;
        let request = compound(|b| {
            b.push(&sequence(m.session, 0, seqid, true))
                .push(&PutFhArgs {
                    object: Opaque(&size.to_be_bytes()),
                })
                .push(&ReadLinkArgs {})
                .push(&remove_op("x"));
        });
        let record = call(&m.conn, request).await;
        match outcome(&record) {
            (NfsStatus::Ok, 4) => executed += 1,
            (NfsStatus::RepTooBigToCache, 3 | 4) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(rig.removes(), executed);
    }
    assert!(executed > 0 && executed < 100);
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_reply_cache_refuses_to_cache() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    let (client, seqid) = exchange(&conn, "a", 1).await;
    let mut args = create_args(client, seqid, 0);
    args.fore_chan_attrs.response_cached_bytes_max = 0;
    let record = call(
        &conn,
        compound(|b| {
            b.push(&args);
        }),
    )
    .await;
    let session = reply(&record)
        .take::<CreateSessionRes>()
        .unwrap()
        .session_id;
    let record = call(&conn, remove(session, 0, 1, "x")).await;
    assert_eq!(only(&record).1, NfsStatus::RepTooBigToCache);
    let alone = |cache| {
        compound(|b| {
            b.push(&sequence(session, 0, 1, cache));
        })
    };
    assert_eq!(
        outcome(&call(&conn, alone(false)).await),
        (NfsStatus::Ok, 1)
    );
    // Executed and not kept: the retry of a lone SEQUENCE is computed anew.
    assert_eq!(
        outcome(&call(&conn, alone(false)).await),
        (NfsStatus::Ok, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_slot_survives_a_panic_of_the_role() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    assert!(
        try_call(&m.conn, remove(m.session, 0, 1, "panic"))
            .await
            .is_none()
    );
    let conn = rig.connect().await;
    let again = call(&conn, remove(m.session, 0, 1, "panic")).await;
    assert_eq!(outcome(&again), (NfsStatus::RetryUncachedRep, 2));
    let next = call(&conn, remove(m.session, 0, 2, "x")).await;
    assert_eq!(outcome(&next).0, NfsStatus::Ok);
    let session = rig.nfsd.clients().lock();
    assert_eq!(
        session.session(m.session).unwrap().slots().running_count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_slot_survives_a_request_that_is_dropped() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let conn = m.conn.clone();
    tokio::spawn(async move { try_call(&conn, remove(m.session, 0, 1, "wait")).await });
    rig.settle().await;
    let running = || {
        let clients = rig.nfsd.clients().lock();
        clients.session(m.session).unwrap().slots().running_count()
    };
    assert_eq!(running(), 1);
    rig.shutdown.trigger();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(running(), 0);
}

#[tokio::test(start_paused = true)]
async fn effects_that_cannot_be_made_durable_are_not_answered() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    rig.nfsd.role().fail_settle.store(true, SeqCst);
    assert!(
        try_call(&m.conn, remove(m.session, 0, 1, "x"))
            .await
            .is_none()
    );
    rig.nfsd.role().fail_settle.store(false, SeqCst);
    let again = call(&rig.connect().await, remove(m.session, 0, 1, "x")).await;
    assert_eq!(outcome(&again), (NfsStatus::RetryUncachedRep, 2));
    assert_eq!(rig.removes(), 1);
}

/// READs that charge so many bytes each, and then a REMOVE.
fn charged(session: SessionId, slot: u32, seqid: u32, charges: &[u32], name: &str) -> Vec<u8> {
    compound(|b| {
        b.push(&sequence(session, slot, seqid, false));
        for bytes in charges {
            b.push(&ReadArgs {
                stateid: Stateid::default(),
                offset: u64::from(*bytes),
                count: 4,
            });
        }
        b.push(&PutFhArgs {
            object: Opaque(&[0; 4]),
        })
        .push(&RemoveArgs {
            target: Opaque(name.as_bytes()),
        });
    })
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_send_budget_only_while_it_holds_none_of_it() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let half = SEND_MAX / 2 + 1;
    let record = call(&m.conn, charged(m.session, 0, 1, &[half, half], "x")).await;
    assert_eq!(outcome(&record), (NfsStatus::Delay, 3));
    // What it held came back.
    let record = call(&m.conn, charged(m.session, 0, 2, &[SEND_MAX], "x")).await;
    assert_eq!(outcome(&record), (NfsStatus::Ok, 4));
}

#[tokio::test(start_paused = true)]
async fn a_request_gets_delay_when_the_send_budget_does_not_come_in_time() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let conn = m.conn.clone();
    let holds = charged(m.session, 0, 1, &[SEND_MAX], "wait");
    let running = tokio::spawn(async move { call(&conn, holds).await });
    rig.settle().await;
    let start = tokio::time::Instant::now();
    let record = call(&m.conn, charged(m.session, 1, 1, &[SEND_MAX], "x")).await;
    assert_eq!(outcome(&record), (NfsStatus::Delay, 2));
    assert!(start.elapsed() < Duration::from_secs(11));
    // Small replies do not ask.
    let record = call(&m.conn, charged(m.session, 1, 2, &[4096], "x")).await;
    assert_eq!(outcome(&record).0, NfsStatus::Ok);
    let (conn, session) = (m.conn.clone(), m.session);
    let waits =
        tokio::spawn(async move { call(&conn, charged(session, 1, 3, &[SEND_MAX], "x")).await });
    rig.settle().await;
    rig.nfsd.role().gate.add_permits(1);
    assert_eq!(outcome(&waits.await.unwrap()).0, NfsStatus::Ok);
    assert_eq!(outcome(&running.await.unwrap()).0, NfsStatus::Ok);
}

/// As many replies as there is room for are kept for clients that use more slots than they are asked to. Then these slots go.
#[tokio::test(start_paused = true)]
async fn without_room_for_a_reply_that_is_to_be_kept_nothing_is_executed() {
    let rig = Rig::with(None, |limits| {
        limits.slots_total_max = 2;
        limits.reply_cache_bytes_max = u64::from(CACHED_MAX) + 50;
    });
    let (m, other) = (rig.mount("a").await, rig.mount("b").await);
    let first = call(&m.conn, remove(m.session, 2, 1, "x")).await;
    assert_eq!(outcome(&first), (NfsStatus::Ok, 3));
    // Its reply has more than 50 bytes: the largest has no room now.
    let refused = call(&m.conn, remove(m.session, 3, 1, "x")).await;
    let bad_slot = (OpNum::Sequence as u32, NfsStatus::BadSlot);
    assert_eq!(only(&refused), bad_slot);
    assert_eq!(rig.removes(), 1);
    let again = call(&m.conn, remove(m.session, 2, 1, "x")).await;
    assert_eq!(body(&first), body(&again), "a retry is no new request");
    // The slots that were asked for are there, and the replies say how many.
    for (m, seqid) in [(&m, 1), (&other, 1), (&m, 2)] {
        let done = call(&m.conn, remove(m.session, 0, seqid, "x")).await;
        let sequenced = reply(&done).take::<SequenceRes>().unwrap();
        let highest = (sequenced.highest_slot_id, sequenced.target_highest_slot_id);
        assert_eq!(highest, (0, 0));
        let again = call(&m.conn, remove(m.session, 0, seqid, "x")).await;
        assert_eq!(body(&done), body(&again));
    }
    assert_eq!(rig.removes(), 4);
    // With the next request the slot is free again, and there is room.
    let next = call(&m.conn, remove(m.session, 2, 2, "x")).await;
    assert_eq!(only(&next), bad_slot);
    let next = call(&m.conn, remove(m.session, 3, 1, "x")).await;
    assert_eq!(only(&next), bad_slot, "the shares take it");
    assert_eq!(rig.removes(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_timed_under_the_operation_that_it_is_for_and_its_retry_is_not() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let request = || remove(m.session, 0, 1, "wait");
    let open_gate = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        rig.nfsd.role().gate.add_permits(1);
    };
    tokio::join!(call(&m.conn, request()), open_gate);
    call(&m.conn, request()).await;
    let removes = || {
        let all = rig.nfsd.counters().latencies.rows();
        all.filter(|row| row.number == OpNum::Remove as usize)
    };
    let row = removes().next().unwrap();
    assert_eq!(row.buckets.iter().sum::<u64>(), 1);
    let at = LATENCY_BOUNDS_US.iter().position(|us| *us == 50_000);
    assert_eq!(row.buckets[at.unwrap()], 1, "{row:?}");
    assert!((20_000..30_000).contains(&row.sum_us), "{row:?}");
    assert_eq!(removes().count(), 1);
}
