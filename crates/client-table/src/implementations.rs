//! What the implementation of a client is known to lack, by the name that it gives itself (`nii_name`, RFC 8881 §18.35).
//!
//! Owns the set of such clients. An unknown name lacks nothing.

use nfs4::ClientId;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Most clients in the set; the one with the lowest id goes first.
const CLIENTS_MAX: usize = 16_384;
/// The first Linux with stripes in flexible files layouts.
const STRIPED_FLEX_FILES: (u32, u32) = (6, 18);

/// Clients that lack something.
#[derive(Default)]
pub(crate) struct Implementations {
    without_striped_flex_files: Mutex<BTreeSet<ClientId>>,
}

impl Implementations {
    /// Takes in the name that a client has told.
    pub(crate) fn note(&self, client: ClientId, name: &[u8]) {
        let mut without = self.without_striped_flex_files.lock();
        if linux_version(name).is_some_and(|version| version < STRIPED_FLEX_FILES) {
            without.insert(client);
            if without.len() > CLIENTS_MAX {
                without.pop_first();
            }
        } else {
            without.remove(&client);
        }
    }

    /// Whether a client reads flexible files layouts with more than one stripe.
    pub(crate) fn has_striped_flex_files(&self, client: ClientId) -> bool {
        !self.without_striped_flex_files.lock().contains(&client)
    }
}

/// The version of a Linux kernel: `Linux 6.1.0-18-amd64 #1 SMP ...`.
fn linux_version(name: &[u8]) -> Option<(u32, u32)> {
    let name = std::str::from_utf8(name).ok()?;
    let mut numbers = name.strip_prefix("Linux ")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit());
    let minor = minor[..digits.unwrap_or(minor.len())].parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    //! Goal: only a Linux that says that it is older lacks stripes.
    use super::*;

    #[test]
    fn versions_of_linux_are_read_and_others_are_not() {
        for (name, version) in [
            (&b"Linux 6.1.0-18-amd64 #1 SMP PREEMPT"[..], Some((6, 1))),
            (b"Linux 6.18-rc1 #1", Some((6, 18))),
            (b"Linux 10.0.3", Some((10, 0))),
            (b"Linux six", None),
            (b"Linux 6", None),
            (b"Linux 99999999999.1", None),
            (b"FreeBSD 14.1", None),
            (b"\xff", None),
            (b"", None),
        ] {
            assert_eq!(linux_version(name), version);
        }
    }

    #[test]
    fn clients_are_bounded_and_may_be_upgraded() {
        let all = Implementations::default();
        let client = |value| ClientId { value };
        for value in 0..=CLIENTS_MAX as u64 {
            all.note(client(value), b"Linux 6.12.1");
        }
        assert!(all.has_striped_flex_files(client(0)), "forgotten");
        assert!(!all.has_striped_flex_files(client(1)));
        all.note(client(1), b"Linux 6.18.0");
        assert!(all.has_striped_flex_files(client(1)));
    }
}
