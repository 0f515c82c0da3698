//! NFSv4 status codes (RFC 8881 §15.1, RFC 7862 §11, RFC 8276 §8.2). A status is a value that we encode
//! or that a server answered, not a failure of ours.

xdr::xdr_enum! {
    /// Result of an operation or of a COMPOUND (`nfsstat4`).
    pub enum NfsStatus {
        /// `NFS4_OK`.
        Ok = 0,
        /// `NFS4ERR_PERM`.
        Perm = 1,
        /// `NFS4ERR_NOENT`.
        NoEnt = 2,
        /// `NFS4ERR_IO`.
        Io = 5,
        /// `NFS4ERR_NXIO`.
        NxIo = 6,
        /// `NFS4ERR_ACCESS`.
        Access = 13,
        /// `NFS4ERR_EXIST`.
        Exist = 17,
        /// `NFS4ERR_XDEV`.
        XDev = 18,
        /// `NFS4ERR_NOTDIR`.
        NotDir = 20,
        /// `NFS4ERR_ISDIR`.
        IsDir = 21,
        /// `NFS4ERR_INVAL`.
        Inval = 22,
        /// `NFS4ERR_FBIG`.
        FBig = 27,
        /// `NFS4ERR_NOSPC`.
        NoSpc = 28,
        /// `NFS4ERR_ROFS`.
        RoFs = 30,
        /// `NFS4ERR_MLINK`.
        MLink = 31,
        /// `NFS4ERR_NAMETOOLONG`.
        NameTooLong = 63,
        /// `NFS4ERR_NOTEMPTY`.
        NotEmpty = 66,
        /// `NFS4ERR_DQUOT`.
        DQuot = 69,
        /// `NFS4ERR_STALE`.
        Stale = 70,
        /// `NFS4ERR_BADHANDLE`.
        BadHandle = 10001,
        /// `NFS4ERR_BAD_COOKIE`.
        BadCookie = 10003,
        /// `NFS4ERR_NOTSUPP`.
        NotSupp = 10004,
        /// `NFS4ERR_TOOSMALL`.
        TooSmall = 10005,
        /// `NFS4ERR_SERVERFAULT`.
        ServerFault = 10006,
        /// `NFS4ERR_BADTYPE`.
        BadType = 10007,
        /// `NFS4ERR_DELAY`.
        Delay = 10008,
        /// `NFS4ERR_SAME`.
        Same = 10009,
        /// `NFS4ERR_DENIED`.
        Denied = 10010,
        /// `NFS4ERR_EXPIRED`.
        Expired = 10011,
        /// `NFS4ERR_LOCKED`.
        Locked = 10012,
        /// `NFS4ERR_GRACE`.
        Grace = 10013,
        /// `NFS4ERR_FHEXPIRED`.
        FhExpired = 10014,
        /// `NFS4ERR_SHARE_DENIED`.
        ShareDenied = 10015,
        /// `NFS4ERR_WRONGSEC`.
        WrongSec = 10016,
        /// `NFS4ERR_CLID_INUSE`.
        ClidInUse = 10017,
        /// `NFS4ERR_RESOURCE`.
        Resource = 10018,
        /// `NFS4ERR_MOVED`.
        Moved = 10019,
        /// `NFS4ERR_NOFILEHANDLE`.
        NoFileHandle = 10020,
        /// `NFS4ERR_MINOR_VERS_MISMATCH`.
        MinorVersMismatch = 10021,
        /// `NFS4ERR_STALE_CLIENTID`.
        StaleClientId = 10022,
        /// `NFS4ERR_STALE_STATEID`.
        StaleStateid = 10023,
        /// `NFS4ERR_OLD_STATEID`.
        OldStateid = 10024,
        /// `NFS4ERR_BAD_STATEID`.
        BadStateid = 10025,
        /// `NFS4ERR_BAD_SEQID`.
        BadSeqid = 10026,
        /// `NFS4ERR_NOT_SAME`.
        NotSame = 10027,
        /// `NFS4ERR_LOCK_RANGE`.
        LockRange = 10028,
        /// `NFS4ERR_SYMLINK`.
        Symlink = 10029,
        /// `NFS4ERR_RESTOREFH`.
        RestoreFh = 10030,
        /// `NFS4ERR_LEASE_MOVED`.
        LeaseMoved = 10031,
        /// `NFS4ERR_ATTRNOTSUPP`.
        AttrNotSupp = 10032,
        /// `NFS4ERR_NO_GRACE`.
        NoGrace = 10033,
        /// `NFS4ERR_RECLAIM_BAD`.
        ReclaimBad = 10034,
        /// `NFS4ERR_RECLAIM_CONFLICT`.
        ReclaimConflict = 10035,
        /// `NFS4ERR_BADXDR`.
        BadXdr = 10036,
        /// `NFS4ERR_LOCKS_HELD`.
        LocksHeld = 10037,
        /// `NFS4ERR_OPENMODE`.
        OpenMode = 10038,
        /// `NFS4ERR_BADOWNER`.
        BadOwner = 10039,
        /// `NFS4ERR_BADCHAR`.
        BadChar = 10040,
        /// `NFS4ERR_BADNAME`.
        BadName = 10041,
        /// `NFS4ERR_BAD_RANGE`.
        BadRange = 10042,
        /// `NFS4ERR_LOCK_NOTSUPP`.
        LockNotSupp = 10043,
        /// `NFS4ERR_OP_ILLEGAL`.
        OpIllegal = 10044,
        /// `NFS4ERR_DEADLOCK`.
        Deadlock = 10045,
        /// `NFS4ERR_FILE_OPEN`.
        FileOpen = 10046,
        /// `NFS4ERR_ADMIN_REVOKED`.
        AdminRevoked = 10047,
        /// `NFS4ERR_CB_PATH_DOWN`.
        CbPathDown = 10048,
        /// `NFS4ERR_BADIOMODE`.
        BadIoMode = 10049,
        /// `NFS4ERR_BADLAYOUT`.
        BadLayout = 10050,
        /// `NFS4ERR_BAD_SESSION_DIGEST`.
        BadSessionDigest = 10051,
        /// `NFS4ERR_BADSESSION`.
        BadSession = 10052,
        /// `NFS4ERR_BADSLOT`.
        BadSlot = 10053,
        /// `NFS4ERR_COMPLETE_ALREADY`.
        CompleteAlready = 10054,
        /// `NFS4ERR_CONN_NOT_BOUND_TO_SESSION`.
        ConnNotBoundToSession = 10055,
        /// `NFS4ERR_DELEG_ALREADY_WANTED`.
        DelegAlreadyWanted = 10056,
        /// `NFS4ERR_BACK_CHAN_BUSY`.
        BackChanBusy = 10057,
        /// `NFS4ERR_LAYOUTTRYLATER`.
        LayoutTryLater = 10058,
        /// `NFS4ERR_LAYOUTUNAVAILABLE`.
        LayoutUnavailable = 10059,
        /// `NFS4ERR_NOMATCHING_LAYOUT`.
        NoMatchingLayout = 10060,
        /// `NFS4ERR_RECALLCONFLICT`.
        RecallConflict = 10061,
        /// `NFS4ERR_UNKNOWN_LAYOUTTYPE`.
        UnknownLayoutType = 10062,
        /// `NFS4ERR_SEQ_MISORDERED`.
        SeqMisordered = 10063,
        /// `NFS4ERR_SEQUENCE_POS`.
        SequencePos = 10064,
        /// `NFS4ERR_REQ_TOO_BIG`.
        ReqTooBig = 10065,
        /// `NFS4ERR_REP_TOO_BIG`.
        RepTooBig = 10066,
        /// `NFS4ERR_REP_TOO_BIG_TO_CACHE`.
        RepTooBigToCache = 10067,
        /// `NFS4ERR_RETRY_UNCACHED_REP`.
        RetryUncachedRep = 10068,
        /// `NFS4ERR_UNSAFE_COMPOUND`.
        UnsafeCompound = 10069,
        /// `NFS4ERR_TOO_MANY_OPS`.
        TooManyOps = 10070,
        /// `NFS4ERR_OP_NOT_IN_SESSION`.
        OpNotInSession = 10071,
        /// `NFS4ERR_HASH_ALG_UNSUPP`.
        HashAlgUnsupp = 10072,
        /// `NFS4ERR_CLIENTID_BUSY`.
        ClientIdBusy = 10074,
        /// `NFS4ERR_PNFS_IO_HOLE`.
        PnfsIoHole = 10075,
        /// `NFS4ERR_SEQ_FALSE_RETRY`.
        SeqFalseRetry = 10076,
        /// `NFS4ERR_BAD_HIGH_SLOT`.
        BadHighSlot = 10077,
        /// `NFS4ERR_DEADSESSION`.
        DeadSession = 10078,
        /// `NFS4ERR_ENCR_ALG_UNSUPP`.
        EncrAlgUnsupp = 10079,
        /// `NFS4ERR_PNFS_NO_LAYOUT`.
        PnfsNoLayout = 10080,
        /// `NFS4ERR_NOT_ONLY_OP`.
        NotOnlyOp = 10081,
        /// `NFS4ERR_WRONG_CRED`.
        WrongCred = 10082,
        /// `NFS4ERR_WRONG_TYPE`.
        WrongType = 10083,
        /// `NFS4ERR_DIRDELEG_UNAVAIL`.
        DirDelegUnavail = 10084,
        /// `NFS4ERR_REJECT_DELEG`.
        RejectDeleg = 10085,
        /// `NFS4ERR_RETURNCONFLICT`.
        ReturnConflict = 10086,
        /// `NFS4ERR_DELEG_REVOKED`.
        DelegRevoked = 10087,
        /// `NFS4ERR_PARTNER_NOTSUPP`.
        PartnerNotSupp = 10088,
        /// `NFS4ERR_PARTNER_NO_AUTH`.
        PartnerNoAuth = 10089,
        /// `NFS4ERR_UNION_NOTSUPP`.
        UnionNotSupp = 10090,
        /// `NFS4ERR_OFFLOAD_DENIED`.
        OffloadDenied = 10091,
        /// `NFS4ERR_WRONG_LFS`.
        WrongLfs = 10092,
        /// `NFS4ERR_BADLABEL`.
        BadLabel = 10093,
        /// `NFS4ERR_OFFLOAD_NO_REQS`.
        OffloadNoReqs = 10094,
        /// `NFS4ERR_NOXATTR`.
        NoXattr = 10095,
        /// `NFS4ERR_XATTR2BIG`.
        Xattr2Big = 10096,
    }
}

