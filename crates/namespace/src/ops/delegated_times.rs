//! The times of a file as the holder of a delegation tells them (RFC 9754 §5).

use crate::inode::Inode;
use crate::ops::setattr::{SetTime, replace};
use crate::{FileId, Namespace, NsError, Op, Time};
use meta::Purpose;
use std::sync::Arc;

/// What a holder tells of a file that it made. Times in the future become the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelegatedTimes {
    /// Time of the last access.
    pub atime: Option<Time>,
    /// Time of the last change of data.
    pub mtime: Option<Time>,
    /// The holder has modified data that the server has not seen. Without `mtime` that was now.
    pub is_modified: bool,
}

impl Namespace {
    /// Sets the times that a holder tells. No permission is checked. An access time alone leaves the change attribute
    /// and ctime as they are; a modification time moves the first, and the second never back.
    ///
    /// # Errors
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file and the times are times.
    pub fn set_delegated_times(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        times: DelegatedTimes,
    ) -> Result<Arc<Inode>, NsError> {
        let now = op.now;
        // One now for all of them.
        let told = |time: Option<Time>| {
            let time = SetTime::resolve(time.map(SetTime::Client), now)?;
            Ok::<_, NsError>(time.map(|time| time.min(now)))
        };
        let (atime, mtime) = (told(times.atime)?, told(times.mtime)?);
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            let before = txn.regular(file)?;
            let atime = atime.unwrap_or(before.atime);
            let mtime = mtime.unwrap_or(if times.is_modified { now } else { before.mtime });
            if times.is_modified || mtime != before.mtime {
                let mut after = Inode {
                    atime,
                    mtime,
                    ctime: before.ctime.max(mtime),
                    verifier: None,
                    ..(*before).clone()
                };
                if times.is_modified {
                    after.note_modified();
                }
                return replace(txn, after);
            }
            if atime != before.atime {
                let inode = txn.touch_quietly(file)?;
                inode.atime = atime;
                return Ok(Arc::new(inode.clone()));
            }
            Ok(before)
        })
    }
}
