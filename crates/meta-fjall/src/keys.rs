//! How keys lie in the engine: one byte before each tells the callers' keys from the store's own.
//!
//! The store's own key holds the commit number: how many batches were committed since the store was made.
//! Every batch sets it, so what survived a crash says by itself how far it reaches.

use bytes::Bytes;
use meta::KEY_BYTES_MAX;

/// Before the store's own keys.
const OWN: u8 = 0;
/// Before the callers' keys.
const CALLERS: u8 = 1;
/// Key of the commit number; the value is a big-endian u64.
pub(crate) const COMMIT_KEY: [u8; 2] = [OWN, b'c'];
/// Key of the id of the store, which its log has too; the value is a big-endian u64.
pub(crate) const ID_KEY: [u8; 2] = [OWN, b'i'];
/// Key that is set after a merge for room, so that the engine has something to write; the value is empty.
pub(crate) const MERGED_KEY: [u8; 2] = [OWN, b'm'];
/// Longest key in the engine.
pub(crate) const STORED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// A caller's key as stored.
pub(crate) fn stored(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 1);
    store_into(&mut stored, key);
    stored
}

/// As [`stored`], in the place of what `stored` held.
pub(crate) fn store_into(stored: &mut Vec<u8>, key: &[u8]) {
    stored.clear();
    stored.push(CALLERS);
    stored.extend_from_slice(key);
}

/// A caller's key from what is stored.
pub(crate) fn callers(stored: &[u8]) -> Bytes {
    // The range that was read holds only keys of callers, which have the byte.
    Bytes::copy_from_slice(stored.get(1..).unwrap_or_default())
}
