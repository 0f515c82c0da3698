//! Values of the keys `s w t o r`.

use crate::{FileId, NsError, Placement, Time};
use meta::{MetaError, Pair, Read};
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List};

/// Pairs read from the store at once.
const SCAN_PAIRS: usize = 1024;
/// Clients that may hold a layout for writing on one file (the design's 8,000 clients, rounded up).
pub const RW_OUT_CLIENTS_MAX: u32 = 8192;
/// Data servers of one placement group (decision 1).
pub const DS_PER_GROUP_MAX: u32 = 256;

xdr::xdr_struct! {
    /// Identity of the file system, written once.
    pub(crate) struct Identity {
        pub(crate) schema: u32,
        pub(crate) cluster_id: u64,
        pub(crate) hash_key: [u8; 16],
    }

    /// A truncation under way (R3), done again after a crash.
    #[derive(Copy)]
    pub struct TruncateIntent {
        /// The file.
        pub file: FileId,
        /// Size when it began, as the MDS knew it.
        pub old_size: u64,
        /// Size when it ends.
        pub new_size: u64,
        /// Lowest epoch that data servers accept for the file from now on.
        pub floor: u64,
    }

    /// Inline files, all together.
    #[derive(Copy, Default)]
    pub struct InlineTotals {
        /// How many.
        pub files: u64,
        /// Bytes of them in the metadata store.
        pub bytes: u64,
    }

    /// The place that an inline file is being given (T8).
    #[derive(Copy)]
    pub(crate) struct PlacingIntent {
        /// The file.
        pub(crate) file: FileId,
        /// Where bytes of it may lie already.
        pub(crate) placement: Placement,
    }

    /// Objects that data servers have yet to remove (R4): of an unlinked file, or those that a file had before it got others.
    pub struct Removal {
        /// Its place in the queue; acknowledged by this number.
        pub seq: u64,
        /// The file by which data servers know them.
        pub file: FileId,
        /// The generation.
        pub generation: u32,
        /// Lowest epoch that would be valid: above all that were given out.
        pub floor: u64,
        /// Where its data were.
        pub placement: Placement,
        /// Data servers that have acknowledged, ascending.
        pub acked: List<u32, DS_PER_GROUP_MAX>,
    }
}

/// What transactions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// No inode number at or above this was given out.
    pub(crate) file_id_limit: u64,
    /// Inodes in existence.
    pub(crate) files: u64,
    /// Number of the next entry of the removal queue.
    pub(crate) next_removal: u64,
    /// Inline files.
    pub(crate) inline: InlineTotals,
}

impl Encode for Counters {
    fn encode(&self, e: &mut Encoder) {
        for count in [self.file_id_limit, self.files, self.next_removal] {
            e.u64(count);
        }
        // A program that knows no inline files refuses a store that has some, and only such a store.
        if self.inline != InlineTotals::default() {
            self.inline.encode(e);
        }
    }
}

impl Decode<'_> for Counters {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            file_id_limit: d.u64()?,
            files: d.u64()?,
            next_removal: d.u64()?,
            inline: match d.remaining() {
                0 => InlineTotals::default(),
                _ => Decode::decode(d)?,
            },
        })
    }
}

/// A file that is "RW out" (R1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RwOut {
    /// Client ids, ascending. The first may be [`OWN_WRITER`].
    pub clients: List<u64, RW_OUT_CLIENTS_MAX>,
    /// When each data server of the file had last written its object as the mark was made. The order is that of its
    /// placement group, and each time is by the data server's own clock. Empty where nobody had set the modification
    /// time: then recovery takes the newest.
    pub stamps: List<Time, DS_PER_GROUP_MAX>,
}

/// The client of a mark that stands for the metadata server itself: it writes a file whose mirrors it must keep level. No client has
/// this id.
pub const OWN_WRITER: u64 = 0;

impl RwOut {
    /// Whether a client may have a layout for writing: somebody but [`OWN_WRITER`] is marked.
    #[must_use]
    pub fn has_layouts(&self) -> bool {
        self.clients.0.iter().any(|client| *client != OWN_WRITER)
    }
}

impl Encode for RwOut {
    fn encode(&self, e: &mut Encoder) {
        self.clients.encode(e);
        // A mark without stamps is stored as before there were any.
        if !self.stamps.0.is_empty() {
            self.stamps.encode(e);
        }
    }
}

impl Decode<'_> for RwOut {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            clients: Decode::decode(d)?,
            stamps: if d.remaining() > 0 {
                Decode::decode(d)?
            } else {
                List::default()
            },
        })
    }
}

/// Calls `visit` for all records of a tag, in their order.
pub(crate) fn each(
    store: &(impl Read + ?Sized),
    tag: u8,
    mut visit: impl FnMut(&Pair),
) -> Result<(), MetaError> {
    let (mut start, end) = (vec![tag], meta::prefix_end(&[tag]));
    loop {
        let pairs = store.scan(&start, &end, SCAN_PAIRS)?;
        pairs.iter().for_each(&mut visit);
        let Some((last, _)) = pairs.last().filter(|_| pairs.len() == SCAN_PAIRS) else {
            return Ok(());
        };
        start = last.to_vec();
        start.push(0);
    }
}

/// Decodes a stored record; `what` names it in the error.
pub(crate) fn decode<'a, T: Decode<'a>>(bytes: &'a [u8], what: &str) -> Result<T, NsError> {
    xdr::decode_all(bytes).map_err(|e| NsError::corrupt(format!("{what}: {e}")))
}

pub(crate) fn encode<T: Encode>(value: &T) -> Vec<u8> {
    xdr::encode_to_vec(value)
}
