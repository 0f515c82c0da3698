//! Status codes of NLM version 4 (RFC 1813 §6.1.4). A status is a value that we encode or that a peer answered.

use std::fmt;

xdr::xdr_enum! {
    /// `nlm4_stats`: success or failure of a call.
    pub enum Nlm4Stats {
        /// `NLM4_GRANTED`: the call was done.
        Granted = 0,
        /// `NLM4_DENIED`: it failed; a lock may be had later.
        Denied = 1,
        /// `NLM4_DENIED_NOLOCKS`: the server lacks the resources.
        DeniedNoLocks = 2,
        /// `NLM4_BLOCKED`: the server will call GRANTED when it has the lock.
        Blocked = 3,
        /// `NLM4_DENIED_GRACE_PERIOD`: only reclaims are taken now.
        DeniedGracePeriod = 4,
        /// `NLM4_DEADLCK`: to wait would be a deadlock.
        Deadlock = 5,
        /// `NLM4_ROFS`: the file system is read-only.
        RoFs = 6,
        /// `NLM4_STALE_FH`: the file handle is invalid.
        StaleFh = 7,
        /// `NLM4_FBIG`: offset or length are beyond what the server has.
        FBig = 8,
        /// `NLM4_FAILED`: any other failure; not to be tried again.
        Failed = 9,
    }
}

impl Nlm4Stats {
    /// The RFC's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Granted => "NLM4_GRANTED",
            Self::Denied => "NLM4_DENIED",
            Self::DeniedNoLocks => "NLM4_DENIED_NOLOCKS",
            Self::Blocked => "NLM4_BLOCKED",
            Self::DeniedGracePeriod => "NLM4_DENIED_GRACE_PERIOD",
            Self::Deadlock => "NLM4_DEADLCK",
            Self::RoFs => "NLM4_ROFS",
            Self::StaleFh => "NLM4_STALE_FH",
            Self::FBig => "NLM4_FBIG",
            Self::Failed => "NLM4_FAILED",
        }
    }
}

impl fmt::Display for Nlm4Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
