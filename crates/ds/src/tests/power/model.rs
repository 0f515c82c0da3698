//! What may be there after a cut, by what was asked and what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use powercut::Dice;

/// Longest object.
const BYTES_MAX: u64 = 6000;

/// A file, and one life of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) file_id: u64,
    pub(super) generation: u32,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} {}", self.file_id, self.generation)
    }
}

/// What a client or the MDS asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Write {
        offset: u64,
        len: u64,
        fill: u8,
        /// As stable_how4.
        stable: u64,
    },
    Commit,
    Cut {
        size_bytes: u64,
        epoch: u32,
    },
    Fence {
        epoch: u32,
    },
    /// What is below a generation goes.
    Remove {
        generation: u32,
        epoch: u32,
    },
    Punch {
        start: u64,
        end: u64,
        durable: bool,
    },
    Reserve {
        start: u64,
        end: u64,
    },
    Create,
}

impl Act {
    pub(super) fn any(dice: &mut Dice, generation: u32, epoch: u32) -> Self {
        let epoch = epoch + 1;
        match dice.roll(17) {
            0..=6 => Self::Write {
                offset: dice.roll(BYTES_MAX / 2),
                len: 1 + dice.roll(BYTES_MAX / 2),
                fill: dice.roll(255).to_le_bytes()[0] + 1,
                stable: dice.roll(6).saturating_sub(3),
            },
            7..=8 => Self::Commit,
            9 => Self::Cut {
                size_bytes: dice.roll(BYTES_MAX),
                epoch,
            },
            10 => Self::Fence { epoch },
            11 => Self::Remove {
                generation: generation + 1,
                epoch,
            },
            12..=13 => {
                let start = dice.roll(BYTES_MAX);
                Self::Punch {
                    start,
                    end: start + 1 + dice.roll(BYTES_MAX),
                    durable: dice.one_in(2),
                }
            }
            14..=15 => {
                // Mostly after the end: there the storage is seen.
                let start = dice.roll(4 * BYTES_MAX);
                let end = start + 1 + dice.roll(4 * BYTES_MAX);
                Self::Reserve { start, end }
            }
            _ => Self::Create,
        }
    }

    fn parse(words: &[&str]) -> Self {
        let number = |at: usize| -> u64 { words[at].parse().unwrap() };
        let small = |at: usize| u32::try_from(number(at)).unwrap();
        match words[0] {
            "write" => Self::Write {
                offset: number(1),
                len: number(2),
                fill: u8::try_from(number(3)).unwrap(),
                stable: number(4),
            },
            "commit" => Self::Commit,
            "cut" => Self::Cut {
                size_bytes: number(1),
                epoch: small(2),
            },
            "fence" => Self::Fence { epoch: small(1) },
            "remove" => Self::Remove {
                generation: small(1),
                epoch: small(2),
            },
            "punch" => Self::Punch {
                start: number(1),
                end: number(2),
                durable: number(3) == 1,
            },
            "reserve" => Self::Reserve {
                start: number(1),
                end: number(2),
            },
            "create" => Self::Create,
            other => panic!("{other}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write {
                offset,
                len,
                fill,
                stable,
            } => write!(f, "write {offset} {len} {fill} {stable}"),
            Self::Commit => write!(f, "commit"),
            Self::Cut { size_bytes, epoch } => write!(f, "cut {size_bytes} {epoch}"),
            Self::Fence { epoch } => write!(f, "fence {epoch}"),
            Self::Remove { generation, epoch } => write!(f, "remove {generation} {epoch}"),
            Self::Punch {
                start,
                end,
                durable,
            } => write!(f, "punch {start} {end} {}", u8::from(*durable)),
            Self::Reserve { start, end } => write!(f, "reserve {start} {end}"),
            Self::Create => write!(f, "create"),
        }
    }
}

/// One object: for each byte what it may be, and what it is while the process lives, if that is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Object {
    bytes: Vec<(BTreeSet<u8>, Option<u8>)>,
    /// What it is at least as long as, once synced and now.
    safe_size: u64,
    now_size: u64,
    longest: u64,
    /// Some of it was synced, so the index has it.
    pub(super) is_indexed: bool,
    pub(super) is_gone: bool,
    /// It was promised that it is there, whatever its size.
    pub(super) is_made: bool,
    /// Storage that was promised and not asked back since. Ranges may overlap.
    reserved: Vec<Range<u64>>,
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

