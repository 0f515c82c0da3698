//! What a worker on data has servers do by themselves: COPY, CLONE, ALLOCATE and DEALLOCATE of ranges of the files that all share.

use super::data::{CELL_BYTES, CELLS_MAX, DataWorker, file_id, path};
use crate::check::data::{Source, What};
use client::{Error, File, NfsStatus, OpenOptions};

/// Cells of what CLONE takes whole (`clone_blksize`).
const BLOCK_CELLS: u64 = 4096 / CELL_BYTES;
/// Cells of the largest range: several stripe units.
const RANGE_CELLS_MAX: u64 = 40;
/// Copies that go to the end of their source, whatever it is then.
const TO_END_PER_MILLE: u32 = 200;

/// A part of a source file, in cells; a `count` of 0 is to its end.
#[derive(Debug, Clone, Copy)]
struct Part {
    first: u64,
    count: u64,
    to: u64,
}

impl DataWorker {
    /// Does something to a range of the file that is open.
    pub(super) async fn work_on_range(&mut self) {
        match self.parts.rng.below(100) {
            0..40 => self.copy().await,
            40..60 => self.clone_blocks().await,
            60..85 => self.punch().await,
            _ => self.reserve().await,
        }
    }

    fn range(&mut self) -> (u64, u64) {
        let count = self.parts.rng.within(1, RANGE_CELLS_MAX);
        let first = self.parts.rng.below(CELLS_MAX - count + 1);
        (first, first + count)
    }

    async fn punch(&mut self) {
        let (from, to) = self.range();
        let Some(id) = self.held.as_ref().map(|h| h.id) else {
            return;
        };
        let at = self.begin(id, What::Hole(from, to));
        self.tell(&format!("makes a hole of {from}..{to} of {id}"));
        let Some(held) = &self.held else { return };
        let len = (to - from) * CELL_BYTES;
        match held.file.deallocate(from * CELL_BYTES, len).await {
            Ok(()) => self.done(id, at),
            Err(e) => self.judge("deallocate", &e),
        }
    }

    async fn reserve(&mut self) {
        let (from, to) = self.range();
        let Some(id) = self.held.as_ref().map(|h| h.id) else {
            return;
        };
        let at = self.begin(id, What::Reserve(to));
        self.tell(&format!("takes storage for {from}..{to} of {id}"));
        let Some(held) = &self.held else { return };
        let len = (to - from) * CELL_BYTES;
        match held.file.allocate(from * CELL_BYTES, len).await {
            Ok(()) => self.done(id, at),
            Err(e) => self.judge("allocate", &e),
        }
    }

    /// Notes that a change was acknowledged, and what was written before: it was flushed first.
    fn done(&mut self, id: u64, at: usize) {
        let mut done = vec![at];
        if let Some(held) = self.held.as_mut().filter(|held| held.id == id) {
            done.append(&mut held.unflushed);
        }
        self.acknowledge(id, &done);
        let now = self.now();
        let history = &self.parts.history;
        history.file(id, |f| f.changes[at].returned = now);
    }

    /// Another file to copy from, and how many cells it has.
    async fn source(&mut self) -> Option<(File, u64, u64)> {
        let (held_id, held_name) = self.held.as_ref().map(|h| (h.id, h.name.clone()))?;
        let names = (0..self.parts.files).map(|at| format!("f{at}"));
        let others: Vec<_> = names.filter(|name| *name != held_name).collect();
        let name = others.get(self.parts.rng.index(others.len().max(1)))?;
        let file = match self.client.open(path(name), OpenOptions::read()).await {
            Ok(file) => file,
            Err(e) => {
                if !e.is_not_found() {
                    self.judge("open of a source", &e);
                }
                return None;
            }
        };
        let id = file_id(&file);
        let size = match file.metadata().await {
            Ok(metadata) if id != held_id => metadata.size / CELL_BYTES,
            Ok(_) => {
                self.leave(file).await;
                return None;
            }
            Err(e) => {
                self.judge("look at a source", &e);
                return None;
            }
        };
        Some((file, id, size))
    }

    async fn leave(&mut self, source: File) {
        if let Err(e) = source.close().await {
            self.judge("close of a source", &e);
        }
    }

