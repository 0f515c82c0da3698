//! Goal: whatever is asked in whatever order, results, attributes and listings are those of a plain tree. What was
//! acknowledged survives a crash. The checker finds nothing. No read passes off an undurable state as durable (R7).
//! Method: random operations by root and two users against a naive model. Caches are so small that they evict all the
//! time, and nearly all names share hash buckets.

use crate::*;
use meta::{MemStore, MetaStore, Seq};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const FORMAT: Format = Format {
    cluster_id: 3,
    hash_key: [9; 16],
};
const TINY: NamespaceLimits = NamespaceLimits {
    inode_cache_entries_max: 1,
    entry_cache_entries_max: 1,
    link_count_max: 5,
};

#[derive(Debug, Clone)]
enum Act {
    Create(usize, usize, u32),
    Mkdir(usize, usize, u32),
    Symlink(usize, usize),
    Link(usize, usize, usize),
    Remove(usize, usize, bool),
    Rename((usize, usize), (usize, usize), bool),
    Chmod(usize, u32),
    Chown(usize, u32),
    Close(usize),
    Commit(usize, u64),
    SetXattr(usize, usize, u8),
    RemoveXattr(usize, usize),
    Sync,
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    let (d, n) = (0..12_usize, 0..6_usize);
    let mode = prop_oneof![
        Just(0o777),
        Just(0o755),
        Just(0o700),
        Just(0o1777),
        Just(0o2771)
    ];
    let place = (d.clone(), n.clone());
    prop_oneof![
        6 => (d.clone(), n.clone(), mode.clone()).prop_map(|(d, n, m)| Act::Create(d, n, m)),
        6 => (d.clone(), n.clone(), mode.clone()).prop_map(|(d, n, m)| Act::Mkdir(d, n, m)),
        2 => place.clone().prop_map(|(d, n)| Act::Symlink(d, n)),
        3 => (d.clone(), d.clone(), n.clone()).prop_map(|(f, d, n)| Act::Link(f, d, n)),
        6 => (d.clone(), n, any::<bool>()).prop_map(|(d, n, o)| Act::Remove(d, n, o)),
        8 => (place.clone(), place, any::<bool>()).prop_map(|(a, b, o)| Act::Rename(a, b, o)),
        2 => (d.clone(), mode).prop_map(|(d, m)| Act::Chmod(d, m)),
        1 => (d.clone(), 0..3_u32).prop_map(|(d, u)| Act::Chown(d, u)),
        2 => d.clone().prop_map(Act::Close),
        4 => (d.clone(), 0..6_usize, any::<u8>()).prop_map(|(d, n, v)| Act::SetXattr(d, n, v)),
        2 => (d.clone(), 0..6_usize).prop_map(|(d, n)| Act::RemoveXattr(d, n)),
        2 => (d, 0..100_u64).prop_map(|(d, s)| Act::Commit(d, s)),
        2 => Just(Act::Sync),
        1 => Just(Act::Crash),
    ]
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    kind: FileType,
    mode: u32,
    uid: u32,
    gid: u32,
    nlink: u32,
    size: u64,
    orphan: bool,
    parent: FileId,
    names: BTreeMap<Vec<u8>, FileId>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Node {
    /// A symbolic link keeps its own.
    fn set_mode(&mut self, mode: u32) {
        if self.kind != FileType::Symlink {
            self.mode = mode;
        }
    }
}

/// A tree without any cleverness. Keyed by the numbers that the name space chose.
#[derive(Debug, Clone)]
struct Model {
    nodes: BTreeMap<FileId, Node>,
    /// Every number that ever was, so that acts also hit what is gone.
    ids: Vec<FileId>,
}

type Verdict<T> = Result<T, NsError>;

impl Model {
    fn new() -> Self {
        let root = Node {
            kind: FileType::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            size: 0,
            orphan: false,
            parent: FileId::ROOT,
            names: BTreeMap::new(),
            xattrs: BTreeMap::new(),
        };
        Self {
            nodes: BTreeMap::from([(FileId::ROOT, root)]),
            ids: vec![FileId::ROOT],
        }
    }

