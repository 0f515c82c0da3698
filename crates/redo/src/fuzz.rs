//! Entry point of the fuzzer: any bytes, as a record.

use crate::RedoRecord;

/// Decodes `bytes` as a record. What decodes must encode to the same bytes, but for their padding.
///
/// # Panics
/// When it does not: a bug of the codec.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = xdr::decode_all::<RedoRecord<'_>>(bytes) {
        let again = xdr::encode_to_vec(&record);
        let decoded = xdr::decode_all::<RedoRecord<'_>>(&again);
        assert_eq!(decoded.expect("what we encode decodes"), record);
        assert_eq!(again.len(), bytes.len(), "encoding has another length");
    }
}
