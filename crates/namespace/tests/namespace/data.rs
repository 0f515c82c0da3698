//! Goal: the notes from which an MDS recovers are there from before they are needed until they are not.

use crate::common::*;
use meta::{MemStore, MetaStore, Purpose};
use ropewalk_namespace::*;
use std::sync::Arc;

const ROOT: FileId = FileId::ROOT;

fn call<T>(f: impl FnOnce(&mut Op<'_>) -> Result<T, NsError>) -> T {
    run(&Cred::root(), 7, f).expect("root may")
}

#[test]
fn a_mark_keeps_the_stamps_that_it_was_made_with() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let f = touch(&ns, &Cred::root(), ROOT, "f", 0o644);
    let stamp = |secs| Time { secs, nanos: 5 };
    call(|op| ns.mark_rw_out(op, f, 3, &[stamp(1), stamp(2)]));
    call(|op| ns.mark_rw_out(op, f, 4, &[stamp(8), stamp(9)]));
    assert!(call(|op| ns.clear_rw_out(op, f, Some(3))));
    let ns = open(store);
    let marks = call(|op| ns.rw_out_files(op, FileId(0), 10));
    assert_eq!(marks[0].1.stamps.0, [stamp(1), stamp(2)]);
    // A new mark begins anew.
    assert!(!call(|op| ns.clear_rw_out(op, f, None)));
    call(|op| ns.mark_rw_out(op, f, 4, &[]));
    let marks = call(|op| ns.rw_out_files(op, FileId(0), 10));
    assert_eq!(marks[0].1.stamps.0, []);
}

#[test]
fn rw_out_marks_are_kept_per_client_and_survive_a_restart() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let f = touch(&ns, &Cred::root(), ROOT, "f", 0o644);
    for client in [9, 3, 9] {
        call(|op| ns.mark_rw_out(op, f, client, &[]));
    }
    let ns = open(store);
    let marks = call(|op| ns.rw_out_files(op, FileId(0), 10));
    assert_eq!((marks[0].0, &marks[0].1.clients.0), (f, &vec![3, 9]));
    assert_eq!(call(|op| ns.rw_out_files(op, f, 10)), []);
    assert!(call(|op| ns.clear_rw_out(op, f, Some(3))));
    assert!(call(|op| ns.clear_rw_out(op, f, Some(4))));
    assert!(!call(|op| ns.clear_rw_out(op, f, None)));
    assert_eq!(call(|op| ns.rw_out_files(op, FileId(0), 10)), []);
    let dir = run(&Cred::root(), 1, |op| ns.mark_rw_out(op, ROOT, 1, &[]));
    assert_eq!(dir, Err(NsError::Inval));
}

#[test]
fn a_commit_never_shrinks_and_always_shows() {
    let ns = fresh();
    let f = touch(&ns, &user(1), mkdir(&ns, ROOT, "d", 0o777), "f", 0o6777);
    let commit = |end| {
        run(&user(1), 7, |op| {
            let commit = SizeCommit {
                new_end: end,
                ..SizeCommit::default()
            };
            ns.commit_size(op, f, commit)
        })
    };
    let first = commit(Some(100)).unwrap();
    assert_eq!((first.size, first.mtime, first.mode), (100, at(7), 0o777));
    let second = commit(Some(50)).unwrap();
    assert_eq!((second.size, second.change), (100, first.change + 1));
    assert_eq!(commit(None).unwrap().change, first.change + 2);
    assert_eq!(commit(Some(u64::MAX)), Err(NsError::FileTooBig));
}

