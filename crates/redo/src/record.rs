//! The form of a redo record: what one small stable WRITE did.
//!
//! XDR: version (2), file id, generation, place, placement group, offset, time of the write, bytes. Version 1 had no
//! placement group.

use nfs4::NfsTime;
use objects::ObjectId;
use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder};

/// Most bytes that one record writes.
pub const DATA_BYTES_MAX: u32 = 64 * 1024;
/// Bytes of a record before its data.
pub const RECORD_HEAD_BYTES: usize = 48;
/// The form that is written.
const VERSION: u32 = 2;
/// The form that earlier programs wrote.
const VERSION_WITHOUT_GROUP: u32 = 1;

/// What one small stable WRITE did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedoRecord<'a> {
    /// The object that was written. It is made if it does not exist, also when `data` is empty.
    pub id: ObjectId,
    /// The placement group; 0 for an object of a group without places.
    pub group: u32,
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
        e.u32(self.group);
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
        if version != VERSION && version != VERSION_WITHOUT_GROUP {
            return Err(bad(offset, version));
        }
        let file_id = d.u64()?;
        let generation = d.u32()?;
        let offset = d.position();
        let place = d.u32()?;
        let group = match version {
            VERSION_WITHOUT_GROUP => 0,
            _ => d.u32()?,
        };
        Ok(Self {
            group,
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
            group: 9,
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
        assert_eq!(
            xdr::decode_all::<RedoRecord<'_>>(&bytes),
            Ok(record.clone())
        );
        let mut older = bytes.clone();
        older[3] = 1;
        older.drain(20..24);
        let without_group = RedoRecord { group: 0, ..record };
        assert_eq!(xdr::decode_all::<RedoRecord<'_>>(&older), Ok(without_group));
        bytes[3] = 3;
        assert!(xdr::decode_all::<RedoRecord<'_>>(&bytes).is_err());
    }
}
