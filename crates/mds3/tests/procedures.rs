//! Goal: the procedures of NFSv3 and MOUNT do what RFC 1813 says, on the wire, over one file service.
//! Method: a metadata server in memory without data servers, so that files are inline, and calls that are written by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod rig;

use bytes::Bytes;
use nfs3::mount::{self, MntArgs};
use nfs3::procs::*;
use nfs3::{Nfs3Status, ProcArgs, Res, Sattr3, StableHow};
use rig::*;
use rpc::AcceptError;
use server::RequestTrace;
use std::num::NonZeroU32;
use std::sync::Arc;
use tracing_mutex::parkinglot::Mutex;
use xdr::Opaque;

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_and_told_in_attributes() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let write = WriteArgs {
        file: Opaque(&file),
        offset: 3,
        count: 5,
        stable: StableHow::Unstable,
        data: Opaque(b"bytes"),
    };
    let body = rig.call(&write).await;
    let wrote = WriteArgs::decode_res(&body).unwrap().into_result().unwrap();
    assert_eq!((wrote.count, wrote.committed), (5, StableHow::FileSync));
    let after = wrote.file_wcc.after.expect("attributes");
    assert_eq!(after.size, 8);
    assert_eq!(wrote.file_wcc.before.expect("one transaction").size, 0);
    let read = ReadArgs {
        file: Opaque(&file),
        offset: 1,
        count: 100,
    };
    let body = rig.call(&read).await;
    let got = ReadArgs::decode_res(&body).unwrap().into_result().unwrap();
    assert_eq!((got.data.0, got.eof), (&b"\0\0bytes"[..], true));
    let getattr = GetAttrArgs {
        object: Opaque(&file),
    };
    let body = rig.call(&getattr).await;
    let told = GetAttrArgs::decode_res(&body).unwrap().into_result();
    assert_eq!(told.unwrap().obj_attributes, after);
    let set = SetAttrArgs {
        object: Opaque(&file),
        new_attributes: Sattr3 {
            size: Some(4),
            ..Sattr3::default()
        },
        guard: Some(nfs3::NfsTime3::default()),
    };
    let guarded = SetAttrArgs::decode_res(&rig.call(&set).await).unwrap();
    assert_eq!(guarded.status(), Nfs3Status::NotSync);
    let set = SetAttrArgs {
        guard: Some(after.ctime),
        ..set
    };
    let cut = SetAttrArgs::decode_res(&rig.call(&set).await).unwrap();
    assert_eq!(cut.into_result().unwrap().after.unwrap().size, 4);
}

#[tokio::test(start_paused = true)]
async fn a_read_moves_the_access_time_that_the_next_call_tells() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let long_ago = nfs3::NfsTime3 {
        seconds: 5,
        nanoseconds: 6,
    };
    let set = SetAttrArgs {
        object: Opaque(&file),
        new_attributes: Sattr3 {
            atime: nfs3::SetTime3::ClientTime(long_ago),
            ..Sattr3::default()
        },
        guard: None,
    };
    rig.call(&set).await;
    let told = async || {
        let args = GetAttrArgs {
            object: Opaque(&file),
        };
        let body = rig.call(&args).await;
        let told = GetAttrArgs::decode_res(&body).unwrap().into_result();
        told.unwrap().obj_attributes
    };
    let before = told().await;
    assert_eq!(before.atime, long_ago);
    let read = ReadArgs {
        file: Opaque(&file),
        offset: 0,
        count: 10,
    };
    let body = rig.call(&read).await;
    let read = ReadArgs::decode_res(&body).unwrap().into_result().unwrap();
    // It is not stored before the next tick.
    let after = told().await;
    assert_eq!(after.atime.seconds, 1_000_000, "the clock of the rig");
    assert_eq!(read.file_attributes, Some(after));
    assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
}

