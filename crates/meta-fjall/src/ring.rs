//! The store's own log: batches in a ring of blocks that are written already, so that a commit is one write and one sync.
//!
//! fjall's journal lies in a sparse file: each sync of it also writes the file system's own journal. So a small batch goes
//! into the ring, then into the engine, and only the ring is synced. The engine's journal is synced once half of the ring
//! is used, which is a *checkpoint*: the ring then begins after it. A large batch, or one that the ring has no room for,
//! has the engine's journal synced instead.
//!
//! A batch in the ring: its number, count of writes, then the writes. Each is the length of the key (u16), the length of
//! the value (u32, all ones for a removal), key and value. Integers are little-endian; the ring has the checksums.
//!
//! # Ordering
//! A start applies the batches that the engine does not have, in their order, before anything is read.
//!
//! # Failure
//! A batch that is missing between what the engine has and what the ring has is [`MetaError::Corrupt`].

use bytes::Bytes;
use meta::{KEY_BYTES_MAX, MetaError, VALUE_BYTES_MAX, Writes};
use ring_log::{LogError, RingLog};

/// A batch above this goes without the ring: the sync of its bytes takes longer than what the ring saves.
const LOGGED_BYTES_MAX: usize = 256 * 1024;
/// Length of the value of a removal.
const REMOVED: u32 = u32::MAX;

pub(crate) fn ring_error(error: LogError) -> MetaError {
    match error {
        LogError::Io(e) => MetaError::Io(e),
        LogError::Corrupt(what) => MetaError::Corrupt(what),
    }
}

/// Puts a batch into the ring: the number of its record. `None`: the engine's journal must be synced for it.
pub(crate) fn append(ring: &RingLog, commit: u64, writes: &Writes) -> Option<u64> {
    let bytes_of = |(key, value): (&Bytes, &Option<Bytes>)| {
        6 + key.len() + value.as_ref().map_or(0, Bytes::len)
    };
    let bytes: usize = 12 + writes.iter().map(bytes_of).sum::<usize>();
    if bytes > LOGGED_BYTES_MAX {
        return None;
    }
    ring.append(&encode(commit, writes, bytes)?)
}

fn encode(commit: u64, writes: &Writes, bytes: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&commit.to_le_bytes());
    out.extend_from_slice(&u32::try_from(writes.len()).ok()?.to_le_bytes());
    for (key, value) in writes {
        out.extend_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
        let len = match value {
            Some(value) => u32::try_from(value.len()).ok()?,
            None => REMOVED,
        };
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    Some(out)
}

/// The number of a batch and what it writes; `None` for bytes that are no batch.
fn decode(bytes: &[u8]) -> Option<(u64, Writes)> {
    let (commit, mut rest) = bytes.split_first_chunk()?;
    let count: [u8; 4] = take(&mut rest)?;
    let mut writes = Writes::new();
    for _ in 0..u32::from_le_bytes(count) {
        let key_bytes = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let len = u32::from_le_bytes(take(&mut rest)?);
        let value_bytes = if len == REMOVED { 0 } else { len as usize };
        if !(1..=KEY_BYTES_MAX).contains(&key_bytes) || value_bytes > VALUE_BYTES_MAX {
            return None;
        }
        let (key, after) = rest.split_at_checked(key_bytes)?;
        let (value, after) = after.split_at_checked(value_bytes)?;
        rest = after;
        let value = (len != REMOVED).then(|| Bytes::copy_from_slice(value));
        writes.insert(Bytes::copy_from_slice(key), value);
    }
    rest.is_empty()
        .then(|| (u64::from_le_bytes(*commit), writes))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

/// Has the batches applied that come after `commit`: how many they are.
pub(crate) fn replay(
    ring: &RingLog,
    commit: u64,
    apply: &mut dyn FnMut(u64, &Writes) -> Result<(), MetaError>,
) -> Result<u64, MetaError> {
    let mut last = commit;
    let mut failure = None;
    let replayed = ring.replay(&mut |record, bytes| {
        let done = match decode(bytes) {
            Some((number, _)) if number <= last => Ok(()),
            Some((number, writes)) if number == last + 1 => {
                last = number;
                apply(number, &writes)
            }
            Some((number, _)) => Err(MetaError::Corrupt(format!(
                "the log goes on with batch {number}, but the engine ends at {last}: restore the store from a backup"
            ))),
            None => Err(MetaError::Corrupt(format!(
                "record {record} of the log is no batch: was it made by another version?"
            ))),
        };
        failure = done.err();
        failure.is_none()
    });
    replayed.map_err(ring_error)?;
    failure.map_or(Ok(last - commit), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_back_and_bytes_that_are_none_do_not() {
        let writes: Writes = [
            (Bytes::from_static(b"a"), Some(Bytes::from_static(b"1"))),
            (Bytes::from_static(b"bb"), None),
            (Bytes::from_static(b"c"), Some(Bytes::new())),
        ]
        .into();
        let bytes = encode(9, &writes, 0).unwrap();
        assert_eq!(decode(&bytes), Some((9, writes)));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        let mut no_key = bytes;
        no_key[12] = 0;
        assert_eq!(decode(&no_key), None);
    }
}
