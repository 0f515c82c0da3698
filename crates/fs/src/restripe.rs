//! A file that has data gets other objects while it is used: over more or fewer data servers, by another stripe unit, with more
//! or fewer copies (decision 17).
//!
//! # Ownership
//! The new objects belong to a nameless file until the switch. While the job runs the file is written through this server
//! alone, which notes what is written.
//!
//! # Ordering
//! 1. The file is entered: no layout for writing is granted any more. Those that are out come back. All handles are
//!    fenced, so that no data server takes a write that this server does not see.
//! 2. The nameless file is durable. The bytes are copied to it. What is written meanwhile is copied again, until little is left.
//! 3. All layouts come back and the gate closes. All handles are fenced once more. The rest is copied, durably at all members.
//! 4. One transaction gives the file the new objects and queues the removal of the old ones. It is durable before the gate opens.
//!
//! # Failure
//! Before step 4 is durable the file has its old objects, all of them good. What was copied goes with the nameless file: at
//! once, within seconds when the job panicked or the store refused it, or after a restart, which looks for orphans. A truncation makes what was copied useless, and the copy begins anew.
//!
//! May call: the name space, `copy`, `quiesce`, `stripes`.

use crate::actor::{Actor, Prepared};
use crate::copy;
use crate::copy_job::{Copy, Patience};
use crate::fencing::raise_epoch;
use crate::foreign_place;
use crate::fs::Fs;
use crate::offloads::Progress;
use crate::quiesce::{self, LayoutHold, layouts_gone};
use crate::restripes::{Ranges, RestripeState, Shape};
use crate::target::{io_key, target};
use foreign::{MayLack, is_foreign};
use layout::Rights;
use namespace::{Cred, FileId, Inode, LayoutPolicy, Op, Placement};
use nfs4::{NfsStatus, StableHow};
use state::IoModes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

/// How often a copy is begun before the file counts as too busy.
const ATTEMPTS_MAX: u32 = 16;
/// Pause before another attempt.
const PAUSE_MS: u64 = 1_000;
/// Bytes that are copied before they are promised, and after which the file is looked at again.
const WINDOW_BYTES: u64 = 256 << 20;
/// How long a window waits for a data server that is away.
const AWAY_WAIT_MS: u64 = 30_000;
/// Times that what was written meanwhile is copied while the file is open to writers.
const ROUNDS_MAX: u32 = 16;
/// Bytes that are copied while writers wait.
const LAST_BYTES_MAX: u64 = 4 << 20;
/// Bytes that are read and written at once of these.
const CHUNK_BYTES: u64 = 1 << 20;
/// How long writers wait for fences at most.
const FENCE_WAIT_MS: u64 = 3_000;

/// How a file lies at data servers; `None` for one that does not.
pub fn shape_of(fs: &Fs, inode: &Inode) -> Option<Shape> {
    shape_at(fs, inode.placement?)
}

fn shape_at(fs: &Fs, placement: Placement) -> Option<Shape> {
    let (width, copies) = match is_foreign(placement.group) {
        true => {
            let group = fs.foreign.group(placement.group)?;
            (group.width, group.mirrors)
        }
        false => {
            let group = fs.cluster.group(placement.group)?;
            (group.width(), group.copies.max(1))
        }
    };
    Some(Shape {
        stripe_unit: placement.stripe_unit,
        width,
        copies,
    })
}

/// What is known of the restriping of a file.
pub fn restripe_state(fs: &Fs, file: FileId) -> Option<RestripeState> {
    fs.restripes.state(file)
}

/// Files that are being restriped.
pub fn restriping(fs: &Fs) -> usize {
    fs.restripes.len()
}

/// Begins to give a file the shape that new files have under a policy, unless it has it. It goes on after this has returned.
///
/// # Errors
/// `Delay` when too many are restriped, data servers are away, or the server has just started; `NoSpc`.
pub fn restripe(fs: &Arc<Fs>, inode: &Inode, policy: LayoutPolicy) -> Result<(), NfsStatus> {
    let Some(now) = shape_of(fs, inode) else {
        return Ok(());
    };
    let placement = fs.place(policy, inode.is_foreign())?;
    match shape_at(fs, placement) {
        Some(shape) if shape == now => Ok(()),
        _ => begin(fs, inode, placement),
    }
}

/// Why a file does not begin to get new objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRenewed {
    /// It needs so many servers that are up and have room.
    Servers(u32),
    /// It is to be tried again.
    NotNow(NfsStatus),
}

/// Begins to give a foreign file new objects of the shape that it has, at servers that are up. It goes on after this has returned.
///
/// # Errors
/// [`NotRenewed`].
pub(crate) fn renew(fs: &Arc<Fs>, inode: &Inode) -> Result<(), NotRenewed> {
    let Some(now) = shape_of(fs, inode) else {
        return Ok(());
    };
    let policy = LayoutPolicy {
        stripe_unit: now.stripe_unit,
        stripe_count: now.width,
        copies: now.copies,
        ..LayoutPolicy::default()
    };
    let unit = now.stripe_unit;
    let placement = foreign_place::place(&fs.foreign, policy, unit, MayLack::Nothing);
    let servers = NotRenewed::Servers(now.width.saturating_mul(now.copies));
    let placement = placement.map_err(|_| servers)?;
    begin(fs, inode, placement).map_err(NotRenewed::NotNow)
}