    fn id(&self, pick: usize) -> FileId {
        self.ids[pick % self.ids.len()]
    }

    fn allows(&self, who: u32, id: FileId, want: u32) -> bool {
        let n = &self.nodes[&id];
        let bits = match who {
            0 => 7,
            w if w == n.uid => n.mode >> 6,
            w if w == n.gid => n.mode >> 3,
            _ => n.mode,
        };
        let has = |right, bit| want & right == 0 || bits & bit != 0;
        has(READ, 4) && has(WRITE, 2) && has(EXECUTE, 1)
    }

    fn dir(&self, who: u32, id: FileId, want: u32) -> Verdict<&Node> {
        let node = self.nodes.get(&id).ok_or(NsError::Stale)?;
        if node.kind != FileType::Directory {
            return Err(NsError::NotDir);
        }
        if self.allows(who, id, want) {
            Ok(node)
        } else {
            Err(NsError::Access)
        }
    }

    /// Whether the name can be made: `Ok(Some)` is what exists.
    fn may_make(
        &self,
        who: u32,
        dir: FileId,
        name: &[u8],
        is_dir: bool,
    ) -> Verdict<Option<FileId>> {
        if let Some(old) = self.dir(who, dir, EXECUTE)?.names.get(name) {
            return Ok(Some(*old));
        }
        let parent = self.dir(who, dir, WRITE | EXECUTE)?;
        if is_dir && parent.nlink >= TINY.link_count_max {
            return Err(NsError::MLink);
        }
        Ok(None)
    }

    fn make(&mut self, who: u32, dir: FileId, name: &[u8], id: FileId, kind: FileType, mode: u32) {
        let parent = self.nodes.get_mut(&dir).unwrap();
        let is_dir = kind == FileType::Directory;
        parent.names.insert(name.to_vec(), id);
        parent.size += 1;
        parent.nlink += u32::from(is_dir);
        let setgid = parent.mode & 0o2000;
        let gid = if setgid != 0 { parent.gid } else { who };
        let mut mode = mode;
        if is_dir {
            mode |= setgid;
        } else if who != 0 && who != gid && mode & 0o10 != 0 {
            mode &= !0o2000;
        }
        let node = Node {
            kind,
            mode,
            uid: who,
            gid,
            nlink: if is_dir { 2 } else { 1 },
            size: if kind == FileType::Symlink { 6 } else { 0 },
            orphan: false,
            parent: dir,
            names: BTreeMap::new(),
            xattrs: BTreeMap::new(),
        };
        self.nodes.insert(id, node);
        self.ids.push(id);
    }

    /// Sets or removes; whether anything changed.
    fn xattr(
        &mut self,
        who: u32,
        id: FileId,
        name: &[u8],
        value: Option<Vec<u8>>,
    ) -> Verdict<bool> {
        let node = self.nodes.get(&id).ok_or(NsError::Stale)?;
        if node.kind == FileType::Symlink {
            return Err(NsError::Perm);
        }
        if !self.allows(who, id, WRITE) {
            return Err(NsError::Access);
        }
        let is_dir = node.kind == FileType::Directory;
        if is_dir && node.mode & 0o1000 != 0 && who != 0 && who != node.uid {
            return Err(NsError::Perm);
        }
        let xattrs = &mut self.nodes.get_mut(&id).unwrap().xattrs;
        match value {
            Some(value) => Ok(xattrs.insert(name.to_vec(), value.clone()) != Some(value)),
            None => xattrs.remove(name).map(|_| true).ok_or(NsError::NoXattr),
        }
    }

    fn may_take(&self, who: u32, dir: FileId, id: FileId) -> Verdict<()> {
        self.dir(who, dir, WRITE | EXECUTE)?;
        let (d, n) = (&self.nodes[&dir], &self.nodes[&id]);
        if d.mode & 0o1000 != 0 && who != 0 && who != d.uid && who != n.uid {
            return Err(NsError::Perm);
        }
        Ok(())
    }

