//! `READ_PLUS` (RFC 7862 §15.10): READ, with zeros told as holes.
//!
//! A hole at a data server reads as zeros, and the RFC wants stored zeros told as holes too. The bytes alone are enough.

use crate::Mds;
use crate::attrs::IO_BYTES_MAX;
use crate::check_io::check_io;
use crate::cx::Cx;
use bytes::Bytes;
use fs::is_zero;
use nfs4::NfsStatus;
use nfs4::ops::{ReadPlusArgs, ReadPlusContent, ReadPlusData, ReadPlusHole, ReadPlusRes};
use state::Io;
use xdr::Opaque;

/// Smallest run of zeros that is told as a hole, and the step in which they are looked for.
const BLOCK_BYTES: usize = 4096;
/// Most segments of a reply. What comes after the last but one is data.
const SEGMENTS_MAX: usize = 64;
/// Room that a reply needs beside the bytes: 20 for each segment, and what READ needs.
const RESULT_BYTES: usize = 256 + SEGMENTS_MAX * 20;

/// Bytes that were read.
pub(super) struct Read {
    eof: bool,
    offset: u64,
    bytes: Bytes,
}

pub(super) async fn read_plus(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: ReadPlusArgs,
) -> Result<Read, NfsStatus> {
    let (inode, _excluded) = check_io(mds, cx, args.stateid, Io::Read).await?;
    let room = u64::try_from(cx.room(RESULT_BYTES)).unwrap_or(u64::MAX);
    let count = u64::from(args.count).min(IO_BYTES_MAX).min(room);
    let expected = inode.size.saturating_sub(args.offset).min(count);
    // Twice: the bytes are copied into the reply.
    let held = u32::try_from(expected.saturating_mul(2)).unwrap_or(u32::MAX);
    cx.charge_reply(held).await?;
    let (bytes, eof) = fs::read(&mds.fs, &mut cx.actor, &inode, (args.offset, count), 0).await?;
    cx.actor.note_read(&mds.fs, &inode);
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    fs::note_read(&mds.fs, &cx.actor, len);
    Ok(Read {
        eof,
        offset: args.offset,
        bytes,
    })
}

impl Read {
    /// The result, cut into data and holes.
    pub(super) fn result(&self) -> ReadPlusRes<'_> {
        let mut contents = Vec::new();
        let mut at = 0;
        while at < self.bytes.len() {
            let end = self.segment_end(at, contents.len() + 1 == SEGMENTS_MAX);
            let offset = self.offset + at as u64;
            let part = &self.bytes[at..end];
            contents.push(if is_zero(part) && part.len() >= BLOCK_BYTES {
                ReadPlusContent::Hole(ReadPlusHole {
                    offset,
                    length: part.len() as u64,
                })
            } else {
                ReadPlusContent::Data(ReadPlusData {
                    offset,
                    data: Opaque(part),
                })
            });
            at = end;
        }
        ReadPlusRes {
            eof: self.eof,
            contents: contents.into(),
        }
    }

    /// Where the segment that begins at `at` ends: a run of blocks of zeros, or what comes before the next one.
    fn segment_end(&self, at: usize, is_last: bool) -> usize {
        let bytes = &self.bytes[at..];
        let block = |n: usize| &bytes[n * BLOCK_BYTES..bytes.len().min((n + 1) * BLOCK_BYTES)];
        let is_hole = |n: usize| is_zero(block(n));
        let blocks = bytes.len().div_ceil(BLOCK_BYTES);
        let first_is_hole = is_hole(0);
        if is_last {
            return self.bytes.len();
        }
        let run = (1..blocks).find(|n| is_hole(*n) != first_is_hole);
        run.map_or(self.bytes.len(), |n| at + n * BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client makes of the result, and how many segments and holes it has.
    fn read_back(read: &Read) -> (Vec<u8>, usize, usize) {
        let result = read.result();
        let mut out = Vec::new();
        let mut holes = 0;
        for content in &result.contents.0 {
            let (offset, part) = match content {
                ReadPlusContent::Data(data) => (data.offset, data.data.0.to_vec()),
                ReadPlusContent::Hole(hole) => {
                    holes += 1;
                    let len = usize::try_from(hole.length).expect("small");
                    assert!(len >= BLOCK_BYTES);
                    (hole.offset, vec![0; len])
                }
            };
            assert_eq!(offset, read.offset + out.len() as u64, "contiguous");
            out.extend(part);
        }
        (out, result.contents.0.len(), holes)
    }

    fn read(bytes: Vec<u8>) -> Read {
        Read {
            eof: true,
            offset: 777,
            bytes: bytes.into(),
        }
    }

    #[test]
    fn zeros_are_told_as_holes_and_nothing_is_lost() {
        let mut bytes = vec![0; 3 * BLOCK_BYTES];
        bytes.extend([5; 100]);
        bytes.extend(vec![0; 5 * BLOCK_BYTES]);
        let whole = read(bytes.clone());
        assert_eq!(read_back(&whole), (bytes, 3, 2));
        assert_eq!(read_back(&read(Vec::new())), (Vec::new(), 0, 0));
        assert_eq!(read_back(&read(vec![0; 9])), (vec![0; 9], 1, 0));
        let all = vec![0; 10 * BLOCK_BYTES];
        assert_eq!(read_back(&read(all.clone())), (all, 1, 1));
    }

    #[test]
    fn a_reply_has_a_bounded_number_of_segments() {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            bytes.extend([1; BLOCK_BYTES]);
            bytes.extend([0; BLOCK_BYTES]);
        }
        let (back, segments, _) = read_back(&read(bytes.clone()));
        assert_eq!((back == bytes, segments), (true, SEGMENTS_MAX));
    }
}
