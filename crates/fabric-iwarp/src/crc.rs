//! CRC32c (RFC 5044 §4.4), continued over pieces.

use crc_fast::{CrcAlgorithm, Digest};

/// The sum of some bytes and those that follow; begin with 0.
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    // The state of a sum is its value without the last inversion.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("the sum has 32 bits")
}

#[cfg(test)]
mod tests {
    //! The vectors of RFC 3720 §B.4, and pieces of every size.
    use super::append;

    #[test]
    fn sums_are_those_of_iscsi_however_they_are_cut() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        for (bytes, sum) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&rising, 0x46dd_794e),
            (&falling, 0x113f_db5c),
        ] {
            assert_eq!(append(0, bytes), sum);
            for cut in 0..=bytes.len() {
                assert_eq!(append(append(0, &bytes[..cut]), &bytes[cut..]), sum);
            }
        }
        let long: Vec<u8> = (0..5000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let whole = append(0, &long);
        for cut in [1, 127, 128, 129, 1023, 4096] {
            let pieces = long.chunks(cut).fold(0, append);
            assert_eq!(pieces, whole);
        }
    }
}