#[test]
fn a_truncation_survives_a_restart_between_its_halves() {
    let store = Arc::new(MemStore::manual());
    let ns = open(store.clone());
    let f = touch(&ns, &Cred::root(), ROOT, "f", 0o644);
    let grow = SetAttr {
        size: Some(100),
        ..SetAttr::default()
    };
    call(|op| ns.setattr(op, f, &grow, false));
    let shrink = SetAttr {
        size: Some(10),
        ..SetAttr::default()
    };
    let direct = run(&Cred::root(), 1, |op| ns.setattr(op, f, &shrink, false));
    assert_eq!(direct, Err(NsError::NeedsTruncate));
    let none = SetAttr::default();
    let denied = run(&user(1), 1, |op| {
        ns.begin_truncate(op, f, 10, &none, false, true)
    });
    assert_eq!(denied, Err(NsError::Access));
    let intent = call(|op| ns.begin_truncate(op, f, 10, &none, false, true));
    assert_eq!(
        (intent.old_size, intent.new_size, intent.floor),
        (100, 10, 1 << 32 | 1)
    );
    let again = run(&Cred::root(), 1, |op| {
        ns.begin_truncate(op, f, 5, &none, false, true)
    });
    assert_eq!(again, Err(NsError::Busy));
    assert_eq!(call(|op| ns.getattr(op, f)).size, 100);

    store.sync();
    let ns = open(Arc::new(store.after_crash()));
    assert_eq!(call(|op| ns.truncate_intents(op, FileId(0), 9)), [intent]);
    let inode = call(|op| ns.finish_truncate(op, f, &none));
    assert_eq!((inode.size, inode.mtime), (10, at(7)));
    assert_eq!(call(|op| ns.truncate_intents(op, FileId(0), 9)), []);
    let twice = run(&Cred::root(), 1, |op| ns.finish_truncate(op, f, &none));
    assert_eq!(twice, Err(NsError::Inval));
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn a_file_with_unreported_data_grows_only_by_a_truncation() {
    let ns = fresh();
    let f = touch(&ns, &Cred::root(), ROOT, "f", 0o644);
    call(|op| ns.mark_rw_out(op, f, 1, &[]));
    let grow = SetAttr {
        size: Some(100),
        ..SetAttr::default()
    };
    let direct = run(&Cred::root(), 1, |op| ns.setattr(op, f, &grow, false));
    assert_eq!(direct, Err(NsError::NeedsTruncate));
}

#[test]
fn an_open_file_is_an_orphan_and_then_waits_for_every_data_server() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let f = touch(&ns, &Cred::root(), ROOT, "f", 0o644);
    call(|op| ns.mark_rw_out(op, f, 1, &[]));
    let gone = call(|op| ns.remove(op, ROOT, b"f", What::Any, &|id| id == f));
    assert_eq!((gone.orphaned, gone.inode.nlink), (true, 0));
    assert_eq!(
        run(&Cred::root(), 1, |op| ns.link(op, f, ROOT, b"g")),
        Err(NsError::NoEnt)
    );
    let ns = open(store);
    assert_eq!(call(|op| ns.orphans(op, FileId(0), 9)), [f]);
    let floor = call(|op| ns.raise_epoch(op, f));
    assert_eq!(floor, 2 << 32 | 1);
    assert!(call(|op| ns.orphan_closed(op, f)));
    assert!(!call(|op| ns.orphan_closed(op, f)));
    assert_eq!(
        run(&Cred::root(), 1, |op| ns.getattr(op, f)),
        Err(NsError::Stale)
    );
    assert_eq!(call(|op| ns.rw_out_files(op, FileId(0), 9)), []);
    let queue = call(|op| ns.removal_batch(op, 0, 9));
    assert_eq!(
        (queue.len(), queue[0].file, queue[0].placement),
        (1, f, PLACEMENT)
    );
    assert!(queue[0].floor > floor);
    let ack = |ds| {
        let acks = [RemovalAck {
            seq: queue[0].seq,
            members: vec![4, 5],
        }];
        call(|op| ns.removals_acked(op, ds, &acks))[0]
    };
    assert_eq!(ack(5), RemovalState::Waiting);
    assert_eq!(ack(5), RemovalState::Waiting);
    assert!(ns.check().unwrap().is_clean());
    assert_eq!(ack(4), RemovalState::Done);
    assert_eq!(ack(4), RemovalState::Unknown);
    assert_eq!(call(|op| ns.removal_batch(op, 0, 9)), []);
}

