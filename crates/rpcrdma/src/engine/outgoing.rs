//! A call of ours: what is known of it from its beginning to its end.

use super::interface::{CallError, CallReply};
use super::plan::{Plan, Role};
use crate::header::{ChunkLists, ReadSegment, Segment};
use crate::message::Message;

/// A call of ours.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) plan: Plan,
    /// What it exposes, in the order of the plan.
    pub(super) regions: Vec<Region>,
    pub(super) phase: Phase,
    /// Somebody waits for the outcome.
    pub(super) wanted: bool,
    /// Invalidations asked for and not complete.
    pub(super) invalidations: usize,
    /// Replies of ours that had left when it was sent.
    pub(super) sent_behind: u64,
    pub(super) outcome: Option<Result<CallReply, CallError>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Exposing { missing: usize },
    Queued,
    Sent,
    Done,
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) role: Role,
    pub(super) bytes: u32,
    pub(super) segments: Vec<Segment>,
    /// Handles whose access has not been taken back, nor asked to be.
    pub(super) live: Vec<u32>,
}

impl Outgoing {
    pub(super) const fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(super) fn is_sent(&self) -> bool {
        self.phase == Phase::Sent
    }

    /// Replies of ours that the peer has once it answers this.
    pub(super) const fn sent_behind(&self) -> u64 {
        self.sent_behind
    }

    pub(super) const fn writes_asked(&self) -> usize {
        self.plan.writes_asked
    }

    pub(super) const fn writes_offered(&self) -> usize {
        self.plan.writes.len()
    }

    pub(super) fn owns(&self, handle: u32) -> bool {
        let mut segments = self.regions.iter().flat_map(|r| &r.segments);
        segments.any(|s| s.handle == handle)
    }

    /// The peer has invalidated `handle`.
    pub(super) fn was_invalidated(&mut self, handle: u32) {
        for region in &mut self.regions {
            region.live.retain(|live| *live != handle);
        }
    }

    pub(super) fn lists(&self) -> ChunkLists {
        let mut lists = ChunkLists {
            writes: vec![Vec::new(); self.plan.writes.len()],
            ..ChunkLists::default()
        };
        for region in &self.regions {
            match region.role {
                Role::Read { position } => {
                    let read = |&target| ReadSegment { position, target };
                    lists.reads.extend(region.segments.iter().map(read));
                }
                Role::Write { chunk } => lists.writes[chunk].clone_from(&region.segments),
                Role::Reply => lists.reply = Some(region.segments.clone()),
            }
        }
        lists
    }
}
