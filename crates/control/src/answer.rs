//! What a procedure answers: its result, or a refusal that says why in one sentence.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::types::{Text, VersionRange};

/// Longest sentence of a refusal, in bytes.
pub const DETAIL_BYTES_MAX: u32 = 256;

xdr::xdr_enum! {
    /// Result of a procedure, or of one item of a batch.
    pub enum Status {
        /// Done, and durable where the procedure says so.
        Ok = 0,
        /// The peer's certificate does not allow this procedure.
        Denied = 1,
        /// JOIN: the token was never made, is used up or has expired.
        BadToken = 2,
        /// JOIN: the public key is none.
        BadPublicKey = 3,
        /// No common version of the control program.
        UnsupportedVersion = 4,
        /// The peer belongs to another cluster.
        WrongCluster = 5,
        /// HELLO: no data server of this id, or another certificate than it joined with.
        UnknownServer = 6,
        /// HELLO: the store is another one than the data server joined with (R9).
        StoreSwapped = 7,
        /// HELLO: the store's counter went back (R9).
        StoreRolledBack = 8,
        /// The data server was expelled; it must join again with an empty store.
        Expelled = 9,
        /// HELLO must come first, or the floors that it announced have not all arrived.
        NotReady = 10,
        /// Cannot be done now; the same call may succeed later.
        TryLater = 11,
        /// No such file or object.
        NotFound = 12,
        /// The file is removed, or the generation is too low.
        Removed = 13,
        /// A table is at its limit; nothing was changed.
        TableFull = 14,
        /// The store is full.
        NoSpace = 15,
        /// The store failed.
        Io = 16,
        /// The arguments contradict each other.
        Invalid = 17,
        /// The file system of the store cannot do this.
        Unsupported = 18,
        /// The file system of the store holds no object of that size.
        TooLarge = 19,
        /// The data server is not primary of the place, or not in that reign.
        NotPrimary = 20,
    }
}

/// Why a procedure was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Never [`Status::Ok`].
    pub status: Status,
    /// The versions that the refusing side speaks.
    pub versions: VersionRange,
    /// One sentence for the log of the other side.
    pub detail: Text<DETAIL_BYTES_MAX>,
}

impl Refusal {
    /// A refusal by this build.
    ///
    /// # Panics
    /// For [`Status::Ok`], which refuses nothing.
    #[must_use]
    pub fn new(status: Status, detail: &str) -> Self {
        assert!(status != Status::Ok, "a refusal has a reason");
        Self {
            status,
            versions: VersionRange::OURS,
            detail: Text::cut(detail),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.status, self.detail.as_str())?;
        if self.status == Status::UnsupportedVersion {
            write!(
                f,
                " (speaks {} to {})",
                self.versions.low, self.versions.high
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// The result of a procedure on the wire: status 0 and the result, or another status and the refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// Done.
    Ok(T),
    /// Not done.
    Refused(Refusal),
}

impl<T> Answer<T> {
    /// As a `Result`, for `?`.
    ///
    /// # Errors
    /// The refusal.
    pub fn into_result(self) -> Result<T, Refusal> {
        match self {
            Self::Ok(value) => Ok(value),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

impl<T> From<Result<T, Refusal>> for Answer<T> {
    fn from(result: Result<T, Refusal>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(refusal) => Self::Refused(refusal),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Answer<T> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match Status::decode(d)? {
            Status::Ok => T::decode(d).map(Self::Ok),
            status => Ok(Self::Refused(Refusal {
                status,
                versions: VersionRange::decode(d)?,
                detail: Text::decode(d)?,
            })),
        }
    }
}

impl<T: Encode> Encode for Answer<T> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(value) => {
                Status::Ok.encode(e);
                value.encode(e);
            }
            Self::Refused(refusal) => {
                refusal.status.encode(e);
                refusal.versions.encode(e);
                refusal.detail.encode(e);
            }
        }
    }
}
