//! The names that may be there after a cut, by what was asked and what was answered.

use powercut::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Directories of one client.
pub(crate) const DIRS: u64 = 2;
/// Names in each.
const NAMES: u64 = 5;
/// The directory whose files are inline; those made in others lie on a data server.
pub(crate) const INLINE_DIR: usize = 0;
/// Longest write.
const WRITE_BYTES_MAX: u64 = 5000;

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) dir: usize,
    pub(crate) name: u64,
}

impl Place {
    fn any(dice: &mut Dice) -> Self {
        Self {
            dir: usize::try_from(dice.roll(DIRS)).unwrap(),
            name: dice.roll(NAMES),
        }
    }

    fn parse(text: &str) -> Self {
        let (dir, name) = text.split_once('/').unwrap();
        Self {
            dir: dir.parse().unwrap(),
            name: name.parse().unwrap(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dir, self.name)
    }
}

/// What a client asks for; always what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Makes a file; it stays open when it is not closed.
    Create {
        at: Place,
        closes: bool,
    },
    MakeDir(Place),
    Link(Place, Place),
    Rename(Place, Place),
    Remove(Place),
    /// Sets the permission bits.
    Mode(Place, u32),
    /// Writes so many times this byte at the start of an inline file.
    Write(Place, u8, usize),
    /// Sets the size of an inline file.
    Cut(Place, usize),
}

impl Act {
    pub(crate) fn any(dice: &mut Dice, tree: &Tree) -> Self {
        loop {
            let (at, other) = (Place::any(dice), Place::any(dice));
            let len = usize::try_from(dice.roll(WRITE_BYTES_MAX)).unwrap();
            let act = match dice.roll(18) {
                0..=3 => {
                    let closes = !dice.one_in(3);
                    Self::Create { at, closes }
                }
                4 => Self::MakeDir(at),
                5 => Self::Link(at, other),
                6..=8 => Self::Rename(at, other),
                9..=10 => Self::Remove(at),
                11..=15 => Self::Write(at, dice.roll(256).to_le_bytes()[0], len + 1),
                16 => Self::Cut(at, len),
                _ => Self::Mode(at, 0o600 + u32::try_from(dice.roll(0o100)).unwrap()),
            };
            if tree.admits(act) {
                return act;
            }
        }
    }

    fn parse(words: &[&str]) -> Self {
        let place = |at: usize| Place::parse(words[at]);
        match words[0] {
            "create" => Self::Create {
                at: place(1),
                closes: words[2] == "closes",
            },
            "mkdir" => Self::MakeDir(place(1)),
            "link" => Self::Link(place(1), place(2)),
            "rename" => Self::Rename(place(1), place(2)),
            "remove" => Self::Remove(place(1)),
            "mode" => Self::Mode(place(1), words[2].parse().unwrap()),
            "write" => {
                let (byte, len) = (words[2].parse().unwrap(), words[3].parse().unwrap());
                Self::Write(place(1), byte, len)
            }
            "cut" => Self::Cut(place(1), words[2].parse().unwrap()),
            other => panic!("{other}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { at, closes } => {
                write!(
                    f,
                    "create {at} {}",
                    if *closes { "closes" } else { "keeps" }
                )
            }
            Self::MakeDir(at) => write!(f, "mkdir {at}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Remove(at) => write!(f, "remove {at}"),
            Self::Mode(at, mode) => write!(f, "mode {at} {mode}"),
            Self::Write(at, byte, len) => write!(f, "write {at} {byte} {len}"),
            Self::Cut(at, len) => write!(f, "cut {at} {len}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    /// As the server said; `None` when it has not answered.
    file_id: Option<u64>,
    is_dir: bool,
    mode: u32,
    /// The bytes of an inline file.
    bytes: Option<Vec<u8>>,
}

/// The names of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    names: BTreeMap<Place, usize>,
    nodes: Vec<Node>,
}

/// What a name was seen to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) file_id: u64,
    pub(crate) is_dir: bool,
    pub(crate) mode: u32,
    pub(crate) links_count: u32,
}

/// What was seen of the names of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Links of its directories.
    pub(crate) dirs: Vec<u32>,
    pub(crate) names: BTreeMap<Place, Entry>,
    /// Bytes of inline files.
    pub(crate) bytes: BTreeMap<Place, Vec<u8>>,
}

impl Tree {
    fn node(&self, at: Place) -> Option<&Node> {
        self.names.get(&at).map(|node| &self.nodes[*node])
    }

    fn admits(&self, act: Act) -> bool {
        match act {
            Act::Create { at, .. } | Act::MakeDir(at) => self.node(at).is_none(),
            Act::Remove(at) | Act::Mode(at, _) => self.node(at).is_some(),
            Act::Write(at, ..) | Act::Cut(at, _) => {
                self.node(at).is_some_and(|node| node.bytes.is_some())
            }
            Act::Link(from, to) => {
                self.node(from).is_some_and(|node| !node.is_dir) && self.node(to).is_none()
            }
            Act::Rename(from, to) => match (self.names.get(&from), self.names.get(&to)) {
                (Some(from), Some(to)) => {
                    from != to && self.nodes[*from].is_dir == self.nodes[*to].is_dir
                }
                (Some(_), None) => true,
                (None, _) => false,
            },
        }
    }

