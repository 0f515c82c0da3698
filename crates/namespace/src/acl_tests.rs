//! Goal: a list judges in order, and mode and list never contradict each other (RFC 8881 §6.2.1, §6.3.2, §6.4).
//! Method: the rules for any list and mode, and some cases by hand.

use super::*;
use crate::{Cred, Extras, FileId, FileType, Format, Inode, Namespace, NamespaceLimits, Op, Time};
use meta::MemStore;
use proptest::prelude::*;
use std::sync::Arc;

/// A file of user 1 and group 1.
fn file(mode: u32, acl: Option<Acl>, kind: FileType) -> Inode {
    let format = Format {
        cluster_id: 1,
        hash_key: [0; 16],
    };
    let store = Arc::new(MemStore::new());
    let (ns, _) =
        Namespace::open(store, format, Time::default(), NamespaceLimits::default()).unwrap();
    let root = Cred::root();
    let root = ns.getattr(&mut Op::new(&root, Time::default()), FileId::ROOT);
    let mut extras = Extras::default();
    extras.edit(|rare| rare.acl = acl);
    Inode {
        kind,
        mode,
        uid: 1,
        gid: 1,
        extras,
        ..(*root.unwrap()).clone()
    }
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        Just(Who::OWNER),
        Just(Who::GROUP),
        Just(Who::EVERYONE),
        (1..4_u32).prop_map(|id| Who {
            kind: WhoKind::User,
            id
        }),
        (1..4_u32).prop_map(|id| Who {
            kind: WhoKind::NamedGroup,
            id
        }),
    ]
}

fn acl() -> impl Strategy<Value = Acl> {
    let mask = prop_oneof![
        Just(READ),
        Just(WRITE | APPEND),
        Just(EXECUTE),
        0..0x1f_01ff_u32
    ];
    let ace = (any::<bool>(), 0..16_u32, mask, who());
    let ace = ace.prop_map(|(denies, flags, mask, who)| Ace {
        denies,
        flags,
        mask,
        who,
    });
    prop::collection::vec(ace, 0..8).prop_map(|aces| Acl {
        flags: 0,
        aces: List(aces),
    })
}

fn cred() -> impl Strategy<Value = Cred> {
    (1..5_u32, 1..5_u32, prop::collection::vec(1..5_u32, 0..3))
        .prop_map(|(uid, gid, groups)| Cred::user(uid, gid, groups))
}

const RWX: u32 = READ | WRITE | APPEND | EXECUTE;

proptest! {
    #[test]
    fn the_list_of_a_mode_says_what_the_mode_says(mode in 0..0o1000_u32, cred in cred(), is_dir: bool) {
        let kind = if is_dir { FileType::Directory } else { FileType::Regular };
        let list = Acl::of_mode(mode, is_dir);
        prop_assert_eq!(list.mode(), mode);
        prop_assert!(list.is_trivial());
        prop_assert_eq!(list.clone().unless_trivial(is_dir), None);
        let by_mode = cred.rights(&file(mode, None, kind));
        let by_list = cred.rights(&file(mode, Some(list), kind));
        prop_assert_eq!(by_mode, by_list);
    }

    #[test]
    fn after_a_chmod_the_mode_is_the_mode_and_limits_whoever_is_named(
        acl in acl(), mode in 0..0o1000_u32, cred in cred(), is_dir: bool,
    ) {
        let kind = if is_dir { FileType::Directory } else { FileType::Regular };
        let now = acl.with_mode(mode, is_dir).unwrap();
        if let Some(now) = &now {
            prop_assert_eq!(now.mode(), mode);
            prop_assert!(!now.is_trivial());
            for kind in [false, true] {
                let hands_down = |a: &Acl| a.inherited(kind).map(|a| a.aces.0.len());
                prop_assert_eq!(hands_down(now).is_some(), hands_down(&acl).is_some());
            }
            let twice = now.with_mode(mode, is_dir).unwrap();
            prop_assert_eq!(twice.as_ref(), Some(now), "twice is once");
        }
        let rights = cred.rights(&file(mode, now, kind)) & RWX;
        let class = if cred.uid == 1 { mode >> 6 } else { mode >> 3 & 7 | mode & 7 };
        prop_assert_eq!(rights & !mask_of(class & 7, is_dir), 0);
    }

    #[test]
    fn a_list_survives_its_stored_form(acl in acl()) {
        let inode = file(0o644, Some(acl), FileType::Regular);
        let stored = inode.to_stored();
        prop_assert_eq!(&Inode::from_stored(inode.id, &stored).unwrap(), &inode);
        for end in 0..stored.len() {
            let cut = Inode::from_stored(inode.id, &stored[..end]);
            prop_assert!(cut.is_err());
        }
    }
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

#[test]
fn the_first_entry_that_has_a_bit_decides_about_it() {
    use WhoKind::{Everyone, NamedGroup, User};
    let list = Acl {
        flags: 0,
        aces: List(vec![
            ace(true, 0, WRITE, User, 7),
            ace(false, 0, READ | WRITE, NamedGroup, 70),
            ace(false, INHERIT_ONLY | FILE_INHERIT, EXECUTE, Everyone, 0),
            ace(false, 0, READ, Everyone, 0),
        ]),
    };
    let inode = file(0, Some(list), FileType::Regular);
    let rights = |cred: Cred| cred.rights(&inode) & RWX;
    assert_eq!(rights(Cred::user(7, 70, vec![])), READ);
    assert_eq!(rights(Cred::user(8, 8, vec![70])), READ | WRITE);
    assert_eq!(rights(Cred::user(8, 8, vec![])), READ);
    let root = Cred::root().rights(&inode);
    assert_eq!(
        root & EXECUTE,
        0,
        "an entry for others to inherit lets nobody execute"
    );
    assert_eq!(Cred::user(1, 1, vec![]).rights(&inode) & OF_OWNER, OF_OWNER);
}

#[test]
fn files_and_directories_inherit_what_their_flags_say() {
    use WhoKind::User;
    let flags = [
        0,
        FILE_INHERIT,
        DIRECTORY_INHERIT,
        FILE_INHERIT | DIRECTORY_INHERIT,
        FILE_INHERIT | DIRECTORY_INHERIT | INHERIT_ONLY,
        FILE_INHERIT | DIRECTORY_INHERIT | NO_PROPAGATE_INHERIT,
        FILE_INHERIT | NO_PROPAGATE_INHERIT,
    ];
    let aces = flags
        .iter()
        .zip(1..)
        .map(|(f, id)| ace(false, *f, READ, User, id));
    let list = Acl {
        flags: AUTO_INHERIT | PROTECTED,
        aces: List(aces.collect()),
    };
    let got = |is_dir| {
        let acl = list.inherited(is_dir).unwrap();
        assert_eq!(acl.flags, AUTO_INHERIT);
        let aces = acl.aces.0.iter().map(|a| (a.who.id, a.flags & !INHERITED));
        aces.collect::<Vec<_>>()
    };
    assert_eq!(got(false), [(2, 0), (4, 0), (5, 0), (6, 0), (7, 0)]);
    let both = FILE_INHERIT | DIRECTORY_INHERIT;
    assert_eq!(
        got(true),
        [
            (2, FILE_INHERIT | INHERIT_ONLY),
            (3, DIRECTORY_INHERIT),
            (4, both),
            (5, both),
            (6, 0)
        ]
    );
    assert_eq!(Acl::of_mode(0o777, true).inherited(true), None);
}
