//! Goal: a directory's layout policy is set by its owner, handed down to directories and inline files and to nothing else, and kept.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::common::*;
use meta::MemStore;
use ropewalk_namespace::*;
use std::sync::Arc;

const POLICY: LayoutPolicy = LayoutPolicy {
    stripe_unit: 1 << 16,
    stripe_count: 2,
    inline_max_bytes: Some(4096),
    copies: 0,
};

fn policy(ns: &Namespace, file: FileId) -> Option<LayoutPolicy> {
    let inode = run(&Cred::root(), 1, |op| ns.getattr(op, file)).unwrap();
    inode.layout_policy()
}

#[test]
fn the_owner_sets_it_and_directories_made_below_have_it_too() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let dir = mkdir(&ns, FileId::ROOT, "d", 0o777);
    let before = mkdir(&ns, dir, "before", 0o755);
    let set = |cred: &Cred, file, policy| {
        let set = run(cred, 7, |op| ns.set_layout_policy(op, file, policy, None));
        set.map(|c| c.after - c.before)
    };
    assert_eq!(set(&user(1), dir, Some(POLICY)), Err(NsError::Perm));
    assert_eq!(set(&Cred::root(), dir, Some(POLICY)), Ok(1));
    assert_eq!(set(&Cred::root(), dir, Some(POLICY)), Ok(0), "as it was");
    let below = mkdir(&ns, dir, "below", 0o755);
    let deeper = mkdir(&ns, below, "deeper", 0o755);
    let file = touch(&ns, &user(1), dir, "f", 0o644);
    assert_eq!(set(&Cred::root(), file, Some(POLICY)), Err(NsError::NotDir));
    assert_eq!(set(&Cred::root(), below, None), Ok(1));
    let inline = create_inline(&ns, &user(1), dir, "small");
    assert_eq!(policy(&ns, inline), Some(POLICY), "until it has a place");
    let placed = run(&user(1), 1, |op| ns.place_unheard(op, inline, PLACEMENT)).unwrap();
    assert_eq!(placed.layout_policy(), None);
    let ns = open(store);
    let all = [dir, before, below, deeper, file].map(|id| policy(&ns, id));
    assert_eq!(all, [Some(POLICY), None, None, Some(POLICY), None]);
    assert!(ns.check().unwrap().is_clean());
}
