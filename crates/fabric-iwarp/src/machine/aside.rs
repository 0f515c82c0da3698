//! Messages beyond what was admitted that stand before an answer which is due.
//!
//! A message that was not admitted waits in the stream, and everything after it does. Where a read of ours is under way its
//! answer may be behind it, and what would admit the message may need that answer. So such messages are taken out of the way:
//! they are received whole, kept in order, and handed over as they are admitted.
//!
//! # Ownership
//! A message comes into one buffer beside the shared queue, and touches nobody's receive. It is kept in as many bytes as it has.
//! When it is admitted it moves into its receive, as if it had come then: what it invalidates is withdrawn then, too.
//!
//! # Failure
//! There is a bound, [`ASIDE_BYTES_MAX`]. A peer that goes beyond it is cut off, as one without a receive is (RFC 5041
//! §7.1). It cannot be read on, and its answer would never come. One that keeps to its credits has nothing here.

use super::parts::Op;
use super::put_aside::{ASIDE_BYTES_MAX, Message};
use super::state::Machine;
use crate::ddp::SegmentHeader;
use bytes::Bytes;
use fabric::{Buffer, Claim, Receive};

impl Machine {
    /// Whether a read of ours is not complete.
    pub(super) fn awaits_answers(&self) -> bool {
        let is_read = |op: &Op| matches!(op, Op::Read { .. });
        !self.reads.is_empty() || self.send_queue.iter().any(|item| is_read(&item.op))
    }

    /// The place of a message that will be put aside; `None` when there is no room for it.
    pub(super) fn begin_aside(&mut self) -> Option<Buffer> {
        if self.aside.bytes >= ASIDE_BYTES_MAX {
            return None;
        }
        let buffer = self.claim.as_ref()?.queue().receive()?;
        self.aside.is_under_way = true;
        Some(buffer)
    }

    /// The message in the oldest receive is whole, and has not been admitted.
    pub(super) fn put_aside(
        &mut self,
        bytes: usize,
        invalidate: Option<u32>,
        segment: (SegmentHeader, usize),
    ) {
        let Some(Receive { buffer, .. }) = self.receives.pop_front() else {
            unreachable!("a receive stays until it was filled");
        };
        self.aside.is_under_way = false;
        self.aside.push(Message {
            data: Bytes::copy_from_slice(&buffer[..bytes]),
            invalidate,
            segment,
        });
    }

    /// Hands over what was put aside, as far as it is admitted now.
    pub(super) fn admit_aside(&mut self) {
        while self.ended.is_none() && !self.aside.messages.is_empty() {
            let Some(mut buffer) = self.claim.as_mut().and_then(Claim::take) else {
                return;
            };
            let Some(message) = self.aside.pop() else {
                unreachable!("there was one");
            };
            let bytes = message.data.len();
            buffer[..bytes].copy_from_slice(&message.data);
            // Before that of a message that is under way.
            self.receives.push_front(Receive { id: 0, buffer });
            if let Err(term) = self.deliver_message(bytes, message.invalidate) {
                self.fault(term, Some(message.segment), None);
            }
        }
    }
}
