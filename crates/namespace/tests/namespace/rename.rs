//! Goal: LINK, RENAME and REMOVE keep POSIX's rules on types, permissions, counts and change counters.

use crate::common::*;
use ropewalk_namespace::*;

const ROOT: FileId = FileId::ROOT;

fn rename(
    ns: &Namespace,
    cred: &Cred,
    from: (FileId, &str),
    to: (FileId, &str),
) -> Result<Renamed, NsError> {
    run(cred, 5, |op| {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        ns.rename(op, from, to, &|_| false)
    })
}

fn attr(ns: &Namespace, id: FileId) -> std::sync::Arc<Inode> {
    run(&Cred::root(), 1, |op| ns.getattr(op, id)).expect("the inode is there")
}

#[test]
fn a_rename_moves_and_counts_both_directories_once() {
    let ns = fresh();
    let (a, b) = (mkdir(&ns, ROOT, "a", 0o755), mkdir(&ns, ROOT, "b", 0o755));
    let sub = mkdir(&ns, a, "s", 0o755);
    let done = rename(&ns, &Cred::root(), (a, "s"), (b, "t")).unwrap();
    assert_eq!((done.from.before, done.from.after), (2, 3));
    assert_eq!((done.to.before, done.to.after), (1, 2));
    assert_eq!((attr(&ns, a).nlink, attr(&ns, b).nlink), (2, 3));
    assert_eq!((attr(&ns, sub).parent, attr(&ns, sub).ctime), (b, at(5)));
    let same = rename(&ns, &Cred::root(), (b, "t"), (b, "u")).unwrap();
    assert_eq!((same.from, same.to.after), (same.to, 3));
    assert!(ns.check().unwrap().is_clean());
}

#[test]
fn two_names_of_one_file_stay() {
    let ns = fresh();
    let root = Cred::root();
    let f = touch(&ns, &root, ROOT, "f", 0o644);
    run(&root, 2, |op| ns.link(op, f, ROOT, b"g")).unwrap();
    let done = rename(&ns, &root, (ROOT, "f"), (ROOT, "g")).unwrap();
    assert_eq!((done.from.before, done.replaced), (done.from.after, None));
    assert_eq!(attr(&ns, f).nlink, 2);
    let self_to_self = rename(&ns, &root, (ROOT, "f"), (ROOT, "f")).unwrap();
    assert_eq!(self_to_self.inode.change, done.inode.change);
}

#[test]
fn types_decide_what_may_replace_what() {
    let ns = fresh();
    let root = Cred::root();
    touch(&ns, &root, ROOT, "f", 0o644);
    let g = touch(&ns, &root, ROOT, "g", 0o644);
    let full = mkdir(&ns, ROOT, "full", 0o755);
    mkdir(&ns, ROOT, "empty", 0o755);
    let inner = mkdir(&ns, full, "inner", 0o755);
    let table = [
        ("f", "empty", NsError::IsDir),
        ("empty", "f", NsError::NotDir),
        ("empty", "full", NsError::NotEmpty),
        ("none", "f", NsError::NoEnt),
        ("f", "..", NsError::BadName),
        (".", "x", NsError::BadName),
    ];
    for (from, to, error) in table {
        let got = rename(&ns, &root, (ROOT, from), (ROOT, to));
        assert_eq!(got.unwrap_err(), error, "{from} to {to}");
    }
    let own = rename(&ns, &root, (ROOT, "full"), (inner, "x"));
    assert_eq!(own.unwrap_err(), NsError::Inval);
    let own = rename(&ns, &root, (ROOT, "full"), (full, "x"));
    assert_eq!(own.unwrap_err(), NsError::Inval);
    let done = rename(&ns, &root, (ROOT, "f"), (ROOT, "g")).unwrap();
    assert_eq!(done.replaced.map(|i| (i.id, i.nlink)), Some((g, 0)));
    rename(&ns, &root, (ROOT, "full"), (ROOT, "empty")).unwrap();
    assert!(ns.check().unwrap().is_clean());
    assert_eq!(attr(&ns, ROOT).nlink, 3);
}

#[test]
fn sticky_bits_and_write_permission_guard_every_name() {
    let ns = fresh();
    let tmp = mkdir(&ns, ROOT, "tmp", 0o1777);
    let mine = mkdir(&ns, ROOT, "mine", 0o777);
    touch(&ns, &user(1), tmp, "one", 0o666);
    touch(&ns, &user(2), tmp, "two", 0o666);
    let rn = |cred: &Cred, from, to| rename(&ns, cred, from, to).map(|_| ()).unwrap_err();
    assert_eq!(rn(&user(2), (tmp, "one"), (tmp, "x")), NsError::Perm);
    assert_eq!(rn(&user(2), (tmp, "two"), (tmp, "one")), NsError::Perm);
    assert_eq!(rn(&user(2), (tmp, "two"), (ROOT, "x")), NsError::Access);
    assert_eq!(rn(&user(2), (ROOT, "tmp"), (mine, "x")), NsError::Access);
    rename(&ns, &user(2), (tmp, "two"), (mine, "two")).unwrap();
    // A directory that changes its parent changes itself.
    let made = run(&user(1), 1, |op| {
        ns.mkdir(op, mine, b"d", &NewNode::mode(0o755))
    });
    let other = mkdir(&ns, ROOT, "other", 0o777);
    assert_eq!(rn(&user(2), (mine, "d"), (other, "d")), NsError::Access);
    rename(&ns, &user(2), (mine, "d"), (mine, "e")).unwrap();
    rename(&ns, &user(1), (mine, "e"), (other, "d")).unwrap();
    assert_eq!(attr(&ns, made.unwrap().inode.id).parent, other);
}

#[test]
fn links_are_counted_and_limited() {
    let limits = NamespaceLimits {
        link_count_max: 3,
        ..NamespaceLimits::default()
    };
    let store = std::sync::Arc::new(meta::MemStore::new());
    let (ns, _) = Namespace::open(store, FORMAT, at(0), limits).unwrap();
    let root = Cred::root();
    let f = touch(&ns, &root, ROOT, "f", 0o644);
    let link = |file, name: &[u8]| run(&root, 3, |op| ns.link(op, file, ROOT, name));
    let done = link(f, b"g").unwrap();
    assert_eq!(
        (done.inode.nlink, done.inode.ctime, done.inode.mtime),
        (2, at(3), at(1))
    );
    assert_eq!(done.dir.after, done.dir.before + 1);
    assert_eq!(link(f, b"g").unwrap_err(), NsError::Exist);
    link(f, b"h").unwrap();
    assert_eq!(link(f, b"i").unwrap_err(), NsError::MLink);
    assert_eq!(link(ROOT, b"i").unwrap_err(), NsError::IsDir);
    assert_eq!(link(FileId(999), b"i").unwrap_err(), NsError::Stale);
    mkdir(&ns, ROOT, "d", 0o755);
    let more = run(&root, 3, |op| {
        ns.mkdir(op, ROOT, b"e", &NewNode::mode(0o755))
    });
    assert_eq!(more.unwrap_err(), NsError::MLink);
    let denied = run(&user(1), 3, |op| ns.link(op, f, ROOT, b"z"));
    assert_eq!(denied.unwrap_err(), NsError::Access);
}
