//! The bytes of the file.
//!
//! ```text
//! 0      slot    4096 bytes \  the newer valid one counts: id of the store, size of the ring, opening, where the
//! 4096   slot    4096 bytes /  oldest record lies that is needed, and its number
//! 8192   ring    records, each at a multiple of 64 bytes; none goes over the end
//! ```
//! Positions count bytes from the first record on and never go back; a position modulo the size of the ring is the
//! place. Integers are little-endian, checksums XXH3. docs/formats.md has the fields.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 4096;
/// Where the ring begins.
pub(crate) const RING_AT: u64 = 2 * SLOT_BYTES as u64;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 64;
/// Bytes before the payload of a record.
pub(crate) const HEAD_BYTES: usize = 48;

const SLOT_MAGIC: [u8; 8] = *b"rwring01";
const SLOT_FIELDS_BYTES: usize = 56;
const RECORD_MAGIC: [u8; 4] = *b"rwrd";
/// Length of what fills the ring up to its end.
const FILLER: u32 = u32::MAX;

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The store that the log is tied to; 0 for none.
    pub(crate) store_id: u64,
    pub(crate) ring_bytes: u64,
    /// Rises with each slot that is written.
    pub(crate) version: u64,
    /// Openings of the log, this one included.
    pub(crate) opening: u64,
    /// Where the oldest record lies that is needed.
    pub(crate) tail_at: u64,
    /// Its number.
    pub(crate) tail_number: u64,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let part = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(part)
}

impl Slot {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = SLOT_MAGIC.to_vec();
        for field in [
            self.store_id,
            self.ring_bytes,
            self.version,
            self.opening,
            self.tail_at,
            self.tail_number,
        ] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes.resize(SLOT_BYTES, 0);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8; SLOT_BYTES]) -> Option<Self> {
        let fields = &bytes[..SLOT_FIELDS_BYTES];
        let is_whole =
            fields[..8] == SLOT_MAGIC && u64_at(bytes, SLOT_FIELDS_BYTES) == xxh3_64(fields);
        is_whole.then(|| Self {
            store_id: u64_at(bytes, 8),
            ring_bytes: u64_at(bytes, 16),
            version: u64_at(bytes, 24),
            opening: u64_at(bytes, 32),
            tail_at: u64_at(bytes, 40),
            tail_number: u64_at(bytes, 48),
        })
    }

    /// Where it lies: two that follow each other never in the same place.
    pub(crate) fn offset(self) -> u64 {
        self.version % 2 * SLOT_BYTES as u64
    }
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the payload; `None`: the rest of the ring is empty, and the record lies at its start.
    pub(crate) payload_bytes: Option<u32>,
    pub(crate) number: u64,
    pub(crate) at: u64,
    /// The newest record that was durable when this one was appended.
    pub(crate) durable: u64,
    /// The opening in which it was appended.
    pub(crate) opening: u64,
}

impl Head {
    /// The bytes of the head with the checksum of all.
    pub(crate) fn to_bytes(self, payload: &[u8]) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        bytes[4..8].copy_from_slice(&self.payload_bytes.unwrap_or(FILLER).to_le_bytes());
        for (at, field) in (8..)
            .step_by(8)
            .zip([self.number, self.at, self.durable, self.opening])
        {
            bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        let sum = sum(&bytes, payload);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The head that begins `bytes`, not compared with its checksum.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEAD_BYTES || bytes[..4] != RECORD_MAGIC {
            return None;
        }
        let payload_bytes = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        Some(Self {
            payload_bytes: (payload_bytes != FILLER).then_some(payload_bytes),
            number: u64_at(bytes, 8),
            at: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            opening: u64_at(bytes, 32),
        })
    }

    /// Bytes that it takes in the ring, with its payload.
    pub(crate) fn whole_bytes(self) -> u64 {
        size_of_record(self.payload_bytes.unwrap_or(0) as usize)
    }
}

/// Whether a head and its payload are what was written.
pub(crate) fn is_whole(head: &[u8], payload: &[u8]) -> bool {
    u64_at(head, 40) == sum(head, payload)
}

fn sum(head: &[u8], payload: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&head[..40]);
    sum.update(payload);
    sum.digest()
}

/// Bytes of the ring for a payload.
pub(crate) fn size_of_record(payload_bytes: usize) -> u64 {
    (HEAD_BYTES + payload_bytes).next_multiple_of(ALIGN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_heads_come_back_and_damage_is_seen() {
        let slot = Slot {
            store_id: 1,
            ring_bytes: 1 << 20,
            version: 3,
            opening: 4,
            tail_at: 5,
            tail_number: 6,
        };
        let mut bytes: [u8; SLOT_BYTES] = slot.to_bytes().try_into().unwrap();
        assert_eq!(Slot::parse(&bytes), Some(slot));
        assert_eq!(slot.offset(), SLOT_BYTES as u64);
        bytes[40] ^= 1;
        assert_eq!(Slot::parse(&bytes), None);

        let head = Head {
            payload_bytes: Some(3),
            number: 9,
            at: 640,
            durable: 8,
            opening: 2,
        };
        let bytes = head.to_bytes(b"abc");
        assert_eq!(Head::parse(&bytes), Some(head));
        assert!(is_whole(&bytes, b"abc") && !is_whole(&bytes, b"abd"));
        assert_eq!(head.whole_bytes(), 64);
        assert_eq!(size_of_record(17), 128);
    }
}
