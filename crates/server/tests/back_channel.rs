//! Goal: a callback is executed once by the client, whatever its connections do. A client that does not answer costs a
//! bounded time (RFC 8881 §2.10.6.2, §20.9). Method: a client whose reverse service answers as each test says.

mod rig;

use client_table::{
    BuildCallback, CALLBACK_MS_MAX, CallbackError, CallbackPath, TakeResult, Taken, Try,
    begin_cb_compound, deliver,
};
use nfs4::ops::*;
use nfs4::*;
use rig::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::time::{Duration, Instant};

const OK: NfsStatus = NfsStatus::Ok;

async fn mount(rig: &Rig, reverse: &Arc<Reverse>) -> Mounted {
    let conn = rig.connect_with(reverse.clone()).await;
    rig.mount_on(conn, "a", CREATE_SESSION_CONN_BACK_CHAN).await
}

async fn bind(m: &Mounted, conn: &transport::ConnHandle) {
    let record = call(
        conn,
        compound(|b| {
            b.push(&BindConnToSessionArgs {
                session_id: m.session,
                dir: ChannelDirFromClient::ForeOrBoth,
                use_conn_in_rdma_mode: false,
            });
        }),
    )
    .await;
    assert_eq!(only(&record).1, OK);
}

async fn callback(rig: &Rig, m: &Mounted) -> Result<(), CallbackError> {
    rig.nfsd.clients().callback(m.client, &recall).await
}

/// Answers the n-th call by `plan[n]`, those after the plan with success. `None` is silence.
fn scripted(plan: Vec<Option<(NfsStatus, NfsStatus)>>) -> Arc<Reverse> {
    let n = AtomicUsize::new(0);
    Reverse::new(move |record| {
        let step = plan.get(n.fetch_add(1, SeqCst)).copied();
        let (seq, op) = step.unwrap_or(Some((OK, OK)))?;
        cb_answer(record, seq, op)
    })
}

