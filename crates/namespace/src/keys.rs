//! The keys of this crate: a tag byte and big-endian integers (docs/formats.md, "Metadata store").

use crate::FileId;

/// Inodes.
pub(crate) const INODE: u8 = b'i';
/// Buckets of directory entries.
pub(crate) const BUCKET: u8 = b'd';
/// Extended attributes.
pub(crate) const XATTR: u8 = b'x';
/// Files that may have data that no LAYOUTCOMMIT reported (R1).
pub(crate) const RW_OUT: u8 = b'w';
/// Truncations under way (R3).
pub(crate) const TRUNCATE: u8 = b't';
/// Unlinked but open files (R4).
pub(crate) const ORPHAN: u8 = b'o';
/// Objects to remove from data servers (R4).
pub(crate) const REMOVAL: u8 = b'r';
/// Bytes of inline files.
pub(crate) const INLINE: u8 = b'b';
/// Inline files that are being given a place (T8).
pub(crate) const PLACING: u8 = b'p';
/// Files with mirrors that do not count.
pub(crate) const BAD_MIRRORS: u8 = b'v';
/// Names of objects that were made ahead of their files.
pub(crate) const AHEAD: u8 = b'u';

/// Whose the objects under another name are.
pub(crate) const DATA_NAME: u8 = b'a';

/// Identity and schema of the file system.
pub(crate) const SUPER_IDENTITY: &[u8] = b"sidentity";
/// Number of starts.
pub(crate) const SUPER_BOOT: &[u8] = b"sboot";
/// Counters that transactions move.
pub(crate) const SUPER_COUNTERS: &[u8] = b"scounters";

/// A tag and one integer: 9 bytes.
pub(crate) fn numbered(tag: u8, number: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The integer of a [`numbered`] key.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    let bytes = key.get(1..9)?;
    (key.len() == 9).then(|| u64::from_be_bytes(bytes.try_into().expect("8 bytes")))
}

/// `d`, directory, 56 bits of hash: 16 bytes.
pub(crate) fn bucket(dir: FileId, hash: u64) -> [u8; 16] {
    let mut key = [BUCKET; 16];
    key[1..9].copy_from_slice(&dir.0.to_be_bytes());
    key[9..].copy_from_slice(&hash.to_be_bytes()[1..]);
    key
}

/// `x`, file, cookie of an extended attribute: 17 bytes.
pub(crate) fn xattr(file: FileId, cookie: u64) -> [u8; 17] {
    let mut key = [XATTR; 17];
    key[1..9].copy_from_slice(&file.0.to_be_bytes());
    key[9..].copy_from_slice(&cookie.to_be_bytes());
    key
}

/// File and cookie of an [`xattr`] key.
pub(crate) fn xattr_of(key: &[u8]) -> Option<(FileId, u64)> {
    let numbers: [u8; 16] = key.get(1..)?.try_into().ok()?;
    let (file, cookie) = numbers.split_at(8);
    let number = |b: &[u8]| u64::from_be_bytes(b.try_into().expect("8 bytes"));
    Some((FileId(number(file)), number(cookie)))
}

/// The key after every extended attribute of a file.
pub(crate) fn xattr_end(file: FileId) -> Vec<u8> {
    meta::prefix_end(&numbered(XATTR, file.0))
}

/// Directory and hash of a [`bucket`] key, if it is one that a name can have.
pub(crate) fn bucket_of(key: &[u8]) -> Option<(FileId, u64)> {
    if key.len() != 16 {
        return None;
    }
    let mut hash = [0; 8];
    hash[1..].copy_from_slice(&key[9..]);
    let dir = u64::from_be_bytes(key[1..9].try_into().expect("8 bytes"));
    let hash = u64::from_be_bytes(hash);
    // Names hash to 55 bits and not to 0.
    (hash != 0 && hash >> 55 == 0).then_some((FileId(dir), hash))
}

/// The key after every bucket of a directory.
pub(crate) fn bucket_end(dir: FileId) -> Vec<u8> {
    meta::prefix_end(&numbered(BUCKET, dir.0))
}
