//! Goal: in a persistent session nothing is done twice, also over a restart of the metadata server (rule R15, RFC 8881 §2.10.6.5).
//! Method: requests by hand, byte for byte the same before and after a restart, which is a second server over the same store.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::Rig;
use crate::rig::cluster::{FakeDs, Port};
use crate::rig::file::{File, patiently};
use bytes::Bytes;
use nfs4::attr::Attrs;
use nfs4::ops::*;
use nfs4::{
    Bitmap, ClientId, CompoundBuilder, CompoundReply, Fattr, IoMode, NfsStatus, SessionId, Stateid,
    Verifier,
};
use rpc::{AuthSys, CallStart, OpaqueAuth, ReplyHeader};
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, ConnHandle, Connector, Context, Message, NoService, TransportLimits};
use xdr::{Decode, Decoder, Encode, Encoder, List, Opaque};

/// A client of the wire: its connection is new after a restart, all else is as before.
struct Raw {
    conn: ConnHandle,
    session: SessionId,
}

async fn connect(rig: &Rig) -> ConnHandle {
    let connector = rig
        .network
        .connector("raw", Context::new(TransportLimits::default()));
    let address = Address::Memory("mds".into());
    connector
        .connect(&address, Arc::new(NoService))
        .await
        .unwrap()
}

fn compound(build: impl FnOnce(&mut CompoundBuilder)) -> Vec<u8> {
    let sys = AuthSys {
        stamp: 0,
        machine: b"m".to_vec(),
        uid: 0,
        gid: 0,
        gids: vec![],
    };
    let mut e = Encoder::new();
    CallStart {
        xid: 0,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: 1,
        credential: OpaqueAuth {
            flavor: rpc::flavor::AUTH_SYS,
            body: &sys.to_body(),
        },
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    let mut b = CompoundBuilder::new(e, b"tag", 2);
    build(&mut b);
    b.finish().into_bytes()
}

/// The COMPOUND reply, without its RPC header.
async fn call(conn: &ConnHandle, record: &[u8]) -> Bytes {
    let message = Message::from_bytes(record.to_vec());
    let record = conn.call(message, Duration::from_secs(60)).await.unwrap();
    let mut d = Decoder::new(&record);
    ReplyHeader::decode(&mut d).unwrap();
    let at = record.len() - d.remaining();
    record.slice(at..)
}

fn reply(bytes: &Bytes) -> CompoundReply<'_> {
    CompoundReply::new(Decoder::new(bytes)).unwrap()
}

fn status(bytes: &Bytes) -> NfsStatus {
    reply(bytes).status
}

fn attrs() -> Fattr<'static> {
    Fattr::new(&Attrs {
        mode: Some(0o755),
        ..Attrs::default()
    })
}

fn mkdir(name: &str) -> CreateArgs<'_> {
    CreateArgs {
        object_type: CreateType::Dir,
        name: Opaque(name.as_bytes()),
        attrs: attrs(),
    }
}

impl Raw {
    async fn mount(rig: &Rig, flags: u32) -> Self {
        let conn = connect(rig).await;
        let exchange = compound(|b| {
            b.push(&ExchangeIdArgs {
                client_owner: nfs4::ClientOwner {
                    verifier: Verifier { bytes: [1; 8] },
                    ownerid: Opaque(b"raw"),
                },
                flags: 0,
                state_protect: StateProtectArgs::None,
                client_impl_id: None,
            });
        });
        let bytes = call(&conn, &exchange).await;
        let id = reply(&bytes).take::<ExchangeIdRes<'_>>().unwrap();
        let channel = ChannelAttrs {
            header_pad_bytes: 0,
            request_bytes_max: 1 << 20,
            response_bytes_max: 1 << 20,
            response_cached_bytes_max: 4096,
            operations_max: 16,
            requests_max: 4,
            rdma_ird: None,
        };
        let create = compound(|b| {
            b.push(&CreateSessionArgs {
                clientid: id.clientid,
                sequence: id.sequence,
                flags,
                fore_chan_attrs: channel,
                back_chan_attrs: channel,
                cb_program: 0x4000_0000,
                sec_parms: List(vec![CallbackSecParms::None]),
            });
        });
        let bytes = call(&conn, &create).await;
        let created = reply(&bytes).take::<CreateSessionRes>().unwrap();
        assert_eq!(
            created.flags & CREATE_SESSION_PERSIST,
            flags & CREATE_SESSION_PERSIST
        );
        let raw = Self {
            conn,
            session: created.session_id,
        };
        let complete = raw.request(3, 1, |b| {
            b.push(&ReclaimCompleteArgs { one_fs: false });
        });
        let complete = status(&call(&raw.conn, &complete).await);
        assert!(matches!(
            complete,
            NfsStatus::Ok | NfsStatus::CompleteAlready
        ));
        raw
    }

