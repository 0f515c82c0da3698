//! The name that the implementation of a client gives itself (`nii_name`, RFC 8881 §18.35), and what one of that name lacks.
//!
//! Owns the names, and the set of clients that lack something. An unknown name lacks nothing.

use nfs4::ClientId;
use std::collections::{BTreeMap, BTreeSet};
use tracing_mutex::parkinglot::Mutex;

/// Most clients in the set, and most names; the one with the lowest id goes first.
const CLIENTS_MAX: usize = 16_384;
/// Bytes of a name that are kept.
pub const IMPLEMENTATION_BYTES_MAX: usize = 128;
/// The first Linux with stripes in flexible files layouts.
const STRIPED_FLEX_FILES: (u32, u32) = (6, 18);

/// Names of clients, and those that lack something.
#[derive(Default)]
pub(crate) struct Implementations {
    names: Mutex<BTreeMap<ClientId, Vec<u8>>>,
    without_striped_flex_files: Mutex<BTreeSet<ClientId>>,
}

impl Implementations {
    /// Takes in the name that a client has told.
    pub(crate) fn note(&self, client: ClientId, name: &[u8]) {
        {
            let mut names = self.names.lock();
            let kept = &name[..name.len().min(IMPLEMENTATION_BYTES_MAX)];
            names.insert(client, kept.to_vec());
            if names.len() > CLIENTS_MAX {
                names.pop_first();
            }
        }
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

    /// The name of a client's implementation, as far as it is kept.
    pub(crate) fn name(&self, client: ClientId) -> Option<Vec<u8>> {
        self.names.lock().get(&client).cloned()
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
        assert_eq!(all.name(client(0)), None, "forgotten, too");
        all.note(client(2), &[b'x'; 2 * IMPLEMENTATION_BYTES_MAX]);
        let kept = all.name(client(2)).unwrap_or_default();
        assert_eq!(kept.len(), IMPLEMENTATION_BYTES_MAX);
        all.note(client(1), b"Linux 6.18.0");
        assert!(all.has_striped_flex_files(client(1)));
    }
}
