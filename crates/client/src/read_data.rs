//! What a read brings: the answers of several READs, in the order of the file, with what may be lost at the server laid over them.

use crate::dirty::Dirty;
use crate::io::Got;
use bytes::Bytes;

/// Most bytes of one [`File::read_at`]; more are answered short.
pub(crate) const READ_BYTES_MAX: u32 = 64 << 20;

/// What a read brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadData {
    /// The bytes, in order; each chunk is a slice of what arrived.
    pub chunks: Vec<Bytes>,
    /// Whether the file ends after them.
    pub eof: bool,
}

impl ReadData {
    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in one piece; copies when there are several chunks.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        if self.chunks.len() <= 1 {
            self.chunks.pop().unwrap_or_default()
        } else {
            self.chunks.concat().into()
        }
    }
}

/// Puts the answers of READs together, which are in the order of the file and may be short.
pub(crate) fn assemble<T: Clone>(
    parts: Vec<Got>,
    offset: u64,
    len: u64,
    dirty: &Dirty<T>,
) -> ReadData {
    let end = offset + len;
    // Data servers may not know of bytes that another one holds and the MDS was not told of yet. A short answer in
    // the middle is therefore a hole.
    let reached = parts.iter().map(|p| {
        let got: usize = p.chunks.iter().map(Bytes::len).sum();
        if got == 0 {
            offset
        } else {
            p.offset + got as u64
        }
    });
    let dirty_end = dirty.end();
    let valid_end = reached.max().unwrap_or(offset).max(dirty_end.min(end));
    let mut eof = valid_end < end;
    let mut chunks = Vec::new();
    let mut at = offset;
    for part in parts {
        for chunk in part.chunks {
            at += chunk.len() as u64;
            chunks.push(chunk);
        }
        let part_end = (part.offset + part.len).min(valid_end);
        if at < part_end {
            let hole = usize::try_from(part_end - at).unwrap_or(0);
            chunks.push(Bytes::from(vec![0; hole]));
            at = part_end;
        }
        eof |= part.eof && at == end && dirty_end <= end;
    }
    let mut data = ReadData { chunks, eof };
    if dirty.overlaps(offset, at) {
        let mut bytes = data.chunks.concat();
        dirty.overlay(offset, &mut bytes);
        data.chunks = vec![bytes.into()];
    }
    data
}