impl NfsStatus {
    /// Whether this is `NFS4_OK`.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::Ok
    }

    /// `Ok(())` for `NFS4_OK`, else the status as the error.
    ///
    /// # Errors
    /// The status itself.
    pub fn ok(self) -> Result<(), Self> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }
}

impl std::fmt::Display for NfsStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name())
    }
}

impl std::error::Error for NfsStatus {}

impl NfsStatus {
    /// The RFC's name, `NFS4ERR_NOENT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "NFS4_OK",
            Self::Perm => "NFS4ERR_PERM",
            Self::NoEnt => "NFS4ERR_NOENT",
            Self::Io => "NFS4ERR_IO",
            Self::NxIo => "NFS4ERR_NXIO",
            Self::Access => "NFS4ERR_ACCESS",
            Self::Exist => "NFS4ERR_EXIST",
            Self::XDev => "NFS4ERR_XDEV",
            Self::NotDir => "NFS4ERR_NOTDIR",
            Self::IsDir => "NFS4ERR_ISDIR",
            Self::Inval => "NFS4ERR_INVAL",
            Self::FBig => "NFS4ERR_FBIG",
            Self::NoSpc => "NFS4ERR_NOSPC",
            Self::RoFs => "NFS4ERR_ROFS",
            Self::MLink => "NFS4ERR_MLINK",
            Self::NameTooLong => "NFS4ERR_NAMETOOLONG",
            Self::NotEmpty => "NFS4ERR_NOTEMPTY",
            Self::DQuot => "NFS4ERR_DQUOT",
            Self::Stale => "NFS4ERR_STALE",
            Self::BadHandle => "NFS4ERR_BADHANDLE",
            Self::BadCookie => "NFS4ERR_BAD_COOKIE",
            Self::NotSupp => "NFS4ERR_NOTSUPP",
            Self::TooSmall => "NFS4ERR_TOOSMALL",
            Self::ServerFault => "NFS4ERR_SERVERFAULT",
            Self::BadType => "NFS4ERR_BADTYPE",
            Self::Delay => "NFS4ERR_DELAY",
            Self::Same => "NFS4ERR_SAME",
            Self::Denied => "NFS4ERR_DENIED",
            Self::Expired => "NFS4ERR_EXPIRED",
            Self::Locked => "NFS4ERR_LOCKED",
            Self::Grace => "NFS4ERR_GRACE",
            Self::FhExpired => "NFS4ERR_FHEXPIRED",
            Self::ShareDenied => "NFS4ERR_SHARE_DENIED",
            Self::WrongSec => "NFS4ERR_WRONGSEC",
            Self::ClidInUse => "NFS4ERR_CLID_INUSE",
            Self::Resource => "NFS4ERR_RESOURCE",
            Self::Moved => "NFS4ERR_MOVED",
            Self::NoFileHandle => "NFS4ERR_NOFILEHANDLE",
            Self::MinorVersMismatch => "NFS4ERR_MINOR_VERS_MISMATCH",
            Self::StaleClientId => "NFS4ERR_STALE_CLIENTID",
            Self::StaleStateid => "NFS4ERR_STALE_STATEID",
            Self::OldStateid => "NFS4ERR_OLD_STATEID",
            Self::BadStateid => "NFS4ERR_BAD_STATEID",
            Self::BadSeqid => "NFS4ERR_BAD_SEQID",
            Self::NotSame => "NFS4ERR_NOT_SAME",
            Self::LockRange => "NFS4ERR_LOCK_RANGE",
            Self::Symlink => "NFS4ERR_SYMLINK",
            Self::RestoreFh => "NFS4ERR_RESTOREFH",
            Self::LeaseMoved => "NFS4ERR_LEASE_MOVED",
            Self::AttrNotSupp => "NFS4ERR_ATTRNOTSUPP",
            Self::NoGrace => "NFS4ERR_NO_GRACE",
            Self::ReclaimBad => "NFS4ERR_RECLAIM_BAD",
            Self::ReclaimConflict => "NFS4ERR_RECLAIM_CONFLICT",
            Self::BadXdr => "NFS4ERR_BADXDR",
            Self::LocksHeld => "NFS4ERR_LOCKS_HELD",
            Self::OpenMode => "NFS4ERR_OPENMODE",
            Self::BadOwner => "NFS4ERR_BADOWNER",
            Self::BadChar => "NFS4ERR_BADCHAR",
            Self::BadName => "NFS4ERR_BADNAME",
            Self::BadRange => "NFS4ERR_BAD_RANGE",
            Self::LockNotSupp => "NFS4ERR_LOCK_NOTSUPP",
            Self::OpIllegal => "NFS4ERR_OP_ILLEGAL",
            Self::Deadlock => "NFS4ERR_DEADLOCK",
            Self::FileOpen => "NFS4ERR_FILE_OPEN",
            Self::AdminRevoked => "NFS4ERR_ADMIN_REVOKED",
            Self::CbPathDown => "NFS4ERR_CB_PATH_DOWN",
            Self::BadIoMode => "NFS4ERR_BADIOMODE",
            Self::BadLayout => "NFS4ERR_BADLAYOUT",
            Self::BadSessionDigest => "NFS4ERR_BAD_SESSION_DIGEST",
            Self::BadSession => "NFS4ERR_BADSESSION",
            Self::BadSlot => "NFS4ERR_BADSLOT",
            Self::CompleteAlready => "NFS4ERR_COMPLETE_ALREADY",
            Self::ConnNotBoundToSession => "NFS4ERR_CONN_NOT_BOUND_TO_SESSION",
            Self::DelegAlreadyWanted => "NFS4ERR_DELEG_ALREADY_WANTED",
            Self::BackChanBusy => "NFS4ERR_BACK_CHAN_BUSY",
            Self::LayoutTryLater => "NFS4ERR_LAYOUTTRYLATER",
            Self::LayoutUnavailable => "NFS4ERR_LAYOUTUNAVAILABLE",
            Self::NoMatchingLayout => "NFS4ERR_NOMATCHING_LAYOUT",
            Self::RecallConflict => "NFS4ERR_RECALLCONFLICT",
            Self::UnknownLayoutType => "NFS4ERR_UNKNOWN_LAYOUTTYPE",
            Self::SeqMisordered => "NFS4ERR_SEQ_MISORDERED",
            Self::SequencePos => "NFS4ERR_SEQUENCE_POS",
            Self::ReqTooBig => "NFS4ERR_REQ_TOO_BIG",
            Self::RepTooBig => "NFS4ERR_REP_TOO_BIG",
            Self::RepTooBigToCache => "NFS4ERR_REP_TOO_BIG_TO_CACHE",
            Self::RetryUncachedRep => "NFS4ERR_RETRY_UNCACHED_REP",
            Self::UnsafeCompound => "NFS4ERR_UNSAFE_COMPOUND",
            Self::TooManyOps => "NFS4ERR_TOO_MANY_OPS",
            Self::OpNotInSession => "NFS4ERR_OP_NOT_IN_SESSION",
            Self::HashAlgUnsupp => "NFS4ERR_HASH_ALG_UNSUPP",
            Self::ClientIdBusy => "NFS4ERR_CLIENTID_BUSY",
            Self::PnfsIoHole => "NFS4ERR_PNFS_IO_HOLE",
            Self::SeqFalseRetry => "NFS4ERR_SEQ_FALSE_RETRY",
            Self::BadHighSlot => "NFS4ERR_BAD_HIGH_SLOT",
            Self::DeadSession => "NFS4ERR_DEADSESSION",
            Self::EncrAlgUnsupp => "NFS4ERR_ENCR_ALG_UNSUPP",
            Self::PnfsNoLayout => "NFS4ERR_PNFS_NO_LAYOUT",
            Self::NotOnlyOp => "NFS4ERR_NOT_ONLY_OP",
            Self::WrongCred => "NFS4ERR_WRONG_CRED",
            Self::WrongType => "NFS4ERR_WRONG_TYPE",
            Self::DirDelegUnavail => "NFS4ERR_DIRDELEG_UNAVAIL",
            Self::RejectDeleg => "NFS4ERR_REJECT_DELEG",
            Self::ReturnConflict => "NFS4ERR_RETURNCONFLICT",
            Self::DelegRevoked => "NFS4ERR_DELEG_REVOKED",
            Self::PartnerNotSupp => "NFS4ERR_PARTNER_NOTSUPP",
            Self::PartnerNoAuth => "NFS4ERR_PARTNER_NO_AUTH",
            Self::UnionNotSupp => "NFS4ERR_UNION_NOTSUPP",
            Self::OffloadDenied => "NFS4ERR_OFFLOAD_DENIED",
            Self::WrongLfs => "NFS4ERR_WRONG_LFS",
            Self::BadLabel => "NFS4ERR_BADLABEL",
            Self::OffloadNoReqs => "NFS4ERR_OFFLOAD_NO_REQS",
            Self::NoXattr => "NFS4ERR_NOXATTR",
            Self::Xattr2Big => "NFS4ERR_XATTR2BIG",
        }
    }
}
