//! Goal: creates, lookups and removals keep POSIX's rules on names, permissions and counters.
//! Method: small trees, one rule per test.

use crate::common::*;
use ropewalk_namespace::*;

const ROOT: FileId = FileId::ROOT;

#[test]
fn a_new_file_system_has_a_root_and_counts_its_starts() {
    let store = std::sync::Arc::new(meta::MemStore::new());
    let ns = open(store.clone());
    let root = run(&user(1), 1, |op| ns.getattr(op, ROOT)).unwrap();
    assert_eq!((root.mode, root.nlink, root.change), (0o755, 2, 1));
    assert_eq!((ns.boot(), ns.cluster_id()), (1, 7));
    drop(ns);
    let other = Format {
        cluster_id: 99,
        hash_key: [0; 16],
    };
    let (ns, _) = Namespace::open(store, other, at(5), NamespaceLimits::default()).unwrap();
    assert_eq!((ns.boot(), ns.cluster_id()), (2, 7));
}

#[test]
fn a_created_file_is_found_and_its_directory_changes_once() {
    let ns = fresh();
    let root = Cred::root();
    let made = run(&root, 9, |op| {
        ns.create(
            op,
            ROOT,
            b"f",
            &NewNode::mode(0o640),
            How::Guarded,
            Some(PLACEMENT),
        )
    })
    .unwrap();
    assert_eq!(made.existing, Existing::No);
    assert_eq!((made.dir.before, made.dir.after), (1, 2));
    let found = run(&root, 10, |op| ns.lookup(op, ROOT, b"f")).unwrap();
    assert_eq!(found, made.inode);
    assert_eq!(
        (found.nlink, found.mode, found.placement),
        (1, 0o640, Some(PLACEMENT))
    );
    assert_eq!((found.mtime, found.btime), (at(9), at(9)));
    let dir = run(&root, 10, |op| ns.getattr(op, ROOT)).unwrap();
    assert_eq!(
        (dir.change, dir.mtime, dir.ctime, dir.size),
        (2, at(9), at(9), 1)
    );
}

#[test]
fn create_follows_its_mode() {
    let ns = fresh();
    let root = Cred::root();
    let create = |name: &[u8], how| {
        run(&root, 1, |op| {
            ns.create(op, ROOT, name, &NewNode::mode(0o644), how, None)
        })
    };
    let first = create(b"f", How::Exclusive([1; 8])).unwrap();
    assert_eq!(
        create(b"f", How::Exclusive([1; 8])).unwrap().existing,
        Existing::Replay
    );
    assert_eq!(create(b"f", How::Exclusive([2; 8])), Err(NsError::Exist));
    assert_eq!(create(b"f", How::Guarded), Err(NsError::Exist));
    let again = create(b"f", How::Unchecked).unwrap();
    assert_eq!(
        (again.existing, again.inode.id),
        (Existing::Yes, first.inode.id)
    );
    assert_eq!(again.dir.before, again.dir.after);
    let attrs = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    run(&root, 2, |op| ns.setattr(op, first.inode.id, &attrs, false)).unwrap();
    assert_eq!(create(b"f", How::Exclusive([1; 8])), Err(NsError::Exist));
}

#[test]
fn names_are_checked_everywhere() {
    let ns = fresh();
    let root = Cred::root();
    for (name, error) in [
        (&b""[..], NsError::Inval),
        (b".", NsError::BadName),
        (b"..", NsError::BadName),
        (b"a/b", NsError::BadName),
        (&[b'x'; 256], NsError::NameTooLong),
    ] {
        let new = NewNode::mode(0o755);
        let made = run(&root, 1, |op| ns.mkdir(op, ROOT, name, &new));
        assert_eq!(made.unwrap_err(), error);
        let found = run(&root, 1, |op| ns.lookup(op, ROOT, name));
        assert_eq!(found.unwrap_err(), error);
        let gone = run(&root, 1, |op| {
            ns.remove(op, ROOT, name, What::Any, &|_| false)
        });
        assert_eq!(gone.unwrap_err(), error);
    }
}

