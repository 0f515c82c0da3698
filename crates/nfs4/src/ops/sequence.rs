//! SEQUENCE (RFC 8881 §18.46).

use crate::{OpNum, SessionId};

/// No back channel for any session of the client.
pub const SEQ_STATUS_CB_PATH_DOWN: u32 = 0x1;
/// A callback GSS context is about to expire.
pub const SEQ_STATUS_CB_GSS_CONTEXTS_EXPIRING: u32 = 0x2;
/// All callback GSS contexts expired.
pub const SEQ_STATUS_CB_GSS_CONTEXTS_EXPIRED: u32 = 0x4;
/// The lease expired and all state is gone.
pub const SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
/// The lease expired and some state is gone.
pub const SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED: u32 = 0x10;
/// An administrator revoked state.
pub const SEQ_STATUS_ADMIN_STATE_REVOKED: u32 = 0x20;
/// Recallable state was revoked.
pub const SEQ_STATUS_RECALLABLE_STATE_REVOKED: u32 = 0x40;
/// State moved to another server.
pub const SEQ_STATUS_LEASE_MOVED: u32 = 0x80;
/// The client must reclaim.
pub const SEQ_STATUS_RESTART_RECLAIM_NEEDED: u32 = 0x100;
/// No back channel for this session.
pub const SEQ_STATUS_CB_PATH_DOWN_SESSION: u32 = 0x200;
/// The client's back channel answers wrongly.
pub const SEQ_STATUS_BACKCHANNEL_FAULT: u32 = 0x400;
/// A device changed and the client did not hear of it.
pub const SEQ_STATUS_DEVID_CHANGED: u32 = 0x800;
/// A device was deleted and the client did not hear of it.
pub const SEQ_STATUS_DEVID_DELETED: u32 = 0x1000;

xdr::xdr_struct! {
    /// Arguments of SEQUENCE.
    #[derive(Copy)]
    pub struct SequenceArgs {
        /// The session.
        pub session_id: SessionId,
        /// One more than that of the last request in the slot, or the same for a retry.
        pub sequence_id: u32,
        /// The slot.
        pub slot_id: u32,
        /// Highest slot in use by the client.
        pub highest_slot_id: u32,
        /// Whether the client wants the whole reply cached.
        pub cache_this: bool,
    }

    /// Result of SEQUENCE.
    #[derive(Copy)]
    pub struct SequenceRes {
        /// The session.
        pub session_id: SessionId,
        /// That of the request.
        pub sequence_id: u32,
        /// The slot.
        pub slot_id: u32,
        /// Highest slot that the server accepts.
        pub highest_slot_id: u32,
        /// Highest slot that the server would like the client to use.
        pub target_highest_slot_id: u32,
        /// `SEQ_STATUS_*` flags.
        pub status_flags: u32,
    }
}

operations! { OpNum::Sequence: SequenceArgs => SequenceRes; }
