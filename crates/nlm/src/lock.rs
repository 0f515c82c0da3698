//! Types of the procedures on byte-range locks (RFC 1813 §6.1.4). TEST, LOCK, CANCEL, UNLOCK and GRANTED share them with their
//! messages. What a lock covers is [`crate::NlmRange`].

use crate::{Nlm4Stats, NlmRange, RangeOverflow};
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Opaque};

/// Longest `netobj` in bytes (`MAXNETOBJ_SZ`).
pub const NETOBJ_BYTES_MAX: u32 = 1024;
/// Longest name of a caller in bytes (`LM_MAXSTRLEN`).
pub const CALLER_NAME_BYTES_MAX: u32 = 1024;

/// `netobj`: opaque bytes of the other side.
pub type Netobj<'a> = Opaque<'a, NETOBJ_BYTES_MAX>;
/// `string caller_name<LM_MAXSTRLEN>`: the host that asks. Its bytes need not be UTF-8.
pub type CallerName<'a> = Opaque<'a, CALLER_NAME_BYTES_MAX>;

xdr::xdr_struct! {
    /// `nlm4_lock`: a file, an owner and a range.
    #[derive(Copy)]
    pub struct Nlm4Lock<'a> {
        /// The host that asks. Host, `svid` and `oh` together name the owner.
        pub caller_name: CallerName<'a>,
        /// The file: the bytes of its `nfs_fh3`. The count of the netobj is the count of the handle.
        pub fh: Netobj<'a>,
        /// Host or process that asks.
        pub oh: Netobj<'a>,
        /// Process that asks.
        pub svid: i32,
        /// First byte.
        pub l_offset: u64,
        /// Bytes; zero means to the end.
        pub l_len: u64,
    }

    /// `nlm4_holder`: the owner of a lock that conflicts, and its range.
    #[derive(Copy)]
    pub struct Nlm4Holder<'a> {
        /// Whether the lock is exclusive, not shared.
        pub exclusive: bool,
        /// Process that holds it.
        pub svid: i32,
        /// Host or process that holds it.
        pub oh: Netobj<'a>,
        /// First byte.
        pub l_offset: u64,
        /// Bytes; zero means to the end.
        pub l_len: u64,
    }

    /// `nlm4_testargs`: arguments of TEST and GRANTED.
    #[derive(Copy)]
    pub struct Nlm4TestArgs<'a> {
        /// Comes back in the answer.
        pub cookie: Netobj<'a>,
        /// Whether the lock is exclusive, not shared.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
    }

    /// `nlm4_lockargs`: arguments of LOCK and NM_LOCK.
    #[derive(Copy)]
    pub struct Nlm4LockArgs<'a> {
        /// Comes back in the answer.
        pub cookie: Netobj<'a>,
        /// Whether the client waits for GRANTED when the lock is held.
        pub block: bool,
        /// Whether the lock is exclusive, not shared.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
        /// Whether the lock was held before the server restarted.
        pub reclaim: bool,
        /// NSM state of the caller.
        pub state: i32,
    }

    /// `nlm4_cancargs`: arguments of CANCEL. They equal those of the LOCK that is taken back.
    #[derive(Copy)]
    pub struct Nlm4CancArgs<'a> {
        /// Comes back in the answer.
        pub cookie: Netobj<'a>,
        /// As in the LOCK.
        pub block: bool,
        /// As in the LOCK.
        pub exclusive: bool,
        /// The lock.
        pub alock: Nlm4Lock<'a>,
    }

    /// `nlm4_unlockargs`: arguments of UNLOCK.
    #[derive(Copy)]
    pub struct Nlm4UnlockArgs<'a> {
        /// Comes back in the answer.
        pub cookie: Netobj<'a>,
        /// Owner, file and range.
        pub alock: Nlm4Lock<'a>,
    }

    /// `nlm4_res`: result of all procedures on locks but TEST.
    #[derive(Copy)]
    pub struct Nlm4Res<'a> {
        /// Of the call.
        pub cookie: Netobj<'a>,
        /// What became of it.
        pub stat: Nlm4Stats,
    }

    /// `nlm4_testres`: result of TEST.
    #[derive(Copy)]
    pub struct Nlm4TestRes<'a> {
        /// Of the call.
        pub cookie: Netobj<'a>,
        /// What was found.
        pub stat: Nlm4TestReply<'a>,
    }
}

impl Nlm4Lock<'_> {
    /// What the lock covers.
    ///
    /// # Errors
    /// [`RangeOverflow`]: the answer is `NLM4_FBIG`.
    pub const fn range(&self) -> Result<NlmRange, RangeOverflow> {
        NlmRange::new(self.l_offset, self.l_len)
    }
}

/// `nlm4_testrply`: a status, with the holder when it is DENIED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nlm4TestReply<'a> {
    /// `NLM4_DENIED`: this lock is in the way.
    Denied(Nlm4Holder<'a>),
    /// Any other status; GRANTED says that the lock could be had.
    Other(Nlm4Stats),
}

impl<'a> Decode<'a> for Nlm4TestReply<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nlm4Stats::decode(d)? {
            Nlm4Stats::Denied => Self::Denied(Nlm4Holder::decode(d)?),
            other => Self::Other(other),
        })
    }
}

/// # Panics
/// For `Other(Denied)`, which has no holder: a bug of the caller.
impl Encode for Nlm4TestReply<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Denied(holder) => {
                Nlm4Stats::Denied.encode(e);
                holder.encode(e);
            }
            Self::Other(stat) => {
                assert!(*stat != Nlm4Stats::Denied, "DENIED has a holder");
                stat.encode(e);
            }
        }
    }
}
