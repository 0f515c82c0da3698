//! The data-server handle: 64 bytes that say by themselves what a client may do, signed by the MDS
//! (decision 1). No data server has to be asked before it is given out.
//!
//! ```text
//! version 2, of one place of a group and the reign of its primary (rule P4):
//!   0 version  1 rights and log2 of the stripe unit  2 place  3 first index  4 key id  8 group
//!   12 reign  16 file id  24 generation  28 epoch  36 client tag
//!   48 MAC (first 16 bytes of keyed BLAKE3 over the cluster id and bytes 0..48)  64
//! version 1, for files of groups without places:
//!   0 version  1 rights  2 place (0)  3 zero  4 key id  8 cluster id  16 file id  24 generation
//!   28 epoch  36 client tag  48 MAC (over bytes 0..48)  64
//! ```
//! The crate answers what the handle says and whether the MDS said it. Whether that still holds
//! (tag of the calling session, floors, tombstones, the row of the place) is [`crate::Floors`] and the caller.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use xxhash_rust::xxh3::xxh3_64;

use crate::key::MAC_BYTES;
use crate::{Epoch, Group, GroupForm, KeyRing, SigningKey, Striping};

/// Bytes of a data-server handle: the most that NFSv3 carries.
pub const DS_HANDLE_BYTES: usize = 64;
/// Bytes of a client tag.
pub const CLIENT_TAG_BYTES: usize = 12;

const VERSION_SHARED: u8 = 1;
const VERSION_PLACE: u8 = 2;
/// In byte 1 of version 2, the rights lie above this many bits.
const RIGHTS_SHIFT: u8 = 6;
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

/// The place that a handle is for, and what its stripes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlePlace {
    /// The placement group.
    pub group: u32,
    /// The place in it.
    pub place: u8,
    /// The reign of the primary that the handle is for.
    pub reign: u32,
    /// The stripe unit, as a power of two: 6 to 31.
    pub unit_log2: u8,
    /// Place of the first stripe.
    pub first_index: u8,
}

impl HandlePlace {
    /// The stripes of the file in a group of `width` places; `None` when there can be none like that.
    #[must_use]
    pub fn striping(&self, width: u32) -> Option<Striping> {
        let unit_bytes = 1_u32.checked_shl(u32::from(self.unit_log2))?;
        Striping::new(unit_bytes, width, u32::from(self.first_index)).ok()
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
    /// The place that it is for; `None` for a file of a group without places.
    pub place: Option<HandlePlace>,
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
    /// The place in the name of the object.
    #[must_use]
    pub fn object_place(&self) -> u8 {
        self.place.map_or(0, |place| place.place)
    }

    /// The bytes of the handle, signed by `key`.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> SignedHandle {
        let mut out = [0; DS_HANDLE_BYTES];
        match &self.place {
            None => {
                out[0] = VERSION_SHARED;
                out[1] = self.rights as u8;
                out[8..16].copy_from_slice(&self.cluster_id.to_be_bytes());
            }
            Some(place) => {
                out[0] = VERSION_PLACE;
                out[1] = (self.rights as u8) << RIGHTS_SHIFT | place.unit_log2;
                out[2] = place.place;
                out[3] = place.first_index;
                out[8..12].copy_from_slice(&place.group.to_be_bytes());
                out[12..16].copy_from_slice(&place.reign.to_be_bytes());
            }
        }
        out[4..8].copy_from_slice(&key.id().to_be_bytes());
        out[16..24].copy_from_slice(&self.file_id.to_be_bytes());
        out[24..28].copy_from_slice(&self.generation.to_be_bytes());
        out[28..36].copy_from_slice(&self.epoch.as_u64().to_be_bytes());
        out[36..48].copy_from_slice(self.client.as_bytes());
        let mac = mac_of(&out, self.cluster_id, key);
        out[SIGNED_BYTES..].copy_from_slice(&mac.as_bytes()[..MAC_BYTES]);
        SignedHandle(out)
    }

