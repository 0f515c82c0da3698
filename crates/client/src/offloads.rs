//! Copies that go on after their answers, and how they ended.

use nfs4::cb::OffloadInfo;
use nfs4::{OTHER_BYTES, Stateid};
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// Ends of copies that are kept until somebody wants them; the oldest go first, and such a copy is done again.
const ENDS_KEPT_MAX: usize = 64;

/// How copies ended that went on after their answers.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    ends: Mutex<VecDeque<([u8; OTHER_BYTES], OffloadInfo)>>,
    pub(crate) ended: Notify,
}

impl Offloads {
    /// CB_OFFLOAD, which may come before the answer of its COPY.
    pub(crate) fn end(&self, copy: Stateid, info: OffloadInfo) {
        let mut ends = self.ends.lock();
        if ends.len() == ENDS_KEPT_MAX {
            ends.pop_front();
        }
        ends.push_back((copy.other, info));
        self.ended.notify_waiters();
    }

    pub(crate) fn take(&self, copy: Stateid) -> Option<OffloadInfo> {
        let mut ends = self.ends.lock();
        let at = ends.iter().position(|(other, _)| *other == copy.other)?;
        ends.remove(at).map(|(_, info)| info)
    }
}
