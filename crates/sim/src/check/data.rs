//! Acknowledged bytes: what is read is what was written, unless it was overwritten or cut since.
//!
//! A file is a row of cells; each write gives its cells a tag of its own. A read may see any write that nothing certain
//! replaced: a write that was acknowledged (written and flushed) before the read began, and that began after the other
//! was. Writes without acknowledgement may be seen for ever, or never. Cuts write "nothing" to all cells behind them.
//!
//! The size at the end lies between what must be there and what may be.

use super::Findings;
use super::linear::Moment;
use std::collections::BTreeMap;

/// The tag of bytes that nobody wrote.
pub(crate) const NOTHING: u32 = 0;
/// After everything.
pub(crate) const NEVER: Moment = (u64::MAX, u64::MAX);

/// A change of a file: cells get a tag, or the file a size.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Who, for the order of one client's own changes.
    pub(crate) who: String,
    /// When it was asked for.
    pub(crate) start: Moment,
    /// When the call returned.
    pub(crate) returned: Moment,
    /// When it was acknowledged as durable; [`NEVER`] when it was not.
    pub(crate) acked: Moment,
    /// What.
    pub(crate) what: What,
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The cells from the first up to the second get this tag.
    Write(u64, u64, u32),
    /// The file has this many cells.
    Cut(u64),
}

/// A read of cells.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Who.
    pub(crate) who: String,
    /// When it was asked for.
    pub(crate) start: Moment,
    /// When it was answered.
    pub(crate) end: Moment,
    /// First cell.
    pub(crate) first: u64,
    /// Tags, or what was odd about the bytes of a cell.
    pub(crate) tags: Vec<Result<u32, String>>,
}

/// What happened to one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    /// Changes.
    pub(crate) changes: Vec<Change>,
    /// Reads.
    pub(crate) reads: Vec<Seen>,
    /// Size in cells at the end, when somebody looked.
    pub(crate) final_cells: Option<u64>,
}

impl Change {
    /// The tag that this gives to a cell, if it touches it.
    const fn tag(&self, cell: u64) -> Option<u32> {
        match self.what {
            What::Write(from, to, tag) if from <= cell && cell < to => Some(tag),
            What::Cut(cells) if cells <= cell => Some(NOTHING),
            _ => None,
        }
    }

    /// Whether this certainly came before `later`.
    fn precedes(&self, later: &Self) -> bool {
        let own = self.who == later.who && self.returned < later.start;
        own || self.acked < later.start
    }

    /// Cells that the file has at least after this.
    const fn end(&self) -> u64 {
        match self.what {
            What::Write(_, to, _) => to,
            What::Cut(cells) => cells,
        }
    }
}

impl File {
    /// Whether a read of `cell` may see `tag`.
    fn allows(&self, read: &Seen, cell: u64, tag: u32) -> bool {
        let certain = || {
            let done = self.changes.iter().filter(|c| c.acked < read.start);
            done.filter(|c| c.tag(cell).is_some())
        };
        if tag == NOTHING && certain().next().is_none() {
            return true;
        }
        let sources = self.changes.iter().filter(|c| c.start < read.end);
        sources
            .filter(|c| c.tag(cell) == Some(tag))
            .any(|source| !certain().any(|later| source.precedes(later)))
    }

    fn check_size(&self, cells: u64) -> Result<(), String> {
        let cuts = || {
            self.changes
                .iter()
                .filter(|c| matches!(c.what, What::Cut(_)))
        };
        let acked = self.changes.iter().filter(|c| c.acked < NEVER);
        let least = acked
            .filter(|c| cuts().all(|cut| cut.precedes(c) || cut.end() >= c.end()))
            .map(Change::end)
            .max()
            .unwrap_or(0);
        let cut_off = |c: &Change| {
            let mut certain = cuts().filter(|cut| cut.acked < NEVER);
            certain.any(|cut| c.precedes(cut) && cut.end() < c.end())
        };
        let possible = self.changes.iter().filter(|c| !cut_off(c));
        let most = possible.map(Change::end).max().unwrap_or(0);
        if cells < least || cells > most {
            return Err(format!(
                "{cells} cells at the end; {least} to {most} are right"
            ));
        }
        Ok(())
    }
}

/// Judges the files of a run.
pub(crate) fn check(files: &BTreeMap<u64, File>, findings: &Findings) {
    for (id, file) in files {
        for read in &file.reads {
            for (cell, tag) in (read.first..).zip(&read.tags) {
                let (who, start) = (&read.who, read.start);
                match tag {
                    Err(odd) => findings.add(format!("file {id}, cell {cell}, {who} at {start:?}: {odd}")),
                    Ok(tag) if file.allows(read, cell, *tag) => {}
                    Ok(tag) => findings.add(format!(
                        "file {id}, cell {cell}: {who} at {start:?} read {tag}, which was replaced or never written"
                    )),
                }
            }
        }
        if let Some(Err(text)) = file.final_cells.map(|cells| file.check_size(cells)) {
            findings.add(format!("file {id}: {text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: reads see what was acknowledged, what may still be under way, and nothing else.

    use super::*;

    fn change(start: u64, acked: Option<u64>, what: What) -> Change {
        Change {
            who: format!("w{start}"),
            start: (start, 0),
            returned: (start + 1, 0),
            acked: acked.map_or(NEVER, |at| (at, 0)),
            what,
        }
    }

    fn allows(changes: Vec<Change>, at: u64, tag: u32) -> bool {
        let file = File {
            changes,
            ..File::default()
        };
        let read = Seen {
            who: String::new(),
            start: (at, 0),
            end: (at + 1, 0),
            first: 0,
            tags: Vec::new(),
        };
        file.allows(&read, 0, tag)
    }

    #[test]
    fn an_acknowledged_write_is_seen_until_the_next_one() {
        let one = change(0, Some(2), What::Write(0, 1, 1));
        let two = change(4, Some(6), What::Write(0, 1, 2));
        assert!(!allows(vec![one.clone()], 3, NOTHING));
        assert!(allows(vec![one.clone(), two.clone()], 5, 1));
        assert!(allows(vec![one.clone(), two.clone()], 5, 2));
        assert!(!allows(vec![one, two], 7, 1));
    }

    #[test]
    fn what_was_never_acknowledged_may_come_late() {
        let one = change(0, None, What::Write(0, 1, 1));
        let two = change(4, Some(6), What::Write(0, 1, 2));
        assert!(allows(vec![one.clone(), two.clone()], 7, 1));
        assert!(!allows(vec![one, two], 7, 3));
    }

    #[test]
    fn a_cut_takes_bytes_away() {
        let one = change(0, Some(2), What::Write(0, 4, 1));
        let cut = change(4, Some(6), What::Cut(0));
        assert!(allows(vec![one.clone(), cut.clone()], 7, NOTHING));
        assert!(!allows(vec![one.clone(), cut.clone()], 7, 1));
        let file = File {
            changes: vec![one, cut],
            ..File::default()
        };
        assert_eq!(file.check_size(0), Ok(()));
        assert!(file.check_size(4).is_err());
    }

    #[test]
    fn an_acknowledged_write_counts_for_the_size() {
        let file = File {
            changes: vec![change(0, Some(2), What::Write(0, 4, 1))],
            ..File::default()
        };
        assert_eq!(file.check_size(4), Ok(()));
        assert!(file.check_size(3).is_err());
        assert!(file.check_size(5).is_err());
    }
}