#[test]
fn what_a_data_server_has_removed_is_one_transaction() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let root = Cred::root();
    for name in ["f", "g", "h"] {
        touch(&ns, &root, ROOT, name, 0o644);
        call(|op| ns.remove(op, ROOT, name.as_bytes(), What::Any, &|_| false));
    }
    let queue = call(|op| ns.removal_batch(op, 0, 9));
    let members = [vec![4, 5], vec![4], vec![4]];
    let acks = queue.iter().zip(members);
    let acks: Vec<_> = acks
        .map(|(removal, members)| RemovalAck {
            seq: removal.seq,
            members,
        })
        .collect();
    let before = store.applied().0;
    let states = call(|op| ns.removals_acked(op, 4, &acks));
    let (waiting, done) = (RemovalState::Waiting, RemovalState::Done);
    assert_eq!(states, [waiting, done, done]);
    assert_eq!(store.applied().0, before + 1);
    assert_eq!(call(|op| ns.removal_batch(op, 0, 9)).len(), 1);
}

#[test]
fn a_replaced_file_is_removed_too() {
    let ns = fresh();
    let root = Cred::root();
    touch(&ns, &root, ROOT, "f", 0o644);
    let g = touch(&ns, &root, ROOT, "g", 0o644);
    call(|op| ns.rename(op, (ROOT, b"f"), (ROOT, b"g"), &|_| false));
    assert_eq!(call(|op| ns.removal_batch(op, 0, 9))[0].file, g);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn a_full_store_starts_cuts_removes_and_takes_what_was_written() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let root = Cred::root();
    let [f, g] = ["f", "g"].map(|name| touch(&ns, &root, ROOT, name, 0o644));
    call(|op| ns.mark_rw_out(op, f, 1, &[]));
    call(|op| ns.mark_rw_out(op, f, 2, &[]));
    // As another name of `f`, which a removal takes away without deleting anything but the name.
    call(|op| ns.link(op, f, ROOT, b"h"));
    store.admit_from(Purpose::Upkeep);
    let ns = open(store.clone());
    let commit = SizeCommit {
        new_end: Some(5000),
        ..SizeCommit::default()
    };
    assert_eq!(call(|op| ns.commit_size(op, f, commit)).size, 5000);
    store.admit_from(Purpose::Removal);
    let ns = open(store.clone());
    let refused = run(&root, 8, |op| ns.commit_size(op, f, commit));
    assert_eq!(refused.unwrap_err(), NsError::NoSpace);
    let refused = run(&root, 8, |op| ns.mark_rw_out(op, g, 1, &[]));
    assert_eq!(refused.unwrap_err(), NsError::NoSpace);
    let none = SetAttr::default();
    call(|op| ns.begin_truncate(op, f, 100, &none, true, true));
    assert_eq!(call(|op| ns.finish_truncate(op, f, &none)).size, 100);
    assert!(call(|op| ns.clear_rw_out(op, f, Some(1))));
    call(|op| ns.raise_epoch(op, f));
    call(|op| ns.remove(op, ROOT, b"h", What::Any, &|_| false));
    call(|op| ns.remove(op, ROOT, b"f", What::Any, &|_| true));
    assert!(call(|op| ns.orphan_closed(op, f)));
    call(|op| ns.remove(op, ROOT, b"g", What::Any, &|_| false));
    let queue = call(|op| ns.removal_batch(op, 0, 10));
    assert_eq!(queue.len(), 2);
    let members = vec![1, 2];
    let acks = [RemovalAck { seq: 1, members }];
    call(|op| ns.removals_acked(op, 1, &acks));
    store.admit_from(Purpose::Ordinary);
    touch(&ns, &root, ROOT, "i", 0o644);
}
