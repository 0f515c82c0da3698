//! The copy of a range of one file into another (COPY, RFC 7862 §15.2): the MDS reads from data servers and writes to data servers.
//!
//! # Ownership
//! A copy holds no gate and no layout between two chunks: it reads and writes as a client without a layout does. Chunks that were read and
//! not yet written are counted over all copies ([`crate::fs::COPY_CHUNKS_MAX`]).
//!
//! # Ordering
//! A small range is one READ and one stable WRITE (see `copy_small`). Of others, reads run ahead, and writes follow one
//! another in the order of the file, as `ca_consecutive` asks. Then COMMIT at all data servers of the destination, and its
//! size and times; both are durable before anybody is told. Runs of zeros become holes.
//!
//! # Failure
//! A data server that is away is waited for. A data server may have lost what it was given if its write verifier at the
//! COMMIT is not that of the write. The whole copy is done again. What fails otherwise leaves a part of the range
//! copied.

use crate::actor::{Actor, Prepared};
use crate::copy_job::{Copy, Keep, Patience, is_zero, patiently};
use crate::copy_small::copy_small;
use crate::fs::Fs;
use crate::inline::enter_sized;
use crate::io::{WriteJob, read, write_part};
use crate::offloads::CopyDone;
use crate::ranges::{Content, Sought, deallocate, seek};
use crate::target;
use bytes::Bytes;
use control::Range;
use meta::Seq;
use namespace::{Cred, SizeCommit};
use nfs4::{NfsStatus, StableHow, Verifier};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use transport::CallId;

/// Bytes that are read and written at once: what a data server takes in one WRITE.
const CHUNK_BYTES: u64 = 1 << 20;
/// Chunks that one copy reads ahead.
const AHEAD_MAX: usize = 8;
/// Bytes after which the source is asked again where its next data are.
const WINDOW_BYTES: u64 = 16 << 20;
/// How often a copy is done again because a data server has restarted.
const PASSES_MAX: usize = 4;

/// Copies at once, for a COMPOUND that waits for at most `wait` when a data server is away.
pub async fn copy(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    copy: &Copy,
    wait: Duration,
    kept: Keep<'_>,
) -> Result<CopyDone, NfsStatus> {
    let patience = Patience {
        progress: Arc::default(),
        until: Some(Instant::now() + wait),
    };
    run(fs, actor, copy, &patience, kept).await
}

/// Copies. What it observed is not yet durable when it returns.
pub(crate) async fn run(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    copy: &Copy,
    patience: &Patience,
    kept: Keep<'_>,
) -> Result<CopyDone, NfsStatus> {
    if let Some(copied) = copy_small(fs, actor, copy, patience, kept).await? {
        return Ok(copied);
    }
    let end = copy.dst_offset.saturating_add(copy.count);
    let entered = patiently!(patience, enter_sized(fs, actor, &copy.dst, end));
    drop(entered?);
    for _ in 0..PASSES_MAX {
        patience.progress.copied_bytes.store(0, Relaxed);
        let mut pass = Pass {
            fs,
            copy,
            patience,
            cred: Arc::new(actor.cred.clone()),
            ahead: VecDeque::new(),
            planned: 0,
            window_end: 0,
            end: copy.count,
            seen: BTreeMap::new(),
        };
        let count = pass.copy_all(actor).await?;
        let Pass { seen, .. } = pass;
        // It may have got a place meanwhile.
        let dst = actor.ns(fs, |ns, op| ns.getattr(op, copy.dst.id))?;
        let committed = patiently!(patience, target::commit(fs, &dst));
        let (verifier, now) = committed?;
        if seen.iter().any(|(ds, then)| now.get(ds) != Some(then)) {
            continue;
        }
        let copied = CopyDone { count, verifier };
        if count > 0 {
            let grown = SizeCommit {
                new_end: Some(copy.dst_offset + count),
                ..SizeCommit::default()
            };
            actor.change_as(fs, &kept(&copied), |ns, op| {
                ns.commit_size(op, copy.dst.id, grown)
            })?;
            fs.note_space(copy.dst.id);
        }
        return Ok(copied);
    }
    Err(NfsStatus::Delay)
}

