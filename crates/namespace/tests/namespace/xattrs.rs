//! Goal: extended attributes are set, read, listed and removed as RFC 8276 says, within their limits, by users whom the
//! mode allows. They go with their file.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::common::*;
use meta::{MemStore, Read};
use ropewalk_namespace::*;
use std::sync::Arc;

const ROOT: FileId = FileId::ROOT;

fn set(
    ns: &Namespace,
    cred: &Cred,
    file: FileId,
    name: &[u8],
    value: &[u8],
    how: SetXattr,
) -> Result<bool, NsError> {
    let set = run(cred, 7, |op| ns.set_xattr(op, file, name, value, how));
    set.map(|c| {
        assert!(c.after == c.before || c.after == c.before + 1);
        c.after > c.before
    })
}

fn value(ns: &Namespace, cred: &Cred, file: FileId, name: &[u8]) -> Result<Vec<u8>, NsError> {
    run(cred, 1, |op| ns.xattr(op, file, name))
}

fn inode(ns: &Namespace, file: FileId) -> Arc<Inode> {
    run(&Cred::root(), 1, |op| ns.getattr(op, file)).unwrap()
}

#[test]
fn create_makes_replace_changes_either_does_both_and_the_same_value_changes_nothing() {
    let ns = fresh();
    let me = Cred::root();
    let file = touch(&ns, &me, ROOT, "f", 0o644);
    let set = |value: &[u8], how| set(&ns, &me, file, b"a", value, how);
    assert_eq!(value(&ns, &me, file, b"a"), Err(NsError::NoXattr));
    assert_eq!(set(b"1", SetXattr::Replace), Err(NsError::NoXattr));
    assert_eq!(set(b"1", SetXattr::Create), Ok(true));
    assert_eq!(set(b"2", SetXattr::Create), Err(NsError::Exist));
    assert_eq!(value(&ns, &me, file, b"a").unwrap(), b"1");
    assert_eq!(set(b"2", SetXattr::Replace), Ok(true));
    assert_eq!(inode(&ns, file).ctime, at(7));
    assert_eq!(set(b"2", SetXattr::Either), Ok(false));
    assert_eq!(set(b"", SetXattr::Either), Ok(true));
    assert_eq!(value(&ns, &me, file, b"a").unwrap(), b"");
    assert_eq!(
        inode(&ns, file).xattrs(),
        XattrTotals { count: 1, bytes: 1 }
    );
    let remove = || run(&me, 9, |op| ns.remove_xattr(op, file, b"a"));
    assert!(remove().is_ok_and(|c| c.after == c.before + 1));
    assert_eq!(remove(), Err(NsError::NoXattr));
    assert_eq!(inode(&ns, file).ctime, at(9));
    assert!(inode(&ns, file).extras.is_none());
}

#[test]
fn names_values_and_sums_have_limits() {
    let ns = fresh();
    let me = Cred::root();
    let (file, other) = (
        touch(&ns, &me, ROOT, "f", 0o644),
        touch(&ns, &me, ROOT, "g", 0o644),
    );
    let set = |file, name: &[u8], value: &[u8]| set(&ns, &me, file, name, value, SetXattr::Either);
    assert_eq!(set(file, b"", b""), Err(NsError::Inval));
    assert_eq!(set(file, b"a\0b", b""), Err(NsError::Inval));
    assert_eq!(set(file, &[b'n'; 256], b""), Err(NsError::NameTooLong));
    assert_eq!(set(file, &[b'n'; 255], b""), Ok(true));
    let big = vec![7; XATTR_VALUE_BYTES_MAX as usize + 1];
    assert_eq!(set(file, b"big", &big), Err(NsError::XattrTooBig));
    let big = &big[1..];
    for n in 0..15_u8 {
        assert_eq!(set(file, &[b'b', n + 1], big), Ok(true));
    }
    assert_eq!(set(file, b"bb", big), Err(NsError::NoSpace), "1 MiB in all");
    assert_eq!(value(&ns, &me, file, b"b\x01").unwrap(), big);
    assert_eq!(set(file, b"b\x01", b"small"), Ok(true));
    assert_eq!(set(file, b"bb", big), Ok(true), "what went makes room");
    for n in 1..=XATTRS_COUNT_MAX {
        assert_eq!(set(other, n.to_string().as_bytes(), b"x"), Ok(true));
    }
    assert_eq!(set(other, b"more", b"x"), Err(NsError::NoSpace));
    assert_eq!(set(other, b"1", b"y"), Ok(true));
}

