//! The data-server handle: 64 bytes that say by themselves what a client may do, signed by the MDS
//! (decision 1). One handle serves every data server of a mirror, and no data server has to be asked
//! before it is given out.
//!
//! ```text
//!   0 version  1 rights  2 mirror  3 zero  4 key id  8 cluster id  16 file id  24 generation
//!   28 epoch  36 client tag  48 MAC (first 16 bytes of keyed BLAKE3 over bytes 0..48)  64
//! ```
//! The crate answers what the handle says and whether the MDS said it. Whether that still holds
//! (tag of the calling session, floors, tombstones) is [`crate::Floors`] and the caller.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{Epoch, KeyRing, SigningKey};

/// Bytes of a data-server handle: the most that NFSv3 carries.
pub const DS_HANDLE_BYTES: usize = 64;
/// Bytes of a client tag.
pub const CLIENT_TAG_BYTES: usize = 12;
/// Bytes of the MAC in a handle: 128 bits.
pub const MAC_BYTES: usize = 16;

const VERSION: u8 = 1;
const SIGNED_BYTES: usize = DS_HANDLE_BYTES - MAC_BYTES;
const TAG_CONTEXT: &str = "ropewalk client tag";

/// What a handle allows. Writing without reading does not exist: a client that writes part of a page
/// reads it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rights {
    /// READ.
    Read = 1,
    /// READ, WRITE and COMMIT.
    ReadWrite = 3,
}

impl Rights {
    const fn from_u8(value: u8) -> Option<Self> {
        match value {
            1 => Some(Self::Read),
            3 => Some(Self::ReadWrite),
            _ => None,
        }
    }

    /// Whether writes are allowed.
    #[must_use]
    pub const fn may_write(self) -> bool {
        matches!(self, Self::ReadWrite)
    }
}

/// Which client owner a handle was given to (R5). It is derived from the `co_ownerid` that the same client shows to the
/// MDS and to every data server (RFC 8881 §13.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientTag([u8; CLIENT_TAG_BYTES]);

impl ClientTag {
    /// The lowest tag, for range scans.
    pub(crate) const MIN: Self = Self([0; CLIENT_TAG_BYTES]);
    /// The highest tag, for range scans.
    pub(crate) const MAX: Self = Self([u8::MAX; CLIENT_TAG_BYTES]);

    /// The tag of `co_ownerid` in a cluster.
    #[must_use]
    pub fn of(cluster_id: u64, co_ownerid: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(TAG_CONTEXT);
        hasher.update(&cluster_id.to_be_bytes());
        hasher.update(co_ownerid);
        Self(first(hasher.finalize().as_bytes()))
    }

    /// A tag from its stored form.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; CLIENT_TAG_BYTES]) -> Self {
        Self(bytes)
    }

    /// The stored form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; CLIENT_TAG_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for ClientTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTag(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

impl Decode<'_> for ClientTag {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque_fixed().map(Self)
    }
}

impl Encode for ClientTag {
    fn encode(&self, e: &mut Encoder) {
        e.opaque_fixed(&self.0);
    }
}

/// What a data-server handle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DsHandle {
    /// The cluster that the file belongs to.
    pub cluster_id: u64,
    /// The file's inode number, never reused.
    pub file_id: u64,
    /// The generation of the inode.
    pub generation: u32,
    /// The copy of the file; 0 is the first.
    pub mirror: u8,
    /// What the holder may do.
    pub rights: Rights,
    /// Compared with the floors of the data server.
    pub epoch: Epoch,
    /// Whom it was given to.
    pub client: ClientTag,
}

/// Why bytes are not a handle of this cluster. The first verdict that applies, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleError {
    /// Another length, version or form than a data-server handle has.
    NotOurs,
    /// Made for another cluster. Unauthenticated: it is told apart only for diagnosis.
    WrongCluster,
    /// Signed under a key that is retired or was never known.
    UnknownKey {
        /// The key that the handle names.
        key_id: u32,
        /// Whether the ring remembers that key as retired.
        retired: bool,
    },
    /// Forged or altered.
    BadMac,
}

