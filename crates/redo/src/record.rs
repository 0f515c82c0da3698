//! The form of a redo record: what one small stable WRITE did. Data servers pass on writes to copies in the same form.
//!
//! XDR: version (1), file id, generation, place, offset, time of the write, bytes.

use nfs4::NfsTime;
use objects::ObjectId;
use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder};

/// Most bytes that one record writes.
pub const DATA_BYTES_MAX: u32 = 64 * 1024;
/// Bytes of a record before its data.
pub const RECORD_HEAD_BYTES: usize = 44;
/// The form that this version writes, and the only one that it reads.
const VERSION: u32 = 1;

/// What one small stable WRITE did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedoRecord<'a> {
    /// The object that was written. It is made if it does not exist, also when `data` is empty.
    pub id: ObjectId,
    /// Where the bytes begin in it.
    pub offset: u64,
    /// When it was written, by the data server's clock.
    pub time: NfsTime,
    /// The bytes, at most [`DATA_BYTES_MAX`].
    pub data: &'a [u8],
}

impl Encode for RedoRecord<'_> {
    fn encode(&self, e: &mut Encoder) {
        e.u32(VERSION);
        e.u64(self.id.file_id);
        e.u32(self.id.generation);
        e.u32(u32::from(self.id.place));
        e.u64(self.offset);
        self.time.encode(e);
        e.opaque(self.data);
    }
}

impl<'a> Decode<'a> for RedoRecord<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let bad = |offset, value| DecodeError {
            offset,
            kind: DecodeErrorKind::BadDiscriminant(value),
        };
        let version = d.u32()?;
        if version != VERSION {
            return Err(bad(offset, version));
        }
        let file_id = d.u64()?;
        let generation = d.u32()?;
        let offset = d.position();
        let place = d.u32()?;
        Ok(Self {
            id: ObjectId {
                file_id,
                generation,
                place: u8::try_from(place).map_err(|_| bad(offset, place))?,
            },
            offset: d.u64()?,
            time: NfsTime::decode(d)?,
            data: d.opaque(DATA_BYTES_MAX)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_another_version_does_not() {
        let record = RedoRecord {
            id: ObjectId {
                file_id: 7,
                generation: 2,
                place: 1,
            },
            offset: 1 << 40,
            time: NfsTime {
                seconds: -5,
                nanoseconds: 9,
            },
            data: b"abc",
        };
        let mut bytes = xdr::encode_to_vec(&record);
        assert_eq!(bytes.len(), RECORD_HEAD_BYTES + 4);
        assert_eq!(xdr::decode_all::<RedoRecord<'_>>(&bytes), Ok(record));
        bytes[3] = 2;
        assert!(xdr::decode_all::<RedoRecord<'_>>(&bytes).is_err());
    }
}
