//! What every transport does alike. Each behaviour runs over TCP, TLS, memory and RDMA.

use super::*;
use crate::{CallError, TransportKind};

macro_rules! on_every_transport {
    ($( $(#[$meta:meta])* async fn $name:ident($on:ident: On) $body:block )*) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;
            async fn behaviour($on: On) $body
            #[tokio::test]
            async fn tcp() { behaviour(On::Tcp).await }
            #[tokio::test]
            async fn tls() { behaviour(On::Tls).await }
            #[tokio::test]
            async fn memory() { behaviour(On::Memory).await }
            #[tokio::test]
            async fn rdma() { behaviour(On::Rdma).await }
            #[tokio::test]
            async fn rdma_cutting() { behaviour(On::RdmaCutting).await }
            #[tokio::test]
            async fn iwarp() { behaviour(On::Iwarp).await }
            #[tokio::test]
            async fn iwarp_unsummed() { behaviour(On::IwarpUnsummed).await }
        }
    )*};
}

on_every_transport! {
    async fn calls_of_every_size_are_answered(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        for len in [0, 1, 3, 100, 8_000, 8_192, 8_193, 70_000, 300_001, 1_048_576] {
            let args = pattern(len);
            assert_eq!(ask(&conn, ECHO, &args).await, args, "{len} bytes");
        }
        let (server, client) = (rig.server.counters().snapshot(), rig.client.counters().snapshot());
        assert_eq!((server.records_in, client.records_in), (10, 10));
        assert_eq!(client.bytes_out, server.bytes_in);
        assert_eq!(rig.service.connected.load(SeqCst), 1);
        let kind = match on {
            On::Tcp => TransportKind::Tcp,
            On::Tls => TransportKind::Tls,
            On::Memory => TransportKind::Memory,
            On::Rdma | On::RdmaCutting | On::Iwarp | On::IwarpUnsummed => TransportKind::Rdma,
        };
        assert_eq!(conn.kind(), kind);
    }

    async fn requests_run_concurrently_and_replies_leave_as_they_are_ready(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        // Over RDMA there is one credit before the first reply (RFC 8166 §3.3.3).
        ask(&conn, ECHO, b"first").await;
        let slow = ask(&conn, GATED, b"slow");
        let fast = async {
            rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
            assert_eq!(ask(&conn, ECHO, b"fast").await, b"fast");
            assert!(!rig.service.gated_done.load(SeqCst));
            rig.service.gate.add_permits(1);
        };
        assert_eq!(tokio::join!(slow, fast).0, b"slow");
    }

    async fn many_calls_at_once_all_get_their_own_reply(on: On) {
        let rig = Rig::new(on, TransportLimits { in_flight_max: 5, ..TransportLimits::default() }).await;
        let conn = rig.connect().await;
        let calls = (0..400_u32).map(|i| {
            let conn = conn.clone();
            let procedure = if i % 3 == 0 { SLEEP } else { ECHO };
            tokio::spawn(async move {
                let args = [words(&[i % 7]), pattern(i as usize * 60)].concat();
                assert_eq!(ask(&conn, procedure, &args).await, args);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
    }

    async fn no_more_than_in_flight_max_requests_run(on: On) {
        let rig = Rig::new(on, TransportLimits { in_flight_max: 3, ..TransportLimits::default() }).await;
        let conn = rig.connect().await;
        // Over RDMA there is one credit before the first reply (RFC 8166 §3.3.3).
        ask(&conn, ECHO, b"first").await;
        let calls: Vec<_> = (0..10).map(|_| {
            let conn = conn.clone();
            tokio::spawn(async move { ask(&conn, GATED, b"x").await })
        }).collect();
        rig.until(|r| r.service.waiting.load(SeqCst) >= 3).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(rig.service.waiting.load(SeqCst), 3);
        rig.service.gate.add_permits(10);
        for call in calls {
            call.await.unwrap();
        }
    }

    async fn a_service_calls_back_on_the_same_connection(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        let args = pattern(if on.is_rdma() { 1_900 } else { 20_000 });
        assert_eq!(ask(&conn, CALL_BACK, &args).await, args);
    }

    async fn replies_to_calls_back_are_read_while_all_places_are_taken(on: On) {
        let rig = Rig::new(on, TransportLimits { in_flight_max: 1, ..TransportLimits::default() }).await;
        let conn = rig.connect().await;
        // The second request stands before the reply to the call back of the first.
        let two = tokio::join!(ask(&conn, CALL_BACK, b"a"), ask(&conn, ECHO, b"b"));
        assert_eq!(two, (b"a".to_vec(), b"b".to_vec()));
    }

    async fn payloads_from_files_arrive_whole_and_release_their_guard(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        for (offset, len) in [(0, 300_000), (1, 0), (5, 1), (100, 131_073), (299_999, 1)] {
            let bytes = ask(&conn, FILE, &words(&[offset, len])).await;
            let range = offset as usize..(offset + len) as usize;
            assert_eq!(bytes, &pattern(FILE_BYTES)[range], "{len} bytes at {offset}");
        }
        rig.until(|r| r.service.guards.load(SeqCst) == 0).await;
        let counters = rig.server.counters().snapshot();
        let sum = 300_000 + 1 + 131_073 + 1;
        match on {
            On::Tcp => assert_eq!(counters.payload_sendfile_bytes, sum),
            On::Tls => assert_eq!(counters.payload_copy_bytes, sum),
            On::Rdma | On::RdmaCutting | On::Iwarp => assert_eq!(counters.rdma_file_bytes, sum),
            On::IwarpUnsummed => {
                assert_eq!(counters.rdma_file_bytes, 0);
                assert_eq!(counters.rdma_sent_file_bytes, sum);
            }
            On::Memory => {}
        }
    }

    async fn replies_of_all_sizes_that_leave_together_arrive_whole(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        ask(&conn, ECHO, b"first").await;
        let calls: Vec<_> = (0..64_u32).map(|n| {
            let conn = conn.clone();
            tokio::spawn(async move {
                // Below, around and above what a stream puts together, files among it.
                let len = [n, 4_000 + 2 * n, 9_000 + n, 300 * n][n as usize % 4];
                let bytes = pattern(len as usize);
                let back = match n % 3 {
                    0 => ask(&conn, FILE, &words(&[0, len])).await,
                    _ => ask(&conn, ECHO, &bytes).await,
                };
                assert!(back == bytes, "{len} bytes");
            })
        }).collect();
        for call in calls {
            call.await.unwrap();
        }
    }

    async fn a_file_that_shrank_ends_the_connection_and_no_other(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let (conn, other) = (rig.connect().await, rig.connect().await);
        rig.service.file.set_len(100_000).unwrap();
        let err = conn.call(call(FILE, &words(&[0, 300_000])), SOON).await.unwrap_err();
        assert!(matches!(err, CallError::Closed(_)), "{err:?}");
        rig.until(|r| r.service.ended.lock().len() == 1).await;
        assert_eq!(rig.server.counters().snapshot().closes_for(CloseReason::FileShort), 1);
        assert_eq!(rig.service.guards.load(SeqCst), 0);
        assert_eq!(ask(&other, ECHO, b"alive").await, b"alive");
    }

    async fn whatever_a_call_waits_for_it_keeps_its_name_and_gives_it_to_no_other(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        let calls: Vec<_> = (0..50).map(|_| {
            let conn = conn.clone();
            tokio::spawn(async move { ask(&conn, NAMED, b"").await })
        }).collect();
        let mut all = std::collections::BTreeSet::new();
        for call in calls {
            let text = String::from_utf8(call.await.unwrap()).unwrap();
            let names: Vec<&str> = text.split(' ').collect();
            let name = names[0];
            assert_eq!(names, [name, name, name, name, name, "nobody's"]);
            all.insert(name.to_owned());
        }
        assert_eq!(all.len(), 50);
        assert_eq!(CallId::current(), None);
    }

    async fn a_call_without_reply_times_out_and_frees_its_place(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        // Over RDMA a call has to be answered, since only that gives its credit back.
        let (wait, outcome) = match on.is_rdma() {
            false => (Duration::from_millis(1), CallError::TimedOut),
            true => (SOON, CallError::Refused),
        };
        for _ in 0..200 {
            assert_eq!(conn.call(call(SILENT, b""), wait).await, Err(outcome));
        }
        if !on.is_rdma() {
            assert_eq!(rig.client.counters().snapshot().calls_timed_out, 200);
        }
        assert_eq!(ask(&conn, ECHO, b"x").await, b"x");
    }

    async fn a_call_sent_again_keeps_its_id_and_no_other_call_has_it_meanwhile(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        let waiting = conn.call_again(call(GATED, b"first"), SOON);
        let second = async {
            rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
            let refused = conn.call_again(call(ECHO, b"second"), SOON).await;
            rig.service.gate.add_permits(1);
            refused
        };
        let (first, second) = tokio::join!(waiting, second);
        let first = first.unwrap();
        assert_eq!(rpc::peek(&first).unwrap().0, 0);
        assert_eq!((result(&first).as_slice(), second), (&b"first"[..], Err(CallError::Refused)));
        let again = conn.call_again(call(ECHO, b"again"), SOON).await.unwrap();
        assert_eq!((rpc::peek(&again).unwrap().0, result(&again)), (0, b"again".to_vec()));
    }

    async fn a_late_reply_is_dropped_and_counted(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        let short = Duration::from_millis(20);
        assert_eq!(conn.call(call(GATED, b""), short).await, Err(CallError::TimedOut));
        rig.service.gate.add_permits(1);
        rig.until(|r| r.client.counters().snapshot().replies_unmatched == 1).await;
        assert_eq!(ask(&conn, ECHO, b"x").await, b"x");
    }

    async fn closing_fails_the_calls_that_wait_and_requests_run_to_their_end(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        let waiting = conn.call(call(GATED, b""), SOON);
        let close = async {
            rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
            conn.close(CloseReason::Asked);
        };
        let outcome = tokio::join!(waiting, close).0;
        assert_eq!(outcome, Err(CallError::Closed(CloseReason::Asked)));
        assert_eq!(conn.closed().await, CloseReason::Asked);
        rig.until(|r| r.service.ended.lock().len() == 1).await;
        assert!(!rig.service.gated_done.load(SeqCst));
        rig.service.gate.add_permits(1);
        rig.until(|r| r.service.gated_done.load(SeqCst) && r.server.connections() == 0).await;
        let again = conn.call(call(ECHO, b""), SOON).await;
        assert_eq!(again, Err(CallError::Closed(CloseReason::Asked)));
    }

    async fn a_shutdown_answers_what_is_running_and_then_ends(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let (conn, idle) = (rig.connect().await, rig.connect().await);
        assert_eq!(ask(&idle, ECHO, b"x").await, b"x");
        let waiting = ask(&conn, GATED, b"last");
        let stop = async {
            rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
            rig.shutdown.trigger();
            idle.closed().await;
            rig.service.gate.add_permits(1);
        };
        assert_eq!(tokio::join!(waiting, stop).0, b"last");
        conn.closed().await;
        rig.task.await.unwrap();
        assert_eq!(rig.server.counters().snapshot().closes_for(CloseReason::Shutdown), 2);
        assert!(rig.connector.connect(&rig.address, Situations::new()).await.is_err());
    }

    async fn a_shutdown_cuts_what_does_not_end_in_time(on: On) {
        let drain = Duration::from_millis(50);
        let rig = Rig::new(on, TransportLimits { drain, ..TransportLimits::default() }).await;
        let conn = rig.connect().await;
        let waiting = conn.call(call(GATED, b""), SOON);
        let stop = async {
            rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
            rig.shutdown.trigger();
        };
        let outcome = tokio::join!(waiting, stop).0;
        assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
        rig.task.await.unwrap();
        assert!(!rig.service.gated_done.load(SeqCst));
        assert_eq!(rig.server.connections(), 0);
    }

    async fn a_record_above_the_limit_ends_the_connection_and_no_other(on: On) {
        let rig = Rig::new(on, TransportLimits { record_bytes_max: 10_000, ..TransportLimits::default() }).await;
        let (conn, other) = (rig.connect().await, rig.connect().await);
        assert_eq!(ask(&conn, ECHO, &[1; 9_900]).await, [1; 9_900]);
        let err = conn.call(call(ECHO, &[1; 10_000]), SOON).await.unwrap_err();
        if on.is_rdma() {
            // It is not sent at all: refusing it leaves the connection in order (RFC 8166 §4.5.3).
            assert_eq!(err, CallError::Refused);
            assert_eq!(rig.server.counters().snapshot().rdma_calls_refused, 1);
            assert_eq!(ask(&conn, ECHO, b"alive").await, b"alive");
        } else {
            assert!(matches!(err, CallError::Closed(_)), "{err:?}");
            rig.until(|r| r.service.ended.lock().len() == 1).await;
            assert_eq!(*rig.service.ended.lock(), [CloseReason::MalformedRecord]);
        }
        assert_eq!(ask(&other, ECHO, b"alive").await, b"alive");
    }

    async fn a_panic_of_the_service_ends_its_connection_only(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let (conn, other) = (rig.connect().await, rig.connect().await);
        let err = conn.call(call(PANIC, b""), SOON).await.unwrap_err();
        assert!(matches!(err, CallError::Closed(_)), "{err:?}");
        let counters = || rig.server.counters().snapshot();
        rig.until(|_| counters().closes_for(CloseReason::ServicePanicked) == 1).await;
        assert_eq!(ask(&other, ECHO, b"alive").await, b"alive");
        rig.until(|r| r.server.connections() == 1).await;
    }

    async fn a_peer_that_the_service_does_not_admit_takes_no_place(on: On) {
        let limits = TransportLimits { connections_max: 1, ..TransportLimits::default() };
        let rig = Rig::new(on, limits).await;
        rig.service.closed.store(true, SeqCst);
        for _ in 0..3 {
            if let Ok(conn) = rig.connector.connect(&rig.address, Situations::new()).await {
                tokio::time::timeout(SOON, conn.closed()).await.unwrap();
            }
        }
        rig.until(|r| r.server.counters().snapshot().connections_not_admitted == 3).await;
        assert_eq!(rig.service.connected.load(SeqCst), 0);
        rig.service.closed.store(false, SeqCst);
        let conn = rig.connect().await;
        assert_eq!(ask(&conn, ECHO, b"x").await, b"x");
        assert_eq!(rig.server.counters().snapshot().connections_refused, 0);
    }

    async fn connections_above_the_limit_are_refused_and_counted(on: On) {
        let rig = Rig::new(on, TransportLimits { connections_max: 2, ..TransportLimits::default() }).await;
        let (one, two) = (rig.connect().await, rig.connect().await);
        tokio::join!(ask(&one, ECHO, b"1"), ask(&two, ECHO, b"2"));
        if let Ok(three) = rig.connector.connect(&rig.address, Situations::new()).await {
            three.closed().await;
        }
        assert_eq!(rig.server.counters().snapshot().connections_refused, 1);
        one.close(CloseReason::Asked);
        rig.until(|r| r.server.connections() == 1).await;
        let four = rig.connect().await;
        assert_eq!(ask(&four, ECHO, b"4").await, b"4");
        rig.server.limit_connections(&TransportLimits { connections_max: 3, ..TransportLimits::default() });
        assert_eq!(ask(&rig.connect().await, ECHO, b"5").await, b"5");
        assert_eq!(rig.server.counters().snapshot().connections_refused, 1);
    }

    async fn one_address_has_no_more_than_its_own_connections(on: On) {
        let limits = TransportLimits { connections_per_address_max: 2, ..TransportLimits::default() };
        let rig = Rig::new(on, limits).await;
        let (one, two) = (rig.connect().await, rig.connect().await);
        tokio::join!(ask(&one, ECHO, b"1"), ask(&two, ECHO, b"2"));
        if let Ok(three) = rig.connector.connect(&rig.address, Situations::new()).await {
            tokio::time::timeout(SOON, three.closed()).await.unwrap();
        }
        let counted = rig.server.counters().snapshot();
        assert_eq!((counted.connections_refused_by_address, counted.connections_refused), (1, 0));
        assert_eq!(ask(&one, ECHO, b"5").await, b"5");
        one.close(CloseReason::Asked);
        rig.until(|r| r.server.connections() == 1).await;
        assert_eq!(ask(&rig.connect().await, ECHO, b"4").await, b"4");
    }

    async fn a_connection_without_requests_is_closed_when_the_policy_says_so(on: On) {
        let idle = Some(Duration::from_millis(150));
        let rig = Rig::new(on, TransportLimits { idle, ..TransportLimits::default() }).await;
        let conn = rig.connect().await;
        assert_eq!(ask(&conn, SLEEP, &words(&[400])).await, words(&[400]));
        conn.closed().await;
        rig.until(|r| !r.service.ended.lock().is_empty()).await;
        assert_eq!(*rig.service.ended.lock(), [CloseReason::Idle]);
    }

    async fn a_request_that_is_not_whole_yet_is_not_idleness(on: On) {
        keeps_who_waits_for_memory(on, Duration::from_millis(300)).await;
    }
}

/// A request of a size that needs a share of the receive budget waits for it longer than a connection may be idle.
async fn keeps_who_waits_for_memory(on: On, idle: Duration) {
    let limits = TransportLimits {
        idle: Some(idle),
        ..TransportLimits::default()
    };
    let rig = Rig::new(on, limits).await;
    let conn = rig.connect().await;
    let budget = rig.server.receive_budget();
    let others = ["192.0.2.1:1", "192.0.2.2:1"].map(|address| {
        let peer = Endpoint::Socket(address.parse().unwrap());
        budget
            .share(&peer)
            .try_charge(rig.server.limits().receive_share_bytes)
            .unwrap()
    });
    let args = pattern(100_000);
    let later = async {
        tokio::time::sleep(4 * idle).await;
        drop(others);
    };
    assert_eq!(tokio::join!(ask(&conn, ECHO, &args), later).0, args);
    conn.closed().await;
    rig.until(|r| !r.service.ended.lock().is_empty()).await;
    assert_eq!(*rig.service.ended.lock(), [CloseReason::Idle]);
}

#[tokio::test(start_paused = true)]
async fn a_request_over_rdma_that_is_not_whole_yet_is_not_idleness_in_simulated_time() {
    keeps_who_waits_for_memory(On::Rdma, Duration::from_secs(10) / 4).await;
}

#[tokio::test]
async fn both_ends_know_whom_tls_has_proved() {
    struct Who(Mutex<Option<ConnHandle>>);
    impl Service for Who {
        async fn call(&self, _: &ConnHandle, _: Bytes) -> Option<Message> {
            None
        }
        fn connected(&self, conn: &ConnHandle) {
            *self.0.lock() = Some(conn.clone());
        }
    }
    let listeners = tcp::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let (server_tls, client_tls) = tls_configs();
    let who = Arc::new(Who(Mutex::default()));
    let shutdown = Shutdown::new();
    let context = Context::new(TransportLimits::default());
    let serve = tcp::serve_tls(
        listeners,
        server_tls.clone(),
        who.clone(),
        context.clone(),
        shutdown.signal(),
    );
    let task = tokio::spawn(serve);
    let reverse = || crate::NoService::shared();
    let conn = tls::connect(
        address,
        "server.test",
        client_tls.clone(),
        reverse(),
        &context,
    )
    .await
    .unwrap();
    let identity = conn.tls_identity().unwrap();
    assert_eq!(identity.common_name.as_deref(), Some("server.test"));
    while who.0.lock().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seen = who.0.lock().clone().unwrap();
    let client = seen.tls_identity().unwrap();
    assert_eq!(client.common_name.as_deref(), Some("client.test"));
    assert_ne!(client.certificate_sha256, identity.certificate_sha256);
    // Another name, another CA, and no TLS at all are refused.
    let wrong = tls::connect(address, "other.test", client_tls, reverse(), &context).await;
    assert!(
        matches!(wrong, Err(crate::ConnectError::Tls(_))),
        "{wrong:?}"
    );
    let stranger = tls_configs().1;
    let wrong = tls::connect(address, "server.test", stranger, reverse(), &context).await;
    assert!(
        matches!(wrong, Err(crate::ConnectError::Tls(_))),
        "{wrong:?}"
    );
    let clear = tcp::connect(address, reverse(), &context).await.unwrap();
    assert!(clear.call(call(ECHO, b""), SOON).await.is_err());
    for _ in 0..1000 {
        if context
            .counters()
            .snapshot()
            .closes_for(CloseReason::TlsHandshake)
            == 3
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        context
            .counters()
            .snapshot()
            .closes_for(CloseReason::TlsHandshake),
        3
    );
    shutdown.trigger();
    task.await.unwrap().unwrap();
}