    fn request(&self, slot: u32, seqid: u32, build: impl FnOnce(&mut CompoundBuilder)) -> Vec<u8> {
        compound(|b| {
            b.push(&SequenceArgs {
                session_id: self.session,
                sequence_id: seqid,
                slot_id: slot,
                highest_slot_id: 3,
                cache_this: true,
            });
            build(b);
        })
    }

    async fn back(&self, rig: &Rig) -> Self {
        Self {
            conn: connect(rig).await,
            session: self.session,
        }
    }
}

async fn restart(rig: Rig) -> Rig {
    let store = Arc::clone(&rig.store);
    drop(rig);
    Rig::over(store).await
}

fn kept_count(rig: &Rig) -> usize {
    rig.store.scan(b"e", b"f", 1000).unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_a_restart_gets_the_answer_of_what_was_done_before() {
    let rig = Rig::new().await;
    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    let made = raw.request(0, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&mkdir("d"));
        b.push(&GetFhArgs {});
        b.push(&GetAttrArgs {
            attr_request: Bitmap::of(&[nfs4::attr::FILEID, nfs4::attr::MODE]),
        });
    });
    let renamed = raw.request(1, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&SaveFhArgs {});
        b.push(&RenameArgs {
            old_name: Opaque(b"d"),
            new_name: Opaque(b"e"),
        });
    });
    let removed = raw.request(2, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&RemoveArgs {
            target: Opaque(b"e"),
        });
    });
    let requests = [made, renamed, removed];
    let mut first = Vec::new();
    for request in &requests[..2] {
        first.push(call(&raw.conn, request).await);
    }
    assert!(first.iter().all(|bytes| status(bytes) == NfsStatus::Ok));

    let rig = restart(rig).await;
    let raw = raw.back(&rig).await;
    for (request, first) in requests.iter().zip(&first) {
        let again = call(&raw.conn, request).await;
        assert_eq!(again, *first, "byte for byte");
    }
    let new = call(&raw.conn, &requests[2]).await;
    assert_eq!(status(&new), NfsStatus::DeadSession, "never seen before");

    // The client's next life does what was not done.
    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    let removed = raw.request(2, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&RemoveArgs {
            target: Opaque(b"e"),
        });
    });
    let once = call(&raw.conn, &removed).await;
    assert_eq!(status(&once), NfsStatus::Ok);
    let rig = restart(rig).await;
    let raw = raw.back(&rig).await;
    assert_eq!(call(&raw.conn, &removed).await, once, "not NOENT");
}

