//! Goal: the operations that make and end clients and sessions answer as RFC 8881 §18.33 to §18.37, §18.50 and §18.51 say.
//! Method: COMPOUNDs by hand; time is paused, so that leases end when the test says so.

mod rig;

use nfs4::ops::*;
use nfs4::*;
use rig::*;
use std::time::Duration;
use xdr::{List, Opaque};

async fn one<A: OpArgs<Num = OpNum>>(conn: &transport::ConnHandle, args: &A) -> (u32, NfsStatus) {
    let record = call(
        conn,
        compound(|b| {
            b.push(args);
        }),
    )
    .await;
    only(&record)
}

#[tokio::test(start_paused = true)]
async fn the_frame_of_a_compound() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    // Tag and status come back; nothing is executed under another minor version, or when there is nothing.
    for (minor, status) in [
        (0, NfsStatus::MinorVersMismatch),
        (1, NfsStatus::Ok),
        (2, NfsStatus::Ok),
        (3, NfsStatus::MinorVersMismatch),
    ] {
        let record = call(&conn, compound_as(0, minor, |_| {})).await;
        let reply = reply(&record);
        assert_eq!((reply.status, reply.left()), (status, 0));
        assert_eq!(reply.tag.0, b"tag");
    }
    let stranger = compound_as(0, 0, |b| {
        b.push(&RenewArgs);
    });
    assert_eq!(
        outcome(&call(&conn, stranger).await),
        (NfsStatus::MinorVersMismatch, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_tag_is_text() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    // RFC 8881 §16.2.4: a tag that is not UTF-8 is INVAL.
    for (tag, status) in [
        (&b""[..], NfsStatus::Ok),
        ("gr\u{fc}\u{df}e \u{10fffd}".as_bytes(), NfsStatus::Ok),
        (b"\xc0\xaf", NfsStatus::Inval),
        (b"\xed\xa0\x80", NfsStatus::Inval),
        (b"a\xff", NfsStatus::Inval),
        ("\u{fffe}".as_bytes(), NfsStatus::Inval),
        ("\u{fdd0}".as_bytes(), NfsStatus::Inval),
        ("\u{1ffff}".as_bytes(), NfsStatus::Inval),
    ] {
        let e = rpc_call(PROGRAM, VERSION, 1, rpc::flavor::AUTH_SYS, &sys(0));
        let record = call(&conn, CompoundBuilder::new(e, tag, 1).finish().into_bytes()).await;
        assert_eq!(outcome(&record), (status, 0), "{tag:?}");
        assert_eq!(reply(&record).tag.0, tag);
    }
}

/// An operation of number 30, which ended with NFSv4.0.
struct RenewArgs;

impl xdr::Encode for RenewArgs {
    fn encode(&self, e: &mut xdr::Encoder) {
        e.u64(0);
    }
}

impl OpArgs for RenewArgs {
    type Num = OpNum;
    const OP: OpNum = OpNum::Renew;
}

#[tokio::test(start_paused = true)]
async fn operations_stand_where_they_may() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    // First without a session.
    let first = one(&m.conn, &PutRootFhArgs {}).await;
    assert_eq!(first, (OpNum::PutRootFh as u32, NfsStatus::OpNotInSession));
    let session_id = m.session;
    let alone = compound(|b| {
        b.push(&DestroySessionArgs { session_id })
            .push(&PutRootFhArgs {});
    });
    let record = call(&m.conn, alone).await;
    assert_eq!(
        only(&record),
        (OpNum::DestroySession as u32, NfsStatus::NotOnlyOp)
    );
    // Behind SEQUENCE.
    let bind = BindConnToSessionArgs {
        session_id,
        dir: ChannelDirFromClient::Fore,
        use_conn_in_rdma_mode: false,
    };
    let mut seqid = 0;
    let mut second = async |args: &dyn Fn(&mut CompoundBuilder)| {
        seqid += 1;
        let record = call(
            &m.conn,
            compound(|b| {
                b.push(&sequence(session_id, 0, seqid, true));
                args(b);
            }),
        )
        .await;
        outcome(&record)
    };
    let put = |b: &mut CompoundBuilder| {
        b.push(&sequence(session_id, 0, 9, true));
    };
    assert_eq!(second(&put).await, (NfsStatus::SequencePos, 2));
    let put = |b: &mut CompoundBuilder| {
        b.push(&bind);
    };
    assert_eq!(second(&put).await, (NfsStatus::NotOnlyOp, 2));
    // Its own session only at the end.
    let put = |b: &mut CompoundBuilder| {
        b.push(&DestroySessionArgs { session_id })
            .push(&PutRootFhArgs {});
    };
    assert_eq!(second(&put).await, (NfsStatus::NotOnlyOp, 2));
    let put = |b: &mut CompoundBuilder| {
        b.push(&PutRootFhArgs {})
            .push(&DestroySessionArgs { session_id });
    };
    assert_eq!(second(&put).await, (NfsStatus::Ok, 3));
    assert_eq!(second(&put).await, (NfsStatus::BadSession, 1));
}

