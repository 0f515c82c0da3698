//! WRITE (RFC 8881 §18.32).

use xdr::{Encode, Encoder, Opaque};

use crate::{IO_BYTES_MAX, OpNum, StableHow, Stateid, Verifier};

xdr::xdr_struct! {
    /// Arguments of WRITE as a server reads them: the data lie in the record.
    #[derive(Copy)]
    pub struct WriteArgs<'a> {
        /// An open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// How stable the data must be when the reply is sent.
        pub stable: StableHow,
        /// The data.
        pub data: Opaque<'a, IO_BYTES_MAX>,
    }

    /// Result of WRITE.
    #[derive(Copy)]
    pub struct WriteRes {
        /// Bytes written.
        pub count: u32,
        /// How stable they are.
        pub committed: StableHow,
        /// Changes when unstable writes may have been lost.
        pub write_verifier: Verifier,
    }
}

operations! { OpNum::Write: WriteArgs<'_> => WriteRes; }

/// Arguments of WRITE as a client writes them: the transport inserts the data, in the order of the encoder's spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteArgsPayload {
    /// An open, lock or delegation, or a special stateid.
    pub stateid: Stateid,
    /// First byte.
    pub offset: u64,
    /// How stable the data must be when the reply is sent.
    pub stable: StableHow,
    /// Bytes of data.
    pub len: u32,
}

impl Encode for WriteArgsPayload {
    fn encode(&self, e: &mut Encoder) {
        self.stateid.encode(e);
        e.u64(self.offset);
        self.stable.encode(e);
        e.payload(self.len);
    }
}

operations! { @args OpNum::Write: WriteArgsPayload; }