impl std::fmt::Display for HandleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotOurs => f.write_str("not a data-server handle"),
            Self::WrongCluster => f.write_str("handle of another cluster"),
            Self::UnknownKey { key_id, retired } => {
                let what = if *retired { "retired" } else { "unknown" };
                write!(f, "handle signed under {what} key {key_id}")
            }
            Self::BadMac => f.write_str("handle is forged or altered"),
        }
    }
}

impl std::error::Error for HandleError {}

/// The bytes of a handle for data servers, as [`DsHandle::sign`] makes them. Nothing in them is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignedHandle([u8; DS_HANDLE_BYTES]);

impl SignedHandle {
    /// A handle that no key signed, to measure what is to hold one.
    pub const BLANK: Self = Self([0; DS_HANDLE_BYTES]);

    /// Bytes that may be a handle; `None` when they are too few or too many.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; DS_HANDLE_BYTES] {
        &self.0
    }
}

impl DsHandle {
    /// The bytes of the handle, signed by `key`.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> SignedHandle {
        let mut out = [0; DS_HANDLE_BYTES];
        out[0] = VERSION;
        out[1] = self.rights as u8;
        out[2] = self.mirror;
        out[4..8].copy_from_slice(&key.id().to_be_bytes());
        out[8..16].copy_from_slice(&self.cluster_id.to_be_bytes());
        out[16..24].copy_from_slice(&self.file_id.to_be_bytes());
        out[24..28].copy_from_slice(&self.generation.to_be_bytes());
        out[28..36].copy_from_slice(&self.epoch.as_u64().to_be_bytes());
        out[36..48].copy_from_slice(self.client.as_bytes());
        let (signed, mac) = out.split_at_mut(SIGNED_BYTES);
        mac.copy_from_slice(&key.mac(signed).as_bytes()[..MAC_BYTES]);
        SignedHandle(out)
    }

    /// What `bytes` say, when a live key of `ring` signed them for `cluster_id`.
    ///
    /// # Errors
    /// [`HandleError`]: nothing of the bytes may be believed then.
    pub fn verify(bytes: &[u8], cluster_id: u64, ring: &KeyRing) -> Result<Self, HandleError> {
        let bytes: &[u8; DS_HANDLE_BYTES] = bytes.try_into().map_err(|_| HandleError::NotOurs)?;
        if bytes[0] != VERSION || bytes[3] != 0 {
            return Err(HandleError::NotOurs);
        }
        let rights = Rights::from_u8(bytes[1]).ok_or(HandleError::NotOurs)?;
        let handle = Self {
            cluster_id: u64::from_be_bytes(first(&bytes[8..])),
            file_id: u64::from_be_bytes(first(&bytes[16..])),
            generation: u32::from_be_bytes(first(&bytes[24..])),
            mirror: bytes[2],
            rights,
            epoch: Epoch::from_u64(u64::from_be_bytes(first(&bytes[28..]))),
            client: ClientTag(first(&bytes[36..])),
        };
        if handle.cluster_id != cluster_id {
            return Err(HandleError::WrongCluster);
        }
        let key_id = u32::from_be_bytes(first(&bytes[4..]));
        let key = ring.verifier(key_id).ok_or(HandleError::UnknownKey {
            key_id,
            retired: ring.is_retired(key_id),
        })?;
        let (signed, mac) = bytes.split_at(SIGNED_BYTES);
        if !mac_matches(&key.mac(signed), mac) {
            return Err(HandleError::BadMac);
        }
        Ok(handle)
    }
}

/// Compares a truncated MAC in constant time. `blake3::Hash` compares so over its whole 32 bytes, and the sent half is
/// completed with the second half of the expected hash.
fn mac_matches(expected: &blake3::Hash, sent: &[u8]) -> bool {
    let mut whole = *expected.as_bytes();
    whole[..MAC_BYTES].copy_from_slice(sent);
    *expected == blake3::Hash::from_bytes(whole)
}

/// The first `N` bytes of `bytes`, which has at least as many.
pub(crate) fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}