    fn drop_name(&mut self, id: FileId, open: bool) {
        let node = self.nodes.get_mut(&id).unwrap();
        let is_dir = node.kind == FileType::Directory;
        node.nlink = if is_dir { 0 } else { node.nlink - 1 };
        if node.nlink == 0 {
            node.orphan = open && node.kind == FileType::Regular;
            if !node.orphan {
                self.nodes.remove(&id);
            }
        }
    }

    fn remove(&mut self, who: u32, dir: FileId, name: &[u8], open: bool) -> Verdict<()> {
        let entry = self.dir(who, dir, EXECUTE)?.names.get(name).copied();
        let id = entry.ok_or(NsError::NoEnt)?;
        self.may_take(who, dir, id)?;
        if !self.nodes[&id].names.is_empty() {
            return Err(NsError::NotEmpty);
        }
        let is_dir = self.nodes[&id].kind == FileType::Directory;
        self.drop_name(id, open);
        let parent = self.nodes.get_mut(&dir).unwrap();
        parent.names.remove(name);
        parent.size -= 1;
        parent.nlink -= u32::from(is_dir);
        Ok(())
    }

    fn rename(
        &mut self,
        who: u32,
        (from, a): (FileId, &[u8]),
        (to, b): (FileId, &[u8]),
        open: bool,
    ) -> Verdict<()> {
        self.dir(who, from, EXECUTE)?;
        let target = self.dir(who, to, EXECUTE)?.names.get(b).copied();
        let source = *self.nodes[&from].names.get(a).ok_or(NsError::NoEnt)?;
        if target == Some(source) {
            return Ok(());
        }
        self.may_take(who, from, source)?;
        self.dir(who, to, WRITE | EXECUTE)?;
        let is_dir = self.nodes[&source].kind == FileType::Directory;
        if is_dir && from != to && !self.allows(who, source, WRITE) {
            return Err(NsError::Access);
        }
        if let Some(target) = target {
            self.may_take(who, to, target)?;
            let target = &self.nodes[&target];
            match (is_dir, target.kind == FileType::Directory) {
                (true, false) => return Err(NsError::NotDir),
                (false, true) => return Err(NsError::IsDir),
                _ if !target.names.is_empty() => return Err(NsError::NotEmpty),
                _ => {}
            }
        }
        if is_dir && from != to {
            if target.is_none() && self.nodes[&to].nlink >= TINY.link_count_max {
                return Err(NsError::MLink);
            }
            let mut at = to;
            while at != FileId::ROOT {
                if at == source {
                    return Err(NsError::Inval);
                }
                at = self.nodes[&at].parent;
            }
        }
        if let Some(target) = target {
            self.drop_name(target, open);
            let dir = self.nodes.get_mut(&to).unwrap();
            dir.names.remove(b);
            dir.size -= 1;
            dir.nlink -= u32::from(is_dir);
        }
        let dir = self.nodes.get_mut(&from).unwrap();
        dir.names.remove(a);
        dir.size -= 1;
        dir.nlink -= u32::from(is_dir);
        let dir = self.nodes.get_mut(&to).unwrap();
        dir.names.insert(b.to_vec(), source);
        dir.size += 1;
        dir.nlink += u32::from(is_dir);
        self.nodes.get_mut(&source).unwrap().parent = to;
        Ok(())
    }
}

fn open(store: &Arc<MemStore>) -> Namespace {
    let store: Arc<dyn MetaStore> = store.clone();
    let (mut ns, _) = Namespace::open(store, FORMAT, Time::default(), TINY).unwrap();
    ns.hash_mask = 1;
    ns
}

struct World {
    store: Arc<MemStore>,
    ns: Namespace,
    model: Model,
    synced: Model,
    /// The newest transaction that may have changed each inode, and its change counter then.
    newest: BTreeMap<FileId, Seq>,
    changes: BTreeMap<FileId, u64>,
    now: i64,
}

fn cred(who: u32) -> Cred {
    if who == 0 {
        Cred::root()
    } else {
        Cred::user(who, who, vec![])
    }
}

impl World {
    fn new() -> Self {
        let store = Arc::new(MemStore::manual());
        let ns = open(&store);
        store.sync();
        Self {
            store,
            ns,
            model: Model::new(),
            synced: Model::new(),
            newest: BTreeMap::new(),
            changes: BTreeMap::new(),
            now: 0,
        }
    }