#[tokio::test(start_paused = true)]
async fn unknown_operations_are_illegal() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let mut seqid = 0;
    let raw = |seqid: u32, minor: u32, op: u32| {
        // A known operation without arguments, its number changed.
        let mut bytes = compound_as(0, minor, |b| {
            b.push(&sequence(m.session, 0, seqid, true))
                .push(&PutRootFhArgs {});
        });
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&op.to_be_bytes());
        bytes
    };
    let illegal = (OpNum::Illegal as u32, NfsStatus::OpIllegal);
    let allocate = OpNum::Allocate as u32;
    for (minor, op) in [
        (1, 0),
        (1, 2),
        (2, 999),
        (2, 10_044),
        (1, allocate),
        (1, 75),
    ] {
        seqid += 1;
        let record = call(&m.conn, raw(seqid, minor, op)).await;
        let mut reply = reply(&record);
        reply.take::<SequenceRes>().unwrap();
        let second = reply.next_result().unwrap().unwrap();
        assert_eq!((second.op, second.status), illegal, "{minor} {op}");
    }
    let record = call(&m.conn, raw(seqid + 1, 2, allocate)).await;
    assert_eq!(outcome(&record), (NfsStatus::NotSupp, 2));
    let first = compound(|b| {
        b.push(&RenewArgs);
    });
    assert_eq!(
        only(&call(&m.conn, first).await).1,
        NfsStatus::OpNotInSession
    );
}

#[tokio::test(start_paused = true)]
async fn exchange_id_says_who_the_server_is_and_nothing_more() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    for (minor, flags, granted) in [
        (1, 0, Ok(())),
        (1, EXCHGID_MASK_A & !0x4000_0004, Ok(())),
        (2, EXCHGID_SUPP_FENCE_OPS, Ok(())),
        (1, EXCHGID_SUPP_FENCE_OPS, Err(NfsStatus::Inval)),
        (2, 0x8, Err(NfsStatus::Inval)),
        (2, EXCHGID_CONFIRMED_R, Err(NfsStatus::Inval)),
    ] {
        let request = compound_as(0, minor, |b| {
            b.push(&exchange_args(b"b", 1, flags));
        });
        let record = call(&m.conn, request).await;
        let res = reply(&record).take::<ExchangeIdRes<'_>>();
        match granted {
            Ok(()) => {
                let res = res.unwrap();
                assert_eq!(res.flags, EXCHGID_USE_PNFS_MDS);
                assert_eq!(res.server_owner.major_id.0, b"toy-1");
                assert_eq!(res.server_scope.0, b"toy-1");
                assert_eq!(res.state_protect, StateProtectRes::None);
            }
            Err(status) => assert_eq!(res.unwrap_err().status(), Some(status), "{flags:#x}"),
        }
    }
    let confirmed = compound(|b| {
        b.push(&exchange_args(b"a", 1, EXCHGID_UPD_CONFIRMED_REC_A));
    });
    let record = call(&m.conn, confirmed).await;
    let res = reply(&record).take::<ExchangeIdRes<'_>>().unwrap();
    assert_eq!(res.flags, EXCHGID_USE_PNFS_MDS | EXCHGID_CONFIRMED_R);
    assert_eq!(res.clientid, m.client);
}