#[test]
fn directories_count_their_subdirectories() {
    let ns = fresh();
    let root = Cred::root();
    let a = mkdir(&ns, ROOT, "a", 0o755);
    let b = mkdir(&ns, a, "b", 0o755);
    touch(&ns, &root, a, "f", 0o644);
    let nlink = |id| run(&root, 1, |op| ns.getattr(op, id)).unwrap().nlink;
    assert_eq!((nlink(ROOT), nlink(a), nlink(b)), (3, 3, 2));
    let parent = run(&root, 1, |op| ns.lookup_parent(op, b)).unwrap();
    assert_eq!(parent.id, a);
    assert_eq!(
        run(&root, 1, |op| ns.lookup_parent(op, ROOT)),
        Err(NsError::NoEnt)
    );
    let rm =
        |dir, name: &[u8], what| run(&root, 2, |op| ns.remove(op, dir, name, what, &|_| false));
    assert_eq!(rm(ROOT, b"a", What::Any).unwrap_err(), NsError::NotEmpty);
    assert_eq!(rm(a, b"b", What::File).unwrap_err(), NsError::IsDir);
    assert_eq!(rm(a, b"f", What::Directory).unwrap_err(), NsError::NotDir);
    rm(a, b"b", What::Directory).unwrap();
    rm(a, b"f", What::File).unwrap();
    assert_eq!(nlink(a), 2);
    rm(ROOT, b"a", What::Any).unwrap();
    assert_eq!(run(&root, 1, |op| ns.getattr(op, a)), Err(NsError::Stale));
    let made = run(&root, 1, |op| ns.mkdir(op, a, b"x", &NewNode::mode(0o755)));
    assert_eq!(made.unwrap_err(), NsError::Stale);
    assert_eq!(ns.statistics().files, 1);
}

#[test]
fn permissions_of_the_directory_decide() {
    // Mode of a directory of user 1 and group 1; what user 1, a member of group 1 and a stranger may.
    let member = Cred::user(2, 20, vec![1]);
    let table = [
        (0o700, [true, false, false]),
        (0o300, [true, false, false]),
        (0o500, [false, false, false]),
        (0o030, [false, true, false]),
        (0o003, [false, false, true]),
        (0o007, [false, false, true]),
        (0o777, [true, true, true]),
        (0o222, [false, false, false]),
    ];
    for (mode, allowed) in table {
        let ns = fresh();
        let dir = mkdir(&ns, ROOT, "d", 0o777);
        let attrs = SetAttr {
            mode: Some(mode),
            uid: Some(1),
            gid: Some(1),
            ..SetAttr::default()
        };
        run(&Cred::root(), 1, |op| ns.setattr(op, dir, &attrs, false)).unwrap();
        for (cred, allowed) in [&user(1), &member, &user(3)].into_iter().zip(allowed) {
            let made = run(cred, 1, |op| {
                ns.create(op, dir, b"f", &NewNode::mode(0o644), How::Guarded, None)
            });
            assert_eq!(made.is_ok(), allowed, "{mode:o} {cred:?}");
            let gone = run(cred, 1, |op| {
                ns.remove(op, dir, b"f", What::Any, &|_| false)
            });
            let expect = if allowed { None } else { Some(()) };
            assert_eq!(gone.err().map(|_| ()), expect, "{mode:o} {cred:?}");
        }
    }
}

#[test]
fn sticky_directories_protect_foreign_names() {
    let ns = fresh();
    let tmp = mkdir(&ns, ROOT, "tmp", 0o1777);
    touch(&ns, &user(1), tmp, "mine", 0o666);
    let rm = |cred: &Cred| {
        run(cred, 1, |op| {
            ns.remove(op, tmp, b"mine", What::Any, &|_| false)
        })
    };
    assert_eq!(rm(&user(2)).unwrap_err(), NsError::Perm);
    rm(&user(1)).unwrap();
}

#[test]
fn setgid_directories_hand_down_their_group() {
    let ns = fresh();
    let dir = mkdir(&ns, ROOT, "d", 0o777);
    let attrs = SetAttr {
        mode: Some(0o2777),
        gid: Some(50),
        ..SetAttr::default()
    };
    run(&Cred::root(), 1, |op| ns.setattr(op, dir, &attrs, false)).unwrap();
    let sub = run(&user(1), 1, |op| {
        ns.mkdir(op, dir, b"s", &NewNode::mode(0o755))
    })
    .unwrap();
    assert_eq!((sub.inode.gid, sub.inode.mode), (50, 0o2755));
    let file = touch(&ns, &user(1), dir, "f", 0o2755);
    let file = run(&user(1), 1, |op| ns.getattr(op, file)).unwrap();
    assert_eq!((file.gid, file.mode), (50, 0o755));
}

