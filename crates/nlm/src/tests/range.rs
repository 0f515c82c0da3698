//! What a lock covers.

use super::samples;
use crate::{NlmRange, RangeOverflow};

const MAX: u64 = u64::MAX;

#[test]
fn a_length_of_zero_means_to_the_end_and_an_overflow_is_refused() {
    // l_offset, l_len, and then the last byte, the end, the length that we send.
    let cases = [
        (0, 0, Some((MAX, None, 0))),
        (7, 0, Some((MAX, None, 0))),
        (MAX, 0, Some((MAX, None, 0))),
        (0, 1, Some((0, Some(1), 1))),
        (7, 3, Some((9, Some(10), 3))),
        (0, MAX, Some((MAX - 1, Some(MAX), MAX))),
        (1, MAX, Some((MAX, None, 0))),
        (MAX, 1, Some((MAX, None, 0))),
        (MAX - 1, 1, Some((MAX - 1, Some(MAX), 1))),
        (2, MAX, None),
        (MAX, 2, None),
        (MAX, MAX, None),
    ];
    for (l_offset, l_len, expected) in cases {
        let range = NlmRange::new(l_offset, l_len);
        let Some((last, end, sent)) = expected else {
            assert_eq!(range, Err(RangeOverflow { l_offset, l_len }));
            continue;
        };
        let range = range.unwrap();
        let found = (range.first(), range.last(), range.end(), range.l_len());
        assert_eq!(found, (l_offset, last, end, sent), "{l_offset} {l_len}");
        assert_eq!(NlmRange::new(range.first(), range.l_len()), Ok(range));
    }
}

#[test]
fn ranges_overlap_when_both_have_a_byte() {
    let cases = [
        ((0, 4), (4, 4), false),
        ((0, 5), (4, 4), true),
        ((0, 0), (MAX, 1), true),
        ((8, 0), (0, 8), false),
        ((8, 0), (0, 9), true),
        ((3, 1), (0, 9), true),
    ];
    for ((a, a_len), (b, b_len), expected) in cases {
        let (a, b) = (
            NlmRange::new(a, a_len).unwrap(),
            NlmRange::new(b, b_len).unwrap(),
        );
        assert_eq!(
            (a.overlaps(b), b.overlaps(a)),
            (expected, expected),
            "{a:?} {b:?}"
        );
    }
}

#[test]
fn a_lock_knows_its_range() {
    let range = samples::LOCK.range().unwrap();
    assert_eq!(
        (range.first(), range.end()),
        (1 << 32, Some((1 << 32) + 16))
    );
}
