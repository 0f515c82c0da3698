//! Reading the ring from its oldest record on: what survived, and whether what is missing had been durable.
//!
//! # Failure
//! The walk ends at the first record that is not whole. If a later record says that this one was durable before, it is
//! damage and not a torn end: [`LogError::Corrupt`] names the file and the place, and nothing is changed.

use crate::format::{ALIGN, HEAD_BYTES, Head, RING_AT, Slot, is_whole};
use crate::{LogError, PAYLOAD_BYTES_MAX};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How far after the end it looks for records that were written later: more than what is ever unsynced.
const LOOK_AHEAD_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of one read while it looks.
const LOOK_BYTES: usize = 1024 * 1024;

/// A log to be read.
pub(crate) struct Ring<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) slot: Slot,
}

/// Where the records end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) at: u64,
    /// The number of the next record.
    pub(crate) number: u64,
}

/// A record that is whole.
struct Found {
    head: Head,
    payload: Vec<u8>,
}

impl Ring<'_> {
    fn place(&self, at: u64) -> u64 {
        RING_AT + at % self.slot.ring_bytes
    }

    /// Reads at a place; fewer bytes at the end of the file.
    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<usize, LogError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(done)
    }

    /// The record at a position, if it is whole and belongs there.
    fn record(&self, at: u64) -> Result<Option<Found>, LogError> {
        let offset = self.place(at);
        let mut head_bytes = [0; HEAD_BYTES];
        self.read(&mut head_bytes, offset)?;
        let Some(head) = Head::parse(&head_bytes).filter(|head| head.at == at) else {
            return Ok(None);
        };
        let payload_bytes = head.payload_bytes.unwrap_or(0) as usize;
        let end = at % self.slot.ring_bytes + head.whole_bytes();
        if payload_bytes > PAYLOAD_BYTES_MAX || end > self.slot.ring_bytes {
            return Ok(None);
        }
        let mut payload = vec![0; payload_bytes];
        self.read(&mut payload, offset + HEAD_BYTES as u64)?;
        let is_whole = is_whole(&head_bytes, &payload);
        Ok(is_whole.then_some(Found { head, payload }))
    }

    /// Calls `visit` with number, position and payload of each record, oldest first, until it returns false.
    pub(crate) fn walk(
        &self,
        visit: &mut dyn FnMut(u64, u64, &[u8]) -> bool,
    ) -> Result<End, LogError> {
        let mut end = End {
            at: self.slot.tail_at,
            number: self.slot.tail_number,
        };
        let mut opening = 0;
        let limit = self.slot.tail_at + self.slot.ring_bytes;
        while end.at < limit {
            // A record of an earlier opening after one of a later is what that one has not yet overwritten.
            let found = self
                .record(end.at)?
                .filter(|f| f.head.number == end.number && f.head.opening >= opening);
            let Some(Found { head, payload }) = found else {
                break;
            };
            opening = head.opening;
            if head.payload_bytes.is_none() {
                end.at = (end.at / self.slot.ring_bytes + 1) * self.slot.ring_bytes;
                continue;
            }
            if !visit(head.number, end.at, &payload) {
                return Ok(end);
            }
            end.at += head.whole_bytes();
            end.number += 1;
        }
        self.check_end(end, limit)?;
        Ok(end)
    }

    /// Whether the record that should follow had been durable.
    fn check_end(&self, end: End, limit: u64) -> Result<(), LogError> {
        let until = limit.min(end.at + LOOK_AHEAD_BYTES);
        let mut bytes = vec![0; LOOK_BYTES];
        let mut from = end.at;
        while from < until {
            let to_wrap = self.slot.ring_bytes - from % self.slot.ring_bytes;
            let len = to_wrap.min(until - from).min(LOOK_BYTES as u64);
            let part = &mut bytes[..usize::try_from(len).expect("below LOOK_BYTES")];
            part.fill(0);
            self.read(part, self.place(from))?;
            for (at, bytes) in (from..).step_by(ALIGN).zip(part.chunks(ALIGN)) {
                if Head::parse(bytes).is_none_or(|h| h.at != at || h.durable < end.number) {
                    continue;
                }
                if let Some(later) = self.record(at)? {
                    return Err(self.damage(end, &later.head));
                }
            }
            from += len;
        }
        Ok(())
    }

    /// The record that should follow is durable, and nothing is there.
    pub(crate) fn missing(&self, end: End) -> LogError {
        LogError::Corrupt(format!(
            "{}: record {} at byte {} was durable and is damaged; restore this server's state_dir from a backup",
            self.path.display(),
            end.number,
            self.place(end.at),
        ))
    }

    fn damage(&self, end: End, later: &Head) -> LogError {
        LogError::Corrupt(format!(
            "{}: record {} at byte {} is damaged, and record {} says that it was durable; restore this server's \
             state_dir from a backup",
            self.path.display(),
            end.number,
            self.place(end.at),
            later.number,
        ))
    }
}
