//! Synthetic ids of a trial (RFC 8435 §2.2.1): nobody's, and never root's.

use nfs3_client::CallerAuth;
use rpc::AuthSys;

/// Lowest synthetic id: above those of people and of services.
const FIRST: u32 = 0x4000_0000;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
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
    use super::Ids;

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
}
