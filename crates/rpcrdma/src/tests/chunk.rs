//! Goal: chunks mean what RFC 8166 §3.4 says: order, padding, several positions, lengths that come back.
//! Method: tables, and generated streams that are taken apart and put together again.

use bytes::Bytes;
use proptest::prelude::*;

use super::header::segment;
use crate::*;

const LIMIT: u32 = 1 << 20;

fn read(position: u32, handle: u32, length: u32, offset: u64) -> ReadSegment {
    ReadSegment {
        position,
        target: segment(handle, length, offset),
    }
}

fn plan(inline: Option<&Bytes>, list: &[ReadSegment]) -> Result<RecordPlan, ChunkError> {
    place(inline, &read_chunks(list), LIMIT)
}

#[test]
fn segments_of_a_position_stay_in_order_and_positions_are_sorted() {
    let list = [
        read(80, 1, 1, 0),
        read(0, 2, 1, 0),
        read(80, 3, 1, 0),
        read(44, 4, 1, 0),
        read(0, 5, 1, 0),
    ];
    let chunks = read_chunks(&list);
    let handles = |c: &ReadChunk| c.segments.iter().map(|s| s.handle).collect::<Vec<_>>();
    let found: Vec<_> = chunks.iter().map(|c| (c.position, handles(c))).collect();
    assert_eq!(found, [(0, vec![2, 5]), (44, vec![4]), (80, vec![1, 3])]);
}

#[test]
fn a_chunk_without_its_padding_gets_it_and_one_with_it_does_not() {
    let inline = Bytes::from(vec![7; 48]);
    let bare = plan(Some(&inline), &[read(44, 1, 5, 0)]).unwrap();
    assert_eq!(bare.bytes, 48 + 8);
    let found: Vec<_> = bare.pieces.iter().map(|p| (p.at, p.bytes.len())).collect();
    assert_eq!(found, [(0, 44), (49, 3), (52, 4)]);
    assert_eq!(bare.pieces[1].bytes[..], [0; 3]);
    let padded = plan(Some(&inline), &[read(44, 1, 5, 0), read(44, 2, 3, 9)]).unwrap();
    assert_eq!((padded.bytes, padded.pieces.len()), (48 + 8, 2));
    assert_eq!((padded.pulls[0].at, padded.pulls[1].at), (44, 49));
}