    async fn copy(&mut self) {
        let Some((source, from, size)) = self.source().await else {
            return;
        };
        let rng = &mut self.parts.rng;
        let first = rng.below(size.max(1));
        let part = if rng.chance(TO_END_PER_MILLE) {
            let (count, to) = (0, first);
            Part { first, count, to }
        } else {
            let count = rng.within(1, RANGE_CELLS_MAX.min((size - first.min(size)).max(1)));
            let to = rng.below(CELLS_MAX - count + 1);
            Part { first, count, to }
        };
        self.copy_part(&source, from, part).await;
        self.leave(source).await;
    }

    async fn copy_part(&mut self, source: &File, from: u64, part: Part) {
        let Part { first, count, to } = part;
        let Some(id) = self.held.as_ref().map(|h| h.id) else {
            return;
        };
        // To the end of a source that others make longer meanwhile.
        let most = if count == 0 { CELLS_MAX - first } else { count };
        let what = |first, to, end| {
            let source = Source {
                file: from,
                cell: first,
            };
            What::Copy(to, end, source)
        };
        let at = self.begin(id, what(first, to, to + most));
        self.tell(&format!("copies {part:?} of {from} to {id}"));
        let Some(held) = &self.held else { return };
        let bytes = |cells: u64| cells * CELL_BYTES;
        let copied = held
            .file
            .copy_from(bytes(to), source, bytes(first), bytes(count));
        match copied.await {
            Ok(copied) => {
                let copied = copied / CELL_BYTES;
                self.tell(&format!("copied {copied} cells of {from} to {id}"));
                let whole = what(first, to, to + copied);
                let history = &self.parts.history;
                history.file(id, |f| f.changes[at].what = whole);
                if copied < most {
                    // An earlier try may have come further, before the source was cut.
                    let rest = what(first + copied, to + copied, to + most);
                    let start = history.file(id, |f| f.changes[at].start);
                    let rest = self.begin(id, rest);
                    self.parts
                        .history
                        .file(id, |f| f.changes[rest].start = start);
                }
                self.done(id, at);
            }
            Err(e) => self.judge_range("copy", &e),
        }
    }

    /// An error of an operation with a source, which others may cut meanwhile.
    fn judge_range(&mut self, what: &str, error: &Error) {
        let is_usual = matches!(
            error.status(),
            Some(NfsStatus::Inval | NfsStatus::XDev | NfsStatus::NotSupp)
        );
        if is_usual {
            self.tell(&format!("{what}: {error}"));
        } else {
            self.judge(what, error);
        }
    }

    async fn clone_blocks(&mut self) {
        let Some((source, from, size)) = self.source().await else {
            return;
        };
        let rng = &mut self.parts.rng;
        let blocks = size.div_ceil(BLOCK_CELLS).max(1);
        let first = rng.below(blocks) * BLOCK_CELLS;
        let count = (rng.within(1, 4) * BLOCK_CELLS).min(size.saturating_sub(first));
        // Mostly to the same place, or by a whole round of stripes: to others nothing can be cloned.
        let to = if rng.chance(700) {
            first
        } else {
            rng.below(CELLS_MAX / BLOCK_CELLS) * BLOCK_CELLS
        };
        if count > 0 && to + count <= CELLS_MAX {
            let part = Part { first, count, to };
            self.clone_part(&source, from, part).await;
        }
        self.leave(source).await;
    }

    async fn clone_part(&mut self, source: &File, from: u64, part: Part) {
        let Part { first, count, to } = part;
        let Some(id) = self.held.as_ref().map(|h| h.id) else {
            return;
        };
        let what = Source {
            file: from,
            cell: first,
        };
        let at = self.begin(id, What::Copy(to, to + count, what));
        let block_end = (to + count).next_multiple_of(BLOCK_CELLS);
        if to + count < block_end {
            // What a longer destination has there becomes zeros (RFC 7862 §15.13.3).
            self.begin(id, What::Hole(to + count, block_end));
        }
        self.tell(&format!("clones {part:?} of {from} to {id}"));
        let Some(held) = &self.held else { return };
        let bytes = |cells: u64| cells * CELL_BYTES;
        let cloned = held
            .file
            .clone_from(bytes(to), source, bytes(first), bytes(count));
        match cloned.await {
            Ok(()) => {
                self.tell(&format!("cloned {count} cells of {from} to {id}"));
                self.done(id, at);
            }
            Err(e) => self.judge_range("clone", &e),
        }
    }
}