    fn call<T>(
        &mut self,
        who: u32,
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Verdict<T>,
    ) -> Verdict<T> {
        self.now += 1;
        let cred = cred(who);
        let now = Time {
            secs: self.now,
            nanos: 0,
        };
        let mut op = Op::new(&cred, now);
        let result = call(&self.ns, &mut op);
        assert!(op.observed() <= self.store.applied());
        result
    }

    fn step(&mut self, who: u32, act: &Act) {
        let name = |n: usize| vec![b'a' + u8::try_from(n).unwrap()];
        match *act {
            Act::Create(d, n, mode) => self.make(who, d, &name(n), FileType::Regular, mode),
            Act::Mkdir(d, n, mode) => self.make(who, d, &name(n), FileType::Directory, mode),
            Act::Symlink(d, n) => self.make(who, d, &name(n), FileType::Symlink, 0o777),
            Act::Link(f, d, n) => self.link(who, f, d, &name(n)),
            Act::Remove(d, n, open) => {
                let (dir, n) = (self.model.id(d), name(n));
                let got = self.call(who, |ns, op| ns.remove(op, dir, &n, What::Any, &|_| open));
                let want = self.model.remove(who, dir, &n, open);
                assert_eq!(got.map(|_| ()), want);
            }
            Act::Rename((d, n), (e, m), open) => {
                let (from, to) = (self.model.id(d), self.model.id(e));
                let (a, b) = (name(n), name(m));
                let got = self.call(who, |ns, op| ns.rename(op, (from, &a), (to, &b), &|_| open));
                let want = self.model.rename(who, (from, &a), (to, &b), open);
                assert_eq!(got.map(|_| ()), want);
            }
            Act::Chmod(f, mode) => self.chmod(who, f, mode),
            Act::Chown(f, uid) => {
                let id = self.model.id(f);
                let attrs = SetAttr {
                    uid: Some(uid),
                    gid: Some(uid),
                    mode: Some(0o755),
                    ..SetAttr::default()
                };
                let got = self.call(0, |ns, op| ns.setattr(op, id, &attrs, false));
                let node = self.model.nodes.get_mut(&id);
                assert_eq!(got.is_ok(), node.is_some());
                if let Some(node) = node {
                    (node.uid, node.gid) = (uid, uid);
                    node.set_mode(0o755);
                }
            }
            Act::Close(f) => {
                let id = self.model.id(f);
                let got = self.call(0, |ns, op| ns.orphan_closed(op, id)).unwrap();
                let orphan = self.model.nodes.get(&id).is_some_and(|n| n.orphan);
                assert_eq!(got, orphan);
                if orphan {
                    self.model.nodes.remove(&id);
                }
            }
            Act::Commit(f, end) => self.commit(f, end),
            Act::SetXattr(f, n, value) => {
                let value = vec![value; usize::from(value)];
                self.xattr(who, f, &name(n), Some(value));
            }
            Act::RemoveXattr(f, n) => self.xattr(who, f, &name(n), None),
            Act::Sync => {
                self.store.sync();
                self.synced = self.model.clone();
            }
            Act::Crash => self.crash(),
        }
    }