#[tokio::test(start_paused = true)]
async fn callbacks_count_up_in_their_slot() {
    let rig = Rig::new();
    let reverse = scripted(vec![None; 0]);
    let m = mount(&rig, &reverse).await;
    for n in 0..3 {
        assert_eq!(callback(&rig, &m).await, Ok(()));
        let (record, args) = reverse.nth(n);
        let seqid = u32::try_from(n).unwrap() + 1;
        assert_eq!((args.slot_id, args.sequence_id), (0, seqid));
        assert_eq!(args.session_id, m.session);
        // Program and version, after the direction and the RPC version.
        assert_eq!(record[8..16], [0x40, 0, 0, 0, 0, 0, 0, 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_session_with_a_back_channel_is_probed_once() {
    let rig = Rig::new();
    let reverse = scripted(vec![None; 0]);
    let conn = rig.connect_with(reverse.clone()).await;
    let m = rig
        .mount_on(conn.clone(), "a", CREATE_SESSION_CONN_BACK_CHAN)
        .await;
    rig.settle().await;
    assert_eq!(*reverse.probes.lock(), [(0x4000_0000, 1)]);
    // A retry makes no session, and one without a back channel has no callbacks.
    let sequence = m.created.sequence;
    create(&conn, m.client, sequence, CREATE_SESSION_CONN_BACK_CHAN)
        .await
        .unwrap();
    create(&conn, m.client, sequence + 1, 0).await.unwrap();
    rig.settle().await;
    assert_eq!(reverse.probes.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_operation_is_handed_on() {
    let rig = Rig::new();
    let reverse = scripted(vec![Some((OK, NfsStatus::BadStateid))]);
    let m = mount(&rig, &reverse).await;
    let status = CallbackError::Status(NfsStatus::BadStateid);
    assert_eq!(callback(&rig, &m).await, Err(status));
    assert_eq!(callback(&rig, &m).await, Ok(()));
    assert_eq!(reverse.nth(1).1.sequence_id, 2);
}

#[tokio::test(start_paused = true)]
async fn delay_is_tried_again_under_the_right_sequence_id() {
    let rig = Rig::new();
    let delay = NfsStatus::Delay;
    let plan = vec![
        Some((delay, OK)),
        Some((NfsStatus::BadSession, OK)),
        Some((OK, delay)),
        Some((OK, NfsStatus::RetryUncachedRep)),
    ];
    let reverse = scripted(plan);
    let m = mount(&rig, &reverse).await;
    assert_eq!(callback(&rig, &m).await, Ok(()));
    let seqids: Vec<_> = (0..5).map(|n| reverse.nth(n).1.sequence_id).collect();
    assert_eq!(seqids, [1, 1, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_means_the_same_call_on_another_one() {
    let rig = Rig::new();
    let first = scripted(vec![None]);
    let m = mount(&rig, &first).await;
    let nfsd = rig.nfsd.clone();
    let client = m.client;
    let running = tokio::spawn(async move { nfsd.clients().callback(client, &recall).await });
    rig.settle().await;
    assert_eq!(first.count(), 1);
    m.conn.close(transport::CloseReason::Asked);
    rig.settle().await;
    let second = scripted(vec![None; 0]);
    let conn = rig.connect_with(second.clone()).await;
    bind(&m, &conn).await;
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!(first.nth(0).0, second.nth(0).0, "the same bytes");
    assert_eq!(callback(&rig, &m).await, Ok(()));
    let next = second.nth(1).1;
    assert_eq!((next.slot_id, next.sequence_id), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_avoided_and_delay_to_a_retry_keeps_the_call() {
    let rig = Rig::new();
    let silent = scripted(vec![None; 100]);
    let m = mount(&rig, &silent).await;
    let other = scripted(vec![Some((NfsStatus::Delay, OK))]);
    let conn = rig.connect_with(other.clone()).await;
    bind(&m, &conn).await;
    assert_eq!(callback(&rig, &m).await, Ok(()));
    assert_eq!((silent.count(), other.count()), (1, 2));
    for n in 0..2 {
        assert_eq!(other.nth(n).0, silent.nth(0).0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_stays_lost_takes_its_slot_out_of_service() {
    let rig = Rig::new();
    let reverse = scripted(vec![None; 100]);
    let m = mount(&rig, &reverse).await;
    let slots = m.created.back_chan_attrs.requests_max;
    for slot in 0..slots {
        let began = Instant::now();
        assert_eq!(callback(&rig, &m).await, Err(CallbackError::Lost));
        assert!(began.elapsed() <= Duration::from_millis(CALLBACK_MS_MAX + 5_000));
        assert_eq!(reverse.nth(reverse.count() - 1).1.slot_id, slot);
    }
    let seen = reverse.count();
    assert_eq!(callback(&rig, &m).await, Err(CallbackError::NoBackChannel));
    assert_eq!(reverse.count(), seen);
    // The client hears of it and may end the session.
    let record = call(&m.conn, remove(m.session, 0, 1, "x")).await;
    let flags = reply(&record).take::<SequenceRes>().unwrap().status_flags;
    assert_eq!(flags, SEQ_STATUS_BACKCHANNEL_FAULT);
    let destroy = compound(|b| {
        b.push(&DestroySessionArgs {
            session_id: m.session,
        });
    });
    assert_eq!(only(&call(&m.conn, destroy).await).1, OK);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_callback_gives_its_slot_back() {
    let rig = Rig::new();
    let reverse = scripted(vec![None]);
    let m = mount(&rig, &reverse).await;
    let short = Duration::from_secs(1);
    let dropped = tokio::time::timeout(short, callback(&rig, &m)).await;
    assert!(dropped.is_err());
    assert_eq!(callback(&rig, &m).await, Ok(()));
    assert_eq!(reverse.nth(1).1.slot_id, 1, "the first is of no use now");
    let clients = rig.nfsd.clients().lock();
    let session = clients.session(m.session).unwrap();
    assert_eq!(session.back_channel.outstanding_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_no_longer_leaves_the_call_to_be_answered() {
    let rig = Rig::new();
    // The first try has no answer, which is known after 5 s.
    let reverse = scripted(vec![None]);
    let m = mount(&rig, &reverse).await;
    let op = |reply: &mut CbCompoundReply<'_>| Ok(reply.next_result()?.map(|r| r.op));
    let began = Instant::now();
    let answer = rig
        .nfsd
        .clients()
        .callback_within(m.client, 2_000, recall, op)
        .await;
    assert_eq!(answer, Err(CallbackError::Lost));
    assert_eq!(began.elapsed().as_secs(), 2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let answer = rig
        .nfsd
        .clients()
        .callback_within(m.client, 2_000, recall, op)
        .await;
    assert_eq!(answer, Ok(Some(CbOpNum::Recall as u32)));
    let calls: Vec<_> = (0..3).map(|n| reverse.nth(n).1).collect();
    let slots: Vec<_> = calls.iter().map(|c| (c.slot_id, c.sequence_id)).collect();
    assert_eq!(slots, [(0, 1), (0, 1), (0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_callback_under_way_is_not_destroyed() {
    let rig = Rig::new();
    let reverse = scripted(vec![None; 100]);
    let m = mount(&rig, &reverse).await;
    let nfsd = rig.nfsd.clone();
    let client = m.client;
    let running = tokio::spawn(async move { nfsd.clients().callback(client, &recall).await });
    rig.settle().await;
    let destroy = || {
        compound(|b| {
            b.push(&DestroySessionArgs {
                session_id: m.session,
            });
        })
    };
    assert_eq!(
        only(&call(&m.conn, destroy()).await).1,
        NfsStatus::BackChanBusy
    );
    assert_eq!(running.await.unwrap(), Err(CallbackError::Lost));
    assert_eq!(only(&call(&m.conn, destroy()).await).1, OK);
}

#[tokio::test(start_paused = true)]
async fn a_callback_moves_to_the_session_that_replaces_its_own() {
    let rig = Rig::new();
    let first = scripted(vec![None; 100]);
    let m = mount(&rig, &first).await;
    let nfsd = rig.nfsd.clone();
    let client = m.client;
    let running = tokio::spawn(async move { nfsd.clients().callback(client, &recall).await });
    rig.settle().await;
    m.conn.close(transport::CloseReason::Asked);
    rig.settle().await;
    let second = scripted(vec![None; 0]);
    let conn = rig.connect_with(second.clone()).await;
    let made = create(&conn, m.client, 2, CREATE_SESSION_CONN_BACK_CHAN).await;
    let session_id = m.session;
    let destroy = compound(|b| {
        b.push(&DestroySessionArgs { session_id });
    });
    assert_eq!(only(&call(&conn, destroy).await).1, OK);
    assert_eq!(running.await.unwrap(), Ok(()));
    let args = second.nth(0).1;
    assert_eq!(args.session_id, made.unwrap().session_id);
    assert_eq!((args.slot_id, args.sequence_id), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn without_a_back_channel_there_is_no_callback() {
    let rig = Rig::new();
    let m = rig.mount_on(rig.connect().await, "a", 0).await;
    let began = Instant::now();
    assert_eq!(callback(&rig, &m).await, Err(CallbackError::NoBackChannel));
    assert!(began.elapsed() >= Duration::from_millis(CALLBACK_MS_MAX));
    // For a client that is gone nobody waits.
    let began = Instant::now();
    let gone = ClientId { value: 1 };
    let error = rig.nfsd.clients().callback(gone, &recall).await;
    assert_eq!(error, Err(CallbackError::NoBackChannel));
    assert!(began.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn nonsense_and_contradictions_end_a_slot() {
    let rig = Rig::new();
    let garbage = AtomicUsize::new(0);
    let reverse = Reverse::new(move |record| {
        let whole = cb_answer(record, OK, OK)?;
        match garbage.fetch_add(1, SeqCst) {
            0 => Some(whole[..12].to_vec()),
            1 => Some(whole[..60].to_vec()),
            2 => cb_answer(record, NfsStatus::SeqMisordered, OK),
            _ => Some(whole),
        }
    });
    let m = mount(&rig, &reverse).await;
    for _ in 0..3 {
        assert_eq!(callback(&rig, &m).await, Err(CallbackError::Malformed));
    }
    assert_eq!(callback(&rig, &m).await, Ok(()));
    let slots: Vec<_> = (0..4).map(|n| reverse.nth(n).1.slot_id).collect();
    assert_eq!(slots, [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_the_program_keeps_its_slot() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    for _ in 0..6 {
        assert_eq!(callback(&rig, &m).await, Err(CallbackError::Malformed));
    }
    let clients = rig.nfsd.clients().lock();
    let session = clients.session(m.session).unwrap();
    assert!(!session.back_channel.is_faulty());
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_call_in_doubt_is_lent_to_nobody() {
    let rig = Rig::new();
    let silent = scripted(vec![None; 100]);
    let m = mount(&rig, &silent).await;
    let other = scripted(vec![Some((NfsStatus::Delay, OK))]);
    let conn = rig.connect_with(other.clone()).await;
    bind(&m, &conn).await;
    let nfsd = rig.nfsd.clone();
    let client = m.client;
    let first = tokio::spawn(async move { nfsd.clients().callback(client, &recall).await });
    // The retry has been answered by DELAY, and the next one is not due.
    while other.count() == 0 {
        rig.settle().await;
    }
    m.conn.close(transport::CloseReason::Asked);
    rig.settle().await;
    assert_eq!(callback(&rig, &m).await, Ok(()));
    assert_eq!(first.await.unwrap(), Ok(()));
    let calls: Vec<_> = (0..3).map(|n| other.nth(n).1).collect();
    let slots: Vec<_> = calls.iter().map(|c| (c.slot_id, c.sequence_id)).collect();
    assert_eq!(slots, [(0, 1), (1, 1), (0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_asked_for_slots_and_gives_them_back_once_it_was_told_so() {
    let highest = |record: &bytes::Bytes| {
        let res = reply(record).take::<SequenceRes>().unwrap();
        (res.highest_slot_id, res.target_highest_slot_id)
    };
    let rig = Rig::with(None, |limits| limits.slots_total_max = 4);
    let reverse = scripted(vec![None; 0]);
    let m = mount(&rig, &reverse).await;
    let record = call(&m.conn, remove(m.session, 0, 1, "x")).await;
    assert_eq!(highest(&record), (3, 3));
    let _other = rig.mount("b").await;
    rig.nfsd.clients().recall_slots();
    rig.settle().await;
    assert_eq!(reverse.count(), 0, "who is busy hears of it by SEQUENCE");
    tokio::time::sleep(Duration::from_secs(6)).await;
    for _ in 0..2 {
        rig.nfsd.clients().recall_slots();
        rig.settle().await;
    }
    assert_eq!(reverse.count(), 1, "once");
    let (record, args) = reverse.nth(0);
    assert_eq!(args.session_id, m.session);
    let recall = [0, 0, 0, CbOpNum::RecallSlot as u8, 0, 0, 0, 1];
    assert_eq!(record[record.len() - 8..], recall);
    let record = call(&m.conn, remove(m.session, 0, 2, "x")).await;
    assert_eq!(highest(&record), (3, 1));
    let record = call(&m.conn, remove(m.session, 0, 3, "x")).await;
    assert_eq!(highest(&record), (1, 1));
    let record = call(&m.conn, remove(m.session, 3, 1, "x")).await;
    assert_eq!(only(&record).1, NfsStatus::BadSlot);
}

#[tokio::test(start_paused = true)]
async fn a_callback_refers_to_a_request_until_its_reply_was_received() {
    let rig = Rig::new();
    let reverse = scripted(vec![None; 0]);
    let m = mount(&rig, &reverse).await;
    let origin = state::Origin {
        session: m.session,
        slot: 0,
        seqid: 1,
    };
    let about = || {
        let op = |reply: &mut CbCompoundReply<'_>| Ok(reply.next_result()?.map(|r| r.op));
        rig.nfsd
            .clients()
            .callback_about(m.client, Some(origin), &recall, op)
    };
    call(&m.conn, remove(m.session, 0, 1, "a")).await;
    assert_eq!(about().await, Ok(Some(CbOpNum::Recall as u32)));
    let lists = reverse.nth(0).1.referring_call_lists.0;
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[0].session_id, m.session);
    let call_of = &lists[0].calls.0[0];
    assert_eq!((call_of.slot_id, call_of.sequence_id), (0, 1));
    call(&m.conn, remove(m.session, 0, 2, "a")).await;
    assert!(about().await.is_ok());
    assert!(reverse.nth(1).1.referring_call_lists.0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_connections_are_gone_cannot_be_called_back() {
    let rig = Rig::new();
    let reverse = scripted(vec![None; 0]);
    let m = mount(&rig, &reverse).await;
    assert!(rig.nfsd.clients().can_call_back(m.client));
    assert!(!rig.nfsd.clients().can_call_back(ClientId { value: 77 }));
    m.conn.close(transport::CloseReason::Asked);
    m.conn.closed().await;
    rig.settle().await;
    assert!(!rig.nfsd.clients().can_call_back(m.client));
}

/// As a client of NFSv4.0 is called back (RFC 7530 §16.33): over a connection of the server's, without slots.
struct ConnectionPath {
    conn: transport::ConnHandle,
    is_gone: bool,
}

impl CallbackPath for ConnectionPath {
    type Call = ();

    fn begin_try(
        &self,
        _held: &mut Option<()>,
        _silent: Option<u64>,
        build: BuildCallback<'_>,
    ) -> Option<Try<()>> {
        if self.is_gone {
            return None;
        }
        let mut compound = begin_cb_compound(400_002, 0, &state::CallbackSecurity::None);
        build(&mut compound);
        Some(Try {
            call: (),
            conn: self.conn.clone(),
            message: compound.finish().into(),
        })
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn note_silence(&self, (): &mut ()) {}

    fn take_answer<T>(&self, (): (), record: &bytes::Bytes, take: TakeResult<T>) -> Taken<(), T> {
        let mut d = xdr::Decoder::new(record);
        let header: Result<rpc::ReplyHeader<'_>, _> = xdr::Decode::decode(&mut d);
        assert!(header.is_ok());
        let mut reply = CbCompoundReply::new(d).expect("a reply to CB_COMPOUND");
        match take(&mut reply) {
            Ok(result) => Taken::Ended(Ok(result)),
            Err(e) => match CallbackError::Status(e.status().expect("a status")) {
                e @ CallbackError::Status(NfsStatus::Delay) => Taken::Again(e, None),
                e => Taken::Ended(Err(e)),
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_a_connection_is_tried_like_a_back_channel() {
    let rig = Rig::new();
    // Silence, a client that wants to be asked again, and the answer.
    let plan = [None, Some(NfsStatus::Delay), Some(OK)];
    let asked = AtomicUsize::new(0);
    let client = Reverse::new(move |record| {
        let n = asked.fetch_add(1, SeqCst);
        let status = plan[n.min(plan.len() - 1)]?;
        let (xid, _) = rpc::peek(record).unwrap();
        let mut e = xdr::Encoder::new();
        rpc::begin_success(&mut e, xid, rpc::OpaqueAuth::NONE);
        let mut w = ReplyWriter::<CbOpNum>::new(e, b"");
        w.error(CbOpNum::Recall, status);
        Some(w.finish(status).into_bytes())
    });
    let listener = rig.network.listen("callbacks").unwrap();
    let served = listener.serve(client.clone(), rig.context().clone(), rig.shutdown.signal());
    tokio::spawn(served);
    let context = transport::Context::new(transport::TransportLimits::default());
    let connector = rig.network.connector("server", context);
    let address = transport::Address::Memory("callbacks".into());
    let conn = transport::Connector::connect(&connector, &address, transport::NoService::shared());
    let mut path = ConnectionPath {
        conn: conn.await.unwrap(),
        is_gone: false,
    };
    let recalled = async |path: &ConnectionPath| {
        let take = |reply: &mut CbCompoundReply<'_>| {
            reply
                .status
                .ok()
                .map_err(|status| OpError::Status { op: None, status })
        };
        deliver(path, CALLBACK_MS_MAX, &recall, take).await
    };
    assert_eq!(recalled(&path).await, Ok(()));
    assert_eq!(client.count(), 3);
    path.is_gone = true;
    assert_eq!(recalled(&path).await, Err(CallbackError::NoBackChannel));
    assert_eq!(client.count(), 3);
}