/// One time through the range.
struct Pass<'a> {
    fs: &'a Arc<Fs>,
    copy: &'a Copy,
    patience: &'a Patience,
    cred: Arc<Cred>,
    ahead: VecDeque<Piece>,
    /// Bytes of the range for which there are pieces.
    planned: u64,
    /// The source has data at or after `planned`, and was not looked at from here on.
    window_end: u64,
    /// Where the copy ends; less than was asked for when the source has become shorter.
    end: u64,
    /// The first write verifier of each data server of the destination that was written to. No later one is ever the same.
    seen: BTreeMap<u32, Verifier>,
}

/// What comes next in the destination.
enum Piece {
    Hole { at: u64, len: u64 },
    Chunk { at: u64, len: u64, read: Reading },
}

/// A chunk that is being read, with its place among [`crate::fs::COPY_CHUNKS_MAX`].
struct Reading {
    task: JoinHandle<(Result<Bytes, NfsStatus>, Seq)>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pass<'_> {
    /// Copies the range; returns how much there was of it.
    async fn copy_all(&mut self, actor: &mut Actor) -> Result<u64, NfsStatus> {
        loop {
            if self.patience.is_over() {
                return Err(NfsStatus::Delay);
            }
            self.plan(actor).await?;
            let Some(piece) = self.ahead.pop_front() else {
                return Ok(self.end);
            };
            match piece {
                Piece::Hole { at, len } => self.punch(actor, at, len).await?,
                Piece::Chunk { at, len, read } => self.write(actor, at, len, read).await?,
            }
        }
    }

    /// Begins to read what comes next, as far as there is room.
    async fn plan(&mut self, actor: &mut Actor) -> Result<(), NfsStatus> {
        while self.ahead.len() < AHEAD_MAX && self.planned < self.end {
            if self.planned >= self.window_end {
                self.look(actor).await?;
                continue;
            }
            let Some(place) = self.place().await else {
                return Ok(());
            };
            let at = self.planned;
            // Chunks end where those of the destination do: no stripe is written twice.
            let to_border = CHUNK_BYTES - (self.copy.dst_offset + at) % CHUNK_BYTES;
            let len = to_border.min(self.end - at).min(self.window_end - at);
            let read = self.read(at, len, place);
            self.ahead.push_back(Piece::Chunk { at, len, read });
            self.planned += len;
        }
        Ok(())
    }