fn begin(fs: &Arc<Fs>, inode: &Inode, placement: Placement) -> Result<(), NfsStatus> {
    let shape = shape_at(fs, placement).ok_or(NfsStatus::ServerFault)?;
    if !fs.jobs.orphans_swept.load(Relaxed) {
        // A sweep takes nameless files for those that an earlier run has left.
        return Err(NfsStatus::Delay);
    }
    if !fs.restripes.enter(inode.id, (shape, placement.group))? {
        return Ok(());
    }
    let (fs, file) = (Arc::clone(fs), inode.id);
    tokio::spawn(async move {
        let work = tokio::spawn(work(Arc::clone(&fs), file, placement));
        let done = work.await.unwrap_or(Err(NfsStatus::ServerFault));
        if let Err(status) = done {
            tracing::warn!(file = file.0, %status, "a file is not restriped");
        }
        // One that is gone needs no word.
        let failure = done.err().filter(|status| *status != NfsStatus::Stale);
        fs.restripes.leave(file, failure);
        // After what is said of it has changed. A file that is gone needs no word.
        let cred = Cred::root();
        let _gone = fs
            .ns
            .note_restripe_ended(&mut Op::new(&cred, fs.now()), file);
        close_leftovers(&fs);
        fs.cluster.changed().notify_waiters();
    });
    Ok(())
}

/// Attempts until one succeeds, or it is of no use.
async fn work(fs: Arc<Fs>, file: FileId, placement: Placement) -> Result<(), NfsStatus> {
    for _ in 0..ATTEMPTS_MAX {
        let progress = fs.restripes.again(file);
        match attempt(&fs, file, placement, progress).await {
            Err(NfsStatus::Delay) => {}
            done => return done,
        }
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
    }
    Err(NfsStatus::Delay)
}

async fn attempt(
    fs: &Arc<Fs>,
    file: FileId,
    placement: Placement,
    progress: Arc<Progress>,
) -> Result<(), NfsStatus> {
    let mut actor = Actor::root();
    let inode = actor.ns(fs, |ns, op| ns.getattr(op, file))?;
    let was = inode.placement.ok_or(NfsStatus::Stale)?;
    writers_here(fs, &inode).await?;
    let nameless = actor.ns(fs, |ns, op| ns.begin_restripe(op, file, placement))?;
    fs.restripes.made(file, nameless.id);
    fs.durable(actor.observed).await?;
    let mut job = Job {
        fs,
        file,
        was,
        nameless,
        progress,
    };
    let done = job.run(&mut actor).await;
    if done.is_ok() || close(fs, job.nameless.id) {
        fs.restripes.closed(file);
    }
    // What a cancelled copy answers is not what became of the file.
    match done {
        Err(_) if fs.restripes.is_overtaken(file) => Err(NfsStatus::Delay),
        done => done,
    }
}

/// Ends a nameless file and has its objects removed. It is gone after a switch, also one whose durability is in doubt: then nothing
/// is done. False when it must be tried again.
fn close(fs: &Fs, nameless: FileId) -> bool {
    let closed = Actor::root().ns(fs, |ns, op| ns.orphan_closed(op, nameless));
    if let Err(status) = closed {
        tracing::warn!(nameless = nameless.0, %status, "new objects of a file");
    }
    closed.is_ok()
}

/// Ends the nameless files that jobs have left. To be called about every second.
pub(crate) fn close_leftovers(fs: &Fs) {
    for nameless in fs.restripes.leftovers() {
        if close(fs, nameless) {
            fs.restripes.leftover_closed(nameless);
        }
    }
}

/// Has all writers of a file write through this server.
async fn writers_here(fs: &Arc<Fs>, inode: &Inode) -> Result<(), NfsStatus> {
    layouts_gone(fs, inode, IoModes::RW, None).await?;
    let _alone = quiesce::gate(fs, inode.id).await?;
    fence_all(fs, inode.id).await
}

/// Ends all handles of a file. To be called under its gate: no write that was begun before goes on when this returns.
async fn fence_all(fs: &Arc<Fs>, file: FileId) -> Result<(), NfsStatus> {
    fs.layouts.writers.lock().forget(file);
    let is_noted = raise_epoch(fs, file, None)?;
    fs.durable(fs.store().applied()).await?;
    if !is_noted {
        return Err(NfsStatus::Stale);
    }
    fs.deliver_fences();
    let inode = Actor::root().ns(fs, |ns, op| ns.getattr(op, file))?;
    match fs.fences_settled(&inode, FENCE_WAIT_MS).await {
        true => Ok(()),
        false => Err(NfsStatus::Delay),
    }
}