#[tokio::test(start_paused = true)]
async fn state_protection_is_refused() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    let mut args = exchange_args(b"a", 1, 0);
    args.state_protect = StateProtectArgs::MachCred(StateProtectOps::default());
    assert_eq!(one(&conn, &args).await.1, NfsStatus::Inval);
    args.state_protect = StateProtectArgs::Ssv(SsvParms {
        ops: StateProtectOps::default(),
        hash_algs: List::default(),
        encr_algs: List::default(),
        window: 1,
        gss_handles_count: 1,
    });
    assert_eq!(one(&conn, &args).await.1, NfsStatus::EncrAlgUnsupp);
    assert_eq!(rig.nfsd.clients().lock().clients_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn create_session_is_executed_once_and_its_failures_may_count() {
    let rig = Rig::new();
    let conn = rig.connect().await;
    let (client, seqid) = exchange(&conn, "a", 1).await;
    let back = CREATE_SESSION_CONN_BACK_CHAN;
    let flags = create_args(client, seqid, 0x100);
    assert_eq!(one(&conn, &flags).await.1, NfsStatus::Inval);
    let mut small = create_args(client, seqid + 1, back);
    small.back_chan_attrs.request_bytes_max = 100;
    assert_eq!(one(&conn, &small).await.1, NfsStatus::TooSmall);
    // The sizes matter without a back channel on this connection too: there may be one later.
    small.flags = 0;
    assert_eq!(one(&conn, &small).await.1, NfsStatus::TooSmall, "not used");
    let handle = CallbackSecParms::Gss(GssCbHandles {
        service: GssService::None,
        handle_from_server: Opaque(b"1"),
        handle_from_client: Opaque(b"2"),
    });
    let mut gss = create_args(client, seqid + 2, back);
    gss.sec_parms = List(vec![handle.clone()]);
    assert_eq!(one(&conn, &gss).await.1, NfsStatus::NoEnt);
    assert_eq!(one(&conn, &gss).await.1, NfsStatus::NoEnt, "a retry");
    // A handle that does not exist, beside something that this server can use.
    let mut all = create_args(client, seqid + 3, back | CREATE_SESSION_PERSIST);
    all.sec_parms = List(vec![handle, CallbackSecParms::None]);
    let request = compound(|b| {
        b.push(&all);
    });
    let first = call(&conn, request.clone()).await;
    let created = reply(&first).take::<CreateSessionRes>().unwrap();
    assert_eq!(created.flags, back, "no persistence");
    let other = rig.connect().await;
    assert_eq!(body(&first), body(&call(&other, request).await));
    assert_eq!(rig.nfsd.clients().lock().sessions_count(), 1);
    // The connection of the retry carries callbacks too.
    let ids = [conn.id(), other.id()].len();
    let clients = rig.nfsd.clients().lock();
    let session = clients.session(created.session_id).unwrap();
    assert_eq!(session.back_connections().count(), ids);
}

#[tokio::test(start_paused = true)]
async fn connections_are_bound_to_channels() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let bind = |session_id, dir| BindConnToSessionArgs {
        session_id,
        dir,
        use_conn_in_rdma_mode: true,
    };
    let conn = rig.connect().await;
    for (dir, granted) in [
        (ChannelDirFromClient::ForeOrBoth, ChannelDirFromServer::Both),
        (ChannelDirFromClient::BackOrBoth, ChannelDirFromServer::Both),
    ] {
        let record = call(
            &conn,
            compound(|b| {
                b.push(&bind(m.session, dir));
            }),
        )
        .await;
        let res = reply(&record).take::<BindConnToSessionRes>().unwrap();
        assert_eq!((res.session_id, res.dir), (m.session, granted));
        assert!(!res.use_conn_in_rdma_mode);
    }
    let narrower = bind(m.session, ChannelDirFromClient::Back);
    assert_eq!(one(&conn, &narrower).await.1, NfsStatus::Inval);
    let unknown = bind(SessionId::default(), ChannelDirFromClient::Fore);
    assert_eq!(one(&conn, &unknown).await.1, NfsStatus::BadSession);
}

