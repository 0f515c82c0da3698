//! What is held of the layout of one file.

use crate::stripes::Segment;
use nfs4::Stateid;
use std::sync::Arc;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct LayoutState {
    pub(crate) stateid: Option<Stateid>,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// A recall is being carried out: no I/O may begin under the layout.
    pub(crate) recalled: bool,
    pub(crate) avoid_until: Option<Instant>,
    /// Rises when all is forgotten, so that a late grant of before is not taken.
    pub(crate) forgotten: u64,
}

impl LayoutState {
    /// Nothing is held any more.
    pub(crate) fn forget(&mut self) {
        self.stateid = None;
        self.segments.clear();
        self.forgotten += 1;
    }

    /// No I/O under the segments, while the stateid lives on.
    pub(crate) fn drop_segments(&mut self) {
        self.segments.clear();
    }

    /// Takes a stateid if it is newer than the one held.
    pub(crate) fn note(&mut self, new: Stateid) {
        let is_older = self.stateid.is_some_and(|old| {
            old.other == new.other && old.seqid.wrapping_sub(new.seqid) < u32::MAX / 2
        });
        if !is_older {
            self.stateid = Some(new);
        }
    }

    pub(crate) fn find(&self, offset: u64, end: u64, write: bool) -> Option<Arc<Segment>> {
        let mut found = self.segments.iter();
        found.find(|s| s.covers(offset, end, write)).cloned()
    }

    pub(crate) fn is_avoided(&self) -> bool {
        self.recalled || self.avoid_until.is_some_and(|t| Instant::now() < t)
    }
}
