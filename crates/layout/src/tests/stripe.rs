//! Goal: stripe arithmetic agrees with its definition. Method: property tests against a model that
//! looks at each byte by itself, plus the edges of the number range.

use proptest::prelude::*;

use crate::*;

/// The definition of RFC 8881 §13.4.1 for one byte, in numbers that cannot overflow.
fn model_index(unit: u32, width: u32, first: u32, offset: u64) -> u32 {
    let sum = u128::from(offset / u64::from(unit)) + u128::from(first);
    u32::try_from(sum % u128::from(width)).unwrap()
}

prop_compose! {
    fn striping()(units in 1_u32..4, width in 1_u32..9)(
        units in Just(units), width in Just(width), first in 0..width,
    ) -> Striping {
        Striping::new(units * UNIT_STEP_BYTES, width, first).unwrap()
    }
}

proptest! {
    #[test]
    fn index_agrees_with_the_definition(s in striping(), offset: u64) {
        let model = model_index(s.unit_bytes(), s.width(), s.first_index(), offset);
        prop_assert_eq!(s.index_of(offset), model);
    }

    #[test]
    fn extents_cover_each_byte_once_and_in_order(
        s in striping(), offset in 0_u64..5000, len in 0_u64..5000,
    ) {
        let mut at = offset;
        for extent in s.extents(offset, len) {
            prop_assert_eq!(extent.offset, at);
            prop_assert!(extent.len > 0);
            for byte in at..at + extent.len {
                prop_assert_eq!(extent.index, s.index_of(byte));
            }
            at += extent.len;
        }
        prop_assert_eq!(at, offset + len);
    }

    #[test]
    fn object_ends_are_one_past_the_highest_byte(s in striping(), size in 0_u64..5000) {
        for index in 0..s.width() {
            let model = (0..size).rev().find(|byte| s.index_of(*byte) == index);
            prop_assert_eq!(s.object_end(index, size), model.map_or(0, |byte| byte + 1));
        }
        prop_assert_eq!(s.object_end(s.width(), size), 0);
    }

    #[test]
    fn the_next_own_byte_is_the_first_one(s in striping(), offset in 0_u64..5000) {
        for index in 0..s.width() {
            let model = (offset..).find(|byte| s.index_of(*byte) == index);
            prop_assert_eq!(Some(s.next_own(index, offset)), model);
        }
        prop_assert_eq!(s.next_own(s.width(), offset), u64::MAX);
        for index in 0..s.width() {
            prop_assert!(s.next_own(index, u64::MAX - offset) >= u64::MAX - offset);
        }
    }

    #[test]
    fn having_all_agrees_with_the_bytes(
        s in striping(), offset in 0_u64..3000, len in 0_u64..300,
    ) {
        for index in 0..s.width() {
            let model = (offset..offset + len).all(|byte| s.index_of(byte) == index);
            // With two units on one data server the bytes between lie elsewhere, or there is one data server only.
            prop_assert_eq!(s.has_all(index, offset, len), model);
            prop_assert!(!s.has_all(index, u64::MAX, 2));
        }
    }

    #[test]
    fn touching_agrees_with_the_bytes(
        s in striping(), offset in 0_u64..3000, len in 0_u64..2000, index in 0_u32..9,
    ) {
        let model = (offset..offset + len).any(|byte| s.index_of(byte) == index);
        prop_assert_eq!(s.touches(index, offset, len), model);
    }

    #[test]
    fn the_size_of_a_file_comes_back_from_its_objects(s in striping(), size: u64) {
        let objects: Vec<u64> = (0..s.width()).map(|i| s.object_end(i, size)).collect();
        prop_assert_eq!(s.file_size(&objects), size);
    }

    #[test]
    fn the_size_is_the_highest_byte_that_some_object_holds(
        s in striping(), sizes in prop::collection::vec(0_u64..3000, 0..9),
    ) {
        let held = |byte: &u64| {
            sizes.get(s.index_of(*byte) as usize).is_some_and(|size| byte < size)
        };
        let model = (0..3000).rev().find(held).map_or(0, |byte| byte + 1);
        prop_assert_eq!(s.file_size(&sizes), model);
    }
}

#[test]
fn the_end_of_the_number_range_does_not_overflow() {
    for unit in [UNIT_STEP_BYTES, 1 << 20, u32::MAX - 63] {
        for (width, first) in [(1, 0), (256, 255), (3, 2)] {
            let s = Striping::new(unit, width, first).unwrap();
            let extents: Vec<_> = s.extents(u64::MAX - 100, 1000).collect();
            assert_eq!(extents.iter().map(|e| e.len).sum::<u64>(), 100);
            for index in 0..width {
                let end = s.object_end(index, u64::MAX);
                assert!(end > 0);
                assert_eq!(s.index_of(end - 1), index);
            }
            assert!(s.touches(s.index_of(u64::MAX - 1), u64::MAX - 1, u64::MAX));
        }
    }
}

#[test]
fn one_server_gets_one_extent() {
    let s = Striping::new(64, 1, 0).unwrap();
    assert_eq!(s.extents(5, 1_000_000).count(), 1);
}

#[test]
fn impossible_stripings_are_refused() {
    assert_eq!(Striping::new(0, 1, 0), Err(StripingError::Unit(0)));
    assert_eq!(Striping::new(100, 1, 0), Err(StripingError::Unit(100)));
    assert_eq!(Striping::new(64, 0, 0), Err(StripingError::Width(0)));
    assert_eq!(Striping::new(64, 257, 0), Err(StripingError::Width(257)));
    assert_eq!(Striping::new(64, 4, 4), Err(StripingError::FirstIndex(4)));
}