#[tokio::test(start_paused = true)]
async fn an_old_session_answers_its_own_last_requests_and_nothing_else() {
    let rig = Rig::new().await;
    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    let make = |raw: &Raw, seqid: u32, name: &str| {
        raw.request(0, seqid, |b| {
            b.push(&PutRootFhArgs {});
            b.push(&mkdir(name));
        })
    };
    for (seqid, name) in [(1, "a"), (2, "b")] {
        assert_eq!(
            status(&call(&raw.conn, &make(&raw, seqid, name)).await),
            NfsStatus::Ok
        );
    }
    let rig = restart(rig).await;
    let raw = raw.back(&rig).await;
    let b = make(&raw, 2, "b");
    assert_eq!(status(&call(&raw.conn, &b).await), NfsStatus::Ok);
    for (seqid, name) in [(1, "a"), (2, "x"), (3, "c")] {
        let bytes = call(&raw.conn, &make(&raw, seqid, name)).await;
        assert_eq!(status(&bytes), NfsStatus::DeadSession, "{seqid} {name}");
    }
    let mut other = raw.back(&rig).await;
    // A session of this run, and one of no run.
    for boot in [0, 2, 9] {
        other.session.bytes[..4].copy_from_slice(&u32::to_be_bytes(boot));
        let bytes = call(&other.conn, &make(&other, 2, "b")).await;
        assert_eq!(status(&bytes), NfsStatus::BadSession, "boot {boot}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_compound_that_failed_behind_a_change_is_answered_as_it_was() {
    let rig = Rig::new().await;
    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    let taken = raw.request(1, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&mkdir("taken"));
    });
    assert_eq!(status(&call(&raw.conn, &taken).await), NfsStatus::Ok);
    let both = raw.request(0, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&SaveFhArgs {});
        b.push(&mkdir("new"));
        b.push(&RestoreFhArgs {});
        b.push(&mkdir("taken"));
    });
    let before = call(&raw.conn, &both).await;
    assert_eq!(status(&before), NfsStatus::Exist);
    let rig = restart(rig).await;
    let raw = raw.back(&rig).await;
    let after = call(&raw.conn, &both).await;
    assert_eq!(after, before);
}

/// A file of 9000 bytes on two data servers, and the request that leaves 100 of them.
async fn to_be_cut(rig: &Rig) -> (Raw, Vec<u8>) {
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 9000).await.unwrap();
    file.close().await;
    let raw = Raw::mount(rig, CREATE_SESSION_PERSIST).await;
    let cut = raw.request(0, 1, |b| {
        b.push(&PutFhArgs {
            object: Opaque(&file.fh.0),
        });
        let attrs = Attrs {
            size: Some(100),
            ..Attrs::default()
        };
        b.push(&SetAttrArgs {
            stateid: Stateid::ANONYMOUS,
            attrs: Fattr::new(&attrs),
        });
    });
    (raw, cut)
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_begun_and_put_off_is_answered_as_it_was() {
    let (rig, _port, mut servers) = rig::cluster::cluster(2).await;
    let (raw, cut) = to_be_cut(&rig).await;
    servers[1].go_away().await;
    let before = call(&raw.conn, &cut).await;
    assert_eq!(status(&before), NfsStatus::Delay);
    assert_eq!(rig.nfsd.role().fs().status().truncations, 1, "begun");
    servers[0].go_away().await;
    let rig = restart(rig).await;
    let raw = raw.back(&rig).await;
    assert_eq!(call(&raw.conn, &cut).await, before);
}

