//! What changes a part, or asks about it at one point of its stream.

use control::{Range, Stripes};
use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder};

/// Bytes that have one sum.
pub const BLOCK_BYTES: u32 = 64 * 1024;
/// Most blocks in one [`StreamItem::Sums`].
pub const BLOCKS_MAX: u32 = 16;
/// Longest WRITE.
const DATA_BYTES_MAX: u32 = nfs4::IO_BYTES_MAX;

/// What is done to a part. Data are borrowed from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamItem<'a> {
    /// Bytes; durable when answered if `is_stable`.
    Write {
        /// First byte.
        offset: u64,
        /// Whether the answer waits for the disk.
        is_stable: bool,
        /// The bytes.
        data: &'a [u8],
    },
    /// All that came before is durable when this is answered (COMMIT).
    Sync,
    /// A new size, not above the present one; durable when answered.
    Cut {
        /// The size in bytes.
        size_bytes: u64,
    },
    /// A hole.
    Punch {
        /// Where.
        range: Range,
    },
    /// Storage for the stripes of a place.
    Reserve {
        /// The stripes.
        stripes: Stripes,
        /// Where.
        range: Range,
    },
    /// The storage of another part of this place.
    Clone {
        /// The file of the source.
        src_file_id: u64,
        /// Its generation.
        src_generation: u32,
        /// Where the range begins there.
        src_offset: u64,
        /// The range here.
        range: Range,
        /// The size of the part after that, in bytes: file systems differ in whether a hole at the end lengthens it.
        size_bytes: u64,
    },
    /// The primary has no such part: it goes.
    Drop,
    /// Nothing: the member is no member of the place any more. The number is used up.
    Nothing,
    /// The parts of the place.
    Parts {
        /// Parts after this one are told; those from the first on without it.
        after: Option<FileGeneration>,
        /// Which parts.
        which: PartsAsked,
    },
    /// All members have the part durably, as it is after all that came before: it is settled (rule P9).
    Settle,
    /// The sums of blocks as they are after all that came before.
    Sums {
        /// The first block.
        first: u64,
        /// How many, at most [`BLOCKS_MAX`].
        count: u32,
    },
    /// The bytes of a block, for another member whose own are damaged. Any member may ask any other.
    Fetch {
        /// Which.
        block: u64,
    },
}

xdr::xdr_enum! {
    /// Which parts [`StreamItem::Parts`] asks for.
    pub enum PartsAsked {
        /// All.
        All = 1,
        /// Those that may differ from those of other members.
        Unsettled = 2,
    }
}

xdr::xdr_struct! {
    /// The sum of a block: XXH3, 128 bits, over its bytes with zeros beyond the end of the part.
    #[derive(Copy)]
    pub struct Block {
        /// The upper half.
        pub high: u64,
        /// The lower half.
        pub low: u64,
    }

    /// A file at a place.
    #[derive(Copy, PartialOrd, Ord, Hash)]
    pub struct FileGeneration {
        /// The file.
        pub file_id: u64,
        /// Its generation.
        pub generation: u32,
    }
}

const WRITE: u32 = 1;
const SYNC: u32 = 2;
const CUT: u32 = 3;
const PUNCH: u32 = 4;
const RESERVE: u32 = 5;
const CLONE: u32 = 6;
const DROP: u32 = 7;
const SUMS: u32 = 8;
const NOTHING: u32 = 9;
const PARTS: u32 = 10;
const FETCH: u32 = 11;
const SETTLE: u32 = 12;

impl StreamItem<'_> {
    /// The item up to the bytes of a WRITE, which follow as a payload of `len` bytes.
    pub fn encode_head(&self, e: &mut Encoder) {
        match *self {
            Self::Write {
                offset,
                is_stable,
                data,
            } => {
                e.u32(WRITE);
                e.u64(offset);
                is_stable.encode(e);
                let len = u32::try_from(data.len()).expect("a WRITE is at most IO_BYTES_MAX");
                e.payload(len);
            }
            Self::Sync => e.u32(SYNC),
            Self::Cut { size_bytes } => {
                e.u32(CUT);
                e.u64(size_bytes);
            }
            Self::Punch { range } => {
                e.u32(PUNCH);
                range.encode(e);
            }
            Self::Reserve { stripes, range } => {
                e.u32(RESERVE);
                stripes.encode(e);
                range.encode(e);
            }
            Self::Clone {
                src_file_id,
                src_generation,
                src_offset,
                range,
                size_bytes,
            } => {
                e.u32(CLONE);
                e.u64(src_file_id);
                e.u32(src_generation);
                e.u64(src_offset);
                range.encode(e);
                e.u64(size_bytes);
            }
            Self::Drop => e.u32(DROP),
            Self::Nothing => e.u32(NOTHING),
            Self::Parts { after, which } => {
                e.u32(PARTS);
                after.encode(e);
                which.encode(e);
            }
            Self::Settle => e.u32(SETTLE),
            Self::Fetch { block } => {
                e.u32(FETCH);
                e.u64(block);
            }
            Self::Sums { first, count } => {
                e.u32(SUMS);
                e.u64(first);
                e.u32(count);
            }
        }
    }
}

impl<'a> Decode<'a> for StreamItem<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let offset = d.position();
        Ok(match d.u32()? {
            WRITE => Self::Write {
                offset: d.u64()?,
                is_stable: bool::decode(d)?,
                data: d.opaque(DATA_BYTES_MAX)?,
            },
            SYNC => Self::Sync,
            CUT => Self::Cut {
                size_bytes: d.u64()?,
            },
            PUNCH => Self::Punch {
                range: Range::decode(d)?,
            },
            RESERVE => Self::Reserve {
                stripes: Stripes::decode(d)?,
                range: Range::decode(d)?,
            },
            CLONE => Self::Clone {
                src_file_id: d.u64()?,
                src_generation: d.u32()?,
                src_offset: d.u64()?,
                range: Range::decode(d)?,
                size_bytes: d.u64()?,
            },
            DROP => Self::Drop,
            NOTHING => Self::Nothing,
            FETCH => Self::Fetch { block: d.u64()? },
            PARTS => Self::Parts {
                after: Option::decode(d)?,
                which: PartsAsked::decode(d)?,
            },
            SETTLE => Self::Settle,
            SUMS => {
                let (first, count) = (d.u64()?, d.u32()?);
                if !(1..=BLOCKS_MAX).contains(&count) {
                    let kind = DecodeErrorKind::Invalid("1 to 16 blocks");
                    return Err(DecodeError { kind, offset });
                }
                Self::Sums { first, count }
            }
            other => {
                let kind = DecodeErrorKind::BadDiscriminant(other);
                return Err(DecodeError { kind, offset });
            }
        })
    }
}
