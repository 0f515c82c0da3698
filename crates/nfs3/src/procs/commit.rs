//! COMMIT (RFC 1813 §3.3.21).

use crate::{Handle, Res, WccData, WriteVerf};

xdr::xdr_struct! {
    /// Arguments of COMMIT.
    #[derive(Copy)]
    pub struct CommitArgs<'a> {
        /// The file.
        pub file: Handle<'a>,
        /// First byte.
        pub offset: u64,
        /// Bytes; 0 is all from `offset` on.
        pub count: u32,
    }

    /// Success of COMMIT.
    #[derive(Copy)]
    pub struct CommitOk {
        /// The file.
        pub file_wcc: WccData,
        /// Another one than WRITE answered: unstable writes may have been lost.
        pub verf: WriteVerf,
    }
}

/// Failure of COMMIT: the file.
pub type CommitFail = WccData;
/// Result of COMMIT.
pub type CommitRes = Res<CommitOk, CommitFail>;

procedure! { Commit: CommitArgs<'_> => CommitOk, CommitFail }
