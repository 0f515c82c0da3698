//! OPEN (RFC 8881 §18.16), and the delegations that it shares with `WANT_DELEGATION` and `CB_PUSH_DELEG`.

use crate::{Ace, Bitmap, ChangeInfo, Fattr, Name, OpNum, StateOwner, Stateid, Verifier};

/// Read access.
pub const SHARE_ACCESS_READ: u32 = 1;
/// Write access.
pub const SHARE_ACCESS_WRITE: u32 = 2;
/// Both.
pub const SHARE_ACCESS_BOTH: u32 = 3;
/// Nothing is denied to others.
pub const SHARE_DENY_NONE: u32 = 0;
/// Others may not read.
pub const SHARE_DENY_READ: u32 = 1;
/// Others may not write.
pub const SHARE_DENY_WRITE: u32 = 2;
/// Others may do neither.
pub const SHARE_DENY_BOTH: u32 = 3;

/// Bits of `share_access` that hold the delegation wish.
pub const SHARE_WANT_DELEG_MASK: u32 = 0xff00;
/// No wish.
pub const SHARE_WANT_NO_PREFERENCE: u32 = 0;
/// A read delegation.
pub const SHARE_WANT_READ_DELEG: u32 = 0x100;
/// A write delegation.
pub const SHARE_WANT_WRITE_DELEG: u32 = 0x200;
/// Any delegation.
pub const SHARE_WANT_ANY_DELEG: u32 = 0x300;
/// No delegation.
pub const SHARE_WANT_NO_DELEG: u32 = 0x400;
/// Withdraw an earlier wish.
pub const SHARE_WANT_CANCEL: u32 = 0x500;
/// Signal when resources allow a delegation.
pub const SHARE_WANT_SIGNAL_WHEN_AVAIL: u32 = 0x1_0000;
/// Push the delegation when nobody else wants the file.
pub const SHARE_WANT_PUSH_WHEN_UNCONTENDED: u32 = 0x2_0000;
/// With a delegation for writing the client becomes the authority for the file's times (RFC 9754 §5).
pub const SHARE_WANT_DELEG_TIMESTAMPS: u32 = 0x10_0000;
/// A delegation in place of an open stateid will do (RFC 9754 §4).
pub const SHARE_WANT_OPEN_XOR_DELEGATION: u32 = 0x20_0000;

/// `rflags`: the open must be confirmed; never set in NFSv4.1.
pub const OPEN_RESULT_CONFIRM: u32 = 0x2;
/// `rflags`: locks are POSIX locks.
pub const OPEN_RESULT_LOCKTYPE_POSIX: u32 = 0x4;
/// `rflags`: a file removed while open stays until its last close.
pub const OPEN_RESULT_PRESERVE_UNLINKED: u32 = 0x8;
/// `rflags`: there is no open stateid, only the delegation (RFC 9754 §4).
pub const OPEN_RESULT_NO_OPEN_STATEID: u32 = 0x10;
/// `rflags`: `CB_NOTIFY_LOCK` may come for locks of this open.
pub const OPEN_RESULT_MAY_NOTIFY_LOCK: u32 = 0x20;

xdr::xdr_enum! {
    /// `open_delegation_type4` (RFC 8881 §18.16.1, RFC 9754 §5).
    pub enum DelegationType {
        /// None.
        None = 0,
        /// Read.
        Read = 1,
        /// Write.
        Write = 2,
        /// None, with a reason.
        NoneExt = 3,
        /// Read, and the holder knows the access time.
        ReadAttrs = 4,
        /// Write, and the holder knows access and modification time.
        WriteAttrs = 5,
    }
}

