//! Messages that are put aside: their store.

use crate::ddp::SegmentHeader;
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of messages, and of the books about them, from which on no other is put aside. One connection has as much as
/// its inbox takes at most. The last one may go beyond it.
pub(super) const ASIDE_BYTES_MAX: usize = 64 * 1024;

/// What one connection has put aside, oldest first. While there is any, nothing is admitted.
#[derive(Debug, Default)]
pub(super) struct Aside {
    pub(super) messages: VecDeque<Message>,
    pub(super) bytes: usize,
    /// The oldest receive is no receive: the message in it will be put aside.
    pub(super) is_under_way: bool,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) data: Bytes,
    pub(super) invalidate: Option<u32>,
    /// Its last segment, and the bytes of that.
    pub(super) segment: (SegmentHeader, usize),
}

impl Message {
    /// What it takes here.
    fn bytes(&self) -> usize {
        self.data.len() + size_of::<Self>()
    }
}

impl Aside {
    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    pub(super) fn push(&mut self, message: Message) {
        self.bytes += message.bytes();
        self.messages.push_back(message);
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.bytes();
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
        Some(message)
    }
}