#[tokio::test(start_paused = true)]
async fn sequence_tells_of_a_missing_back_channel_and_binds_its_connection() {
    let rig = Rig::new();
    let m = rig.mount_on(rig.connect().await, "a", 0).await;
    let conn = rig.connect().await;
    let record = call(&conn, remove(m.session, 0, 1, "x")).await;
    let flags = reply(&record).take::<SequenceRes>().unwrap().status_flags;
    assert_eq!(
        flags,
        SEQ_STATUS_CB_PATH_DOWN | SEQ_STATUS_CB_PATH_DOWN_SESSION
    );
    {
        let clients = rig.nfsd.clients().lock();
        assert_eq!(clients.session(m.session).unwrap().connections().count(), 2);
    }
    let both = BindConnToSessionArgs {
        session_id: m.session,
        dir: ChannelDirFromClient::ForeOrBoth,
        use_conn_in_rdma_mode: false,
    };
    assert_eq!(one(&conn, &both).await.1, NfsStatus::Ok);
    let record = call(&conn, remove(m.session, 0, 2, "x")).await;
    assert_eq!(
        reply(&record).take::<SequenceRes>().unwrap().status_flags,
        0
    );
    conn.close(transport::CloseReason::Asked);
    rig.settle().await;
    let record = call(&m.conn, remove(m.session, 0, 3, "x")).await;
    assert_ne!(
        reply(&record).take::<SequenceRes>().unwrap().status_flags,
        0
    );
}

#[tokio::test(start_paused = true)]
async fn backchannel_ctl_changes_program_and_credentials() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let mut seqid = 0;
    let mut ctl = async |parms: Vec<CallbackSecParms<'static>>| {
        seqid += 1;
        let record = call(
            &m.conn,
            compound(|b| {
                b.push(&sequence(m.session, 0, seqid, true))
                    .push(&BackchannelCtlArgs {
                        cb_program: 77,
                        sec_parms: List(parms),
                    });
            }),
        )
        .await;
        outcome(&record).0
    };
    let sys = CallbackSecParms::Sys(AuthSysParms {
        stamp: 0,
        machine_name: Opaque(b"m"),
        uid: 5,
        gid: 6,
        gids: List(vec![7]),
    });
    assert_eq!(ctl(vec![sys]).await, NfsStatus::Ok);
    assert_eq!(ctl(vec![]).await, NfsStatus::Ok);
    let gss = CallbackSecParms::Gss(GssCbHandles {
        service: GssService::None,
        handle_from_server: Opaque(b"1"),
        handle_from_client: Opaque(b"2"),
    });
    assert_eq!(ctl(vec![gss]).await, NfsStatus::NoEnt);
    let clients = rig.nfsd.clients().lock();
    let session = clients.session(m.session).unwrap();
    assert_eq!(session.callback_program, 77);
    assert!(
        matches!(
            &session.callback_security,
            state::CallbackSecurity::Sys { uid: 5, .. }
        ),
        "an empty list adds nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn without_ssv_protection_there_is_no_ssv_to_set() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let set = compound(|b| {
        b.push(&sequence(m.session, 0, 1, true)).push(&SetSsvArgs {
            ssv: Opaque(b"1"),
            digest: Opaque(b"2"),
        });
    });
    // RFC 8881 §18.47.3.
    assert_eq!(outcome(&call(&m.conn, set).await), (NfsStatus::Inval, 2));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_destroyed_on_a_connection_of_its_own() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let session_id = m.session;
    let destroy = DestroySessionArgs { session_id };
    let other = rig.connect().await;
    // RFC 8881 §18.37.3.
    assert_eq!(
        one(&other, &destroy).await.1,
        NfsStatus::ConnNotBoundToSession
    );
    call(&other, remove(session_id, 0, 1, "x")).await;
    assert_eq!(one(&other, &destroy).await.1, NfsStatus::Ok);
    // Where all its connections are broken a session is destroyed from any.
    let m = rig.mount("b").await;
    m.conn.close(transport::CloseReason::Asked);
    rig.settle().await;
    let session_id = m.session;
    assert_eq!(
        one(&other, &DestroySessionArgs { session_id }).await.1,
        NfsStatus::Ok
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_in_use_is_not_destroyed() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let (conn, session_id) = (m.conn.clone(), m.session);
    let running = tokio::spawn(async move { call(&conn, remove(session_id, 0, 1, "wait")).await });
    rig.settle().await;
    let destroy = DestroySessionArgs { session_id };
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::Delay);
    rig.nfsd.role().gate.add_permits(1);
    assert_eq!(outcome(&running.await.unwrap()).0, NfsStatus::Ok);
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::Ok);
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::BadSession);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_destroyed_when_nothing_is_left_of_it() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let destroy = DestroyClientIdArgs { clientid: m.client };
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::ClientIdBusy);
    let own = compound(|b| {
        b.push(&sequence(m.session, 0, 1, true)).push(&destroy);
    });
    let record = call(&m.conn, own).await;
    assert_eq!(outcome(&record), (NfsStatus::ClientIdBusy, 2));
    call(&m.conn, remove(m.session, 0, 2, "state")).await;
    let session_id = m.session;
    assert_eq!(
        one(&m.conn, &DestroySessionArgs { session_id }).await.1,
        NfsStatus::Ok
    );
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::ClientIdBusy);
    rig.nfsd.role().with_state.lock().clear();
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::Ok);
    assert_eq!(one(&m.conn, &destroy).await.1, NfsStatus::StaleClientId);
    let removed = rig.nfsd.role().removed.lock();
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].owner, b"a");
}

