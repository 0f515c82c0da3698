//! READ (RFC 1813 §3.3.6).

use xdr::{Encode, Encoder, Opaque};

use crate::{Handle, IO_BYTES_MAX, PostOpAttr, Res};

xdr::xdr_struct! {
    /// Arguments of READ.
    #[derive(Copy)]
    pub struct ReadArgs<'a> {
        /// The file.
        pub file: Handle<'a>,
        /// First byte.
        pub offset: u64,
        /// Wanted bytes.
        pub count: u32,
    }

    /// Success of READ as a client reads it: the data lie in the record.
    #[derive(Copy)]
    pub struct ReadOk<'a> {
        /// Attributes of the file.
        pub file_attributes: PostOpAttr,
        /// Bytes of data. A decoder does not compare it with `data`.
        pub count: u32,
        /// Whether the last byte of the file was read.
        pub eof: bool,
        /// The data.
        pub data: Opaque<'a, IO_BYTES_MAX>,
    }
}

/// Failure of READ: attributes of the file.
pub type ReadFail = PostOpAttr;
/// Result of READ as a client reads it.
pub type ReadRes<'a> = Res<ReadOk<'a>, ReadFail>;
/// Result of READ as a server writes it.
pub type ReadResPayload = Res<ReadOkPayload, ReadFail>;

procedure! { Read: ReadArgs<'_> => ReadOk<'r>, ReadFail }

/// Success of READ as a server writes it: the transport inserts the data, in the order of the encoder's spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOkPayload {
    /// Attributes of the file.
    pub file_attributes: PostOpAttr,
    /// Whether the last byte of the file was read.
    pub eof: bool,
    /// Bytes of data.
    pub len: u32,
}

impl Encode for ReadOkPayload {
    fn encode(&self, e: &mut Encoder) {
        self.file_attributes.encode(e);
        e.u32(self.len);
        e.bool(self.eof);
        e.payload(self.len);
    }
}
