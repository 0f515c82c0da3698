//! Goal: SETATTR lets each caller set what POSIX lets him, and nothing else; marks stay until what they say is no more true.
#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use crate::common::*;
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
    let stat = || run(&Cred::root(), 5, |op| ns.getattr(op, file)).unwrap();
    let read = |before, after| {
        let moved = AtimeMove {
            file,
            before,
            after: at(after),
        };
        let gone = AtimeMove {
            file: FileId(999),
            ..moved
        };
        run(&Cred::root(), 9, |op| ns.set_atimes(op, &[gone, moved])).unwrap();
        stat()
    };
    let new = stat();
    assert!(new.is_atime_due(new.atime, 10), "as old as the data");
    let once = read(new.atime, 10);
    assert_eq!((once.atime, once.change), (at(10), new.change));
    assert_eq!((once.mtime, once.ctime), (new.mtime, new.ctime));
    assert!(!once.is_atime_due(once.atime, 20));
    assert!(once.is_atime_due(once.atime, 10 + 24 * 3600));
    // What was set since stands.
    assert_eq!(read(new.atime, 30).atime, at(10));
}

/// Sets marks at a time; the inode after it.
fn mark(
    ns: &Namespace,
    file: FileId,
    cred: &Cred,
    marks: SetMarks,
) -> Result<std::sync::Arc<Inode>, NsError> {
    let attrs = SetAttr { marks, ..set() };
    let done = run(cred, 10, |op| ns.setattr(op, file, &attrs, false));
    done.map(|set| set.inode)
}

const ARCHIVED: SetMarks = SetMarks {
    hidden: None,
    system: None,
    archived: Some(true),
    backup: None,
};

#[test]
fn marks_are_the_owners_to_set_and_leave_the_times() {
    let ns = fresh();
    let dir = mkdir(&ns, FileId::ROOT, "d", 0o777);
    let file = touch(&ns, &user(1), dir, "f", 0o666);
    let all = SetMarks {
        hidden: Some(true),
        system: Some(true),
        backup: Some(at(7)),
        ..ARCHIVED
    };
    let stranger = mark(&ns, file, &user(2), all);
    assert_eq!(stranger.unwrap_err(), NsError::Perm);
    let marked = mark(&ns, file, &user(1), all).unwrap();
    let marks = marked.marks();
    assert!(marks.hidden && marks.system && marked.is_archived());
    assert_eq!(
        (marks.backup, marked.mtime, marked.ctime),
        (at(7), at(1), at(10))
    );
    let beyond = SetMarks {
        backup: Some(Time {
            secs: 0,
            nanos: 1_000_000_000,
        }),
        ..SetMarks::default()
    };
    let refused = mark(&ns, file, &user(1), beyond);
    assert_eq!(refused.unwrap_err(), NsError::Inval);
    let none = SetMarks {
        hidden: Some(false),
        system: Some(false),
        archived: Some(false),
        backup: Some(Time::default()),
    };
    let bare = mark(&ns, file, &user(1), none).unwrap();
    assert!(bare.extras.is_none(), "nothing is kept of what is unset");
}

fn setattr(ns: &Namespace, file: FileId, attrs: &SetAttr) {
    run(&Cred::root(), 20, |op| ns.setattr(op, file, attrs, false)).unwrap();
}

fn commit(ns: &Namespace, file: FileId, mtime: Option<Time>) {
    let commit = SizeCommit {
        mtime,
        ..SizeCommit::default()
    };
    run(&Cred::root(), 20, |op| ns.commit_size(op, file, commit)).unwrap();
}

#[test]
fn what_is_modified_is_archived_no_more() {
    let root = Cred::root();
    type Change<'c> = (&'c str, bool, &'c dyn Fn(&Namespace, FileId));
    let size = |size, marks| SetAttr {
        size: Some(size),
        mtime: Some(SetTime::Client(at(1))),
        marks,
        ..set()
    };
    let changes: [Change<'_>; 8] = [
        ("mode", true, &|ns, file| {
            let mode = Some(0o600);
            setattr(ns, file, &SetAttr { mode, ..set() });
        }),
        ("times", true, &|ns, file| {
            let mtime = Some(SetTime::Client(at(5)));
            setattr(ns, file, &SetAttr { mtime, ..set() });
        }),
        ("write", false, &|ns, file| commit(ns, file, None)),
        ("a clock that stood", false, &|ns, file| {
            commit(ns, file, Some(at(1)));
        }),
        ("size", false, &|ns, file| {
            setattr(ns, file, &size(9, SetMarks::default()));
        }),
        ("size, and archived", true, &|ns, file| {
            setattr(ns, file, &size(9, ARCHIVED));
        }),
        ("truncation", false, &|ns, file| {
            let begun = run(&root, 20, |op| {
                ns.begin_truncate(op, file, 0, &set(), true, false)
            });
            begun.unwrap();
            run(&root, 20, |op| ns.finish_truncate(op, file, &set())).unwrap();
        }),
        ("what recovery finds", false, &|ns, file| {
            let found = SizeCommit {
                new_end: Some(9),
                ..SizeCommit::default()
            };
            run(&root, 20, |op| ns.commit_size(op, file, found)).unwrap();
        }),
    ];
    for (what, still, change) in changes {
        let ns = fresh();
        let dir = mkdir(&ns, FileId::ROOT, "d", 0o755);
        let file = touch(&ns, &root, dir, "f", 0o644);
        for marked in [dir, file] {
            assert!(mark(&ns, marked, &root, ARCHIVED).unwrap().is_archived());
        }
        change(&ns, file);
        let archived = |id| {
            run(&root, 30, |op| ns.getattr(op, id))
                .unwrap()
                .is_archived()
        };
        assert_eq!(archived(file), still, "{what}");
        // A time that is set back brings nothing back.
        let mtime = Some(SetTime::Client(at(1)));
        setattr(&ns, file, &SetAttr { mtime, ..set() });
        assert_eq!(archived(file), still, "{what}");
        assert!(archived(dir));
        run(&root, 30, |op| {
            ns.remove(op, dir, b"f", What::File, &|_| false)
        })
        .unwrap();
        assert!(!archived(dir), "a directory is modified by its entries");
    }
}