    /// Does it; `file_id` is that of the file that it was done to.
    pub(crate) fn apply(&mut self, act: Act, file_id: Option<u64>) {
        let mut make = |at: Place, is_dir: bool, mode: u32| {
            let is_inline = !is_dir && at.dir == INLINE_DIR;
            self.names.insert(at, self.nodes.len());
            self.nodes.push(Node {
                file_id,
                is_dir,
                mode,
                bytes: is_inline.then(Vec::new),
            });
        };
        match act {
            Act::Create { at, .. } => make(at, false, 0o644),
            Act::MakeDir(at) => make(at, true, 0o755),
            Act::Link(from, to) => {
                let node = self.names[&from];
                self.names.insert(to, node);
            }
            Act::Rename(from, to) => {
                let node = self.names.remove(&from).unwrap();
                self.names.insert(to, node);
            }
            Act::Remove(at) => drop(self.names.remove(&at)),
            Act::Mode(at, mode) => {
                let node = self.names[&at];
                self.nodes[node].mode = mode;
            }
            Act::Write(at, byte, len) => {
                let bytes = self.bytes(at);
                bytes.resize(bytes.len().max(len), 0);
                bytes[..len].fill(byte);
            }
            Act::Cut(at, len) => self.bytes(at).resize(len, 0),
        }
    }

    fn bytes(&mut self, at: Place) -> &mut Vec<u8> {
        let node = self.names[&at];
        self.nodes[node].bytes.as_mut().unwrap()
    }

    /// What contradicts these names in what was seen.
    fn differs(&self, seen: &Seen) -> Option<String> {
        let mut links: BTreeMap<usize, u32> = BTreeMap::new();
        for node in self.names.values() {
            *links.entry(*node).or_default() += 1;
        }
        if !self.names.keys().eq(seen.names.keys()) {
            return Some("other names".into());
        }
        let mut ids: BTreeSet<(usize, u64)> = BTreeSet::new();
        for (at, entry) in &seen.names {
            let number = self.names[at];
            let node = &self.nodes[number];
            if node.bytes.as_ref() != seen.bytes.get(at) {
                return Some(format!("{at} has other bytes"));
            }
            let want = Entry {
                file_id: node.file_id.unwrap_or(entry.file_id),
                is_dir: node.is_dir,
                mode: node.mode,
                links_count: if node.is_dir { 2 } else { links[&number] },
            };
            if *entry != want {
                return Some(format!("{at} is {entry:?}, not {want:?}"));
            }
            ids.insert((number, entry.file_id));
        }
        let file_ids: BTreeSet<u64> = ids.iter().map(|(_, file_id)| *file_id).collect();
        if ids.len() != links.len() || file_ids.len() != links.len() {
            return Some(format!("names lead to other files: {ids:?}"));
        }
        let subdirs = |dir: usize| {
            let is_sub = |at: &&Place| at.dir == dir && self.node(**at).is_some_and(|n| n.is_dir);
            self.names.keys().filter(is_sub).count()
        };
        let wrong = seen
            .dirs
            .iter()
            .enumerate()
            .find(|(dir, links)| **links as usize != 2 + subdirs(*dir));
        wrong.map(|(dir, links)| format!("directory {dir} has {links} links"))
    }
}

impl Seen {
    /// As names to go on with.
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        let mut known = BTreeMap::new();
        for (at, entry) in &self.names {
            let node = *known.entry(entry.file_id).or_insert_with(|| {
                tree.nodes.push(Node {
                    file_id: Some(entry.file_id),
                    is_dir: entry.is_dir,
                    mode: entry.mode,
                    bytes: self.bytes.get(at).cloned(),
                });
                tree.nodes.len() - 1
            });
            tree.names.insert(*at, node);
        }
        tree
    }
}

/// What one client was promised.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfClient {
    has_dirs: bool,
    tree: Tree,
    under_way: Option<Act>,
}

impl OfClient {
    /// What is there is what was answered, with or without what was asked last.
    pub(crate) fn judge(&mut self, seen: Option<&Seen>, at: &str) {
        let Some(seen) = seen else {
            assert!(!self.has_dirs, "{at}: the directories are gone");
            *self = Self::default();
            return;
        };
        let mut wrong = self.tree.differs(seen);
        if let Some(act) = self.under_way.filter(|_| wrong.is_some()) {
            let mut after = self.tree.clone();
            after.apply(act, None);
            wrong = after.differs(seen).and(wrong);
        }
        let (tree, under_way) = (&self.tree, self.under_way);
        assert!(
            wrong.is_none(),
            "{at}: {wrong:?}; seen {seen:?}, promised {tree:?}, under way {under_way:?}"
        );
        *self = Self {
            has_dirs: true,
            tree: seen.tree(),
            under_way: None,
        };
    }
}

/// All that was asked and answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) clients: [OfClient; super::super::CLIENTS],
    pub(crate) answers: u64,
}

impl Model {
    /// A line of the workload.
    pub(crate) fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let of = &mut self.clients[words[0].parse::<usize>().unwrap()];
        match words[1..] {
            ["dirs"] => of.has_dirs = true,
            ["begins", ..] => of.under_way = Some(Act::parse(&words[2..])),
            ["ends", file_id] => {
                let act = of.under_way.take().unwrap();
                of.tree.apply(act, Some(file_id.parse().unwrap()));
                self.answers += 1;
            }
            _ => panic!("{line}"),
        }
    }
}