impl Object {
    fn write(&mut self, offset: u64, len: u64, fill: u8) {
        let end = offset + len;
        let unwritten = || ([0].into(), Some(0));
        if self.bytes.len() < place(end) {
            self.bytes.resize_with(place(end), unwritten);
        }
        for (may, last) in &mut self.bytes[place(offset)..place(end)] {
            may.insert(fill);
            *last = Some(fill);
        }
        self.now_size = self.now_size.max(end);
        self.longest = self.longest.max(end);
    }

    fn synced(&mut self) {
        for (may, last) in &mut self.bytes {
            if let Some(last) = last {
                *may = [*last].into();
            }
        }
        self.safe_size = self.now_size;
        self.is_indexed |= self.now_size > 0;
    }

    /// A stable write has promised its own bytes, and nothing of what was written before.
    fn wrote_stably(&mut self, offset: u64, len: u64, fill: u8) {
        let end = offset + len;
        for (may, _) in &mut self.bytes[place(offset)..place(end)] {
            *may = [fill].into();
        }
        self.safe_size = self.safe_size.max(end);
        self.created();
    }

    /// A process begins: redo records are applied over what was written later without a promise.
    fn restarted(&mut self) {
        for (may, last) in &mut self.bytes {
            if may.len() > 1 {
                *last = None;
            }
        }
    }

    fn created(&mut self) {
        self.is_made = true;
        self.is_indexed = true;
    }

    /// A cut is asked for.
    fn cutting(&mut self, size: u64) {
        self.safe_size = self.safe_size.min(size);
        self.now_size = self.now_size.min(size);
        // A data server may come from one byte beyond; the MDS repeats what was not answered.
        self.longest = self.longest.max(size + 1);
        self.give_back(size..u64::MAX);
        for (may, last) in self.bytes.iter_mut().skip(place(size)) {
            may.insert(0);
            *last = Some(0);
        }
    }

    fn was_cut(&mut self, size: u64) {
        self.longest = size;
        self.bytes.truncate(place(size));
    }

    /// A hole is asked for.
    fn punching(&mut self, start: u64, end: u64) {
        let end = place(end).min(self.bytes.len());
        for (may, last) in self.bytes.iter_mut().take(end).skip(place(start)) {
            may.insert(0);
            *last = Some(0);
        }
    }

    fn give_back(&mut self, gone: Range<u64>) {
        let parts = |has: Range<u64>| {
            let before = has.start..has.end.min(gone.start);
            let behind = has.start.max(gone.end)..has.end;
            [before, behind]
        };
        let kept = self.reserved.drain(..).flat_map(parts);
        self.reserved = kept.filter(|part| !part.is_empty()).collect();
    }

    /// Bytes of storage that it must have.
    pub(super) fn reserved_bytes(&self) -> u64 {
        let mut ranges = self.reserved.clone();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut counted = 0;
        let mut bytes = 0;
        for Range { start, end } in ranges {
            bytes += end.saturating_sub(start.max(counted));
            counted = counted.max(end);
        }
        bytes
    }

    pub(super) fn compare(&self, bytes: &[u8], at: &str) {
        assert!(!self.is_gone, "{at}: came back");
        let size = bytes.len() as u64;
        assert!(
            (self.safe_size..=self.longest).contains(&size),
            "{at}: {size} bytes, not {} to {}",
            self.safe_size,
            self.longest
        );
        for (offset, byte) in bytes.iter().enumerate() {
            let may = self.bytes.get(offset);
            let is_fine = may.map_or(*byte == 0, |(may, _)| may.contains(byte));
            assert!(is_fine, "{at}: byte {offset} is {byte}, not of {may:?}");
        }
        assert!(
            self.bytes
                .iter()
                .skip(bytes.len())
                .all(|(may, _)| may.contains(&0)),
            "{at}: bytes behind {size} are missing"
        );
    }

