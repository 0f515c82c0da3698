//! Bodies of the fuzz targets `rpc_call`, `record_reader` and `rpcbind_answer`; an ordinary test replays their corpus.
//!
//! Each takes bytes of a peer and must neither panic nor allocate beyond a small multiple of its input. A panic is a
//! finding.

use xdr::{Decode, Decoder, Encode, Encoder};

use crate::{
    AuthSys, CallHeader, Credential, Fed, Netid, RESERVE_STEP_BYTES, RecordError, RecordLimits,
    RecordReader, ReplyHeader, peek, rpcbind,
};

const LIMITS: RecordLimits = RecordLimits {
    record_bytes_max: 1 << 16,
    fragments_max: 8,
};

/// A record, as a server and as a client read it. A header that is understood encodes to one that says the same.
///
/// # Panics
/// When it does not.
pub fn call(data: &[u8]) {
    let mut d = Decoder::new(data);
    if let Ok(header) = CallHeader::decode(&mut d) {
        assert!(peek(data).is_ok(), "a call whose direction cannot be told");
        let mut e = Encoder::new();
        header.encode(&mut e);
        let bytes = e.into_bytes();
        let again = CallHeader::decode(&mut Decoder::new(&bytes));
        assert_eq!(again, Ok(header), "a round trip changed a call");
        if let Ok(Credential::Sys(sys)) = Credential::parse(&header.credential) {
            let again: Result<AuthSys, _> = xdr::decode_all(&sys.to_body());
            assert_eq!(again, Ok(sys), "a round trip changed a credential");
        }
    }
    let _ = ReplyHeader::decode(&mut Decoder::new(data));
}

/// The result of any procedure of rpcbind. A list that is understood encodes to one that says the same.
///
/// # Panics
/// When it does not, or a port is none.
pub fn rpcbind_answer(data: &[u8]) {
    for netid in Netid::ALL {
        if let Ok(Some(told)) = rpcbind::address(data, netid) {
            assert!(told.port() != 0 && told.is_ipv6() == netid.is_ipv6());
        }
    }
    assert!(rpcbind::port(data) != Ok(Some(0)), "port 0 is none");
    let _ = rpcbind::is_done(data);
    if let Ok(listing) = xdr::decode_all::<rpcbind::Listing<'_>>(data) {
        let bytes = xdr::encode_to_vec(&listing);
        let again = xdr::decode_all::<rpcbind::Listing<'_>>(&bytes);
        assert_eq!(again, Ok(listing), "a round trip changed a list");
    }
}

/// A stream, in pieces whose size the first byte says and straight into the buffer: both give the same records as the
/// whole at once.
///
/// # Panics
/// When they do not.
pub fn record_reader(data: &[u8]) {
    let Some((step, stream)) = data.split_first() else {
        return;
    };
    let step = usize::from(*step).max(1);
    let whole = read(stream, stream.len().max(1), false);
    assert_eq!(
        read(stream, step, false),
        whole,
        "pieces change the records"
    );
    assert_eq!(
        read(stream, step, true),
        whole,
        "the buffer changes the records"
    );
}

type Records = (Vec<Vec<u8>>, Option<RecordError>);

fn read(stream: &[u8], step: usize, into_buffer: bool) -> Records {
    let mut reader = RecordReader::new(LIMITS);
    let mut records = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        if into_buffer && let Some((buffer, room)) = reader.body_buffer() {
            assert!(room > 0, "a fragment is arriving and has no room");
            let reserved = (2 * buffer.len()).max(buffer.len() + RESERVE_STEP_BYTES);
            assert!(buffer.capacity() <= reserved, "a length bought memory");
            let take = room.min(step).min(stream.len() - at);
            buffer.extend_from_slice(&stream[at..at + take]);
            at += take;
            records.extend(reader.body_appended(take));
            continue;
        }
        let end = (at + step).min(stream.len());
        match reader.feed(&stream[at..end]) {
            Err(e) => return (records, Some(e)),
            Ok(Fed { consumed, record }) => {
                assert!(consumed > 0, "no progress");
                at += consumed;
                records.extend(record);
            }
        }
    }
    (records, None)
}
