//! Synthetic ids (RFC 8435 §2.2.1): nobody's, and never root's. Those of a trial, and those of an object in an epoch.

use nfs3_client::CallerAuth;
use rpc::AuthSys;

/// Lowest synthetic id: above those of people and of services.
const FIRST: u32 = 0x4000_0000;
/// Pairs of a user and a group up to 0x7fff_fff0.
const PAIRS: u64 = (0x7fff_fff0 - FIRST as u64) / 2;
/// The user in a layout for reading: no object belongs to it.
pub const READER_UID: u32 = 0x7fff_fffe;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// Who may write.
    pub uid: u32,
    /// Who may read.
    pub gid: u32,
}

impl Ids {
    /// Some that differ for different numbers below 2^29.
    pub(crate) fn synthetic(random: u32, number: u32) -> Self {
        let base = FIRST | (random & 0x1fff_fff0) << 1;
        let uid = base + number * 2;
        Self { uid, gid: uid + 1 }
    }

    pub(crate) fn caller(self) -> CallerAuth {
        caller(self.uid, self.gid)
    }
}

/// The ids of the objects of a file in an epoch. Two epochs that follow each other never have the same.
#[must_use]
pub const fn ids_of(number: u64, generation: u32, epoch: u64) -> Ids {
    // The base belongs to the file. Epochs of one boot are counted on from it, so that they differ from each other for the first
    // half billion; each boot begins elsewhere.
    let (boot, counter) = (epoch >> 32, epoch & 0xffff_ffff);
    let base = mix(mix(mix(number) ^ generation as u64) ^ boot);
    let pair = (base % PAIRS + counter) % PAIRS;
    #[allow(clippy::cast_possible_truncation, reason = "PAIRS is below 2^29")]
    let uid = FIRST + (pair as u32) * 2;
    Ids { uid, gid: uid + 1 }
}

/// SplitMix64: each bit of the result depends on each of the value.
const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn caller(uid: u32, gid: u32) -> CallerAuth {
    CallerAuth::auth_sys(&AuthSys {
        stamp: 0,
        machine: b"ropewalk".to_vec(),
        uid,
        gid,
        gids: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Ids, READER_UID, ids_of};

    #[test]
    fn synthetic_ids_are_nobodys_and_differ() {
        for random in [0, 1, 0x7fff_ffff, u32::MAX] {
            let all: Vec<u32> = (0..4)
                .map(|number| Ids::synthetic(random, number))
                .flat_map(|ids| [ids.uid, ids.gid])
                .collect();
            let distinct: std::collections::BTreeSet<_> = all.iter().collect();
            assert_eq!(distinct.len(), 8);
            assert!(
                all.iter()
                    .all(|id| (0x4000_0000..u32::MAX - 1).contains(id))
            );
        }
    }

    #[test]
    fn ids_of_an_epoch_lie_in_their_range_and_differ_from_those_around_it() {
        for number in [0, 1, 77, u64::MAX] {
            for epoch in [0, 1, 1 << 32, (5 << 32) | 0xffff_fffe, u64::MAX - 1] {
                let ids = ids_of(number, 3, epoch);
                assert_eq!(ids, ids_of(number, 3, epoch), "a pure function");
                assert_eq!((ids.uid % 2, ids.gid), (0, ids.uid + 1));
                assert!(ids.uid >= 0x4000_0000 && ids.gid <= 0x7fff_fff0);
                assert_ne!(ids.uid, READER_UID);
                assert_ne!(ids, ids_of(number, 3, epoch + 1), "{number} {epoch:x}");
                assert_ne!(ids, ids_of(number, 4, epoch));
                assert_ne!(ids, ids_of(number ^ 1, 3, epoch));
            }
        }
    }

    #[test]
    fn no_epoch_of_a_boot_has_the_ids_of_another_one() {
        let all: std::collections::BTreeSet<u32> =
            (0..100_000).map(|c| ids_of(9, 1, c).uid).collect();
        assert_eq!(all.len(), 100_000);
    }
}
