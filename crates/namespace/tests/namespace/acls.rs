//! Goal: lists are enforced by every operation, and set by users whom they or the owner allow. They are handed down to
//! new objects, and stay in step with the mode.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::common::*;
use ropewalk_namespace::acl::{DIRECTORY_INHERIT, FILE_INHERIT};
use ropewalk_namespace::*;
use std::sync::Arc;
use xdr::List;

const ROOT: FileId = FileId::ROOT;

fn allow(id: u32, mask: u32) -> Ace {
    ace(false, 0, mask, WhoKind::User, id)
}

fn ace(denies: bool, flags: u32, mask: u32, kind: WhoKind, id: u32) -> Ace {
    let who = Who { kind, id };
    Ace {
        denies,
        flags,
        mask,
        who,
    }
}

fn acl(aces: &[Ace]) -> Acl {
    Acl {
        flags: 0,
        aces: List(aces.to_vec()),
    }
}

fn attrs(acl: Acl) -> SetAttr {
    SetAttr {
        acl: Some(acl),
        ..SetAttr::default()
    }
}

fn set(ns: &Namespace, cred: &Cred, file: FileId, set: &SetAttr) -> Result<AttrsSet, NsError> {
    run(cred, 5, |op| ns.setattr(op, file, set, false))
}

fn chmod(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    }
}

fn inode(ns: &Namespace, file: FileId) -> Arc<Inode> {
    run(&Cred::root(), 1, |op| ns.getattr(op, file)).unwrap()
}

/// A directory of root with mode 0700 and this list, and a file of root in it.
fn world(dir_acl: &[Ace]) -> (Namespace, FileId, FileId) {
    let ns = fresh();
    let root = Cred::root();
    let dir = mkdir(&ns, ROOT, "d", 0o700);
    let file = touch(&ns, &root, dir, "f", 0o600);
    set(&ns, &root, dir, &attrs(acl(dir_acl))).unwrap();
    (ns, dir, file)
}

