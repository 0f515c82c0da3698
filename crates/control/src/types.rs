//! Types that several procedures share.

use layout::{KEYS_MAX, KeyError, KeyRecord, KeyRing, Striping};
use rpc::{AddressError, UniversalAddress};
use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, List};

use crate::{VERSION_MAX, VERSION_MIN};

/// Longest netid in bytes ("rdma6" is the longest that we know).
pub const NETID_BYTES_MAX: u32 = 16;
/// Longest universal address in bytes.
pub const UADDR_BYTES_MAX: u32 = UniversalAddress::TEXT_BYTES_MAX;
/// Longest name of a failure domain, in bytes.
pub const LOCATION_BYTES_MAX: u32 = 64;
/// Most addresses that a data server advertises.
pub const ADDRESSES_MAX: u32 = 16;

/// UTF-8 text of at most `MAX` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Text<const MAX: u32>(String);

impl<const MAX: u32> Text<MAX> {
    /// `text`, cut at a character boundary when it is too long: for sentences, where the rest matters
    /// less than saying something.
    #[must_use]
    pub fn cut(text: &str) -> Self {
        let mut end = text.len().min(MAX as usize);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(text[..end].to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: u32> Decode<'_> for Text<MAX> {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.str(MAX).map(|text| Self(text.to_owned()))
    }
}

impl<const MAX: u32> Encode for Text<MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.opaque(self.0.as_bytes());
    }
}

xdr::xdr_struct! {
    /// How a file is striped, and which of the stripes are those of a data server (RFC 8881 §13.4).
    #[derive(Copy)]
    pub struct Stripes {
        /// Bytes of a stripe unit.
        pub unit_bytes: u32,
        /// Data servers of the file.
        pub width: u32,
        /// Place of the data server that has byte 0.
        pub first_index: u32,
        /// Place of the data server that is asked.
        pub index: u32,
    }

    /// A run of bytes.
    #[derive(Copy)]
    pub struct Range {
        /// First byte.
        pub start: u64,
        /// One past the last byte.
        pub end: u64,
    }
}

impl Stripes {
    /// The stripes of the data server at `index`.
    #[must_use]
    pub const fn of(striping: Striping, index: u32) -> Self {
        Self {
            unit_bytes: striping.unit_bytes(),
            width: striping.width(),
            first_index: striping.first_index(),
            index,
        }
    }

    /// The striping, when there can be one like that.
    #[must_use]
    pub fn striping(&self) -> Option<Striping> {
        let striping = Striping::new(self.unit_bytes, self.width, self.first_index).ok()?;
        (self.index < self.width).then_some(striping)
    }
}