    /// What `bytes` say, when a live key of `ring` signed them for `cluster_id`.
    ///
    /// # Errors
    /// [`HandleError`]: nothing of the bytes may be believed then.
    pub fn verify(bytes: &[u8], cluster_id: u64, ring: &KeyRing) -> Result<Self, HandleError> {
        let bytes: &[u8; DS_HANDLE_BYTES] = bytes.try_into().map_err(|_| HandleError::NotOurs)?;
        let (rights, place) = match bytes[0] {
            VERSION_SHARED if bytes[2..4] == [0; 2] => (bytes[1], None),
            VERSION_PLACE => {
                let place = HandlePlace {
                    group: u32::from_be_bytes(first(&bytes[8..])),
                    place: bytes[2],
                    reign: u32::from_be_bytes(first(&bytes[12..])),
                    unit_log2: bytes[1] & ((1 << RIGHTS_SHIFT) - 1),
                    first_index: bytes[3],
                };
                (bytes[1] >> RIGHTS_SHIFT, Some(place))
            }
            _ => return Err(HandleError::NotOurs),
        };
        let handle = Self {
            cluster_id,
            file_id: u64::from_be_bytes(first(&bytes[16..])),
            generation: u32::from_be_bytes(first(&bytes[24..])),
            place,
            rights: Rights::from_u8(rights).ok_or(HandleError::NotOurs)?,
            epoch: Epoch::from_u64(u64::from_be_bytes(first(&bytes[28..]))),
            client: ClientTag(first(&bytes[36..])),
        };
        if place.is_none() && u64::from_be_bytes(first(&bytes[8..])) != cluster_id {
            return Err(HandleError::WrongCluster);
        }
        let key_id = u32::from_be_bytes(first(&bytes[4..]));
        let key = ring.verifier(key_id).ok_or(HandleError::UnknownKey {
            key_id,
            retired: ring.is_retired(key_id),
        })?;
        if !mac_matches(&mac_of(bytes, cluster_id, key), &bytes[SIGNED_BYTES..]) {
            return Err(HandleError::BadMac);
        }
        Ok(handle)
    }
}

/// The MAC of a handle. That of version 2 covers the cluster id, which the handle has no room for.
fn mac_of(bytes: &[u8; DS_HANDLE_BYTES], cluster_id: u64, key: &SigningKey) -> blake3::Hash {
    let signed = &bytes[..SIGNED_BYTES];
    if bytes[0] == VERSION_SHARED {
        return key.mac(signed);
    }
    let mut whole = [0; 8 + SIGNED_BYTES];
    whole[..8].copy_from_slice(&cluster_id.to_be_bytes());
    whole[8..].copy_from_slice(signed);
    key.mac(&whole)
}

impl DsHandle {
    /// The handles of a file for every place of its group, by place. `self` says all but the place.
    ///
    /// `None` when the stripe unit is no power of two, which only groups without places may have.
    #[must_use]
    pub fn sign_each(
        &self,
        group: &Group,
        striping: Striping,
        key: &SigningKey,
    ) -> Option<Vec<SignedHandle>> {
        if group.form == GroupForm::Shared {
            let handle = Self {
                place: None,
                ..*self
            };
            return Some(vec![handle.sign(key); group.rows.len()]);
        }
        let unit_log2 = striping.unit_log2()?;
        let first_index = u8::try_from(striping.first_index()).ok()?;
        let of_place = |(index, reign): (u32, u32)| {
            let place = HandlePlace {
                group: group.id,
                place: group.object_place(index),
                reign,
                unit_log2,
                first_index,
            };
            let handle = Self {
                place: Some(place),
                ..*self
            };
            handle.sign(key)
        };
        let reigns = group.rows.iter().map(|row| row.reign);
        Some((0..).zip(reigns).map(of_place).collect())
    }
}

/// The write verifier of a place: of the process that is its primary, in a reign (rule P16). It must differ where one of
/// these does; nobody gains by a guess, hence no cryptographic hash on the path of each WRITE.
#[must_use]
pub fn place_verifier(process: [u8; 8], group: u32, place: u32, reign: u32) -> [u8; 8] {
    let mut input = [0; 20];
    input[..8].copy_from_slice(&process);
    for (to, number) in input[8..].chunks_exact_mut(4).zip([group, place, reign]) {
        to.copy_from_slice(&number.to_be_bytes());
    }
    xxh3_64(&input).to_be_bytes()
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
