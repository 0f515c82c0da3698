//! Acknowledged bytes: what is read is what was written, unless it was overwritten, cut or made a hole since.
//!
//! A file is a row of cells; each write gives each of its cells a mark of its own. A read may see any write that
//! nothing certain replaced. A write replaces another for certain if it began after it and was acknowledged (written
//! and flushed) before the read began. Writes without acknowledgement may be seen for ever, or never. Cuts and holes
//! write "nothing".
//!
//! A copy or a clone writes to each cell what somebody who had read its source while it went on might have seen.
//!
//! The size at the end lies between what must be there and what may be.

use super::Findings;
use super::linear::Moment;
use std::collections::{BTreeMap, HashSet};

/// What a cell holds: the tag of a write, and the number of the cell that it was written to.
pub(crate) type Mark = u64;
/// The mark of bytes that nobody wrote.
pub(crate) const NOTHING: Mark = 0;
/// Before everything.
pub(crate) const ALWAYS: Moment = (0, 0);
/// After everything.
pub(crate) const NEVER: Moment = (u64::MAX, u64::MAX);

/// The mark of what a write with this tag, which is not 0, writes to a cell.
pub(crate) const fn mark(tag: u32, cell: u64) -> Mark {
    (tag as u64) << 32 | cell
}

/// A change of a file: cells get marks, or the file a size.
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
    /// When a server last did it, where it may do it again after its answer: a WRITE of NFSv3 that was sent twice.
    pub(crate) last_done: Moment,
    /// What.
    pub(crate) what: What,
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The cells from the first up to the second get marks with this tag.
    Write(u64, u64, u32),
    /// The cells from the first up to the second get what those of another file have.
    Copy(u64, u64, Source),
    /// The cells from the first up to the second become a hole.
    Hole(u64, u64),
    /// The file has at least this many cells.
    Reserve(u64),
    /// The file has this many cells.
    Cut(u64),
}

/// Where a copy comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    /// The file.
    pub(crate) file: u64,
    /// What comes first of it.
    pub(crate) cell: u64,
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
    /// Marks, or what was odd about the bytes of a cell.
    pub(crate) marks: Vec<Result<Mark, String>>,
}

/// Somebody set a file's modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetTime {
    /// To this second; no two are the same, and no clock of the run shows them.
    pub(crate) second: i64,
    /// When it was asked for.
    pub(crate) start: Moment,
    /// When it was answered; [`NEVER`] when it failed, or may have been for a file that has taken the name.
    pub(crate) end: Moment,
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
    /// Modification times that were set.
    pub(crate) times: Vec<SetTime>,
    /// The modification time at the end in seconds, when somebody looked.
    pub(crate) final_second: Option<i64>,
}

/// A look at one cell, and the time that it may have taken place in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Look {
    file: u64,
    cell: u64,
    start: Moment,
    end: Moment,
}

impl Change {
    /// Whether this decides what a cell holds.
    const fn touches(&self, cell: u64) -> bool {
        match self.what {
            What::Write(from, to, _) | What::Copy(from, to, _) | What::Hole(from, to) => {
                from <= cell && cell < to
            }
            What::Cut(cells) => cells <= cell,
            What::Reserve(_) => false,
        }
    }

    /// Whether this certainly came before `later`.
    fn precedes(&self, later: &Self) -> bool {
        let own = self.who == later.who && self.returned < later.start;
        (own || self.acked < later.start) && self.last_done < later.start
    }

    /// Cells that the file has at least after this.
    const fn end(&self) -> u64 {
        match self.what {
            What::Copy(from, to, _) if from == to => 0,
            What::Write(_, to, _) | What::Copy(_, to, _) | What::Reserve(to) => to,
            What::Cut(cells) => cells,
            What::Hole(..) => 0,
        }
    }
}

/// The files of a run, by their ids.
struct Files<'a>(&'a BTreeMap<u64, File>);

impl Files<'_> {
    /// Changes that were certainly made before a look, and decide what it sees.
    fn certain(&self, look: Look) -> impl Iterator<Item = &Change> {
        let changes = self.0.get(&look.file).into_iter();
        let changes = changes.flat_map(|file| &file.changes);
        changes.filter(move |c| c.acked < look.start && c.touches(look.cell))
    }

    /// Whether a look may see `mark`. `tried` are the looks of which that is asked already: to ask again brings nothing new.
    fn allows(&self, look: Look, mark: Mark, tried: &mut HashSet<Look>) -> bool {
        if mark == NOTHING && self.certain(look).next().is_none() {
            return true;
        }
        if !tried.insert(look) {
            return false;
        }
        let changes = self.0.get(&look.file).into_iter();
        let mut sources = changes
            .flat_map(|file| &file.changes)
            .filter(|c| c.start < look.end && c.touches(look.cell));
        sources.any(|source| {
            !self.certain(look).any(|later| source.precedes(later))
                && self.gives(source, look, mark, tried)
        })
    }

    /// Whether a change that touches the cell of a look may have given it `mark`.
    fn gives(&self, change: &Change, look: Look, mark: Mark, tried: &mut HashSet<Look>) -> bool {
        match change.what {
            What::Write(_, _, tag) => mark == self::mark(tag, look.cell),
            What::Hole(..) | What::Cut(_) => mark == NOTHING,
            What::Reserve(_) => false,
            What::Copy(from, _, source) => {
                let at_source = Look {
                    file: source.file,
                    cell: source.cell + (look.cell - from),
                    start: change.start,
                    end: change.acked.min(look.end),
                };
                self.allows(at_source, mark, tried)
            }
        }
    }

    /// What is wrong with a mark that a look must not see.
    fn blame(&self, look: Look, mark: Mark) -> String {
        let last = self.certain(look).max_by_key(|c| c.acked);
        let last = last.map_or_else(String::new, |c| {
            format!(
                "; the last that was acknowledged is {:?} of {}",
                c.what, c.who
            )
        });
        let (tag, cell) = (mark >> 32, mark & u64::from(u32::MAX));
        format!("{tag} of cell {cell}, which was replaced or never written{last}")
    }
}

