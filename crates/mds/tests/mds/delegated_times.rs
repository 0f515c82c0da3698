//! Goal: RFC 9754. A client that asks gets a delegation in place of an open stateid (§4). It keeps the times of a file that it made
//! until it returns the delegation (§5). Method: as for delegations.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::delegated::{BOTH, Back, Given, Held, READ, User, cluster, ended};
use crate::rig::{self, Rig, START_S};
use nfs4::attr::{self, Attrs};
use nfs4::ops::*;
use nfs4::{Bitmap, Fattr, IoMode, NfsStatus, NfsTime, Stateid};
use std::sync::Arc;

const EITHER: u32 = SHARE_WANT_OPEN_XOR_DELEGATION;
const TIMES: u32 = SHARE_WANT_DELEG_TIMESTAMPS;

/// Some time before or after the clock of the rig.
fn at(seconds: i64) -> NfsTime {
    NfsTime {
        seconds: START_S + seconds,
        nanoseconds: 5,
    }
}

fn told(atime: Option<NfsTime>, mtime: Option<NfsTime>) -> Attrs {
    Attrs {
        time_deleg_access: atime,
        time_deleg_modify: mtime,
        ..Attrs::default()
    }
}

async fn tell(user: &User, file: &Held, stateid: Stateid, attrs: &Attrs) -> Result<(), NfsStatus> {
    let attrs = Fattr::new(attrs);
    let done = user.client.on(&file.fh, |b| {
        b.push(&SetAttrArgs {
            stateid,
            attrs: attrs.clone(),
        });
    });
    ended(&done.await)
}

