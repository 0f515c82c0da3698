//! READ (RFC 8881 §18.22).

use xdr::{Encode, Encoder, Opaque};

use crate::{IO_BYTES_MAX, OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of READ.
    #[derive(Copy)]
    pub struct ReadArgs {
        /// An open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Wanted bytes.
        pub count: u32,
    }

    /// Result of READ as a client reads it: the data lie in the record.
    #[derive(Copy)]
    pub struct ReadRes<'a> {
        /// Whether the last byte of the file was read.
        pub eof: bool,
        /// The data.
        pub data: Opaque<'a, IO_BYTES_MAX>,
    }
}

operations! { OpNum::Read: ReadArgs => ReadRes<'a>; }

/// Result of READ as a server writes it: the transport inserts the data, in the order of the encoder's spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadResPayload {
    /// Whether the last byte of the file was read.
    pub eof: bool,
    /// Bytes of data.
    pub len: u32,
}

impl Encode for ReadResPayload {
    fn encode(&self, e: &mut Encoder) {
        e.bool(self.eof);
        e.payload(self.len);
    }
}

operations! { @body OpNum::Read: ReadResPayload; }