    fn make(&mut self, who: u32, d: usize, name: &[u8], kind: FileType, mode: u32) {
        let dir = self.model.id(d);
        let new = NewNode::mode(mode);
        let place = Some(Placement {
            group: 1,
            stripe_unit: 1,
            first_index: 0,
        });
        let got = self.call(who, |ns, op| match kind {
            FileType::Regular => ns.create(op, dir, name, &new, How::Unchecked, place),
            FileType::Directory => ns.mkdir(op, dir, name, &new),
            _ => ns.symlink(op, dir, name, b"target", &new),
        });
        let want = self
            .model
            .may_make(who, dir, name, kind == FileType::Directory);
        match (got, want) {
            (Ok(made), Ok(None)) => {
                assert_eq!(made.existing, Existing::No);
                assert_eq!(made.dir.after, made.dir.before + 1);
                self.model.make(who, dir, name, made.inode.id, kind, mode);
            }
            (Ok(made), Ok(Some(old))) => {
                assert_eq!((made.existing, kind), (Existing::Yes, FileType::Regular));
                assert_eq!(made.inode.id, old);
            }
            (Err(NsError::Exist), Ok(Some(_))) => assert_ne!(kind, FileType::Regular),
            (got, want) => assert_eq!(got.unwrap_err(), want.unwrap_err()),
        }
    }

    fn link(&mut self, who: u32, f: usize, d: usize, name: &[u8]) {
        let (file, dir) = (self.model.id(f), self.model.id(d));
        let got = self.call(who, |ns, op| ns.link(op, file, dir, name));
        let want = (|| {
            let node = self.model.nodes.get(&file).ok_or(NsError::Stale)?;
            if self.model.dir(who, dir, EXECUTE)?.names.contains_key(name) {
                return Err(NsError::Exist);
            }
            if node.kind == FileType::Directory {
                return Err(NsError::IsDir);
            }
            self.model.dir(who, dir, WRITE)?;
            match node.nlink {
                0 => Err(NsError::NoEnt),
                n if n >= TINY.link_count_max => Err(NsError::MLink),
                _ => Ok(()),
            }
        })();
        if want.is_ok() {
            self.model.nodes.get_mut(&file).unwrap().nlink += 1;
            let parent = self.model.nodes.get_mut(&dir).unwrap();
            parent.names.insert(name.to_vec(), file);
            parent.size += 1;
        }
        assert_eq!(got.map(|_| ()), want);
    }

    fn chmod(&mut self, who: u32, f: usize, mode: u32) {
        let id = self.model.id(f);
        let attrs = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let got = self.call(who, |ns, op| ns.setattr(op, id, &attrs, false));
        let want = match self.model.nodes.get_mut(&id) {
            None => Err(NsError::Stale),
            Some(node) if who != 0 && who != node.uid => Err(NsError::Perm),
            Some(node) => {
                let foreign = who != 0 && who != node.gid;
                node.set_mode(if foreign { mode & !0o2000 } else { mode });
                Ok(())
            }
        };
        assert_eq!(got.map(|_| ()), want);
    }

    fn commit(&mut self, f: usize, end: u64) {
        let id = self.model.id(f);
        let commit = SizeCommit {
            new_end: Some(end),
            ..SizeCommit::default()
        };
        let got = self.call(0, |ns, op| ns.commit_size(op, id, commit));
        let want = match self.model.nodes.get_mut(&id) {
            None => Err(NsError::Stale),
            Some(node) if node.kind == FileType::Regular => {
                node.size = node.size.max(end);
                Ok(())
            }
            Some(_) => Err(NsError::Inval),
        };
        assert_eq!(got.map(|_| ()), want);
    }

    fn xattr(&mut self, who: u32, f: usize, name: &[u8], value: Option<Vec<u8>>) {
        let id = self.model.id(f);
        let got = self.call(who, |ns, op| match &value {
            Some(value) => ns.set_xattr(op, id, name, value, SetXattr::Either),
            None => ns.remove_xattr(op, id, name),
        });
        let want = self.model.xattr(who, id, name, value);
        assert_eq!(got.map(|c| c.before != c.after), want);
    }

