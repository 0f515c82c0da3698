//! Writes of this server itself to mirrored foreign files: how one begins and ends.
//!
//! # Ownership
//! The RW-out mark of [`OWN_WRITER`] says durably that mirrors of a file may differ. It is made for a burst of writes, not for each.
//!
//! # Ordering
//! The mark is durable before the first write of a burst is sent. It is made under the file's grant lock, as it is taken off
//! ([`crate::levelling`]).
//!
//! # Failure
//! A write that failed for good, and is at some mirrors or in part, has the others marked as bad before it is answered. So readers see
//! one version. One that is to be tried again leaves a range in doubt. After a restart a marked file goes through the recovery of sizes, which lets one mirror count.
//!
//! May call: `own_writes`, `bad_mirrors`, the name space.

use crate::bad_mirrors;
use crate::foreign_files::good_mirrors;
use crate::fs::{Fs, status};
use crate::own_writes::Ended;
use foreign::{FileAt, NotWritten};
use meta::Seq;
use namespace::{Cred, FileId, NsError, OWN_WRITER, Op};
use nfs4::NfsStatus;
use std::sync::Arc;
use tokio::time::Instant;

/// A write under way. Dropped before it is ended, it may have reached some mirrors.
pub(crate) struct OwnWrite<'a> {
    fs: &'a Fs,
    file: FileId,
    range: (u64, u64),
    ended: Ended,
}

impl OwnWrite<'_> {
    pub(crate) fn ended(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for OwnWrite<'_> {
    fn drop(&mut self) {
        let mut all = self.fs.own_writes.lock();
        all.end(self.file, self.range, self.ended, Instant::now());
    }
}

/// A write to a foreign file begins. Its mark is durable when this returns. `None` for a file whose mirrors cannot differ: it has one,
/// or nobody reads it before it is whole.
///
/// # Errors
/// `Delay` when too many files are written; `Stale`; what the store says.
pub(crate) async fn begin<'a>(
    fs: &'a Arc<Fs>,
    (file, at): (FileId, &FileAt),
    range: (u64, u64),
) -> Result<Option<OwnWrite<'a>>, NfsStatus> {
    let group = fs.foreign.group(at.group);
    let is_mirrored = group.is_some_and(|group| good_mirrors(&group, at).count_ones() > 1);
    if !is_mirrored || fs.restripes.is_nameless(file) {
        return Ok(None);
    }
    let marked = enter(fs, file)?;
    // Nothing is sent before.
    let mut write = OwnWrite {
        fs,
        file,
        range,
        ended: Ended::Untouched,
    };
    fs.durable(marked).await?;
    write.ended = Ended::Unknown;
    Ok(Some(write))
}

/// Enters a write, and makes the mark if it is the first one.
fn enter(fs: &Arc<Fs>, file: FileId) -> Result<Seq, NfsStatus> {
    let _order = fs.layouts.grant_lock(file).lock();
    {
        let mut all = fs.own_writes.lock();
        if let Some(marked) = all.join(file) {
            return Ok(marked);
        }
        if all.is_full() {
            return Err(NfsStatus::Delay);
        }
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let marked = fs.ns.mark_rw_out(&mut op, file, OWN_WRITER, &[]);
    marked.map_err(|error| match error {
        NsError::TooMany => NfsStatus::Delay,
        error => status(&error),
    })?;
    let marked = op.observed();
    fs.own_writes.lock().enter(file, marked, Instant::now());
    Ok(marked)
}

/// A write has failed as a whole. Where that is final, the mirrors that count have one version of it when this returns: all of it, or
/// nothing, or what one mirror has. Returns how it ended then; `None` while mirrors may differ.
pub(crate) async fn failed(
    fs: &Arc<Fs>,
    (file, at): (FileId, &FileAt),
    failed: NotWritten,
) -> Option<Ended> {
    if failed.touched_mirrors == 0 {
        return Some(Ended::Untouched);
    }
    if failed.status == NfsStatus::Delay {
        // It is tried again.
        return None;
    }
    let good = good_mirrors(&*fs.foreign.group(at.group)?, at);
    let lost = good & !one_version(good, failed);
    let lost = bad_mirrors::lose(fs, file, lost).await;
    lost.is_ok().then_some(Ended::Unstable)
}

/// The mirrors that are kept of those that count: those with all of a write, or those with nothing of it, or one.
const fn one_version(good: u32, failed: NotWritten) -> u32 {
    let whole = good & failed.whole_mirrors;
    let untouched = good & !failed.touched_mirrors;
    match (whole, untouched) {
        (0, 0) => 1 << good.trailing_zeros(),
        (0, untouched) => untouched,
        (whole, _) => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirrors_that_are_kept_have_one_version() {
        for (good, whole, touched, kept) in [
            (0b11, 0b01, 0b01, 0b01),
            (0b11, 0b00, 0b01, 0b10),
            (0b110, 0b000, 0b110, 0b010),
            (0b111, 0b101, 0b111, 0b101),
            (0b1110, 0, 0b0010, 0b1100),
        ] {
            let failed = NotWritten {
                status: NfsStatus::NoSpc,
                whole_mirrors: whole,
                touched_mirrors: touched,
            };
            let of = one_version(good, failed);
            assert_eq!(of, kept, "{good:b} {whole:b} {touched:b}");
        }
    }
}
