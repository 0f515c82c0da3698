//! WRITE (RFC 1813 §3.3.7).

use xdr::{Encode, Encoder, Opaque};

use crate::{Handle, IO_BYTES_MAX, Res, StableHow, WccData, WriteVerf};

xdr::xdr_struct! {
    /// Arguments of WRITE as a server reads them: the data lie in the record.
    #[derive(Copy)]
    pub struct WriteArgs<'a> {
        /// The file.
        pub file: Handle<'a>,
        /// First byte.
        pub offset: u64,
        /// Bytes to write. A decoder does not compare it with `data`.
        pub count: u32,
        /// How stable the data must be when the reply is sent.
        pub stable: StableHow,
        /// The data.
        pub data: Opaque<'a, IO_BYTES_MAX>,
    }

    /// Success of WRITE.
    #[derive(Copy)]
    pub struct WriteOk {
        /// The file.
        pub file_wcc: WccData,
        /// Bytes written.
        pub count: u32,
        /// How stable they are.
        pub committed: StableHow,
        /// Changes when unstable writes may have been lost.
        pub verf: WriteVerf,
    }
}

/// Failure of WRITE: the file.
pub type WriteFail = WccData;
/// Result of WRITE.
pub type WriteRes = Res<WriteOk, WriteFail>;

procedure! { Write: WriteArgs<'_> => WriteOk, WriteFail }

/// Arguments of WRITE as a client writes them: the transport inserts the data, in the order of the encoder's spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteArgsPayload<'a> {
    /// The file.
    pub file: Handle<'a>,
    /// First byte.
    pub offset: u64,
    /// How stable the data must be when the reply is sent.
    pub stable: StableHow,
    /// Bytes of data.
    pub len: u32,
}

impl Encode for WriteArgsPayload<'_> {
    fn encode(&self, e: &mut Encoder) {
        self.file.encode(e);
        e.u64(self.offset);
        e.u32(self.len);
        self.stable.encode(e);
        e.payload(self.len);
    }
}

procedure! { Write: WriteArgsPayload<'_> => WriteOk, WriteFail }
