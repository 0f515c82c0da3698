//! The form of every result: a status, then the body of a success or that of a failure; and what ties arguments to it.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{Nfs3Status, Proc};

/// `XXX3res`: the body of a success, or a status and the body of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Res<O, F> {
    /// `NFS3_OK`.
    Ok(O),
    /// Any other status.
    Fail(Nfs3Status, F),
}

impl<O, F> Res<O, F> {
    /// The status.
    pub const fn status(&self) -> Nfs3Status {
        match self {
            Self::Ok(_) => Nfs3Status::Ok,
            Self::Fail(status, _) => *status,
        }
    }

    /// As a `Result`, for `?`.
    ///
    /// # Errors
    /// The status and the body of a failure.
    pub fn into_result(self) -> Result<O, (Nfs3Status, F)> {
        match self {
            Self::Ok(ok) => Ok(ok),
            Self::Fail(status, fail) => Err((status, fail)),
        }
    }
}

impl<O, F> From<Result<O, (Nfs3Status, F)>> for Res<O, F> {
    fn from(result: Result<O, (Nfs3Status, F)>) -> Self {
        match result {
            Ok(ok) => Self::Ok(ok),
            Err((status, fail)) => Self::Fail(status, fail),
        }
    }
}

impl<'a, O: Decode<'a>, F: Decode<'a>> Decode<'a> for Res<O, F> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match Nfs3Status::decode(d)? {
            Nfs3Status::Ok => O::decode(d).map(Self::Ok),
            status => F::decode(d).map(|fail| Self::Fail(status, fail)),
        }
    }
}

impl<O: Encode, F: Encode> Encode for Res<O, F> {
    /// # Panics
    /// For a failure with the status of a success, which would be read as another body.
    fn encode(&self, e: &mut Encoder) {
        self.status().encode(e);
        match self {
            Self::Ok(ok) => ok.encode(e),
            Self::Fail(status, fail) => {
                assert!(!status.is_ok(), "a failure has another status than NFS3_OK");
                fail.encode(e);
            }
        }
    }
}

/// Arguments of a procedure, and what belongs to them.
pub trait ProcArgs: Encode {
    /// The procedure.
    const PROC: Proc;
    /// Body of a success as a client reads it.
    type Ok<'r>: Decode<'r>;
    /// Body of a failure.
    type Fail: for<'r> Decode<'r>;

    /// Reads the result of a call with these arguments, and refuses trailing bytes.
    ///
    /// # Errors
    /// What the body refuses, or [`xdr::DecodeErrorKind::Trailing`].
    fn decode_res(bytes: &[u8]) -> Result<Res<Self::Ok<'_>, Self::Fail>, DecodeError> {
        xdr::decode_all(bytes)
    }
}
