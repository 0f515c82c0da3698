//! Goal: trees on foreign data servers share no file with others, and what is noted of their objects survives a restart.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::common::*;
use meta::MemStore;
use ropewalk_namespace::*;
use std::sync::Arc;

fn foreign_dir(ns: &Namespace, parent: FileId, name: &str) -> FileId {
    let dir = mkdir(ns, parent, name, 0o777);
    run(&Cred::root(), 2, |op| {
        ns.set_layout_policy(op, dir, None, Some(true))
    })
    .unwrap();
    dir
}

fn inode(ns: &Namespace, file: FileId) -> Arc<Inode> {
    run(&Cred::root(), 1, |op| ns.getattr(op, file)).unwrap()
}

#[test]
fn all_that_is_made_below_is_foreign_and_only_an_empty_directory_turns() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let full = mkdir(&ns, FileId::ROOT, "full", 0o777);
    let own = touch(&ns, &Cred::root(), full, "own", 0o644);
    let turn = |dir, is_foreign| {
        run(&Cred::root(), 2, |op| {
            ns.set_layout_policy(op, dir, None, Some(is_foreign))
        })
    };
    assert_eq!(turn(full, true).err(), Some(NsError::NotEmpty));
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let below = mkdir(&ns, top, "below", 0o755);
    let file = touch(&ns, &Cred::root(), below, "f", 0o644);
    let inline = create_inline(&ns, &user(1), top, "small");
    assert_eq!(turn(top, false).err(), Some(NsError::NotEmpty));
    let ns = open(store);
    let all = [FileId::ROOT, full, own, top, below, file, inline];
    let all = all.map(|id| inode(&ns, id).is_foreign());
    assert_eq!(all, [false, false, false, true, true, true, true]);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn no_name_leads_from_one_tree_to_another() {
    let ns = fresh();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let own = touch(&ns, &Cred::root(), FileId::ROOT, "own", 0o644);
    let far = touch(&ns, &Cred::root(), top, "far", 0o644);
    let root = Cred::root();
    let rename = |from: (FileId, &str), to: (FileId, &str)| {
        let closed = |_: FileId| false;
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        run(&root, 3, |op| ns.rename(op, from, to, &closed)).map(drop)
    };
    let link = |file, dir| run(&root, 3, |op| ns.link(op, file, dir, b"link")).map(drop);
    assert_eq!(
        rename((FileId::ROOT, "own"), (top, "own")),
        Err(NsError::OtherTree)
    );
    assert_eq!(
        rename((top, "far"), (FileId::ROOT, "x")),
        Err(NsError::OtherTree)
    );
    assert_eq!(link(own, top), Err(NsError::OtherTree));
    assert_eq!(link(far, FileId::ROOT), Err(NsError::OtherTree));
    assert_eq!(link(far, top), Ok(()));
    // The top itself is a name of the tree around it.
    assert_eq!(
        rename((FileId::ROOT, "far"), (FileId::ROOT, "moved")),
        Ok(())
    );
}