xdr::xdr_struct! {
    /// Versions of the control program that a side speaks.
    #[derive(Copy)]
    pub struct VersionRange {
        /// Lowest.
        pub low: u32,
        /// Highest.
        pub high: u32,
    }

    /// An address as clients are told it (RFC 5665), kept as text. A transport which the MDS does not know still
    /// reaches a client that does.
    pub struct NetAddr {
        /// Transport.
        pub netid: Text<NETID_BYTES_MAX>,
        /// Host and port.
        pub uaddr: Text<UADDR_BYTES_MAX>,
    }

    /// What the MDS recognises a store by (R9).
    #[derive(Copy)]
    pub struct StoreIdentity {
        /// Random, made when the store was formatted.
        pub store_id: u64,
        /// Starts of the data server over this store, durable. A store that comes back with a lower one was restored
        /// from an older copy.
        pub counter: u64,
        /// Changes of the store that no crash takes back. They rise while the data server runs, so that a copy which
        /// was made meanwhile is recognised too.
        pub changes: u64,
    }

    /// Room in a store.
    #[derive(Copy, Default)]
    pub struct Capacity {
        /// Size of the store in bytes.
        pub total_bytes: u64,
        /// Bytes that can still be written.
        pub free_bytes: u64,
        /// Bytes without data: `free_bytes`, and what the file system keeps for its administrator.
        pub unused_bytes: u64,
        /// Largest object that the store takes, in bytes.
        pub object_bytes_max: u64,
        /// The disk behind it: equal for stores that share one. 0 shares with nobody.
        pub disk: u64,
        /// Objects in the index.
        pub objects_count: u64,
    }

    /// What a data server counted since it started.
    #[derive(Copy, Default)]
    pub struct Counters {
        /// Bytes that clients read.
        pub client_read_bytes: u64,
        /// Bytes that clients wrote.
        pub client_written_bytes: u64,
        /// Bytes that the MDS read for clients without layouts.
        pub proxy_read_bytes: u64,
        /// Bytes that the MDS wrote for them.
        pub proxy_written_bytes: u64,
        /// Handles that no live key signed, or that were altered.
        pub handles_forged: u64,
        /// Good handles shown by another client than theirs.
        pub handles_of_others: u64,
        /// Handles below a floor.
        pub handles_fenced: u64,
        /// Handles of removed files.
        pub handles_removed: u64,
        /// Objects that the index has and the store lost or cut short (R9).
        pub objects_lost: u64,
        /// Errors of the store's disk.
        pub io_errors: u64,
    }

    /// The live keys of the cluster.
    pub struct KeySet {
        /// Newest retired key id, 0 if none: floors that no newer key needs are dropped.
        pub retired_through: u32,
        /// All live keys.
        pub keys: List<KeyRecord, KEYS_MAX>,
    }
}

impl VersionRange {
    /// What this build speaks.
    pub const OURS: Self = Self {
        low: VERSION_MIN,
        high: VERSION_MAX,
    };

    /// The highest version that both sides speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u32> {
        let high = self.high.min(other.high);
        (high >= self.low.max(other.low)).then_some(high)
    }
}

impl NetAddr {
    /// The address, when its transport is one that we know.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(&self) -> Result<UniversalAddress, AddressError> {
        UniversalAddress::parse(
            self.netid.as_str().as_bytes(),
            self.uaddr.as_str().as_bytes(),
        )
    }
}

impl From<UniversalAddress> for NetAddr {
    fn from(address: UniversalAddress) -> Self {
        Self {
            netid: Text::cut(address.netid.as_str()),
            uaddr: Text::cut(&address.to_text()),
        }
    }
}

impl KeySet {
    /// The message for a ring.
    #[must_use]
    pub fn of(ring: &KeyRing) -> Self {
        Self {
            retired_through: ring.retired_through(),
            keys: ring.records().into(),
        }
    }

    /// The ring of a message.
    ///
    /// # Errors
    /// [`KeyError`] when the records contradict each other.
    pub fn ring(&self) -> Result<KeyRing, KeyError> {
        KeyRing::from_records(&self.keys.0, self.retired_through)
    }
}

xdr::xdr_struct! {
    /// A place, in the reign of a primary.
    #[derive(Copy)]
    pub struct PlaceReign {
        /// The placement group.
        pub group: u32,
        /// The place in it.
        pub place: u32,
        /// The reign.
        pub reign: u32,
    }
}

/// Names an object on a data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The file.
    pub file_id: u64,
    /// The file's generation.
    pub generation: u32,
    /// The place in the file's group (rule P1); 0 at every data server in a group of earlier versions.
    pub place: u8,
    /// The placement group; 0 for one of earlier versions, whose objects have no row.
    pub group: u32,
}

impl Decode<'_> for ObjectRef {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (file_id, generation) = (d.u64()?, d.u32()?);
        let offset = d.position();
        let place = u8::try_from(d.u32()?).map_err(|_| DecodeError {
            kind: DecodeErrorKind::Invalid("a place is below 256"),
            offset,
        })?;
        let group = d.u32()?;
        Ok(Self {
            file_id,
            generation,
            place,
            group,
        })
    }
}

impl Encode for ObjectRef {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.file_id);
        e.u32(self.generation);
        e.u32(u32::from(self.place));
        e.u32(self.group);
    }
}
