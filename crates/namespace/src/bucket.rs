//! Directory entries: one bucket per hash of a name, and the READDIR cookies that follow from it.
//!
//! The hash is a keyed SipHash cut to 55 bits and never 0. A cookie is `hash << 8 | slot`. It belongs to its entry for as long
//! as that lives, and orders all entries. It is never 0, 1 or 2, which RFC 8881 §18.23.3 reserves, and positive as a signed
//! 64-bit `d_off`. Names that share a hash share a bucket and differ in the slot. Without the key nobody can aim at one bucket.

use crate::inode::FileType;
use crate::{FileId, NsError};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use xdr::{Decoder, Encoder};

/// Longest name in bytes (NAME_MAX of Linux).
pub const NAME_BYTES_MAX: u32 = 255;
/// The lowest cookie that an entry can have.
pub const COOKIE_FIRST: u64 = 1 << SLOT_BITS;
/// Cookies of names that share a hash.
pub(crate) const COOKIES_PER_HASH: u64 = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 8;
/// Slots of a bucket: entries whose names share 55 bits of keyed hash.
const BUCKET_SLOTS: u32 = 1 << SLOT_BITS;

/// A name whose bytes are allowed: 1 to 255, neither '/' nor NUL, not "." or "..".
pub(crate) fn check_name(name: &[u8]) -> Result<(), NsError> {
    if name.is_empty() {
        return Err(NsError::Inval);
    }
    if name.len() > NAME_BYTES_MAX as usize {
        return Err(NsError::NameTooLong);
    }
    if name == b"." || name == b".." || name.iter().any(|b| matches!(b, b'/' | 0)) {
        return Err(NsError::BadName);
    }
    Ok(())
}

/// The hash of a name; `mask` is all ones outside of tests, which narrow it to force collisions.
pub(crate) fn hash_name(key: &[u8; 16], mask: u64, name: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(name);
    ((hasher.finish() >> (SLOT_BITS + 1)) & mask).max(1)
}

/// Hash and slot of a cookie.
pub(crate) const fn cookie_parts(cookie: u64) -> (u64, u64) {
    (cookie >> SLOT_BITS, cookie & (BUCKET_SLOTS as u64 - 1))
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) slot: u8,
    pub(crate) kind: FileType,
    pub(crate) file: FileId,
    pub(crate) name: Box<[u8]>,
}

impl Entry {
    pub(crate) fn cookie(&self, hash: u64) -> u64 {
        hash << SLOT_BITS | u64::from(self.slot)
    }
}

/// Entries whose names share a hash, ascending by slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) entries: Vec<Entry>,
}