impl File {
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
            for (cell, mark) in (read.first..).zip(&read.marks) {
                let look = Look {
                    file: *id,
                    cell,
                    start: read.start,
                    end: read.end,
                };
                let wrong = match mark {
                    Err(odd) => odd.clone(),
                    Ok(mark) if Files(files).allows(look, *mark, &mut HashSet::new()) => continue,
                    Ok(mark) => format!("read {}", Files(files).blame(look, *mark)),
                };
                let (who, start) = (&read.who, read.start);
                findings.add(format!(
                    "file {id}, cell {cell}, {who} at {start:?}: {wrong}"
                ));
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
            last_done: ALWAYS,
            what,
        }
    }

    fn sees(files: &BTreeMap<u64, File>, at: u64, mark: Mark) -> bool {
        let look = Look {
            file: 1,
            cell: 0,
            start: (at, 0),
            end: (at + 1, 0),
        };
        Files(files).allows(look, mark, &mut HashSet::new())
    }

    fn file(changes: Vec<Change>) -> File {
        File {
            changes,
            ..File::default()
        }
    }

    fn allows(changes: Vec<Change>, at: u64, tag: u32) -> bool {
        let files = BTreeMap::from([(1, file(changes))]);
        sees(&files, at, mark(tag, 0))
    }

    #[test]
    fn an_acknowledged_write_is_seen_until_the_next_one() {
        let one = change(0, Some(2), What::Write(0, 1, 1));
        let two = change(4, Some(6), What::Write(0, 1, 2));
        assert!(!allows(vec![one.clone()], 3, 0));
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
    fn a_write_that_is_done_again_replaces_what_came_between() {
        let mut one = change(0, Some(2), What::Write(0, 1, 1));
        let two = change(4, Some(6), What::Write(0, 1, 2));
        one.last_done = (3, 0);
        assert!(!allows(vec![one.clone(), two.clone()], 7, 1));
        one.last_done = (5, 0);
        assert!(allows(vec![one.clone(), two.clone()], 7, 1));
        assert!(allows(vec![one, two], 7, 2));
    }

    #[test]
    fn a_cut_takes_bytes_away() {
        let one = change(0, Some(2), What::Write(0, 4, 1));
        let cut = change(4, Some(6), What::Cut(0));
        assert!(allows(vec![one.clone(), cut.clone()], 7, 0));
        assert!(!allows(vec![one.clone(), cut.clone()], 7, 1));
        let file = File {
            changes: vec![one, cut],
            ..File::default()
        };
        assert_eq!(file.check_size(0), Ok(()));
        assert!(file.check_size(4).is_err());
    }

    #[test]
    fn a_hole_takes_bytes_away_and_leaves_the_size() {
        let one = change(0, Some(2), What::Write(0, 4, 1));
        let hole = change(4, Some(6), What::Hole(0, 2));
        assert!(allows(vec![one.clone(), hole.clone()], 7, 0));
        assert!(!allows(vec![one.clone(), hole.clone()], 7, 1));
        let file = file(vec![one, hole]);
        assert_eq!(file.check_size(4), Ok(()));
        assert!(file.check_size(2).is_err());
    }

    #[test]
    fn a_reservation_counts_for_the_size_alone() {
        let one = change(0, Some(2), What::Write(0, 4, 1));
        let more = change(4, Some(6), What::Reserve(9));
        assert!(allows(vec![one.clone(), more.clone()], 7, 1));
        let file = file(vec![one, more]);
        assert_eq!(file.check_size(9), Ok(()));
        assert!(file.check_size(4).is_err());
    }

    #[test]
    fn a_copy_brings_what_its_source_had_while_it_went_on() {
        let source = Source { file: 2, cell: 7 };
        let copy = change(10, Some(15), What::Copy(0, 1, source));
        let old = change(0, Some(2), What::Write(0, 1, 1));
        let seen = |changes: Vec<Change>, at: u64, mark: Mark| {
            let mine = file(vec![old.clone(), copy.clone()]);
            let files = BTreeMap::from([(1, mine), (2, file(changes))]);
            sees(&files, at, mark)
        };
        let before = change(4, Some(6), What::Write(7, 8, 2));
        let during = change(12, Some(14), What::Write(7, 8, 3));
        let after = change(16, Some(18), What::Write(7, 8, 4));
        let all = || vec![before.clone(), during.clone(), after.clone()];
        for tag in [2, 3] {
            assert!(seen(all(), 20, mark(tag, 7)), "{tag}");
        }
        assert!(!seen(all(), 20, mark(4, 7)), "written behind it");
        assert!(!seen(all(), 20, NOTHING), "the source was no hole");
        assert!(!seen(all(), 20, mark(1, 0)), "what was there before");
        assert!(seen(all(), 12, mark(1, 0)), "not yet copied");
        assert!(!seen(all(), 20, mark(2, 0)), "of another cell");
        assert!(seen(vec![], 20, NOTHING));
    }

    #[test]
    fn copies_to_and_fro_bring_nothing_from_nowhere() {
        let to = |start, file| {
            let what = What::Copy(0, 1, Source { file, cell: 0 });
            change(start, None, what)
        };
        let (one, two) = (file(vec![to(0, 2)]), file(vec![to(1, 1)]));
        let files = BTreeMap::from([(1, one), (2, two)]);
        assert!(!sees(&files, 5, mark(1, 0)));
        assert!(sees(&files, 5, NOTHING));
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
