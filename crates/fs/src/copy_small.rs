//! The copy of a small range: one READ, and one stable WRITE that needs no COMMIT after it.
//!
//! May call [`crate::io`]. What is not that simple it leaves to [`crate::copy`]: zeros, which become a hole, and a source that
//! was cut meanwhile.

use crate::actor::{Actor, Prepared};
use crate::copy_job::{Copy, Keep, Patience, is_zero, patiently};
use crate::fs::Fs;
use crate::io::{WriteJob, read, write};
use crate::offloads::CopyDone;
use nfs4::ops::WriteRes;
use nfs4::{NfsStatus, StableHow};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Most bytes: what a data server makes durable by one redo record.
const BYTES_MAX: u64 = 64 * 1024;

/// Copies a small range; `None` if that is to be done the long way. What it observed is not yet durable when it returns.
///
/// # Errors
/// As [`crate::io::write`].
pub(crate) async fn copy_small(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    copy: &Copy,
    patience: &Patience,
    kept: Keep<'_>,
) -> Result<Option<CopyDone>, NfsStatus> {
    let Copy {
        src,
        dst,
        src_offset,
        dst_offset,
        count,
    } = copy;
    if *count == 0 || *count > BYTES_MAX {
        return Ok(None);
    }
    let range = (*src_offset, *count);
    let seen_end = src_offset + count;
    let found = patiently!(patience, read(fs, actor, src, range, seen_end));
    let (bytes, _eof) = found?;
    if bytes.len() as u64 != *count || is_zero(&bytes) {
        return Ok(None);
    }
    let job = WriteJob {
        offset: *dst_offset,
        stable: StableHow::FileSync,
        bytes,
    };
    let done = |res: &WriteRes| CopyDone {
        count: u64::from(res.count),
        verifier: res.write_verifier,
    };
    let keep = |res: &WriteRes| match res.committed {
        StableHow::FileSync => kept(&done(res)),
        _ => Prepared::default(),
    };
    let written = patiently!(patience, write(fs, actor, dst, &job, &keep));
    let written = written?;
    patience.progress.copied_bytes.store(*count, Relaxed);
    Ok((written.committed == StableHow::FileSync).then(|| done(&written)))
}
