//! COMMIT (RFC 8881 §18.3).

use crate::{OpNum, Verifier};

xdr::xdr_struct! {
    /// Arguments of COMMIT.
    #[derive(Copy)]
    pub struct CommitArgs {
        /// First byte.
        pub offset: u64,
        /// Bytes; 0 is all to the end of the file.
        pub count: u32,
    }

    /// Result of COMMIT.
    #[derive(Copy)]
    pub struct CommitRes {
        /// Changes when unstable writes may have been lost.
        pub write_verifier: Verifier,
    }
}

operations! { OpNum::Commit: CommitArgs => CommitRes; }