#[test]
fn a_listing_goes_on_behind_its_cookie_whatever_happens_to_the_others() {
    let ns = fresh();
    let me = Cred::root();
    let file = touch(&ns, &me, ROOT, "f", 0o644);
    for n in 0..40_u32 {
        set(
            &ns,
            &me,
            file,
            format!("name{n}").as_bytes(),
            b"v",
            SetXattr::Create,
        )
        .unwrap();
    }
    let list = |cookie, bytes| run(&me, 1, |op| ns.list_xattrs(op, file, cookie, bytes)).unwrap();
    let nothing = list(0, 11);
    assert!(
        nothing.names.is_empty() && !nothing.eof,
        "a name takes 12 bytes"
    );
    let first = list(0, 120);
    assert_eq!((first.names.len(), first.eof), (10, false));
    let (cookie, last) = first.names.last().cloned().unwrap();
    run(&me, 1, |op| ns.remove_xattr(op, file, &last)).unwrap();
    let rest = list(cookie, 1 << 16);
    assert!(rest.eof);
    let mut all: Vec<_> = first
        .names
        .iter()
        .chain(&rest.names)
        .map(|n| n.1.clone())
        .collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 40);
    assert!(list(u64::MAX, 100).eof);
}

#[test]
fn the_mode_says_who_reads_and_who_sets() {
    let ns = fresh();
    let root = Cred::root();
    let (owner, other) = (user(1), user(2));
    let sticky = mkdir(&ns, ROOT, "sticky", 0o1777);
    let file = touch(&ns, &owner, sticky, "f", 0o600);
    assert_eq!(
        set(&ns, &owner, file, b"a", b"1", SetXattr::Either),
        Ok(true)
    );
    let denied = |r: Result<(), NsError>| assert_eq!(r, Err(NsError::Access));
    denied(value(&ns, &other, file, b"a").map(drop));
    denied(value(&ns, &other, file, b"no").map(drop));
    denied(run(&other, 1, |op| ns.list_xattrs(op, file, 0, 99)).map(drop));
    denied(set(&ns, &other, file, b"a", b"2", SetXattr::Either).map(drop));
    denied(run(&other, 1, |op| ns.remove_xattr(op, file, b"a")).map(drop));
    let on_sticky = set(&ns, &other, sticky, b"a", b"1", SetXattr::Either);
    assert_eq!(on_sticky, Err(NsError::Perm));
    assert_eq!(
        set(&ns, &root, sticky, b"a", b"1", SetXattr::Either),
        Ok(true)
    );
    let made = run(&root, 1, |op| {
        ns.symlink(op, ROOT, b"s", b"t", &NewNode::mode(0o777))
    });
    let link = made.unwrap().inode.id;
    let on_link = set(&ns, &root, link, b"a", b"1", SetXattr::Either);
    assert_eq!(on_link, Err(NsError::Perm));
    assert_eq!(value(&ns, &root, link, b"a"), Err(NsError::NoXattr));
}

#[test]
fn they_go_with_the_last_name_of_their_file() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let me = Cred::root();
    let dir = mkdir(&ns, ROOT, "d", 0o755);
    for (name, is_open) in [("f", false), ("orphan", true)] {
        let file = touch(&ns, &me, dir, name, 0o644);
        set(&ns, &me, file, b"a", b"1", SetXattr::Either).unwrap();
        let removed = run(&me, 1, |op| {
            ns.remove(op, dir, name.as_bytes(), What::File, &|_| is_open)
        });
        assert_eq!(removed.unwrap().orphaned, is_open);
        if is_open {
            assert_eq!(value(&ns, &me, file, b"a").unwrap(), b"1");
            assert!(run(&me, 1, |op| ns.orphan_closed(op, file)).unwrap());
        }
    }
    set(&ns, &me, dir, b"a", b"1", SetXattr::Either).unwrap();
    run(&me, 1, |op| {
        ns.remove(op, ROOT, b"d", What::Any, &|_| false)
    })
    .unwrap();
    assert!(store.scan(b"x", b"y", 10).unwrap().is_empty());
    assert!(ns.check().unwrap().is_clean());
}