xdr::xdr_struct! {
    /// `creatverfattr`.
    pub struct CreateVerfAttrs<'a> {
        /// Names this create for its retry.
        pub verifier: Verifier,
        /// First attributes.
        pub attrs: Fattr<'a>,
    }

    /// `open_claim_delegate_cur4`.
    #[derive(Copy)]
    pub struct ClaimDelegateCur<'a> {
        /// The delegation.
        pub stateid: Stateid,
        /// Name in the current directory.
        pub name: Name<'a>,
    }

    /// Arguments of OPEN.
    pub struct OpenArgs<'a> {
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// `SHARE_ACCESS_*` with `SHARE_WANT_*`.
        pub share_access: u32,
        /// `SHARE_DENY_*`.
        pub share_deny: u32,
        /// Who.
        pub owner: StateOwner<'a>,
        /// Whether to create.
        pub how: OpenHow<'a>,
        /// Which file, and by what right.
        pub claim: OpenClaim<'a>,
    }

    /// `open_read_delegation4`.
    pub struct ReadDelegation {
        /// The delegation.
        pub stateid: Stateid,
        /// Whether it is recalled already.
        pub recall: bool,
        /// Who may open without asking.
        pub permissions: Ace,
    }

    /// `nfs_modified_limit4`.
    #[derive(Copy)]
    pub struct ModifiedLimit {
        /// Blocks.
        pub blocks_count: u32,
        /// Bytes of one.
        pub block_bytes: u32,
    }

    /// `open_write_delegation4`.
    pub struct WriteDelegation {
        /// The delegation.
        pub stateid: Stateid,
        /// Whether it is recalled already.
        pub recall: bool,
        /// How much the client may cache past its close.
        pub space_limit: SpaceLimit,
        /// Who may open without asking.
        pub permissions: Ace,
    }

    /// Result of OPEN.
    pub struct OpenRes {
        /// The open.
        pub stateid: Stateid,
        /// Change of the directory.
        pub cinfo: ChangeInfo,
        /// `OPEN_RESULT_*` flags.
        pub rflags: u32,
        /// Attributes that a create set.
        pub attrset: Bitmap,
        /// The delegation.
        pub delegation: Delegation,
    }
}

xdr::xdr_union! {
    /// `createhow4`.
    pub union CreateHow<'a> {
        /// Take an existing file.
        Unchecked(attrs: Fattr<'a>) = 0,
        /// Refuse an existing file.
        Guarded(attrs: Fattr<'a>) = 1,
        /// Refuse an existing file with another verifier.
        Exclusive(verifier: Verifier) = 2,
        /// The same, with attributes.
        Exclusive41(both: CreateVerfAttrs<'a>) = 3,
    }

    /// `openflag4`.
    pub union OpenHow<'a> {
        /// Do not create.
        NoCreate = 0,
        /// Create.
        Create(how: CreateHow<'a>) = 1,
    }

    /// `open_claim4`.
    #[derive(Copy)]
    pub union OpenClaim<'a> {
        /// By name in the current directory.
        Null(name: Name<'a>) = 0,
        /// Reclaim of the current file after a restart of the server.
        Previous(delegation: DelegationType) = 1,
        /// By name, under a delegation.
        DelegateCur(claim: ClaimDelegateCur<'a>) = 2,
        /// By name, under a delegation from before the client's restart.
        DelegatePrev(name: Name<'a>) = 3,
        /// The current file.
        Fh = 4,
        /// The current file, under a delegation.
        DelegCurFh(stateid: Stateid) = 5,
        /// The current file, under a delegation from before the client's restart.
        DelegPrevFh = 6,
    }

    /// `nfs_space_limit4`.
    #[derive(Copy)]
    pub union SpaceLimit {
        /// Bytes of the file.
        Size(bytes: u64) = 1,
        /// Modified blocks.
        Blocks(limit: ModifiedLimit) = 2,
    }

    /// `open_none_delegation4`: why there is no delegation.
    #[derive(Copy)]
    pub union WhyNoDelegation {
        /// Not wanted.
        NotWanted = 0,
        /// Others use the file; whether the server will push a delegation later.
        Contention(will_push: bool) = 1,
        /// Out of resources; whether the server will signal.
        Resource(will_signal: bool) = 2,
        /// Not for this type of file.
        NotSuppFtype = 3,
        /// No write delegation for this type of file.
        WriteNotSuppFtype = 4,
        /// No upgrade.
        NotSuppUpgrade = 5,
        /// No downgrade.
        NotSuppDowngrade = 6,
        /// The wish was withdrawn.
        Cancelled = 7,
        /// It is a directory.
        IsDir = 8,
    }

    /// `open_delegation4`.
    pub union Delegation {
        /// None.
        None = 0,
        /// Read.
        Read(read: ReadDelegation) = 1,
        /// Write.
        Write(write: WriteDelegation) = 2,
        /// None, with a reason.
        NoneExt(why: WhyNoDelegation) = 3,
        /// Read, and the holder knows the access time (RFC 9754 §5).
        ReadAttrs(read: ReadDelegation) = 4,
        /// Write, and the holder knows access and modification time.
        WriteAttrs(write: WriteDelegation) = 5,
    }
}

operations! { OpNum::Open: OpenArgs<'_> => OpenRes; }