impl Bucket {
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.iter().find(|e| *e.name == *name)
    }

    /// Adds the name in the lowest free slot, or points an existing one elsewhere.
    pub(crate) fn set(&mut self, name: &[u8], file: FileId, kind: FileType) -> Result<(), NsError> {
        if let Some(entry) = self.entries.iter_mut().find(|e| *e.name == *name) {
            entry.file = file;
            entry.kind = kind;
            return Ok(());
        }
        let taken = self.entries.iter().zip(0_u8..=u8::MAX);
        let at = taken.take_while(|(e, n)| e.slot == *n).count();
        let slot = u8::try_from(at).map_err(|_| NsError::NoSpace)?;
        let entry = Entry {
            slot,
            kind,
            file,
            name: name.into(),
        };
        self.entries.insert(at, entry);
        Ok(())
    }

    /// Removes the name; whether it was there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.entries.len();
        self.entries.retain(|e| *e.name != *name);
        self.entries.len() < before
    }

    pub(crate) fn to_stored(&self) -> Vec<u8> {
        let mut e = Encoder::new();
        e.count(self.entries.len());
        for entry in &self.entries {
            e.u32(u32::from(entry.slot));
            e.u32(entry.kind as u32);
            e.u64(entry.file.0);
            e.opaque(&entry.name);
        }
        e.into_bytes()
    }

    pub(crate) fn from_stored(dir: FileId, bytes: &[u8]) -> Result<Self, NsError> {
        let corrupt = |why: &dyn std::fmt::Display| {
            NsError::corrupt(format!("entries of directory {}: {why}", dir.0))
        };
        let mut d = Decoder::new(bytes);
        let count = d.len(BUCKET_SLOTS).map_err(|e| corrupt(&e))?;
        let mut entries: Vec<Entry> = Vec::with_capacity(count.min(bytes.len() / 20));
        for _ in 0..count {
            let entry = Self::entry(&mut d).map_err(|e| corrupt(&e))?;
            let Some(entry) = entry else {
                return Err(corrupt(&"bad slot or name"));
            };
            if entries.last().is_some_and(|last| last.slot >= entry.slot) {
                return Err(corrupt(&"slots out of order"));
            }
            entries.push(entry);
        }
        d.finish().map_err(|e| corrupt(&e))?;
        if entries.is_empty() {
            return Err(corrupt(&"empty bucket"));
        }
        Ok(Self { entries })
    }

    fn entry(d: &mut Decoder<'_>) -> Result<Option<Entry>, xdr::DecodeError> {
        let slot = d.u32()?;
        let kind = <FileType as xdr::Decode<'_>>::decode(d)?;
        let file = FileId(d.u64()?);
        let name = d.opaque(NAME_BYTES_MAX)?;
        let Ok(slot) = u8::try_from(slot) else {
            return Ok(None);
        };
        Ok(check_name(name).is_ok().then(|| Entry {
            slot,
            kind,
            file,
            name: name.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: slots are stable, reused lowest first and bounded; stored buckets refuse nonsense.

    use super::*;

    fn bucket(names: &[&str]) -> Bucket {
        let mut bucket = Bucket::default();
        for (name, id) in names.iter().zip(10..) {
            bucket
                .set(name.as_bytes(), FileId(id), FileType::Regular)
                .unwrap();
        }
        bucket
    }

    #[test]
    fn a_freed_slot_is_taken_first_and_others_keep_theirs() {
        let mut b = bucket(&["a", "b", "c"]);
        assert!(b.remove(b"b"));
        assert!(!b.remove(b"b"));
        assert_eq!(b.find(b"c").unwrap().slot, 2);
        b.set(b"d", FileId(5), FileType::Fifo).unwrap();
        assert_eq!(b.find(b"d").unwrap().slot, 1);
        b.set(b"a", FileId(6), FileType::Directory).unwrap();
        assert_eq!((b.find(b"a").unwrap().slot, b.entries.len()), (0, 3));
    }

    #[test]
    fn a_full_bucket_refuses_one_more() {
        let names: Vec<String> = (0..256).map(|n| n.to_string()).collect();
        let mut b = bucket(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let full = b.set(b"more", FileId(1), FileType::Regular);
        assert_eq!(full, Err(NsError::NoSpace));
        assert_eq!(Bucket::from_stored(FileId(1), &b.to_stored()).unwrap(), b);
    }

    #[test]
    fn truncated_and_altered_buckets_are_corrupt_and_never_panic() {
        let stored = bucket(&["a", "bb", "ccc"]).to_stored();
        for cut in 0..stored.len() {
            assert!(Bucket::from_stored(FileId(1), &stored[..cut]).is_err());
        }
        for at in 0..stored.len() {
            let mut bytes = stored.clone();
            bytes[at] ^= 0xff;
            let _ = Bucket::from_stored(FileId(1), &bytes);
        }
        let empty = Bucket::default().to_stored();
        assert!(Bucket::from_stored(FileId(1), &empty).is_err());
    }

    #[test]
    fn names_are_judged_by_their_bytes() {
        let long = [b'x'; 256];
        for (name, verdict) in [
            (&b"a"[..], Ok(())),
            (b"...", Ok(())),
            (b"\xff\xfe", Ok(())),
            (&long[..255], Ok(())),
            (&long[..], Err(NsError::NameTooLong)),
            (b"", Err(NsError::Inval)),
            (b".", Err(NsError::BadName)),
            (b"..", Err(NsError::BadName)),
            (b"a/b", Err(NsError::BadName)),
            (b"a\0", Err(NsError::BadName)),
        ] {
            assert_eq!(check_name(name), verdict, "{name:?}");
        }
    }
}