#[tokio::test(start_paused = true)]
async fn a_retry_over_another_connection_gets_the_first_answer() {
    let rig = Rig::new().await;
    rig.create("file").await;
    let remove = RemoveArgs {
        object: rig.at("file"),
    };
    let record = rig.record_of(&remove);
    let first = send(&rig.nfs, &rig.conn, &record).await.unwrap();
    let other = connect(&rig.network).await;
    assert_eq!(send(&rig.nfs, &other, &record).await.unwrap(), first);
    assert!(RemoveArgs::decode_res(&first).unwrap().status().is_ok());
    // Another call of the same arguments is no retry.
    let again = rig.call(&remove).await;
    let again = RemoveArgs::decode_res(&again).unwrap();
    assert_eq!(again.status(), Nfs3Status::NoEnt);
}

#[tokio::test(start_paused = true)]
async fn listings_have_dots_and_go_on_after_a_cookie() {
    let rig = Rig::new().await;
    for number in 0..20 {
        rig.create(&format!("name-{number:02}")).await;
    }
    let (mut names, mut cookie, mut pages) = (Vec::new(), 0, 0);
    loop {
        let args = ReadDirArgs {
            dir: Opaque(&rig.root),
            cookie,
            cookieverf: [0; 8],
            count: 400,
        };
        let body = rig.call(&args).await;
        let page = ReadDirArgs::decode_res(&body)
            .unwrap()
            .into_result()
            .unwrap();
        assert!(body.len() <= 4 + 400, "the client's count");
        for entry in page.entries.0.iter() {
            names.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        pages += 1;
        if page.eof {
            break;
        }
    }
    assert!(pages > 2 && names[..2] == [".", ".."]);
    let mut others = names.split_off(2);
    others.sort_unstable();
    let wanted: Vec<String> = (0..20).map(|n| format!("name-{n:02}")).collect();
    assert_eq!(others, wanted);
    let plus = ReadDirPlusArgs {
        dir: Opaque(&rig.root),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 8192,
        maxcount: 65536,
    };
    let body = rig.call(&plus).await;
    let page = ReadDirPlusArgs::decode_res(&body).unwrap();
    let page = page.into_result().unwrap();
    let whole = |e: &EntryPlus3<'_>| e.name_attributes.is_some() && e.name_handle.is_some();
    assert!(page.eof && page.entries.0.len() == 22 && page.entries.0.iter().all(whole));
    let tiny = ReadDirArgs {
        dir: Opaque(&rig.root),
        cookie: 0,
        cookieverf: [0; 8],
        count: 110,
    };
    let tiny = rig.call(&tiny).await;
    let tiny = ReadDirArgs::decode_res(&tiny).unwrap();
    assert_eq!(tiny.status(), Nfs3Status::TooSmall);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_call_or_no_handle_is_refused() {
    let rig = Rig::new().await;
    let nfs = |procedure| (nfs3::PROGRAM, nfs3::VERSION, procedure);
    let refused = async |record: Bytes| send(&rig.nfs, &rig.conn, &record).await.unwrap_err();
    assert_eq!(
        refused(rig.record(nfs(22), &())).await,
        AcceptError::ProcUnavail.into()
    );
    assert_eq!(
        refused(rig.record(nfs(1), &())).await,
        AcceptError::GarbageArgs.into()
    );
    let null = send(&rig.nfs, &rig.conn, &rig.record(nfs(0), &())).await;
    assert_eq!(null, Ok(Vec::new()));
    let altered: Vec<u8> = rig.root.iter().map(|byte| !byte).collect();
    for handle in [&b""[..], b"short", &altered] {
        let args = GetAttrArgs {
            object: Opaque(handle),
        };
        let res: Res<GetAttrOk, ()> = GetAttrArgs::decode_res(&rig.call(&args).await).unwrap();
        let status = res.status();
        assert!(
            matches!(status, Nfs3Status::BadHandle | Nfs3Status::Stale),
            "{status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn directories_are_mounted_and_nothing_else_is() {
    let rig = Rig::new().await;
    rig.create("file").await;
    let mkdir = MkDirArgs {
        place: rig.at("dir"),
        attributes: Sattr3::default(),
    };
    let body = rig.call(&mkdir).await;
    let made = MkDirArgs::decode_res(&body).unwrap().into_result().unwrap();
    let handle = made.obj.unwrap().0.to_vec();
    assert_eq!(rig.mnt(b"/dir/").await, Ok(handle));
    assert_eq!(rig.mnt(b"/file").await, Err(mount::MountStatus::NotDir));
    assert_eq!(rig.mnt(b"/none").await, Err(mount::MountStatus::NoEnt));
    assert_eq!(rig.lookup("..").await, Nfs3Status::Ok);
    assert_eq!(rig.lookup("").await, Nfs3Status::Inval);
    // Version 1 has no room for our handles.
    let mnt = (mount::PROGRAM, mount::VERSION_1, mount::Proc::Mnt as u32);
    let args = MntArgs {
        dirpath: Opaque(b"/"),
    };
    let refused = send(&rig.mount, &rig.conn, &rig.record(mnt, &args)).await;
    assert_eq!(refused, Err(AcceptError::ProcUnavail.into()));
}

#[tokio::test(start_paused = true)]
async fn create_takes_a_size_for_a_new_file_and_only_zero_for_one_that_is_there() {
    let rig = Rig::new().await;
    for (wanted, got) in [(300, 300), (7, 300), (0, 0)] {
        let attributes = Sattr3 {
            size: Some(wanted),
            ..Sattr3::default()
        };
        let args = CreateArgs {
            place: rig.at("file"),
            how: CreateHow::Unchecked(attributes),
        };
        let body = rig.call(&args).await;
        let made = CreateArgs::decode_res(&body).unwrap().into_result();
        assert_eq!(made.unwrap().obj_attributes.unwrap().size, got, "{wanted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_timed_under_its_procedure() {
    let rig = Rig::new().await;
    assert_eq!(rig.lookup("none").await, Nfs3Status::NoEnt);
    let rows: Vec<_> = rig.nfsd.counters().nfs3_latencies.rows().collect();
    let lookup = rows
        .iter()
        .find(|row| row.number == nfs3::Proc::Lookup as usize);
    assert_eq!(lookup.unwrap().buckets.iter().sum::<u64>(), 1, "{rows:?}");
}

#[test]
fn every_procedure_has_a_place_among_the_latencies() {
    let counters = server::Counters::default();
    for proc in nfs3::Proc::ALL {
        let began = tokio::time::Instant::now();
        let latencies = &counters.nfs3_latencies;
        latencies.ended(*proc as usize, transport::TransportKind::Tcp, began);
    }
    let rows = counters.nfs3_latencies.rows();
    assert_eq!(rows.count(), nfs3::Proc::ALL.len());
}

#[tokio::test(start_paused = true)]
async fn calls_count_for_their_directory_and_for_the_address_of_their_caller() {
    const ROUNDS: u32 = 1500;
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    for _ in 0..ROUNDS {
        assert_eq!(rig.lookup("absent").await, Nfs3Status::NoEnt);
        let getattr = GetAttrArgs {
            object: Opaque(&file),
        };
        rig.call(&getattr).await;
        let write = WriteArgs {
            file: Opaque(&file),
            offset: 0,
            count: 100,
            stable: StableHow::Unstable,
            data: Opaque(&[7; 100]),
        };
        rig.call(&write).await;
    }
    let told = fs::busiest(rig.nfsd.role().fs(), 3);
    let is_near = |per_s: f64, wanted: u32| {
        let wanted = f64::from(wanted);
        (per_s * told.seconds - wanted).abs() < wanted / 2.0
    };
    let [directory] = told.directories[..] else {
        panic!("{told:?}");
    };
    assert_eq!(directory.file, namespace::FileId::ROOT.0);
    assert!(is_near(directory.operations_per_s, 3 * ROUNDS), "{told:?}");
    let [client] = told.clients[..] else {
        panic!("{told:?}");
    };
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    assert_eq!(client.client, fs::BusyClient::Address(address));
    assert!(is_near(client.operations_per_s, 3 * ROUNDS), "{told:?}");
    assert!(
        is_near(client.written_bytes_per_s, 100 * ROUNDS),
        "{told:?}"
    );
    assert_eq!(client.read_bytes_per_s, 0.0);
}

#[tokio::test]
async fn a_trace_of_a_call_has_its_status_and_says_whether_the_server_failed() {
    let rig = Rig::new().await;
    let traced = Arc::new(Mutex::new(Vec::new()));
    let noted = traced.clone();
    let note = move |trace: RequestTrace| {
        let told = (trace.name, trace.status, trace.failed);
        noted.lock().push(told);
    };
    let every = NonZeroU32::new(1).unwrap();
    rig.nfsd.traces().begin(every, Box::new(note));
    let file = rig.create("file").await;
    let record = rig.record_of(&RemoveArgs {
        object: rig.at("file"),
    });
    for _retry in 0..2 {
        send(&rig.nfs, &rig.conn, &record).await.unwrap();
    }
    rig.lookup("file").await;
    rig.call(&GetAttrArgs {
        object: Opaque(&file),
    })
    .await;
    let null = rig.record((nfs3::PROGRAM, nfs3::VERSION, 0), &());
    send(&rig.nfs, &rig.conn, &null).await.unwrap();
    let garbage = rig.record((nfs3::PROGRAM, nfs3::VERSION, 1), &());
    send(&rig.nfs, &rig.conn, &garbage).await.unwrap_err();
    let wanted = [
        ("CREATE", Some("NFS3_OK"), false),
        ("REMOVE", Some("NFS3_OK"), false),
        ("REMOVE", Some("NFS3_OK"), false),
        ("LOOKUP", Some("NFS3ERR_NOENT"), false),
        ("GETATTR", Some("NFS3ERR_STALE"), true),
        ("NULL", None, false),
        ("GETATTR", None, false),
    ];
    assert_eq!(*traced.lock(), wanted);
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_create_is_repeated_under_its_verifier_alone() {
    let rig = Rig::new().await;
    let create = async |name, verifier: [u8; 8]| {
        let args = CreateArgs {
            place: rig.at(name),
            how: CreateHow::Exclusive(verifier),
        };
        let body = rig.call(&args).await;
        let made = CreateArgs::decode_res(&body).unwrap().into_result();
        made.map(|made| made.obj.unwrap().0.to_vec())
            .map_err(|(status, _)| status)
    };
    let file = create("file", [7; 8]).await.unwrap();
    // Its reply was lost, and the client asks under another transaction id.
    assert_eq!(create("file", [7; 8]).await, Ok(file.clone()));
    assert_eq!(create("file", [8; 8]).await, Err(Nfs3Status::Exist));
    assert_eq!(create("file", [0; 8]).await, Err(Nfs3Status::Exist));
    rig.create("guarded").await;
    assert_eq!(create("guarded", [0; 8]).await, Err(Nfs3Status::Exist));
    // The client sets the attributes when it has the file: what it wrote meanwhile is nobody's retry.
    let set = SetAttrArgs {
        object: Opaque(&file),
        new_attributes: Sattr3 {
            mode: Some(0o640),
            size: Some(9),
            ..Sattr3::default()
        },
        guard: None,
    };
    let set = SetAttrArgs::decode_res(&rig.call(&set).await).unwrap();
    let after = set.into_result().unwrap().after.unwrap();
    assert_eq!((after.mode, after.size), (0o640, 9));
    assert_eq!(create("file", [8; 8]).await, Err(Nfs3Status::Exist));
}