#[test]
fn each_operation_on_a_directory_asks_for_its_bit() {
    let me = user(5);
    type Call = fn(&Namespace, &mut Op<'_>, FileId) -> Result<(), NsError>;
    let calls: [(&str, u32, Call); 8] = [
        ("lookup", EXECUTE, |ns, op, d| {
            ns.lookup(op, d, b"f").map(drop)
        }),
        ("readdir", READ, |ns, op, d| {
            let page = ReadDirRequest {
                cookie: 0,
                entries_max: 9,
                name_bytes_max: 99,
                with_inodes: false,
            };
            ns.readdir(op, d, page).map(drop)
        }),
        ("create", WRITE | EXECUTE, |ns, op, d| {
            let new = NewNode::mode(0o600);
            ns.create(op, d, b"new", &new, How::Guarded, None).map(drop)
        }),
        ("mkdir", APPEND | EXECUTE, |ns, op, d| {
            ns.mkdir(op, d, b"new", &NewNode::mode(0o700)).map(drop)
        }),
        ("remove", DELETE_CHILD | EXECUTE, |ns, op, d| {
            ns.remove(op, d, b"f", What::Any, &|_| false).map(drop)
        }),
        ("rename", DELETE_CHILD | WRITE | EXECUTE, |ns, op, d| {
            ns.rename(op, (d, b"f"), (d, b"g"), &|_| false).map(drop)
        }),
        ("getxattr", READ_XATTRS, |ns, op, d| {
            match ns.xattr(op, d, b"a") {
                Err(NsError::NoXattr) => Ok(()),
                other => other.map(drop),
            }
        }),
        ("setxattr", WRITE_XATTRS, |ns, op, d| {
            ns.set_xattr(op, d, b"a", b"v", SetXattr::Either).map(drop)
        }),
    ];
    for (name, bits, call) in calls {
        let (ns, dir, _) = world(&[allow(5, bits)]);
        assert_eq!(run(&me, 2, |op| call(&ns, op, dir)), Ok(()), "{name}");
        for bit in (0..32).map(|n| 1 << n).filter(|bit| bits & bit != 0) {
            let denied = ace(true, 0, bit, WhoKind::NamedGroup, 5);
            let (ns, dir, _) = world(&[denied, allow(5, bits)]);
            let done = run(&me, 2, |op| call(&ns, op, dir));
            assert_eq!(done, Err(NsError::Access), "{name} without {bit:#x}");
        }
    }
}

#[test]
fn a_removal_is_allowed_by_the_file_or_by_the_directory() {
    let me = user(5);
    for (of_dir, of_file, done) in [
        (vec![allow(5, EXECUTE | WRITE)], vec![], Ok(())),
        (vec![allow(5, EXECUTE)], vec![allow(5, DELETE)], Ok(())),
        (
            vec![allow(5, EXECUTE)],
            vec![allow(5, READ)],
            Err(NsError::Access),
        ),
        (
            vec![
                ace(true, 0, DELETE_CHILD, WhoKind::User, 5),
                allow(5, EXECUTE | WRITE),
            ],
            vec![],
            Err(NsError::Access),
        ),
        (
            vec![allow(5, EXECUTE | DELETE_CHILD)],
            vec![ace(true, 0, DELETE, WhoKind::User, 5)],
            Ok(()),
        ),
    ] {
        let (ns, dir, file) = world(&of_dir);
        set(&ns, &Cred::root(), file, &attrs(acl(&of_file))).unwrap();
        let removed = run(&me, 2, |op| ns.remove(op, dir, b"f", What::Any, &|_| false));
        assert_eq!(removed.map(drop), done, "{of_dir:?} {of_file:?}");
    }
}

#[test]
fn attributes_are_set_by_whom_the_list_allows() {
    let me = Cred::user(5, 5, vec![6]);
    let (client, server) = (SetTime::Client(at(1)), SetTime::Server);
    let times = |t| SetAttr {
        mtime: Some(t),
        ..SetAttr::default()
    };
    let ids = |uid, gid| SetAttr {
        uid,
        gid,
        ..SetAttr::default()
    };
    for (what, bit) in [
        (chmod(0o600), WRITE_ACL),
        (attrs(acl(&[])), WRITE_ACL),
        (times(client), WRITE_ATTRIBUTES),
        (
            SetAttr {
                btime: Some(at(1)),
                ..SetAttr::default()
            },
            WRITE_ATTRIBUTES,
        ),
        (times(server), WRITE_ATTRIBUTES),
        (times(server), WRITE),
        (ids(Some(5), None), WRITE_OWNER),
        (ids(None, Some(6)), WRITE_OWNER),
    ] {
        let (ns, _, file) = world(&[]);
        assert!(set(&ns, &me, file, &what).is_err(), "{what:?}");
        set(&ns, &Cred::root(), file, &attrs(acl(&[allow(5, bit)]))).unwrap();
        assert!(set(&ns, &me, file, &what).is_ok(), "{what:?} with {bit:#x}");
    }
    let (ns, _, file) = world(&[]);
    set(
        &ns,
        &Cred::root(),
        file,
        &attrs(acl(&[allow(5, WRITE_OWNER)])),
    )
    .unwrap();
    for away in [ids(Some(7), None), ids(None, Some(7))] {
        let given = set(&ns, &me, file, &away);
        assert_eq!(
            given.map(drop),
            Err(NsError::Perm),
            "one takes, and gives nothing away"
        );
    }
}

#[test]
fn mode_and_list_follow_each_other_and_losing_rights_fences() {
    let ns = fresh();
    let owner = user(1);
    let file = touch(&ns, &Cred::root(), ROOT, "f", 0o4640);
    let give = SetAttr {
        uid: Some(1),
        mode: Some(0o4640),
        ..SetAttr::default()
    };
    set(&ns, &Cred::root(), file, &give).unwrap();
    let everyone = ace(false, 0, READ, WhoKind::Everyone, 0);
    let list = acl(&[allow(7, READ | WRITE | APPEND), everyone]);
    let done = set(&ns, &owner, file, &attrs(list.clone())).unwrap();
    assert_eq!(done.inode.mode, 0o4444, "the high bits stay");
    assert_eq!(done.inode.acl(), Some(&list));
    assert!(done.access_narrowed);
    let done = set(&ns, &owner, file, &chmod(0o640)).unwrap();
    assert!(done.access_narrowed);
    let rights = |uid| user(uid).rights(&inode(&ns, file)) & (READ | WRITE | APPEND);
    assert_eq!(inode(&ns, file).acl().unwrap().mode(), 0o640);
    assert_eq!(
        [rights(1), rights(7), rights(9)],
        [READ | WRITE | APPEND, READ, 0]
    );
    // A list that says what the mode says is none.
    let trivial = Acl::of_mode(0o600, false);
    let done = set(&ns, &owner, file, &attrs(trivial)).unwrap();
    assert_eq!((done.inode.mode, done.inode.acl()), (0o600, None));
    assert!(done.inode.extras.is_none());
}

#[test]
fn new_objects_get_what_their_directory_hands_down() {
    let both = FILE_INHERIT | DIRECTORY_INHERIT;
    let rw = READ | WRITE | APPEND;
    let named = ace(false, both, rw | EXECUTE, WhoKind::User, 7);
    let root = Cred::root();
    let make = |ns: &Namespace, dir, name: &str, new: &NewNode| {
        let made = run(&root, 1, |op| {
            ns.create(op, dir, name.as_bytes(), new, How::Guarded, None)
        });
        made.unwrap().inode
    };
    let new = |mode, umask| NewNode {
        umask,
        ..NewNode::mode(mode)
    };
    let rights = |inode: &Inode| user(7).rights(inode) & (rw | EXECUTE);

    let (ns, dir, _) = world(&[named]);
    let file = make(&ns, dir, "a", &new(0o660, 0));
    assert_eq!((file.mode, rights(&file)), (0o660, rw));
    // Nothing that is handed down allows anything to the group and others: the umask takes it.
    let file = make(&ns, dir, "b", &new(0o666, 0o027));
    assert_eq!((file.mode, rights(&file)), (0o640, READ));
    let made = run(&root, 1, |op| ns.mkdir(op, dir, b"sub", &new(0o777, 0o022)));
    let sub = made.unwrap().inode;
    assert_eq!((sub.mode, rights(&sub)), (0o755, READ | EXECUTE));
    let deeper = make(&ns, sub.id, "c", &new(0o670, 0));
    assert_eq!(
        rights(&deeper),
        rw | EXECUTE,
        "a mode here limits nothing below"
    );
    let own = NewNode {
        acl: Some(acl(&[allow(8, READ)])),
        ..NewNode::mode(0o644)
    };
    let file = make(&ns, dir, "own", &own);
    assert_eq!(
        (file.mode, rights(&file)),
        (0, 0),
        "a list of its own, and none of the directory's"
    );
    assert_eq!(user(8).rights(&file) & rw, READ);

    // What is handed down to everyone takes the umask's place (RFC 8275), and is no more than what was asked for.
    let others = ace(false, both, rw, WhoKind::Everyone, 0);
    let (ns, dir, _) = world(&[named, others]);
    assert_eq!(make(&ns, dir, "a", &new(0o666, 0o077)).mode, 0o666);
    assert_eq!(make(&ns, dir, "b", &new(0o600, 0o022)).mode, 0o600);
    let unsaid = NewNode {
        mode_is_default: true,
        ..new(0o644, 0)
    };
    let file = make(&ns, dir, "c", &unsaid);
    assert_eq!((file.mode, rights(&file)), (0o666, rw | EXECUTE));
    let link = run(&root, 1, |op| {
        ns.symlink(op, dir, b"l", b"t", &new(0o777, 0))
    });
    assert!(link.unwrap().inode.extras.is_none());

    let (ns, dir, _) = world(&[allow(7, rw)]);
    let file = make(&ns, dir, "a", &new(0o666, 0o022));
    assert_eq!(
        (file.mode, file.extras.is_none()),
        (0o644, true),
        "no inheritance, no cost"
    );
}

#[test]
fn a_list_that_a_mode_makes_too_long_is_refused_and_loses_nothing() {
    let ns = fresh();
    let root = Cred::root();
    let file = touch(&ns, &root, ROOT, "f", 0o644);
    let named: Vec<Ace> = (1..=ACES_MAX).map(|id| allow(id, 1)).collect();
    set(&ns, &root, file, &attrs(acl(&named))).unwrap();
    let before = inode(&ns, file);
    let refused = set(&ns, &root, file, &chmod(0o640)).unwrap_err();
    assert_eq!(refused, NsError::AclTooLong);
    assert_eq!(inode(&ns, file), before);
    // Owner, group and everyone else have an entry each then.
    set(&ns, &root, file, &attrs(acl(&named[3..]))).unwrap();
    set(&ns, &root, file, &chmod(0o640)).unwrap();
    let after = inode(&ns, file);
    let names = |a: &&Ace| a.who.kind == WhoKind::User;
    let left = after.acl().unwrap().aces.0.iter().filter(names).count();
    assert_eq!(left, named.len() - 3);
}

#[test]
fn a_directory_whose_list_a_new_file_cannot_have_gets_no_file() {
    let ns = fresh();
    let root = Cred::root();
    let dir = mkdir(&ns, ROOT, "d", 0o755);
    let down = |id| ace(true, FILE_INHERIT, 1, WhoKind::User, id);
    let denied: Vec<Ace> = (1..=ACES_MAX).map(down).collect();
    set(&ns, &root, dir, &attrs(acl(&denied))).unwrap();
    let made = run(&root, 1, |op| {
        let new = NewNode::mode(0o644);
        ns.create(op, dir, b"f", &new, How::Guarded, None)
    });
    assert_eq!(made.unwrap_err(), NsError::AclTooLong);
}
