//! The procedures of NLM version 4 (RFC 1813 §6.2). Numbers 16 to 19 have none.

xdr::xdr_enum! {
    /// A procedure of NLM version 4.
    pub enum NlmProc {
        /// `NLMPROC4_NULL`: nothing; answers that the server is there.
        Null = 0,
        /// `NLMPROC4_TEST`: whether a lock could be had, and who is in the way.
        Test = 1,
        /// `NLMPROC4_LOCK`.
        Lock = 2,
        /// `NLMPROC4_CANCEL`: takes a blocked request back.
        Cancel = 3,
        /// `NLMPROC4_UNLOCK`.
        Unlock = 4,
        /// `NLMPROC4_GRANTED`: from server to client; a blocked request has its lock.
        Granted = 5,
        /// `NLMPROC4_TEST_MSG`: TEST as a message; [`NlmProc::TestRes`] is its answer.
        TestMsg = 6,
        /// `NLMPROC4_LOCK_MSG`.
        LockMsg = 7,
        /// `NLMPROC4_CANCEL_MSG`.
        CancelMsg = 8,
        /// `NLMPROC4_UNLOCK_MSG`.
        UnlockMsg = 9,
        /// `NLMPROC4_GRANTED_MSG`.
        GrantedMsg = 10,
        /// `NLMPROC4_TEST_RES`: the answer to a TEST_MSG, as a call.
        TestRes = 11,
        /// `NLMPROC4_LOCK_RES`.
        LockRes = 12,
        /// `NLMPROC4_CANCEL_RES`.
        CancelRes = 13,
        /// `NLMPROC4_UNLOCK_RES`.
        UnlockRes = 14,
        /// `NLMPROC4_GRANTED_RES`.
        GrantedRes = 15,
        /// `NLMPROC4_SHARE`: DOS sharing of an open.
        Share = 20,
        /// `NLMPROC4_UNSHARE`.
        Unshare = 21,
        /// `NLMPROC4_NM_LOCK`: LOCK that the server does not monitor.
        NmLock = 22,
        /// `NLMPROC4_FREE_ALL`: ends all locks and shares of a host.
        FreeAll = 23,
    }
}

impl NlmProc {
    /// The RFC's name, without `NLMPROC4_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Test => "TEST",
            Self::Lock => "LOCK",
            Self::Cancel => "CANCEL",
            Self::Unlock => "UNLOCK",
            Self::Granted => "GRANTED",
            Self::TestMsg => "TEST_MSG",
            Self::LockMsg => "LOCK_MSG",
            Self::CancelMsg => "CANCEL_MSG",
            Self::UnlockMsg => "UNLOCK_MSG",
            Self::GrantedMsg => "GRANTED_MSG",
            Self::TestRes => "TEST_RES",
            Self::LockRes => "LOCK_RES",
            Self::CancelRes => "CANCEL_RES",
            Self::UnlockRes => "UNLOCK_RES",
            Self::GrantedRes => "GRANTED_RES",
            Self::Share => "SHARE",
            Self::Unshare => "UNSHARE",
            Self::NmLock => "NM_LOCK",
            Self::FreeAll => "FREE_ALL",
        }
    }

    /// Whether this is an asynchronous message (`_MSG` or `_RES`): it has no reply, not even an empty one (RFC 1813 §6.2).
    #[must_use]
    pub const fn is_message(self) -> bool {
        matches!(self as u32, 6..=15)
    }

    /// The call that answers a `_MSG`; `None` for all else.
    #[must_use]
    pub const fn answered_by(self) -> Option<Self> {
        match self {
            Self::TestMsg => Some(Self::TestRes),
            Self::LockMsg => Some(Self::LockRes),
            Self::CancelMsg => Some(Self::CancelRes),
            Self::UnlockMsg => Some(Self::UnlockRes),
            Self::GrantedMsg => Some(Self::GrantedRes),
            _ => None,
        }
    }
}
