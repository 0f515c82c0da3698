//! The hints of `mdsthreshold` (RFC 8881 §5.12.4) as numbers.
//!
//! A file's data go to the metadata server in two cases. Its size is below the size threshold of their direction, or
//! the request is below the I/O size threshold. See `threshold_item4` for the form on the wire.

use xdr::{Decode, DecodeError, Decoder, Encoder, OpaqueBuf};

use crate::attr_types::{
    TH_READ_IOSIZE, TH_READ_SIZE, TH_WRITE_IOSIZE, TH_WRITE_SIZE, ThresholdItem,
};
use crate::{Bitmap, MdsThreshold};

/// Thresholds of one layout type, in bytes. One that is absent says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// Files below this size are read through the MDS.
    pub read_file_bytes: Option<u64>,
    /// Files below this size are written through the MDS.
    pub write_file_bytes: Option<u64>,
    /// READs below this size go to the MDS.
    pub read_io_bytes: Option<u64>,
    /// WRITEs below this size go to the MDS.
    pub write_io_bytes: Option<u64>,
}

impl Thresholds {
    /// The item for a layout type.
    #[must_use]
    pub fn item(&self, layout_type: u32) -> ThresholdItem {
        let values = [
            (TH_READ_SIZE, self.read_file_bytes),
            (TH_WRITE_SIZE, self.write_file_bytes),
            (TH_READ_IOSIZE, self.read_io_bytes),
            (TH_WRITE_IOSIZE, self.write_io_bytes),
        ];
        let (mut hintset, mut hints) = (Bitmap::EMPTY, Encoder::new());
        for (bit, value) in values {
            if let Some(value) = value {
                hintset.insert(bit);
                hints.u64(value);
            }
        }
        ThresholdItem {
            layout_type,
            hintset,
            hints: OpaqueBuf(hints.into_bytes()),
        }
    }

    /// The thresholds that `attribute` has for a layout type; none at all when it has no item of it.
    ///
    /// # Errors
    /// When the list of hints is shorter than its set says. What unknown hints, which come after the known ones, add is not looked at.
    pub fn of(attribute: &MdsThreshold, layout_type: u32) -> Result<Self, DecodeError> {
        let mut items = attribute.items.0.iter();
        let Some(item) = items.find(|item| item.layout_type == layout_type) else {
            return Ok(Self::default());
        };
        let mut d = Decoder::new(&item.hints.0);
        let mut value = |bit| match item.hintset.contains(bit) {
            true => u64::decode(&mut d).map(Some),
            false => Ok(None),
        };
        Ok(Self {
            read_file_bytes: value(TH_READ_SIZE)?,
            write_file_bytes: value(TH_WRITE_SIZE)?,
            read_io_bytes: value(TH_READ_IOSIZE)?,
            write_io_bytes: value(TH_WRITE_IOSIZE)?,
        })
    }
}