/// The simulator found it (seed 16): the client took the kept answer and read from the data servers what was to be cut off.
#[tokio::test(start_paused = true)]
async fn a_cut_that_a_crash_interrupted_is_answered_when_it_is_made() {
    let (rig, _port, before) = rig::cluster::cluster(2).await;
    let (raw, cut) = to_be_cut(&rig).await;
    before[1].told.lock().mute = true;
    let begun = async {
        while rig.nfsd.role().fs().status().truncations == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = call(&raw.conn, &cut) => panic!("a data server has not answered"),
        () = begun => {}
    }
    let rig = restart(rig).await;
    let port = Port::open(&rig);
    let raw = raw.back(&rig).await;
    assert_eq!(status(&call(&raw.conn, &cut).await), NfsStatus::Delay);
    let mut servers = [FakeDs::known(1), FakeDs::known(2)];
    for ds in &mut servers {
        ds.say_hello(&rig, &port).await.unwrap();
    }
    let answered = patiently(async || match status(&call(&raw.conn, &cut).await) {
        NfsStatus::Ok => Ok(()),
        other => Err(other),
    });
    assert_eq!(answered.await, Ok(()));
    for ds in &servers {
        let cuts = ds.told.lock().set_sizes.len();
        assert!(cuts > 0, "{} has cut", ds.name);
    }
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_create_is_answered_once_and_its_open_is_known_as_lost() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    let open = raw.request(0, 1, |b| {
        b.push(&PutRootFhArgs {});
        b.push(&OpenArgs {
            seqid: 0,
            share_access: SHARE_ACCESS_BOTH,
            share_deny: 0,
            owner: nfs4::StateOwner {
                clientid: ClientId::default(),
                owner: Opaque(b"o"),
            },
            how: OpenHow::Create(CreateHow::Guarded(attrs())),
            claim: OpenClaim::Null(Opaque(b"f")),
        });
        b.push(&GetFhArgs {});
    });
    let first = call(&raw.conn, &open).await;
    assert_eq!(status(&first), NfsStatus::Ok);
    let rig = restart(rig).await;
    let raw = raw.back(&rig).await;
    let again = call(&raw.conn, &open).await;
    let opened = |bytes: &Bytes| {
        let mut results = reply(bytes);
        results.take::<SequenceRes>().unwrap();
        results.take::<PutRootFhRes>().unwrap();
        let open = results.take::<OpenRes>().unwrap();
        let fh = results.take::<GetFhRes<'_>>().unwrap().object.0.to_vec();
        (open, fh)
    };
    let ((first, first_fh), (again, again_fh)) = (opened(&first), opened(&again));
    assert_eq!(first_fh, again_fh);
    assert_eq!((first.cinfo, first.attrset), (again.cinfo, again.attrset));
    // The stateid is of the first run: whoever uses it hears that he must reclaim.
    assert_eq!(first.stateid.other[..4], again.stateid.other[..4]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_longer_than_it_can_be_asked_for() {
    let rig = Rig::new().await;
    let plain = Raw::mount(&rig, 0).await;
    let make = |raw: &Raw, seqid: u32, name: &str| {
        raw.request(0, seqid, |b| {
            b.push(&PutRootFhArgs {});
            b.push(&mkdir(name));
        })
    };
    assert_eq!(
        status(&call(&plain.conn, &make(&plain, 1, "a")).await),
        NfsStatus::Ok
    );
    assert_eq!(kept_count(&rig), 0, "not a persistent session");
    let rig = restart(rig).await;
    let plain = plain.back(&rig).await;
    let bytes = call(&plain.conn, &make(&plain, 2, "b")).await;
    assert_eq!(status(&bytes), NfsStatus::BadSession, "not a dead one");
    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    for (seqid, name) in [(1, "b"), (2, "c")] {
        let bytes = call(&raw.conn, &make(&raw, seqid, name)).await;
        assert_eq!(status(&bytes), NfsStatus::Ok);
    }
    assert_eq!(kept_count(&rig), 1, "one for each slot");
    let destroy = compound(|b| {
        b.push(&DestroySessionArgs {
            session_id: raw.session,
        });
    });
    assert_eq!(status(&call(&raw.conn, &destroy).await), NfsStatus::Ok);
    assert_eq!(kept_count(&rig), 0, "destroyed");

    let raw = Raw::mount(&rig, CREATE_SESSION_PERSIST).await;
    assert_eq!(
        status(&call(&raw.conn, &make(&raw, 1, "d")).await),
        NfsStatus::Ok
    );
    let rig = restart(rig).await;
    ropewalk_mds::Mds::tick(&rig.nfsd).await;
    assert_eq!(kept_count(&rig), 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    ropewalk_mds::Mds::tick(&rig.nfsd).await;
    assert_eq!(kept_count(&rig), 0, "two leases after the restart");
}
