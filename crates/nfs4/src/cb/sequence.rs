//! `CB_SEQUENCE` (RFC 8881 §20.9).

use xdr::List;

use crate::{CbOpNum, SessionId};

/// Most sessions with referring calls.
pub const REFERRING_LISTS_MAX: u32 = 64;
/// Most referring calls of a session.
pub const REFERRING_CALLS_MAX: u32 = 1024;

xdr::xdr_struct! {
    /// `referring_call4`: a request of the client that this callback is about.
    #[derive(Copy)]
    pub struct ReferringCall {
        /// Its sequence number.
        pub sequence_id: u32,
        /// Its slot.
        pub slot_id: u32,
    }

    /// `referring_call_list4`.
    pub struct ReferringCallList {
        /// Session of the calls.
        pub session_id: SessionId,
        /// The calls.
        pub calls: List<ReferringCall, REFERRING_CALLS_MAX>,
    }

    /// Arguments of `CB_SEQUENCE`.
    pub struct CbSequenceArgs {
        /// The session.
        pub session_id: SessionId,
        /// One more than that of the last request in the slot, or the same for a retry.
        pub sequence_id: u32,
        /// The slot.
        pub slot_id: u32,
        /// Highest slot in use by the server.
        pub highest_slot_id: u32,
        /// Whether the server wants the whole reply cached.
        pub cache_this: bool,
        /// Calls that the client should have seen answered before it acts.
        pub referring_call_lists: List<ReferringCallList, REFERRING_LISTS_MAX>,
    }

    /// Result of `CB_SEQUENCE`.
    #[derive(Copy)]
    pub struct CbSequenceRes {
        /// The session.
        pub session_id: SessionId,
        /// That of the request.
        pub sequence_id: u32,
        /// The slot.
        pub slot_id: u32,
        /// Highest slot that the client accepts.
        pub highest_slot_id: u32,
        /// Highest slot that the client would like the server to use.
        pub target_highest_slot_id: u32,
    }
}

operations! { CbOpNum::Sequence: CbSequenceArgs => CbSequenceRes; }
