//! Entry point of the fuzzer: any bytes, as a record.

use crate::RedoRecord;

/// Decodes `bytes` as a record. What decodes must encode to bytes of the newest version that mean the same.
///
/// # Panics
/// When it does not: a bug of the codec.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = xdr::decode_all::<RedoRecord<'_>>(bytes) {
        let again = xdr::encode_to_vec(&record);
        let decoded = xdr::decode_all::<RedoRecord<'_>>(&again);
        assert_eq!(decoded.expect("what we encode decodes"), record);
        // A record of version 1 comes back with a placement group.
        let has_grown = bytes[..4] == [0, 0, 0, 1];
        let grown = if has_grown { 4 } else { 0 };
        assert_eq!(
            again.len(),
            bytes.len() + grown,
            "encoding has another length"
        );
    }
}
