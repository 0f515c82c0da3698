//! Goal: READDIR of a large directory shows each entry that is there all the time exactly once, while
//! others come and go between pages.

use crate::common::*;
use ropewalk_namespace::*;
use std::collections::BTreeSet;

const ROOT: FileId = FileId::ROOT;
const STAYING: usize = 100_000;

fn page(cookie: u64, entries_max: usize) -> ReadDirRequest {
    ReadDirRequest {
        cookie,
        entries_max,
        name_bytes_max: 1 << 20,
        with_inodes: false,
    }
}

#[test]
fn a_hundred_thousand_entries_are_listed_once_while_others_come_and_go() {
    let ns = fresh();
    let root = Cred::root();
    let dir = mkdir(&ns, ROOT, "big", 0o755);
    for n in 0..STAYING {
        touch(&ns, &root, dir, &format!("stay-{n}"), 0o644);
    }
    let (mut cookie, mut seen, mut pages) = (0, BTreeSet::new(), 0_usize);
    loop {
        let got = run(&root, 1, |op| ns.readdir(op, dir, page(cookie, 1000))).unwrap();
        assert!(got.entries.len() <= 1000);
        for entry in got.entries {
            assert!(entry.cookie > cookie, "cookies ascend");
            cookie = entry.cookie;
            if entry.name.starts_with(b"stay") {
                assert!(seen.insert(entry.name), "listed twice");
            }
        }
        if got.eof {
            break;
        }
        for n in 0..50 {
            touch(&ns, &root, dir, &format!("go-{pages}-{n}"), 0o644);
        }
        for n in 0..50 * usize::from(pages > 0) {
            let name = format!("go-{}-{n}", pages.wrapping_sub(1));
            let gone = run(&root, 1, |op| {
                ns.remove(op, dir, name.as_bytes(), What::Any, &|_| false)
            });
            gone.unwrap();
        }
        pages += 1;
    }
    assert_eq!(seen.len(), STAYING);
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn pages_keep_their_limits_and_know_their_end() {
    let ns = fresh();
    let root = Cred::root();
    for n in 0..10 {
        touch(&ns, &root, ROOT, &format!("name{n}"), 0o644);
    }
    let list = |page| run(&root, 1, |op| ns.readdir(op, ROOT, page)).unwrap();
    let all = list(page(0, 10));
    assert_eq!((all.entries.len(), all.eof), (10, true));
    let nine = list(page(0, 9));
    assert_eq!((nine.entries.len(), nine.eof), (9, false));
    let last = list(page(nine.entries[8].cookie, 9));
    assert_eq!((last.entries.len(), last.eof), (1, true));
    let end = list(page(all.entries[9].cookie, 9));
    assert_eq!((end.entries.len(), end.eof), (0, true));
    let bytes = ReadDirRequest {
        name_bytes_max: 14,
        ..page(0, 10)
    };
    assert_eq!(list(bytes).entries.len(), 2);
    let none = ReadDirRequest {
        name_bytes_max: 4,
        ..page(0, 10)
    };
    assert_eq!((list(none).entries.len(), list(none).eof), (0, false));
    for cookie in [1, 2, 255, 1 << 63] {
        let got = run(&root, 1, |op| ns.readdir(op, ROOT, page(cookie, 10)));
        assert_eq!(got.unwrap_err(), NsError::BadCookie);
    }
}

#[test]
fn listing_wants_read_and_inodes_want_search_permission() {
    let ns = fresh();
    let dir = mkdir(&ns, ROOT, "d", 0o704);
    let file = touch(&ns, &Cred::root(), dir, "f", 0o644);
    let with = ReadDirRequest {
        with_inodes: true,
        ..page(0, 10)
    };
    let list = |cred: &Cred, dir| run(cred, 1, |op| ns.readdir(op, dir, with));
    assert_eq!(list(&user(1), dir).unwrap().entries[0].inode, None);
    let seen = list(&Cred::root(), dir).unwrap().entries[0].inode.clone();
    assert_eq!(seen.unwrap().id, file);
    let closed = mkdir(&ns, ROOT, "c", 0o733);
    assert_eq!(list(&user(1), closed).unwrap_err(), NsError::Access);
    assert_eq!(list(&user(1), file).unwrap_err(), NsError::NotDir);
}