    /// What is there was on the disk before anything else is done.
    pub(super) fn settle(&mut self, bytes: &[u8]) {
        self.bytes = bytes.iter().map(|b| ([*b].into(), Some(*b))).collect();
        let size = bytes.len() as u64;
        (self.safe_size, self.now_size, self.longest) = (size, size, size);
        // The next recording takes over the bytes, and no storage beside them.
        self.reserved.clear();
    }
}

/// The lowest generation that is there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Removed {
    pub(super) asked: u32,
    pub(super) promised: u32,
}

/// All that was asked and answered.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) objects: BTreeMap<Name, Object>,
    /// By file: the floor that was promised and the highest that was asked for.
    pub(super) epochs: BTreeMap<u64, (u32, u32)>,
    pub(super) removed: BTreeMap<u64, Removed>,
    under_way: BTreeMap<Name, Act>,
    pub(super) store_id: Option<u64>,
    /// Changes that the MDS knows of.
    pub(super) told: u64,
    pub(super) answers: u64,
}

impl Model {
    /// A line of the workload.
    pub(super) fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["store", id] => {
                self.store_id = Some(id.parse().unwrap());
                self.objects.values_mut().for_each(Object::restarted);
            }
            ["told", changes] => self.told = self.told.max(changes.parse().unwrap()),
            ["file", file_id, generation, "begins", ..] => {
                let name = name_of(file_id, generation);
                let act = Act::parse(&words[4..]);
                self.begins(name, act);
                self.under_way.insert(name, act);
            }
            ["file", file_id, generation, "ends"] => {
                let name = name_of(file_id, generation);
                let act = self.under_way.remove(&name).unwrap();
                self.ends(name, act);
                self.answers += 1;
            }
            _ => panic!("{line}"),
        }
    }

    fn begins(&mut self, name: Name, act: Act) {
        let object = self.objects.entry(name).or_default();
        let epochs = self.epochs.entry(name.file_id).or_insert((0, 1));
        match act {
            Act::Write {
                offset, len, fill, ..
            } => object.write(offset, len, fill),
            Act::Commit => {}
            Act::Cut { size_bytes, epoch } => {
                object.cutting(size_bytes);
                epochs.1 = epoch;
            }
            Act::Fence { epoch } => epochs.1 = epoch,
            Act::Remove { generation, epoch } => {
                epochs.1 = epoch;
                self.removed.entry(name.file_id).or_default().asked = generation;
            }
            Act::Punch { start, end, .. } => {
                object.punching(start, end);
                object.give_back(start..end);
            }
            Act::Reserve { .. } | Act::Create => {}
        }
    }

    fn ends(&mut self, name: Name, act: Act) {
        let object = self.objects.get_mut(&name).unwrap();
        let epochs = self.epochs.get_mut(&name.file_id).unwrap();
        match act {
            Act::Write { stable: 0, .. } => {}
            Act::Write {
                offset, len, fill, ..
            } => object.wrote_stably(offset, len, fill),
            Act::Commit => object.synced(),
            Act::Cut { size_bytes, epoch } => {
                object.was_cut(size_bytes);
                epochs.0 = epoch;
            }
            Act::Fence { epoch } => epochs.0 = epoch,
            Act::Remove { generation, epoch } => {
                epochs.0 = epoch;
                self.removed.get_mut(&name.file_id).unwrap().promised = generation;
            }
            Act::Punch { durable: false, .. } => {}
            Act::Punch { .. } => object.synced(),
            Act::Reserve { start, end } => {
                object.synced();
                object.created();
                object.reserved.push(start..end);
            }
            Act::Create => object.created(),
        }
    }

    /// A data server has looked at what a cut left, durably.
    pub(super) fn settle(&mut self, identity: &control::StoreIdentity) {
        self.under_way.clear();
        self.objects.retain(|_, object| !object.is_gone);
        self.store_id = Some(identity.store_id);
    }
}

fn name_of(file_id: &str, generation: &str) -> Name {
    Name {
        file_id: file_id.parse().unwrap(),
        generation: generation.parse().unwrap(),
    }
}