/// Change attribute, and times of access, modification and metadata.
async fn times(user: &User, file: &Held) -> (u64, NfsTime, NfsTime, NfsTime) {
    let asked = [
        attr::CHANGE,
        attr::TIME_ACCESS,
        attr::TIME_MODIFY,
        attr::TIME_METADATA,
    ];
    let a = user.client.attrs(&file.fh, &asked).await.unwrap();
    let (atime, mtime) = (a.time_access.unwrap(), a.time_modify.unwrap());
    (a.change.unwrap(), atime, mtime, a.time_metadata.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_delegation_stands_for_the_open_that_it_came_with() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH | EITHER).await;
    assert!(file.is_alone && file.open == Stateid::default());
    assert!(matches!(file.delegation, Given::Write(..)));
    let opens = || rig.nfsd.role().fs().state().counts().0;
    assert_eq!(opens(), 0);
    let longer = Attrs {
        size: Some(3),
        ..Attrs::default()
    };
    let set = tell(&alice, &file, file.delegation.stateid(), &longer).await;
    assert_eq!(set, Ok(()), "it is good for I/O");
    // It stands in the way of others as an open does, and is told as an open before it goes back.
    assert_eq!(bob.try_open("f", READ).await.err(), Some(NfsStatus::Delay));
    let cur = OpenClaim::DelegCurFh(file.delegation.stateid());
    let cur = alice.open_by(&file.fh, BOTH | EITHER, OpenHow::NoCreate, cur);
    let cur = cur.await.unwrap();
    assert!(!cur.is_alone && opens() == 1);
    alice.give_back(&file).await.unwrap();
    // It is contended now: who opens it gets what was always had.
    let plain = bob.try_open("f", READ | EITHER).await.unwrap();
    assert!(!plain.is_alone && plain.delegation == Given::None);
    alice.close(&cur).await;
    bob.close(&plain).await;
    assert_eq!(opens(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_open_of_before_is_kept_beside_the_delegation() {
    let (rig, _port, _ds) = cluster().await;
    let alice = User::new(&rig, "alice").await;
    let first = alice.open("f", READ | SHARE_WANT_NO_DELEG).await;
    let second = alice.open("f", BOTH | EITHER).await;
    assert!(!second.is_alone && second.open.other == first.open.other);
    assert!(matches!(second.delegation, Given::Write(..)));
    alice.close(&second).await;
    alice.give_back(&second).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_made_a_file_keeps_its_times_and_tells_them_at_the_end() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH | TIMES).await;
    let Given::WriteAttrs(stateid) = file.delegation else {
        panic!("{:?}", file.delegation);
    };
    let before = times(&alice, &file).await;
    // tar sets a time of long ago.
    let past = told(Some(at(-500)), Some(at(-1000)));
    assert_eq!(tell(&alice, &file, stateid, &past).await, Ok(()));
    let after = times(&alice, &file).await;
    assert!(after.0 > before.0);
    assert_eq!((after.1, after.2, after.3), (at(-500), at(-1000), before.3));
    // An access changes nothing that others keep in their caches.
    let read = told(Some(at(-400)), Some(at(-1000)));
    assert_eq!(tell(&alice, &file, stateid, &read).await, Ok(()));
    let later = times(&alice, &file).await;
    assert_eq!(later, (after.0, at(-400), after.2, after.3));
    // A clock that is ahead does not count. ctime follows a newer modification.
    let future = told(None, Some(at(1000)));
    assert_eq!(tell(&alice, &file, stateid, &future).await, Ok(()));
    let now = NfsTime {
        seconds: START_S,
        nanoseconds: 0,
    };
    assert_eq!(times(&alice, &file).await.2, now);
    assert_eq!(tell(&alice, &file, stateid, &past).await, Ok(()));
    alice.close(&file).await;
    let file_back = alice.give_back(&file).await;
    assert_eq!(file_back, Ok(()));
    assert_eq!(times(&bob, &file).await.2, at(-1000));
    let late = tell(&alice, &file, stateid, &past).await;
    assert_eq!(late, Err(NfsStatus::BadStateid));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_there_and_one_that_is_read_keep_their_times_here() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let made = bob.open("f", BOTH | SHARE_WANT_NO_DELEG).await;
    bob.close(&made).await;
    let file = alice.open("f", BOTH | TIMES).await;
    let Given::Write(stateid, _) = file.delegation else {
        panic!("{:?}", file.delegation);
    };
    let times = told(None, Some(at(-1000)));
    let refused = tell(&alice, &file, stateid, &times).await;
    assert_eq!(refused, Err(NfsStatus::Inval));
    let read = alice.open("g", READ | TIMES).await;
    assert!(matches!(read.delegation, Given::Read(..)));
}

#[tokio::test(start_paused = true)]
async fn others_see_the_times_that_the_holder_keeps() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH | TIMES).await;
    let (change, atime, mtime, _) = times(&alice, &file).await;
    let say = |change, atime, mtime| {
        *alice.back.known.lock() = Some((change, 0));
        *alice.back.times.lock() = Some((atime, mtime));
    };
    say(change, atime, mtime);
    assert_eq!(times(&bob, &file).await.0, change, "not modified");
    say(change, at(-7), at(-9));
    let seen = times(&bob, &file).await;
    assert!(seen.0 > change);
    assert_eq!((seen.1, seen.2), (at(-7), at(-9)));
    assert_eq!(times(&bob, &file).await, seen, "told once");
    // The time of access alone is asked for too.
    say(change, at(-6), at(-9));
    let asked = bob.client.attrs(&file.fh, &[attr::TIME_ACCESS]).await;
    assert_eq!(asked.unwrap().time_access, Some(at(-6)));
    // Modified data count each time (RFC 8881 §10.4.3), with the time that the holder says.
    say(change + 1, at(-6), at(-3));
    let first = times(&bob, &file).await;
    let second = times(&bob, &file).await;
    assert!(first.0 > seen.0 && second.0 > first.0);
    assert_eq!((first.2, second.2), (at(-3), at(-3)));
    assert_eq!(alice.recalls(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH | TIMES).await;
    let stateid = file.delegation.stateid();
    let good = told(None, Some(at(-1)));
    let mode = Attrs {
        mode: Some(0o600),
        ..good.clone()
    };
    let no_time = NfsTime {
        seconds: 0,
        nanoseconds: 1_000_000_000,
    };
    for attrs in [mode, told(None, Some(no_time)), told(Some(no_time), None)] {
        let refused = tell(&alice, &file, stateid, &attrs).await;
        assert_eq!(refused, Err(NfsStatus::Inval), "{attrs:?}");
    }
    for (user, stateid) in [(&alice, file.open), (&bob, stateid)] {
        let refused = tell(user, &file, stateid, &good).await;
        assert_eq!(refused, Err(NfsStatus::BadStateid));
    }
    let done = alice.client.on(&file.fh, |b| {
        b.push(&GetAttrArgs {
            attr_request: Bitmap::of(&[attr::TIME_DELEG_MODIFY]),
        });
    });
    assert_eq!(ended(&done.await), Err(NfsStatus::Inval));
    assert_eq!(tell(&alice, &file, stateid, &good).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn authority_for_times_is_reclaimed_after_a_restart() {
    let (rig, _port, mut ds) = cluster().await;
    let alice = User::new(&rig, "alice").await;
    let file = alice.open("f", BOTH | EITHER | TIMES).await;
    let store = Arc::clone(&rig.store);
    ds.go_away().await;
    drop(rig);
    let rig = Rig::over(store).await;
    let back = Arc::new(Back::default());
    let client = rig.stranger("alice", *b"boot0001", Some(back.clone()));
    client.session.establish().await.unwrap();
    let alice = User { client, back };
    let claim = OpenClaim::Previous(DelegationType::WriteAttrs);
    let again = alice.open_by(&file.fh, BOTH | EITHER, OpenHow::NoCreate, claim);
    let again = again.await.unwrap();
    // Its open is one of those that it tells again one by one.
    assert!(!again.is_alone);
    let Given::WriteAttrs(stateid) = again.delegation else {
        panic!("{:?}", again.delegation);
    };
    let past = told(None, Some(at(-1000)));
    assert_eq!(tell(&alice, &file, stateid, &past).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_writes_by_layout_keeps_the_time_that_its_client_keeps() {
    let (rig, _port, _ds) = cluster().await;
    let alice = User::new(&rig, "alice").await;
    let file = alice.open("f", BOTH | TIMES).await;
    let by = rig::file::File {
        client: &alice.client,
        name: "f".into(),
        fh: file.fh.clone(),
        open: file.delegation.stateid(),
    };
    let layout = by.layout(IoMode::Rw).await;
    let before = times(&alice, &file).await;
    *alice.back.known.lock() = Some((before.0, 0));
    *alice.back.times.lock() = Some((at(-7), at(-9)));
    by.layout_commit(layout.stateid, 4096).await.unwrap();
    let after = times(&alice, &file).await;
    assert!(after.0 > before.0);
    assert_eq!(after.2, at(-9));
    // One that does not say gets the time of the report.
    *alice.back.known.lock() = None;
    by.layout_commit(layout.stateid, 8192).await.unwrap();
    assert_eq!(times(&alice, &file).await.2.seconds, START_S);
}
