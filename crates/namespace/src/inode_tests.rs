//! Goal: every stored form of an inode opens as what it was, and none of another form.

use crate::inode::Inode;
use crate::{
    Cred, DataName, FileId, ForeignTree, Format, LayoutPolicy, Namespace, NamespaceLimits, Op, Time,
};
use meta::MemStore;
use std::sync::Arc;

const FORMAT: Format = Format {
    cluster_id: 1,
    hash_key: [0; 16],
};

/// What few inodes have is stored after the rest, each part in a version of its own. What earlier programs wrote opens
/// as it is, and what they could have written is still written so.
#[test]
fn inodes_of_every_version_open_and_keep_their_form() {
    let store = Arc::new(MemStore::new());
    let (ns, _) =
        Namespace::open(store, FORMAT, Time::default(), NamespaceLimits::default()).unwrap();
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let plain = (*ns.getattr(&mut op, FileId::ROOT).unwrap()).clone();
    let body = xdr::encode_to_vec(&plain);
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|w| w.to_be_bytes())
            .collect::<Vec<u8>>()
    };
    let mut policy = plain.clone();
    let layout = Some(LayoutPolicy {
        stripe_unit: 65_536,
        stripe_count: 3,
        inline_max_bytes: None,
        copies: 0,
    });
    policy.extras.edit(|rare| rare.layout = layout);
    let mut marked = policy.clone();
    marked.extras.edit(|rare| {
        rare.marks.hidden = true;
        rare.marks.archived = Some(Time { secs: 5, nanos: 6 });
        rare.marks.backup = Time { secs: 7, nanos: 8 };
    });
    let mut limited = policy.clone();
    let layout = layout.map(|policy| LayoutPolicy {
        inline_max_bytes: Some(9),
        ..policy
    });
    limited.extras.edit(|rare| rare.layout = layout);
    let [named, foreign, made] = of_foreign_trees(&policy);
    let rare = [0, 0, 1, 65_536, 3, 0];
    let no_marks = [0; 6];
    let marks = [1, 0, 1, 0, 5, 6, 0, 7, 8];
    // Neither marks, nor a limit of inline files, nor copies.
    let unset = [&rare[..], &no_marks, &[u32::MAX, 0]].concat();
    for (version, inode, extras) in [
        (1, &plain, vec![]),
        (2, &policy, words(&rare)),
        (3, &marked, words(&[&rare[..], &marks].concat())),
        (4, &limited, words(&[&rare[..], &no_marks, &[9]].concat())),
        (5, &named, words(&[&unset[..], &[0, 8, 4]].concat())),
        (6, &foreign, words(&[&unset[..], &[0, 0, 0, 2]].concat())),
        (7, &made, words(&[&unset[..], &[0, 0, 0, 2, 1]].concat())),
    ] {
        let stored = [words(&[version]), body.clone(), extras].concat();
        assert_eq!(inode.to_stored(), stored, "version {version}");
        let id = FileId::ROOT;
        assert_eq!(&Inode::from_stored(id, &stored).unwrap(), inode);
        for other in 0..9 {
            let mut lies = stored.clone();
            lies[3] = other;
            let opened = Inode::from_stored(id, &lies);
            assert_eq!(opened.is_ok(), u32::from(other) == version, "{other}");
        }
        for at in 0..stored.len() {
            assert!(Inode::from_stored(id, &stored[..at]).is_err());
        }
    }
}

/// As `plain`: with objects of another name, in a foreign tree, and there with all objects made.
fn of_foreign_trees(plain: &Inode) -> [Inode; 3] {
    let mut named = plain.clone();
    named.extras.edit(|rare| {
        rare.data = Some(DataName {
            file: FileId(8),
            generation: 4,
        });
    });
    let of_tree = |has_objects| {
        let mut inode = plain.clone();
        let tree = ForeignTree {
            bad_mirrors: 2,
            has_objects,
        };
        inode.extras.edit(|rare| rare.foreign = Some(tree));
        inode
    };
    [named, of_tree(false), of_tree(true)]
}