#[test]
fn special_files_need_what_they_need() {
    let ns = fresh();
    let dir = mkdir(&ns, ROOT, "d", 0o777);
    let dev = Device { major: 8, minor: 1 };
    let make = |cred: &Cred, name: &[u8], kind| {
        run(cred, 1, |op| {
            ns.mknod(op, dir, name, kind, dev, &NewNode::mode(0o600))
        })
    };
    assert_eq!(
        make(&user(1), b"b", FileType::Block).unwrap_err(),
        NsError::Perm
    );
    assert_eq!(
        make(&user(1), b"b", FileType::Regular).unwrap_err(),
        NsError::Inval
    );
    let fifo = make(&user(1), b"p", FileType::Fifo).unwrap().inode;
    assert_eq!(
        (fifo.kind, fifo.device),
        (FileType::Fifo, Device::default())
    );
    let block = make(&Cred::root(), b"b", FileType::Block).unwrap().inode;
    assert_eq!(block.device, dev);
    let link = |target: &[u8]| {
        run(&user(1), 1, |op| {
            ns.symlink(op, dir, b"l", target, &NewNode::mode(0o777))
        })
    };
    assert_eq!(link(b"").unwrap_err(), NsError::Inval);
    assert_eq!(link(&[b'x'; 4097]).unwrap_err(), NsError::NameTooLong);
    let made = link(&[b'x'; 4096]).unwrap().inode;
    let read = run(&user(2), 1, |op| ns.readlink(op, made.id)).unwrap();
    assert_eq!((read.target.0.len(), read.size), (4096, 4096));
    assert_eq!(
        run(&user(2), 1, |op| ns.readlink(op, fifo.id)),
        Err(NsError::Inval)
    );
}

#[test]
fn an_unknown_inode_or_generation_is_stale() {
    let ns = fresh();
    let root = Cred::root();
    assert_eq!(
        run(&root, 1, |op| ns.getattr(op, FileId(99))),
        Err(NsError::Stale)
    );
    assert_eq!(
        run(&root, 1, |op| ns.resolve(op, ROOT, 2)),
        Err(NsError::Stale)
    );
    assert!(run(&root, 1, |op| ns.resolve(op, ROOT, 1)).is_ok());
    assert_eq!(
        run(&root, 1, |op| ns.lookup(op, ROOT, b"no")),
        Err(NsError::NoEnt)
    );
}

#[test]
fn numbers_are_not_reused_after_a_restart() {
    let store = std::sync::Arc::new(meta::MemStore::new());
    let ns = open(store.clone());
    let first = touch(&ns, &Cred::root(), ROOT, "a", 0o644);
    run(&Cred::root(), 1, |op| {
        ns.remove(op, ROOT, b"a", What::Any, &|_| false)
    })
    .unwrap();
    let ns = open(store);
    assert!(touch(&ns, &Cred::root(), ROOT, "a", 0o644) > first);
}

/// As on Linux, whatever the umask (RFC 8275 is for what has permissions), and whoever sets another mode.
#[test]
fn a_symbolic_link_has_mode_0777() {
    let ns = fresh();
    let root = Cred::root();
    let new = NewNode {
        umask: 0o022,
        ..NewNode::mode(0o777)
    };
    let link = run(&root, 1, |op| {
        ns.symlink(op, FileId::ROOT, b"l", b"t", &new)
    });
    let link = link.unwrap().inode;
    assert_eq!(link.mode, 0o777);
    let other = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    let set = run(&root, 2, |op| ns.setattr(op, link.id, &other, false));
    assert_eq!(set.unwrap().inode.mode, 0o777);
    // Others take their umask.
    let kinds = [FileType::Fifo, FileType::Socket, FileType::Block];
    for (kind, name) in kinds.into_iter().zip([b"f", b"s", b"b"]) {
        let made = run(&root, 1, |op| {
            ns.mknod(op, FileId::ROOT, name, kind, Device::default(), &new)
        });
        assert_eq!(made.unwrap().inode.mode, 0o755, "{kind:?}");
    }
    let dir = run(&root, 1, |op| ns.mkdir(op, FileId::ROOT, b"d", &new));
    assert_eq!(dir.unwrap().inode.mode, 0o755);
}