#[tokio::test(start_paused = true)]
async fn reclaim_complete_is_said_once() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let complete = |seqid, one_fs, root: bool| {
        compound(|b| {
            b.push(&sequence(m.session, 0, seqid, true));
            if root {
                b.push(&PutRootFhArgs {});
            }
            b.push(&ReclaimCompleteArgs { one_fs });
        })
    };
    for (seqid, one_fs, root, status) in [
        (1, false, false, NfsStatus::Ok),
        (2, false, false, NfsStatus::CompleteAlready),
        (3, true, false, NfsStatus::NoFileHandle),
        (4, true, true, NfsStatus::Ok),
    ] {
        let record = call(&m.conn, complete(seqid, one_fs, root)).await;
        assert_eq!(outcome(&record).0, status, "{seqid}");
    }
}

#[tokio::test(start_paused = true)]
async fn state_made_after_the_client_was_replaced_is_removed() {
    let rig = Rig::new();
    let m = rig.mount("a").await;
    let (conn, session) = (m.conn.clone(), m.session);
    let running = tokio::spawn(async move { call(&conn, remove(session, 0, 1, "wait")).await });
    rig.settle().await;
    // The client restarts: its old incarnation goes while a request of it runs.
    let other = rig.connect().await;
    let (client, seqid) = exchange(&other, "a", 2).await;
    create(&other, client, seqid, 0).await.unwrap();
    assert_ne!(client, m.client);
    assert_eq!(rig.nfsd.role().removed.lock().len(), 1);
    rig.nfsd.role().gate.add_permits(1);
    running.await.unwrap();
    assert!(rig.nfsd.role().with_state.lock().is_empty());
    let removed = rig.nfsd.role().removed.lock();
    assert_eq!(removed.len(), 2);
    assert_eq!(removed[1].client, m.client);
    assert_eq!(rig.nfsd.clients().lock().clients_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_end_unless_renewed() {
    let rig = Rig::new();
    let idle = rig.mount("idle").await;
    let busy = rig.mount("busy").await;
    for seqid in 1..=4 {
        tokio::time::sleep(Duration::from_millis(LEASE_MS / 2)).await;
        call(&busy.conn, remove(busy.session, 0, seqid, "state")).await;
        rig.nfsd.expire().await;
    }
    {
        let removed = rig.nfsd.role().removed.lock();
        assert_eq!(removed.len(), 1);
        assert_eq!(removed[0].client, idle.client);
        assert_eq!(removed[0].sessions, [idle.session]);
    }
    let record = call(&idle.conn, remove(idle.session, 0, 1, "x")).await;
    assert_eq!(only(&record).1, NfsStatus::BadSession);
    // A request that runs keeps its client alive.
    let (conn, session) = (busy.conn.clone(), busy.session);
    let running = tokio::spawn(async move {
        conn.call(
            transport::Message::from_bytes(remove(session, 0, 5, "wait")),
            Duration::from_secs(3600),
        )
        .await
    });
    tokio::time::sleep(Duration::from_millis(LEASE_MS * 3)).await;
    rig.nfsd.expire().await;
    assert_eq!(rig.nfsd.role().removed.lock().len(), 1);
    rig.nfsd.role().gate.add_permits(1);
    running.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(LEASE_MS * 3)).await;
    rig.nfsd.expire().await;
    assert_eq!(rig.nfsd.role().removed.lock().len(), 2);
    assert_eq!(rig.nfsd.clients().lock().clients_count(), 0);
}
