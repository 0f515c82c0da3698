//! Data under a lock: the holder of a lock sees what the holder before it has written.
//!
//! Each write has a tag of its own, and fills its range with it. A write counts from its call to its answer. One without an answer may
//! take effect at any later time. One of NFSv3 may do so until its last execution is over.

use super::Findings;
use super::linear::Moment;
use std::collections::BTreeMap;

/// A read or a write of a whole range, by a holder of a lock.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// Who.
    pub who: String,
    /// The file, and the range of it by its number.
    pub at: (u64, u64),
    /// The tag written or read; 0 is what a new file has. `None` when a read found several.
    pub tag: Option<u32>,
    /// Whether it is a write.
    pub is_write: bool,
    /// When it was called.
    pub start: Moment,
    /// When it was over; [`NEVER`](super::data::NEVER) of a write whose end nobody knows.
    pub end: Moment,
}

/// Judges all accesses of a run.
pub(crate) fn check(accesses: &[Access], findings: &Findings) {
    let mut ranges: BTreeMap<(u64, u64), Vec<&Access>> = BTreeMap::new();
    for access in accesses {
        ranges.entry(access.at).or_default().push(access);
    }
    for list in ranges.values() {
        let (writes, reads): (Vec<&Access>, Vec<&Access>) = list.iter().partition(|a| a.is_write);
        for read in reads {
            if let Some(text) = judge(read, &writes) {
                findings.add(format!("{}: under a lock, {text}: {read:?}", read.who));
            }
        }
    }
}

fn judge(read: &Access, writes: &[&Access]) -> Option<String> {
    let over = |write: &&&Access| write.end < read.start;
    let Some(tag) = read.tag else {
        // Somebody who lost the lock may be writing still.
        let is_quiet = writes.iter().all(|w| over(&w) || read.end < w.start);
        return is_quiet.then(|| "a range has bytes of several writes".to_owned());
    };
    let end = match writes.iter().find(|w| w.tag == Some(tag)) {
        Some(write) => write.end,
        None if tag == 0 => Moment::default(),
        None => return Some("bytes that nobody has written".to_owned()),
    };
    let later = writes.iter().filter(over).find(|w| end < w.start)?;
    Some(format!("what was replaced by {later:?} is read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::data::NEVER;

    fn access(is_write: bool, tag: u32, (start, end): (u64, u64)) -> Access {
        Access {
            who: "a".into(),
            at: (1, 0),
            tag: Some(tag),
            is_write,
            start: (start, start),
            end: (end, end),
        }
    }

    #[test]
    fn a_read_sees_the_last_write_that_was_over() {
        let never = Access {
            end: NEVER,
            ..access(true, 7, (1, 2))
        };
        let (first, second) = (access(true, 1, (10, 20)), access(true, 2, (30, 40)));
        for (tag, span, is_found) in [
            (2, (50, 60), false),
            (1, (50, 60), true),
            (0, (50, 60), true),
            (1, (35, 60), false),
            (7, (50, 60), false),
            (9, (50, 60), true),
        ] {
            let findings = Findings::default();
            let read = access(false, tag, span);
            check(
                &[first.clone(), second.clone(), never.clone(), read],
                &findings,
            );
            assert_eq!(!findings.list().is_empty(), is_found, "{tag} in {span:?}");
        }
    }
}
