//! LOCK, LOCKT and LOCKU (RFC 8881 §18.10 to §18.12).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{LockType, NfsStatus, OpBody, OpNum, OpRes, StateOwner, Stateid};

xdr::xdr_struct! {
    /// `open_to_lock_owner4`: the first lock of an owner on an open.
    #[derive(Copy)]
    pub struct OpenToLockOwner<'a> {
        /// Ignored in NFSv4.1.
        pub open_seqid: u32,
        /// The open.
        pub open_stateid: Stateid,
        /// Ignored in NFSv4.1.
        pub lock_seqid: u32,
        /// The owner.
        pub lock_owner: StateOwner<'a>,
    }

    /// `exist_lock_owner4`: a further lock.
    #[derive(Copy)]
    pub struct ExistLockOwner {
        /// The locks so far.
        pub lock_stateid: Stateid,
        /// Ignored in NFSv4.1.
        pub lock_seqid: u32,
    }

    /// Arguments of LOCK.
    #[derive(Copy)]
    pub struct LockArgs<'a> {
        /// Kind.
        pub lock_type: LockType,
        /// Whether the lock is from before a restart of the server.
        pub reclaim: bool,
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// Who.
        pub locker: Locker<'a>,
    }

    /// `LOCK4denied`: the lock that is in the way.
    #[derive(Copy)]
    pub struct LockDenied<'a> {
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// Kind.
        pub lock_type: LockType,
        /// Who holds it.
        pub owner: StateOwner<'a>,
    }

    /// `LOCK4resok`.
    #[derive(Copy)]
    pub struct LockGranted {
        /// The locks of this owner on this file.
        pub lock_stateid: Stateid,
    }

    /// Arguments of LOCKT.
    #[derive(Copy)]
    pub struct LockTArgs<'a> {
        /// Kind.
        pub lock_type: LockType,
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// Who would lock.
        pub owner: StateOwner<'a>,
    }

    /// Arguments of LOCKU.
    #[derive(Copy)]
    pub struct LockUArgs {
        /// Kind; ignored.
        pub lock_type: LockType,
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// The locks.
        pub lock_stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
    }

    /// Result of LOCKU.
    #[derive(Copy)]
    pub struct LockURes {
        /// The locks that remain.
        pub lock_stateid: Stateid,
    }
}

xdr::xdr_union! {
    /// `locker4`; its discriminant is the boolean `new_lock_owner`.
    #[derive(Copy)]
    pub union Locker<'a> {
        /// FALSE: an owner that has locks on this open.
        Exist(owner: ExistLockOwner) = 0,
        /// TRUE: an owner that has none yet.
        New(owner: OpenToLockOwner<'a>) = 1,
    }
}

operations! {
    OpNum::LockU: LockUArgs => LockURes;
    @args OpNum::Lock: LockArgs<'_>;
    @args OpNum::LockT: LockTArgs<'_>;
}

/// Result of LOCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockRes<'a> {
    /// Granted.
    Ok(LockGranted),
    /// `NFS4ERR_DENIED`.
    Denied(LockDenied<'a>),
}

impl Encode for LockRes<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(granted) => granted.encode(e),
            Self::Denied(denied) => denied.encode(e),
        }
    }
}

impl OpBody for LockRes<'_> {
    type Num = OpNum;
    const OP: OpNum = OpNum::Lock;

    fn status(&self) -> NfsStatus {
        match self {
            Self::Ok(_) => NfsStatus::Ok,
            Self::Denied(_) => NfsStatus::Denied,
        }
    }
}

impl<'a> OpRes<'a> for LockRes<'a> {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(match status {
            NfsStatus::Ok => Some(Self::Ok(LockGranted::decode(d)?)),
            NfsStatus::Denied => Some(Self::Denied(LockDenied::decode(d)?)),
            _ => None,
        })
    }
}

/// Result of LOCKT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockTRes<'a> {
    /// The lock would be granted.
    Ok,
    /// `NFS4ERR_DENIED`.
    Denied(LockDenied<'a>),
}

impl Encode for LockTRes<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok => {}
            Self::Denied(denied) => denied.encode(e),
        }
    }
}

impl OpBody for LockTRes<'_> {
    type Num = OpNum;
    const OP: OpNum = OpNum::LockT;

    fn status(&self) -> NfsStatus {
        match self {
            Self::Ok => NfsStatus::Ok,
            Self::Denied(_) => NfsStatus::Denied,
        }
    }
}

impl<'a> OpRes<'a> for LockTRes<'a> {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(match status {
            NfsStatus::Ok => Some(Self::Ok),
            NfsStatus::Denied => Some(Self::Denied(LockDenied::decode(d)?)),
            _ => None,
        })
    }
}