#[test]
fn bad_mirrors_are_noted_until_the_file_has_other_objects_or_goes() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let root = Cred::root();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let [a, b] = ["a", "b"].map(|name| touch(&ns, &root, top, name, 0o644));
    let own = touch(&ns, &root, FileId::ROOT, "own", 0o644);
    let mark = |ns: &Namespace, file, mirrors| {
        let seen = inode(ns, file);
        run(&root, 4, |op| {
            ns.mark_bad_mirrors(op, &seen, (mirrors, 0b111))
        })
    };
    let bad = |ns: &Namespace| run(&root, 4, |op| ns.with_bad_mirrors(op, FileId(0), 10)).unwrap();
    assert_eq!(mark(&ns, own, 1).err(), Some(NsError::Inval));
    let change = inode(&ns, a).change;
    assert_eq!(mark(&ns, a, 0b10).unwrap().bad_mirrors(), 0b10);
    assert_eq!(mark(&ns, a, 0b100).unwrap().bad_mirrors(), 0b110);
    assert_eq!(mark(&ns, a, 1).err(), Some(NsError::Busy), "none is left");
    assert_eq!(inode(&ns, a).bad_mirrors(), 0b110);
    assert_eq!(inode(&ns, a).change, change);
    mark(&ns, b, 1).unwrap();
    let ns = open(store);
    assert_eq!(bad(&ns), [a, b]);
    assert!(ns.check().unwrap().is_clean());
    let seen = inode(&ns, a);
    let nameless = run(&root, 5, |op| ns.begin_restripe(op, a, PLACEMENT)).unwrap();
    assert!(nameless.is_foreign());
    run(&root, 5, |op| {
        ns.finish_restripe(op, (a, PLACEMENT), nameless.id)
    })
    .unwrap();
    assert_eq!(inode(&ns, a).bad_mirrors(), 0);
    let late = run(&root, 5, |op| ns.mark_bad_mirrors(op, &seen, (1, 0b111)));
    assert_eq!(late.err(), Some(NsError::Busy), "it has other objects");
    run(&root, 6, |op| {
        ns.remove(op, top, b"b", What::File, &|_| false)
    })
    .unwrap();
    assert_eq!(bad(&ns), []);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn a_copy_that_lost_a_mirror_says_so_of_the_file() {
    let ns = fresh();
    let root = Cred::root();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let file = touch(&ns, &root, top, "f", 0o644);
    let nameless = run(&root, 5, |op| ns.begin_restripe(op, file, PLACEMENT)).unwrap();
    run(&root, 5, |op| ns.mark_bad_mirrors(op, &nameless, (2, 3))).unwrap();
    run(&root, 5, |op| {
        ns.finish_restripe(op, (file, PLACEMENT), nameless.id)
    })
    .unwrap();
    assert_eq!(inode(&ns, file).bad_mirrors(), 2);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn objects_made_ahead_are_taken_once_and_found_after_a_restart() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let root = Cred::root();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let names = run(&root, 2, |op| ns.reserve_ahead(op, 9, 3)).unwrap();
    let ns = open(store);
    let ahead = |ns: &Namespace| run(&root, 3, |op| ns.ahead(op, FileId(0), 10)).unwrap();
    assert_eq!(
        ahead(&ns),
        names.iter().map(|name| (*name, 9)).collect::<Vec<_>>()
    );
    let create = |name: &str, data| {
        let new = NewNode::mode(0o644);
        let name = name.as_bytes();
        run(&root, 4, |op| {
            ns.create_with_objects(op, (top, name), (&new, How::Unchecked), (PLACEMENT, data))
        })
    };
    let made = create("f", names[0]).unwrap();
    assert_eq!(made.inode.data(), names[0]);
    assert_eq!(made.inode.change, 1);
    assert_eq!(create("g", names[0]).err(), Some(NsError::Busy));
    assert_eq!(create("f", names[1]).unwrap().existing, Existing::Yes);
    let found = run(&root, 5, |op| {
        ns.resolve_data(op, names[0].file, names[0].generation)
    });
    assert_eq!(found.unwrap().id, made.inode.id);
    assert_eq!(ahead(&ns), [(names[1], 9), (names[2], 9)]);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn new_objects_that_are_dropped_leave_no_note_of_their_mirrors() {
    let ns = fresh();
    let root = Cred::root();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let file = touch(&ns, &root, top, "f", 0o644);
    let nameless = run(&root, 5, |op| ns.begin_restripe(op, file, PLACEMENT)).unwrap();
    run(&root, 5, |op| ns.mark_bad_mirrors(op, &nameless, (2, 3))).unwrap();
    run(&root, 5, |op| ns.orphan_closed(op, nameless.id)).unwrap();
    let bad = run(&root, 5, |op| ns.with_bad_mirrors(op, FileId(0), 10));
    assert_eq!(bad.unwrap(), []);
    assert!(ns.check().unwrap().is_clean());
}

/// The name and the group of the objects of a file.
fn objects(inode: &Inode) -> (DataName, u32) {
    (inode.data(), inode.placement.unwrap().group)
}

#[test]
fn that_all_objects_were_made_is_kept_until_the_file_has_others() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let root = Cred::root();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let [file, empty] = ["f", "e"].map(|name| touch(&ns, &root, top, name, 0o644));
    let own = touch(&ns, &root, FileId::ROOT, "own", 0o644);
    let small = create_inline(&ns, &user(1), top, "small");
    let note =
        |ns: &Namespace, file, what, bad| run(&root, 4, |op| ns.note_objects(op, file, what, bad));
    let before = inode(&ns, file);
    assert!(!before.has_objects());
    let what = objects(&before);
    let others = [
        (what.0, what.1 + 1),
        (objects(&inode(&ns, empty)).0, what.1),
    ];
    for other in others {
        assert_eq!(note(&ns, file, other, 0), Err(NsError::Busy));
    }
    assert_eq!(
        note(&ns, file, what, 1),
        Err(NsError::Busy),
        "mirror 0 counts"
    );
    assert!(!inode(&ns, file).has_objects());
    for id in [file, empty] {
        note(&ns, id, objects(&inode(&ns, id)), 0).unwrap();
    }
    note(&ns, own, objects(&inode(&ns, own)), 0).unwrap();
    note(&ns, small, what, 0).unwrap();
    let has = [file, empty, own, small].map(|id| inode(&ns, id).has_objects());
    assert_eq!(has, [true, true, false, false]);
    assert_eq!(inode(&ns, file).change, before.change, "nothing shows it");
    let seen = inode(&ns, file);
    run(&root, 4, |op| ns.mark_bad_mirrors(op, &seen, (1, 3))).unwrap();
    let ns = open(store);
    assert!(inode(&ns, file).has_objects());
    // Other places, and other objects.
    let moved = run(&root, 5, |op| ns.take_place(op, empty, PLACEMENT)).unwrap();
    assert!(!moved.has_objects());
    for is_made in [false, true] {
        let nameless = run(&root, 5, |op| ns.begin_restripe(op, file, PLACEMENT)).unwrap();
        assert!(!nameless.has_objects());
        if is_made {
            note(&ns, nameless.id, objects(&nameless), 0).unwrap();
        }
        run(&root, 5, |op| {
            ns.finish_restripe(op, (file, PLACEMENT), nameless.id)
        })
        .unwrap();
        assert_eq!(inode(&ns, file).has_objects(), is_made);
    }
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn a_file_begins_anew_elsewhere_only_while_it_is_cut_to_nothing() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let root = Cred::root();
    let top = foreign_dir(&ns, FileId::ROOT, "far");
    let file = touch(&ns, &root, top, "f", 0o644);
    let before = inode(&ns, file);
    run(&root, 4, |op| {
        ns.note_objects(op, file, objects(&before), 0)
    })
    .unwrap();
    run(&root, 4, |op| ns.mark_bad_mirrors(op, &before, (1, 3))).unwrap();
    let elsewhere = Placement {
        group: 7,
        ..PLACEMENT
    };
    let anew = |ns: &Namespace, was| run(&root, 5, |op| ns.begin_anew(op, (file, was), elsewhere));
    assert_eq!(anew(&ns, PLACEMENT).err(), Some(NsError::Busy));
    let none = SetAttr::default();
    let cut = |size| {
        run(&root, 5, |op| {
            ns.begin_truncate(op, file, size, &none, false, true)
        })
    };
    cut(10).unwrap();
    assert_eq!(anew(&ns, PLACEMENT).err(), Some(NsError::Busy));
    run(&root, 5, |op| ns.finish_truncate(op, file, &none)).unwrap();
    cut(0).unwrap();
    assert_eq!(anew(&ns, elsewhere).err(), Some(NsError::Busy));
    anew(&ns, PLACEMENT).unwrap();
    let ns = open(store);
    let after = inode(&ns, file);
    assert_eq!(after.placement, Some(elsewhere));
    assert!(after.is_foreign() && !after.has_objects());
    assert_eq!(after.bad_mirrors(), 0);
    assert_ne!(after.data(), before.data());
    let data = after.data();
    let owner = run(&root, 6, |op| {
        ns.resolve_data(op, data.file, data.generation)
    });
    assert_eq!(owner.unwrap().id, file);
    let queued = run(&root, 6, |op| ns.removal_batch(op, 0, 10)).unwrap();
    let queued: Vec<_> = queued.iter().map(|r| (r.file, r.placement)).collect();
    assert_eq!(queued, [(before.data().file, PLACEMENT)]);
    assert!(ns.check().unwrap().is_clean());
    run(&root, 6, |op| ns.finish_truncate(op, file, &none)).unwrap();
    assert!(ns.check().unwrap().is_clean());
}