/// One attempt, from the copy on.
struct Job<'a> {
    fs: &'a Arc<Fs>,
    file: FileId,
    /// Where the file lies now.
    was: Placement,
    nameless: Arc<Inode>,
    progress: Arc<Progress>,
}

impl Job<'_> {
    async fn run(&mut self, actor: &mut Actor) -> Result<(), NfsStatus> {
        let size = actor.ns(self.fs, |ns, op| ns.getattr(op, self.file))?.size;
        self.copy(actor, 0, size).await?;
        for _ in 0..ROUNDS_MAX {
            let written = self.fs.restripes.take(self.file);
            if written.bytes() > LAST_BYTES_MAX {
                for (start, end) in written.iter() {
                    self.copy(actor, start, end).await?;
                }
                continue;
            }
            self.fs.restripes.give_back(self.file, &written);
            if self.switch(actor).await? {
                return Ok(());
            }
        }
        Err(NfsStatus::Delay)
    }

    /// Copies a range of the file to the new objects, durably, as far as the file goes.
    async fn copy(&self, actor: &mut Actor, from: u64, to: u64) -> Result<(), NfsStatus> {
        let mut at = from;
        while at < to {
            if self.fs.restripes.is_overtaken(self.file) {
                return Err(NfsStatus::Delay);
            }
            let src = actor.ns(self.fs, |ns, op| ns.getattr(op, self.file))?;
            let len = WINDOW_BYTES.min(to.min(src.size).saturating_sub(at));
            if len == 0 {
                return Ok(());
            }
            let copy = Copy {
                src,
                dst: Arc::clone(&self.nameless),
                src_offset: at,
                dst_offset: at,
                count: len,
            };
            let progress = Arc::<Progress>::default();
            let patience = Patience {
                progress: Arc::clone(&progress),
                until: Some(Instant::now() + Duration::from_millis(AWAY_WAIT_MS)),
            };
            let kept = |_: &_| Prepared::default();
            copy::run(self.fs, actor, &copy, &patience, &kept).await?;
            self.check_gain(actor)?;
            self.progress.copied_bytes.fetch_add(len, Relaxed);
            at += len;
        }
        Ok(())
    }

    /// New objects that lack as many mirrors as those that the file has are of no use.
    fn check_gain(&self, actor: &mut Actor) -> Result<(), NfsStatus> {
        let mut bad = |file| {
            let inode = actor.ns(self.fs, |ns, op| ns.getattr(op, file))?;
            Ok::<u32, NfsStatus>(inode.bad_mirrors().count_ones())
        };
        match (bad(self.file)?, bad(self.nameless.id)?) {
            (before, after) if before > 0 && after >= before => Err(NfsStatus::Io),
            _ => Ok(()),
        }
    }

    /// Copies the rest while nobody reads or writes, and gives the file its new objects. False when too much was left.
    async fn switch(&self, actor: &mut Actor) -> Result<bool, NfsStatus> {
        let fs = self.fs;
        let inode = actor.ns(fs, |ns, op| ns.getattr(op, self.file))?;
        let _hold = LayoutHold::new(fs, self.file);
        layouts_gone(fs, &inode, IoModes::ANY, None).await?;
        let _alone = quiesce::gate(fs, self.file).await?;
        let written = fs.restripes.take(self.file);
        if written.bytes() > LAST_BYTES_MAX {
            fs.restripes.give_back(self.file, &written);
            return Ok(false);
        }
        fence_all(fs, self.file).await?;
        self.copy_alone(actor, &written).await?;
        self.check_gain(actor)?;
        if fs.restripes.is_overtaken(self.file) {
            return Err(NfsStatus::Delay);
        }
        let switched = actor.ns(fs, |ns, op| {
            ns.finish_restripe(op, (self.file, self.was), self.nameless.id)
        });
        switched?;
        // The gate stays closed until no crash takes it back.
        fs.durable(actor.observed).await?;
        fs.note_space(self.file);
        Ok(true)
    }

    /// Copies ranges under the gate: each chunk is durable at all members when it is answered.
    async fn copy_alone(&self, actor: &mut Actor, ranges: &Ranges) -> Result<(), NfsStatus> {
        let fs = self.fs;
        let key = io_key(fs);
        let src = actor.ns(fs, |ns, op| ns.getattr(op, self.file))?;
        let dst = actor.ns(fs, |ns, op| ns.getattr(op, self.nameless.id))?;
        let from = target(fs, key.as_ref(), &src, Rights::Read)?;
        let to = target(fs, key.as_ref(), &dst, Rights::ReadWrite)?;
        for (start, end) in ranges.iter() {
            let end = end.min(src.size);
            let mut at = start;
            while at < end {
                let len = CHUNK_BYTES.min(end - at);
                let bytes = from.read(fs, at, len).await?;
                let written = to.write(fs, at, StableHow::DataSync, &bytes);
                if written.await?.committed < StableHow::DataSync {
                    return Err(NfsStatus::Delay);
                }
                at += len;
            }
        }
        Ok(())
    }
}
