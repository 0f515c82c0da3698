//! Goal: SETATTR lets each caller set what POSIX lets him, and nothing else.

mod common;

use common::*;
use ropewalk_namespace::*;

fn set() -> SetAttr {
    SetAttr::default()
}

/// A file of user 1 and group 1 with mode 0o6775, and who asks for what with which result.
#[test]
fn each_attribute_has_its_rule() {
    let owner = Cred::user(1, 1, vec![7]);
    let member = Cred::user(2, 1, vec![]);
    let stranger = user(3);
    let root = Cred::root();
    let client = Some(SetTime::Client(at(9)));
    let server = Some(SetTime::Server);
    let bad = Some(SetTime::Client(Time {
        secs: 0,
        nanos: 1_000_000_000,
    }));
    let table: [(&str, &Cred, SetAttr, Result<u32, NsError>); 21] = [
        (
            "chmod",
            &owner,
            SetAttr {
                mode: Some(0o2700),
                ..set()
            },
            Ok(0o2700),
        ),
        (
            "chmod",
            &member,
            SetAttr {
                mode: Some(0o700),
                ..set()
            },
            Err(NsError::Perm),
        ),
        (
            "chmod",
            &root,
            SetAttr {
                mode: Some(0o4711),
                ..set()
            },
            Ok(0o4711),
        ),
        (
            "chmod range",
            &root,
            SetAttr {
                mode: Some(0o10_000),
                ..set()
            },
            Err(NsError::Inval),
        ),
        (
            "chown away",
            &owner,
            SetAttr {
                uid: Some(2),
                ..set()
            },
            Err(NsError::Perm),
        ),
        (
            "chown to self",
            &owner,
            SetAttr {
                uid: Some(1),
                ..set()
            },
            Ok(0o775),
        ),
        (
            "chown to self",
            &stranger,
            SetAttr {
                uid: Some(1),
                ..set()
            },
            Err(NsError::Perm),
        ),
        (
            "chown by root",
            &root,
            SetAttr {
                uid: Some(2),
                ..set()
            },
            Ok(0o775),
        ),
        (
            "chown and chmod",
            &root,
            SetAttr {
                uid: Some(2),
                mode: Some(0o4755),
                ..set()
            },
            Ok(0o4755),
        ),
        (
            "chgrp to own",
            &owner,
            SetAttr {
                gid: Some(7),
                ..set()
            },
            Ok(0o775),
        ),
        (
            "chgrp to foreign",
            &owner,
            SetAttr {
                gid: Some(8),
                ..set()
            },
            Err(NsError::Perm),
        ),
        (
            "chgrp by member",
            &member,
            SetAttr {
                gid: Some(1),
                ..set()
            },
            Err(NsError::Perm),
        ),
        (
            "chgrp sgid",
            &owner,
            SetAttr {
                gid: Some(7),
                mode: Some(0o2700),
                ..set()
            },
            Ok(0o2700),
        ),
        (
            "time",
            &owner,
            SetAttr {
                mtime: client,
                ..set()
            },
            Ok(0o6775),
        ),
        (
            "time",
            &member,
            SetAttr {
                mtime: client,
                ..set()
            },
            Err(NsError::Perm),
        ),
        (
            "now",
            &member,
            SetAttr {
                mtime: server,
                atime: server,
                ..set()
            },
            Ok(0o6775),
        ),
        (
            "now",
            &stranger,
            SetAttr {
                mtime: server,
                ..set()
            },
            Err(NsError::Access),
        ),
        (
            "bad time",
            &root,
            SetAttr {
                atime: bad,
                ..set()
            },
            Err(NsError::Inval),
        ),
        (
            "grow",
            &member,
            SetAttr {
                size: Some(10),
                ..set()
            },
            Ok(0o775),
        ),
        (
            "grow",
            &stranger,
            SetAttr {
                size: Some(10),
                ..set()
            },
            Err(NsError::Access),
        ),
        (
            "huge",
            &owner,
            SetAttr {
                size: Some(1 << 63),
                ..set()
            },
            Err(NsError::FileTooBig),
        ),
    ];
    for (what, cred, attrs, want) in table {
        let ns = fresh();
        let file = touch(&ns, &Cred::root(), FileId::ROOT, "f", 0o644);
        let start = SetAttr {
            uid: Some(1),
            gid: Some(1),
            mode: Some(0o6775),
            ..set()
        };
        let before = run(&Cred::root(), 2, |op| ns.setattr(op, file, &start, false)).unwrap();
        let got = run(cred, 3, |op| ns.setattr(op, file, &attrs, false));
        let mode = got.as_ref().map(|g| g.inode.mode);
        assert_eq!(mode.map_err(Clone::clone), want, "{what} by {cred:?}");
        let after = run(&Cred::root(), 4, |op| ns.getattr(op, file)).unwrap();
        let changed = u64::from(got.is_ok());
        assert_eq!(after.change, before.inode.change + changed, "{what}");
        if let Ok(got) = got {
            assert_eq!((after.ctime, &after), (at(3), &got.inode));
            assert_eq!(
                after.epoch - before.inode.epoch,
                u32::from(got.access_narrowed)
            );
        }
    }
}

#[test]
fn an_open_file_may_be_resized_whatever_its_mode() {
    let ns = fresh();
    let file = touch(&ns, &Cred::root(), FileId::ROOT, "f", 0o444);
    let grow = SetAttr {
        size: Some(5),
        ..set()
    };
    let denied = run(&user(1), 3, |op| ns.setattr(op, file, &grow, false));
    assert_eq!(denied.unwrap_err(), NsError::Access);
    let done = run(&user(1), 3, |op| ns.setattr(op, file, &grow, true)).unwrap();
    assert_eq!((done.inode.size, done.inode.mtime), (5, at(3)));
    let dir = run(&Cred::root(), 3, |op| {
        ns.setattr(op, FileId::ROOT, &grow, false)
    });
    assert_eq!(dir.unwrap_err(), NsError::IsDir);
}

#[test]
fn taking_rights_away_raises_the_epoch_and_giving_them_does_not() {
    let ns = fresh();
    let file = touch(&ns, &Cred::root(), FileId::ROOT, "f", 0o640);
    let chmod = |mode| {
        let attrs = SetAttr {
            mode: Some(mode),
            ..set()
        };
        run(&Cred::root(), 1, |op| ns.setattr(op, file, &attrs, false)).unwrap()
    };
    assert!(!chmod(0o644).access_narrowed);
    let taken = chmod(0o600);
    assert!(taken.access_narrowed);
    assert_eq!(ns.fencing_epoch(&taken.inode), 1 << 32 | 1);
}

#[test]
fn reads_renew_the_access_time_sparingly() {
    let ns = fresh();
    let file = touch(&ns, &Cred::root(), FileId::ROOT, "f", 0o644);
    let read = |secs| {
        run(&Cred::root(), secs, |op| ns.touch_atime(op, file)).unwrap();
        run(&Cred::root(), secs, |op| ns.getattr(op, file)).unwrap()
    };
    assert_eq!(read(10).atime, at(10));
    assert_eq!(read(20).atime, at(10));
    let late = read(10 + 24 * 3600);
    assert_eq!((late.atime, late.change), (at(10 + 24 * 3600), 1));
}