    /// What listing and reading show.
    fn xattrs(&self, file: FileId) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let cred = Cred::root();
        let mut op = Op::new(&cred, Time::default());
        let (mut all, mut cookie) = (BTreeMap::new(), 0);
        loop {
            let page = self.ns.list_xattrs(&mut op, file, cookie, 16).unwrap();
            for (at, name) in page.names {
                assert!(at > cookie && at >= COOKIE_FIRST);
                cookie = at;
                let value = self.ns.xattr(&mut op, file, &name).unwrap();
                assert_eq!(all.insert(name, value), None);
            }
            if page.eof {
                return all;
            }
        }
    }

    fn crash(&mut self) {
        self.store = Arc::new(self.store.after_crash());
        self.ns = open(&self.store);
        self.store.sync();
        self.model = self.synced.clone();
        self.newest.clear();
        self.changes.clear();
    }

    /// Everything against the model, and what each read observed.
    fn compare(&mut self) {
        for id in self.model.ids.clone() {
            let cred = Cred::root();
            let mut op = Op::new(&cred, Time::default());
            let got = self.ns.getattr(&mut op, id);
            let Some(node) = self.model.nodes.get(&id) else {
                assert_eq!(got, Err(NsError::Stale));
                continue;
            };
            let got = got.unwrap();
            let seen = (got.kind, got.mode, got.uid, got.gid, got.nlink, got.size);
            let want = (
                node.kind, node.mode, node.uid, node.gid, node.nlink, node.size,
            );
            assert_eq!(seen, want, "inode {}", id.0);
            let change = self.changes.insert(id, got.change);
            if change.is_some_and(|c| c != got.change) {
                assert!(change < Some(got.change));
                self.newest.insert(id, self.store.applied());
            } else if change.is_none() && self.store.applied() > self.store.durable_through() {
                // Never looked at since the crash: made or changed by the last act, or long ago.
                self.newest.entry(id).or_insert(op.observed());
            }
            assert!(op.observed() >= self.newest.get(&id).copied().unwrap_or_default());
            assert_eq!(self.xattrs(id), node.xattrs);
            if node.kind == FileType::Directory {
                assert_eq!(self.listing(id), node.names);
                let parent = self.ns.lookup_parent(&mut op, id).map(|p| p.id);
                let want = (id != FileId::ROOT).then_some(node.parent);
                assert_eq!(parent.ok(), want);
            }
        }
    }

