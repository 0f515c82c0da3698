//! Layouts and devices (RFC 8881 §3.3.13 and §12), and the bodies of the files layout (RFC 8881 §13.3).
//!
//! Outer types carry their body as opaque bytes, because its form depends on the layout type; the `File*` types are
//! those bodies for `LAYOUT4_NFSV4_1_FILES`. What a layout means for I/O is the business of other crates.

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, List, Opaque};

use crate::{DeviceId, FileHandle, IoMode, NetAddr};

/// Files (RFC 8881 §13).
pub const LAYOUT_NFSV4_1_FILES: u32 = 1;
/// Objects (RFC 5664).
pub const LAYOUT_OSD2_OBJECTS: u32 = 2;
/// Blocks (RFC 5663).
pub const LAYOUT_BLOCK_VOLUME: u32 = 3;
/// Flexible files (RFC 8435).
pub const LAYOUT_FLEX_FILES: u32 = 4;
/// SCSI (RFC 8154).
pub const LAYOUT_SCSI: u32 = 5;

/// Length of a layout that reaches to the end of the file whatever its size (RFC 8881 §18.43.3).
pub const LENGTH_TO_EOF: u64 = u64::MAX;
/// Most segments of one LAYOUTGET reply.
pub const LAYOUTS_MAX: u32 = 256;
/// Longest body of a layout, an update or a return in bytes. A files layout with [`FILE_HANDLES_MAX`] handles
/// fits.
pub const LAYOUT_BODY_BYTES_MAX: u32 = 1 << 20;
/// Most stripe indices of a device; Linux takes no more.
pub const STRIPE_INDICES_MAX: u32 = 4096;
/// Most data servers of a device; Linux takes no more.
pub const MULTIPATH_LISTS_MAX: u32 = 256;
/// Most addresses of one data server.
pub const MULTIPATH_ADDRS_MAX: u32 = 32;
/// Most file handles of a files layout: one for each stripe index when dense.
pub const FILE_HANDLES_MAX: u32 = 4096;

/// `nfl_util`: an object holds its stripe units without holes.
pub const NFL_DENSE: u32 = 0x1;
/// `nfl_util`: COMMIT goes to the MDS.
pub const NFL_COMMIT_THRU_MDS: u32 = 0x2;
/// `nfl_util`: `IO_ADVISE` goes to the MDS (RFC 7862 §15.5).
pub const NFL_IO_ADVISE_THRU_MDS: u32 = 0x4;
/// `nfl_util`: bits that hold the stripe unit in bytes.
pub const NFL_STRIPE_UNIT_MASK: u32 = 0xffff_ffc0;

/// `nflh_care`: the hint's stripe unit counts.
pub const NFLH_CARE_STRIPE_UNIT_SIZE: u32 = 0x40;
/// `nflh_care`: the hint's stripe count counts.
pub const NFLH_CARE_STRIPE_COUNT: u32 = 0x80;

/// How a file lies on its device (`nfl_util4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NflUtil(pub u32);

impl NflUtil {
    /// `stripe_unit_bytes` with `NFL_*` flags; `None` when the unit is 0 or no multiple of 64.
    #[must_use]
    pub const fn new(stripe_unit_bytes: u32, flags: u32) -> Option<Self> {
        if stripe_unit_bytes == 0 || stripe_unit_bytes & !NFL_STRIPE_UNIT_MASK != 0 {
            return None;
        }
        Some(Self(stripe_unit_bytes | (flags & !NFL_STRIPE_UNIT_MASK)))
    }

    /// Bytes of a stripe unit. A peer may send 0: check before dividing.
    #[must_use]
    pub const fn stripe_unit_bytes(self) -> u32 {
        self.0 & NFL_STRIPE_UNIT_MASK
    }

    /// Whether the packing is dense.
    #[must_use]
    pub const fn is_dense(self) -> bool {
        self.0 & NFL_DENSE != 0
    }

    /// Whether COMMIT goes to the MDS.
    #[must_use]
    pub const fn is_commit_thru_mds(self) -> bool {
        self.0 & NFL_COMMIT_THRU_MDS != 0
    }
}

impl Decode<'_> for NflUtil {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u32().map(Self)
    }
}

impl Encode for NflUtil {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.0);
    }
}

xdr::xdr_struct! {
    /// `layout4`: one segment, with `layout_content4`.
    #[derive(Copy)]
    pub struct Layout<'a> {
        /// First byte.
        pub offset: u64,
        /// Bytes, or [`LENGTH_TO_EOF`].
        pub length: u64,
        /// What it allows.
        pub iomode: IoMode,
        /// Layout type.
        pub layout_type: u32,
        /// [`FileLayout`] for files, [`crate::flex_files::FlexLayout`] for flexible files.
        pub body: Opaque<'a, LAYOUT_BODY_BYTES_MAX>,
    }

    /// `nfsv4_1_file_layout4`: the body of a layout.
    pub struct FileLayout {
        /// The device.
        pub device_id: DeviceId,
        /// Packing and stripe unit.
        pub util: NflUtil,
        /// Index of the device's stripe indices where the pattern begins.
        pub first_stripe_index: u32,
        /// Byte of the file where the pattern begins.
        pub pattern_offset: u64,
        /// None (sparse: the MDS handle), one, or one for each data server or index.
        pub file_handles: List<FileHandle, FILE_HANDLES_MAX>,
    }

    /// `nfsv4_1_file_layouthint4`.
    #[derive(Copy)]
    pub struct FileLayoutHint {
        /// Which parts count.
        pub care: u32,
        /// Packing and stripe unit.
        pub util: NflUtil,
        /// Stripes.
        pub stripe_count: u32,
    }
}

/// `nfsv4_1_file_layout_ds_addr4`: the body of a device address. Decoding refuses an index beyond the list of data
/// servers, so that none needs to be checked at I/O.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileLayoutDsAddr {
    /// For each stripe, the index of its data server.
    pub stripe_indices: List<u32, STRIPE_INDICES_MAX>,
    /// For each data server, its addresses, preferred first.
    pub multipath_ds_list: List<List<NetAddr, MULTIPATH_ADDRS_MAX>, MULTIPATH_LISTS_MAX>,
}

impl Decode<'_> for FileLayoutDsAddr {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let out = Self {
            stripe_indices: List::decode(d)?,
            multipath_ds_list: List::decode(d)?,
        };
        let ds_count = out.multipath_ds_list.0.len();
        if out.stripe_indices.0.iter().any(|i| *i as usize >= ds_count) {
            return Err(DecodeError {
                kind: DecodeErrorKind::Invalid("a stripe index is beyond the data servers"),
                offset,
            });
        }
        Ok(out)
    }
}

impl Encode for FileLayoutDsAddr {
    fn encode(&self, e: &mut Encoder) {
        self.stripe_indices.encode(e);
        self.multipath_ds_list.encode(e);
    }
}
