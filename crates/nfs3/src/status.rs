//! Status codes of NFSv3 (RFC 1813 §2.6). A status is a value that we encode or that a server answered, not a failure
//! of ours.

xdr::xdr_enum! {
    /// Result of a procedure (`nfsstat3`).
    pub enum Nfs3Status {
        /// `NFS3_OK`.
        Ok = 0,
        /// `NFS3ERR_PERM`.
        Perm = 1,
        /// `NFS3ERR_NOENT`.
        NoEnt = 2,
        /// `NFS3ERR_IO`.
        Io = 5,
        /// `NFS3ERR_NXIO`.
        NxIo = 6,
        /// `NFS3ERR_ACCES`.
        Access = 13,
        /// `NFS3ERR_EXIST`.
        Exist = 17,
        /// `NFS3ERR_XDEV`.
        XDev = 18,
        /// `NFS3ERR_NODEV`.
        NoDev = 19,
        /// `NFS3ERR_NOTDIR`.
        NotDir = 20,
        /// `NFS3ERR_ISDIR`.
        IsDir = 21,
        /// `NFS3ERR_INVAL`.
        Inval = 22,
        /// `NFS3ERR_FBIG`.
        FBig = 27,
        /// `NFS3ERR_NOSPC`.
        NoSpc = 28,
        /// `NFS3ERR_ROFS`.
        RoFs = 30,
        /// `NFS3ERR_MLINK`.
        MLink = 31,
        /// `NFS3ERR_NAMETOOLONG`.
        NameTooLong = 63,
        /// `NFS3ERR_NOTEMPTY`.
        NotEmpty = 66,
        /// `NFS3ERR_DQUOT`.
        DQuot = 69,
        /// `NFS3ERR_STALE`.
        Stale = 70,
        /// `NFS3ERR_REMOTE`.
        Remote = 71,
        /// `NFS3ERR_BADHANDLE`.
        BadHandle = 10001,
        /// `NFS3ERR_NOT_SYNC`.
        NotSync = 10002,
        /// `NFS3ERR_BAD_COOKIE`.
        BadCookie = 10003,
        /// `NFS3ERR_NOTSUPP`.
        NotSupp = 10004,
        /// `NFS3ERR_TOOSMALL`.
        TooSmall = 10005,
        /// `NFS3ERR_SERVERFAULT`.
        ServerFault = 10006,
        /// `NFS3ERR_BADTYPE`.
        BadType = 10007,
        /// `NFS3ERR_JUKEBOX`.
        Jukebox = 10008,
    }
}

impl Nfs3Status {
    /// Whether this is `NFS3_OK`.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }

    /// The RFC's name, `NFS3ERR_NOENT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "NFS3_OK",
            Self::Perm => "NFS3ERR_PERM",
            Self::NoEnt => "NFS3ERR_NOENT",
            Self::Io => "NFS3ERR_IO",
            Self::NxIo => "NFS3ERR_NXIO",
            Self::Access => "NFS3ERR_ACCES",
            Self::Exist => "NFS3ERR_EXIST",
            Self::XDev => "NFS3ERR_XDEV",
            Self::NoDev => "NFS3ERR_NODEV",
            Self::NotDir => "NFS3ERR_NOTDIR",
            Self::IsDir => "NFS3ERR_ISDIR",
            Self::Inval => "NFS3ERR_INVAL",
            Self::FBig => "NFS3ERR_FBIG",
            Self::NoSpc => "NFS3ERR_NOSPC",
            Self::RoFs => "NFS3ERR_ROFS",
            Self::MLink => "NFS3ERR_MLINK",
            Self::NameTooLong => "NFS3ERR_NAMETOOLONG",
            Self::NotEmpty => "NFS3ERR_NOTEMPTY",
            Self::DQuot => "NFS3ERR_DQUOT",
            Self::Stale => "NFS3ERR_STALE",
            Self::Remote => "NFS3ERR_REMOTE",
            Self::BadHandle => "NFS3ERR_BADHANDLE",
            Self::NotSync => "NFS3ERR_NOT_SYNC",
            Self::BadCookie => "NFS3ERR_BAD_COOKIE",
            Self::NotSupp => "NFS3ERR_NOTSUPP",
            Self::TooSmall => "NFS3ERR_TOOSMALL",
            Self::ServerFault => "NFS3ERR_SERVERFAULT",
            Self::BadType => "NFS3ERR_BADTYPE",
            Self::Jukebox => "NFS3ERR_JUKEBOX",
        }
    }
}

impl std::fmt::Display for Nfs3Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Nfs3Status {}