    fn listing(&self, dir: FileId) -> BTreeMap<Vec<u8>, FileId> {
        let cred = Cred::root();
        let mut op = Op::new(&cred, Time::default());
        let (mut names, mut cookie) = (BTreeMap::new(), 0);
        loop {
            let page = ReadDirRequest {
                cookie,
                entries_max: 2,
                name_bytes_max: 1000,
                with_inodes: true,
            };
            let page = self.ns.readdir(&mut op, dir, page).unwrap();
            for entry in page.entries {
                assert!(entry.cookie > cookie && entry.cookie > 2);
                cookie = entry.cookie;
                assert_eq!(entry.inode.unwrap().id, entry.file);
                let found = self.ns.lookup(&mut op, dir, &entry.name).unwrap();
                assert_eq!((found.id, found.kind), (entry.file, entry.kind));
                assert_eq!(names.insert(entry.name.to_vec(), entry.file), None);
            }
            if page.eof {
                return names;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_that_of_a_plain_tree(acts in prop::collection::vec((0..3_u32, act()), 1..120)) {
        let mut world = World::new();
        for (who, act) in acts {
            world.step(who, &act);
            world.compare();
        }
        let report = world.ns.check().unwrap();
        prop_assert!(report.is_clean(), "{report:?}");
        prop_assert_eq!(report.inodes, world.ns.statistics().files);
        prop_assert_eq!(report.inodes, world.model.nodes.len() as u64);
    }
}

#[test]
fn the_checker_sees_what_is_wrong() {
    type Damage<'d> = (&'d str, &'d dyn Fn(&MemStore));
    let damage: [Damage<'_>; 9] = [
        ("which is not", &|s| {
            delete(s, &keys::numbered(keys::INODE, 3));
        }),
        ("nlink", &|s| edit(s, 3, |i| i.nlink = 2)),
        ("nlink", &|s| edit(s, 1, |i| i.nlink = 9)),
        ("size", &|s| edit(s, 1, |i| i.size = 9)),
        ("parent", &|s| edit(s, 2, |i| i.parent = FileId(2))),
        ("extended attributes", &|s| {
            edit(s, 3, |i| i.extras.edit(|r| r.xattrs.bytes = 9));
        }),
        ("attribute of inode 9", &|s| {
            let stored = b"\0\0\0\x01a\0\0\0\0\0\0\0";
            put(s, &keys::xattr(FileId(9), 300), stored);
        }),
        ("no regular file", &|s| {
            put(s, &keys::numbered(keys::ORPHAN, 77), &[]);
        }),
        ("truncated", &|s| {
            put(s, &keys::numbered(keys::INODE, 3), &[0, 0, 0, 1]);
        }),
    ];
    for (text, damage) in damage {
        let store = Arc::new(MemStore::new());
        let (ns, _) = Namespace::open(store.clone(), FORMAT, Time::default(), TINY).unwrap();
        let cred = Cred::root();
        let mut op = Op::new(&cred, Time::default());
        let new = NewNode::mode(0o755);
        let dir = ns.mkdir(&mut op, FileId::ROOT, b"d", &new).unwrap();
        assert_eq!(dir.inode.id, FileId(2));
        ns.create(&mut op, FileId(2), b"f", &new, How::Guarded, None)
            .unwrap();
        assert!(check(&*store).unwrap().is_clean());
        damage(&store);
        let report = check(&*store).unwrap();
        assert!(
            report.problems.iter().any(|p| p.contains(text)),
            "{text}: {report:?}"
        );
    }
}

fn put(store: &MemStore, key: &[u8], value: &[u8]) {
    let body = &mut |tx: &mut dyn meta::Tx| {
        tx.put(key, value);
        Ok(meta::TxOutcome::Commit)
    };
    store.transact(body).unwrap();
}

fn delete(store: &MemStore, key: &[u8]) {
    let body = &mut |tx: &mut dyn meta::Tx| {
        tx.delete(key);
        Ok(meta::TxOutcome::Commit)
    };
    store.transact(body).unwrap();
}

fn edit(store: &MemStore, id: u64, change: impl Fn(&mut Inode)) {
    use meta::Read;
    let key = keys::numbered(keys::INODE, id);
    let stored = store.get(&key).unwrap().unwrap();
    let mut inode = Inode::from_stored(FileId(id), &stored).unwrap();
    change(&mut inode);
    put(store, &key, &inode.to_stored());
}

#[test]
fn damaged_values_are_corrupt_and_never_panic() {
    let store = Arc::new(MemStore::new());
    let ns = Namespace::open(store.clone(), FORMAT, Time::default(), TINY);
    drop(ns.unwrap());
    use meta::Read;
    let key = keys::numbered(keys::INODE, 1);
    let good = store.get(&key).unwrap().unwrap();
    for at in 0..good.len() {
        assert!(Inode::from_stored(FileId::ROOT, &good[..at]).is_err());
        let mut bad = good.to_vec();
        bad[at] ^= 0x80;
        put(&store, &key, &bad);
        let (ns, _) = Namespace::open(store.clone(), FORMAT, Time::default(), TINY).unwrap();
        let cred = Cred::root();
        let mut op = Op::new(&cred, Time::default());
        let _ = ns.getattr(&mut op, FileId::ROOT);
        let _ = ns.mkdir(&mut op, FileId::ROOT, b"d", &NewNode::mode(0o755));
        put(&store, &key, &good);
    }
    put(&store, keys::SUPER_IDENTITY, &[0, 0, 0, 9]);
    let opened = Namespace::open(store, FORMAT, Time::default(), TINY);
    assert!(matches!(
        opened,
        Err(NsError::Store(meta::MetaError::Corrupt(_)))
    ));
}