#[test]
fn a_long_call_is_read_around_the_holes_of_other_chunks() {
    let list = [
        read(0, 1, 30, 100),
        read(0, 2, 30, 500),
        read(52, 3, 6, 900),
    ];
    let placement = plan(None, &list).unwrap();
    assert_eq!(placement.bytes, 60 + 8);
    let found: Vec<_> = placement.pulls.iter().map(|p| (p.at, p.segment)).collect();
    let expected = [
        (0, segment(1, 30, 100)),
        (30, segment(2, 22, 500)),
        (52, segment(3, 6, 900)),
        (60, segment(2, 8, 522)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn chunks_that_make_no_record_are_refused() {
    let inline = Bytes::from(vec![7; 48]);
    let some = Some(&inline);
    let misplaced = |p| Err(ChunkError::Misplaced(p));
    let bad = |p| Err(ChunkError::BadPosition(p));
    for (list, expected) in [
        (vec![read(0, 1, 44, 0)], Err(ChunkError::NoStream)),
        (vec![read(42, 1, 4, 0)], bad(42)),
        (vec![read(4, 1, 4, 0)], bad(4)),
        (vec![read(36, 1, 4, 0)], bad(36)),
        (vec![read(52, 1, 4, 0)], misplaced(52)),
        (vec![read(40, 1, 5, 0), read(44, 1, 4, 0)], misplaced(44)),
        (vec![read(40, 1, 4, 0), read(56, 1, 4, 0)], misplaced(56)),
        (
            vec![read(40, 1, LIMIT, 0)],
            Err(ChunkError::TooLong(u64::from(LIMIT) + 48)),
        ),
        (
            vec![read(40, 1, u32::MAX, 0); 3],
            Err(ChunkError::TooLong(48 + 3 * u64::from(u32::MAX) + 3)),
        ),
    ] {
        assert_eq!(plan(some, &list), expected, "{list:?}");
    }
    assert!(plan(some, &[read(40, 1, 5, 0), read(48, 1, 4, 0)]).is_ok());
    assert!(plan(some, &[read(48, 1, 5, 0)]).is_ok());
    for list in [
        vec![],
        vec![read(44, 1, 8, 0)],
        vec![read(0, 1, READ_POSITION_MIN - 1, 0)],
    ] {
        assert_eq!(plan(None, &list), Err(ChunkError::NoStream), "{list:?}");
    }
    assert!(plan(None, &[read(0, 1, READ_POSITION_MIN, 0)]).is_ok());
}

#[test]
fn a_write_chunk_is_filled_in_order_and_the_rest_is_empty() {
    let chunk = [segment(1, 10, 5), segment(2, 0, 6), segment(3, 10, 7)];
    for (bytes, expected) in [
        (0, Some([0, 0, 0])),
        (4, Some([4, 0, 0])),
        (10, Some([10, 0, 0])),
        (11, Some([10, 0, 1])),
        (20, Some([10, 0, 10])),
        (21, None),
    ] {
        let filled = fill(&chunk, bytes);
        let lengths = filled
            .as_ref()
            .map(|f| [f[0].length, f[1].length, f[2].length]);
        assert_eq!(lengths, expected, "{bytes} bytes");
        for (a, b) in filled.iter().flatten().zip(&chunk) {
            assert_eq!((a.handle, a.offset), (b.handle, b.offset));
        }
    }
    assert_eq!(fill(&[], 0), Some(vec![]));
    assert_eq!(fill(&[], 1), None);
}

#[test]
fn a_reduced_reply_is_put_together_where_the_binding_says() {
    let reduced = [0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 2];
    let at = |places: [Option<usize>; 3]| {
        let chunks: [&[u8]; 3] = [b"hello", b"", b"hi"];
        reassemble(&reduced, &chunks, |_, chunk| places[chunk])
    };
    assert_eq!(
        at([Some(8), None, Some(16)]).unwrap(),
        b"\0\0\0\x09\0\0\0\x05hello\0\0\0\0\0\0\x07\0\0\0\x02hi\0\0"
    );
    let no_place = |chunk| Err(ReassembleError::NoPlace { chunk });
    assert_eq!(at([None, None, None]), no_place(0));
    assert_eq!(at([Some(17), None, None]), no_place(0));
    assert_eq!(at([Some(3), None, None]), no_place(0));
    assert_eq!(at([Some(8), None, Some(4)]), no_place(2));
    let differs = ReassembleError::CountDiffers { chunk: 0, count: 7 };
    assert_eq!(at([Some(12), None, Some(16)]), Err(differs));
}

/// A record, and for each of its chunks position, bytes, whether padding travels, and cuts.
type Case = (Vec<u8>, Vec<(u32, u32)>);

fn cases() -> impl Strategy<Value = Case> {
    let gaps = prop::collection::vec((0u32..8, 1u32..60), 0..5);
    (gaps, 0u32..40).prop_map(|(gaps, tail)| {
        let mut chunks = Vec::new();
        let mut at = READ_POSITION_MIN;
        for (gap, bytes) in gaps {
            at += 4 * gap;
            chunks.push((at, bytes));
            at += bytes.next_multiple_of(4);
        }
        let bytes = (0..at + tail).map(|i| u8::try_from(i % 251).unwrap() + 1);
        let mut record: Vec<u8> = bytes.collect();
        for (at, bytes) in &chunks {
            let end = (at + bytes) as usize;
            record[end..end.next_multiple_of(4)].fill(0);
        }
        (record, chunks)
    })
}

proptest! {
    /// The record is taken apart as a client would, and each byte of the plan comes from its place.
    #[test]
    fn pieces_and_pulls_make_the_record((record, chunks) in cases(), step in 1usize..40, long: bool, padded: bool) {
        let mut reduced = Vec::new();
        let mut memory: Vec<u8> = Vec::new();
        let mut list = Vec::new();
        let mut expose = |position: u32, bytes: &[u8]| {
            for piece in bytes.chunks(step) {
                let offset = memory.len() as u64;
                list.push(read(position, 1, u32::try_from(piece.len()).unwrap(), offset));
                memory.extend(piece);
                memory.extend([0xee; 3]);
            }
        };
        let mut taken = 0;
        for (position, bytes) in &chunks {
            let (from, end) = (*position as usize, (position + bytes) as usize);
            reduced.extend(&record[taken..from]);
            taken = end.next_multiple_of(4);
            expose(*position, &record[from..if padded { taken } else { end }]);
        }
        reduced.extend(&record[taken..]);
        let inline = Bytes::from(reduced);
        if long {
            expose(0, &inline);
        }
        let placement = plan((!long).then_some(&inline), &list).unwrap();
        let mut out = vec![None; placement.bytes as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            for (i, byte) in bytes.iter().enumerate() {
                assert_eq!(out[at as usize + i].replace(*byte), None, "covered twice");
            }
        };
        for piece in &placement.pieces {
            put(piece.at, &piece.bytes);
        }
        for pull in &placement.pulls {
            let from = usize::try_from(pull.segment.offset).unwrap();
            put(pull.at, &memory[from..from + pull.segment.length as usize]);
        }
        let out: Option<Vec<u8>> = out.into_iter().collect();
        prop_assert_eq!(out, Some(record));
    }
}