    /// Reserves a chunk. Only a copy holding none may wait, or copies would deadlock.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.fs.copy_chunks);
        if self.ahead.is_empty() {
            places.acquire_owned().await.ok()
        } else {
            places.try_acquire_owned().ok()
        }
    }

    /// Finds the next data of the source; what lies before them is a hole.
    async fn look(&mut self, actor: &mut Actor) -> Result<(), NfsStatus> {
        let Copy {
            src, src_offset, ..
        } = self.copy;
        let from = src_offset + self.planned;
        let found = patiently!(
            self.patience,
            seek(self.fs, actor, src, from, Content::Data)
        );
        let data = match found {
            Ok(Sought::At(data)) => (data - src_offset).min(self.end),
            Ok(Sought::End(end)) => {
                self.end = self.end.min(end.saturating_sub(*src_offset));
                self.end
            }
            Err(NfsStatus::NxIo) => {
                self.end = self.end.min(self.planned);
                self.end
            }
            Err(status) => return Err(status),
        };
        if data > self.planned {
            let (at, len) = (self.planned, data - self.planned);
            self.ahead.push_back(Piece::Hole { at, len });
            self.planned = data;
        }
        self.window_end = self.planned.saturating_add(WINDOW_BYTES);
        Ok(())
    }

    fn read(&self, at: u64, len: u64, place: OwnedSemaphorePermit) -> Reading {
        let fs = Arc::clone(self.fs);
        let (src, offset) = (Arc::clone(&self.copy.src), self.copy.src_offset + at);
        let (cred, patience) = (Arc::clone(&self.cred), self.patience.clone());
        let seen_end = self.copy.src_offset + self.copy.count;
        let task = tokio::spawn(CallId::carry(async move {
            let mut actor = Actor::for_task((*cred).clone());
            let done = patiently!(
                patience,
                read(&fs, &mut actor, &src, (offset, len), seen_end)
            );
            let observed = actor.observed;
            (done.map(|(bytes, _eof)| bytes), observed)
        }));
        Reading {
            task,
            _place: place,
        }
    }

    async fn write(
        &mut self,
        actor: &mut Actor,
        at: u64,
        len: u64,
        mut read: Reading,
    ) -> Result<(), NfsStatus> {
        let done = (&mut read.task).await.map_err(|_| NfsStatus::ServerFault)?;
        actor.observed = actor.observed.max(done.1);
        let bytes = done.0?;
        let got = bytes.len() as u64;
        if got < len {
            // The source was cut.
            self.end = self.end.min(at + got);
        }
        if at >= self.end || got == 0 {
            return Ok(());
        }
        if is_zero(&bytes) {
            return self.punch(actor, at, got).await;
        }
        let Copy {
            dst, dst_offset, ..
        } = self.copy;
        let offset = dst_offset + at;
        let job = WriteJob {
            offset,
            stable: StableHow::Unstable,
            bytes,
        };
        let written = patiently!(self.patience, write_part(self.fs, actor, dst, &job));
        self.note(written?, got);
        Ok(())
    }

    async fn punch(&mut self, actor: &mut Actor, at: u64, len: u64) -> Result<(), NfsStatus> {
        let start = self.copy.dst_offset + at;
        let range = Range {
            start,
            end: start + len,
        };
        let dst = &self.copy.dst;
        let punched = patiently!(
            self.patience,
            deallocate(self.fs, actor, &Prepared::default(), dst, (range, false))
        );
        match punched {
            Ok(seen) => self.note(seen, len),
            // New objects of a file have zeros where nothing was written yet.
            Err(NfsStatus::NotSupp) if self.is_untouched(actor, range.start)? => {
                self.note(BTreeMap::new(), len);
            }
            // A file system without holes gets the zeros.
            Err(NfsStatus::NotSupp) => self.write_zeros(actor, range).await?,
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Whether nothing was written from here on to a destination that has no name, so that nobody else writes it.
    fn is_untouched(&self, actor: &mut Actor, from: u64) -> Result<bool, NfsStatus> {
        let file = self.copy.dst.id;
        let dst = actor.ns(self.fs, |ns, op| ns.getattr(op, file))?;
        Ok(dst.nlink == 0 && self.fs.state().open_count(file.0) == 0 && from >= dst.size)
    }

    async fn write_zeros(&mut self, actor: &mut Actor, range: Range) -> Result<(), NfsStatus> {
        let zeros = Bytes::from(vec![0; usize::try_from(CHUNK_BYTES).unwrap_or(0)]);
        let mut at = range.start;
        while at < range.end && !self.patience.is_over() {
            let len = CHUNK_BYTES.min(range.end - at);
            let job = WriteJob {
                offset: at,
                stable: StableHow::Unstable,
                bytes: zeros.slice(..usize::try_from(len).unwrap_or(0)),
            };
            let dst = &self.copy.dst;
            let written = patiently!(self.patience, write_part(self.fs, actor, dst, &job));
            self.note(written?, len);
            at += len;
        }
        Ok(())
    }

    fn note(&mut self, seen: BTreeMap<u32, Verifier>, len: u64) {
        for (ds, verifier) in seen {
            self.seen.entry(ds).or_insert(verifier);
        }
        self.patience.progress.copied_bytes.fetch_add(len, Relaxed);
    }
}
