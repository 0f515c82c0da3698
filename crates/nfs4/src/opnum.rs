//! Operation numbers of COMPOUND and `CB_COMPOUND` (RFC 8881 §16.2.3 and §20, RFC 7862 §3.1, RFC 8276 §8.4).

xdr::xdr_enum! {
    /// An operation of COMPOUND (`nfs_opnum4`).
    pub enum OpNum {
        /// `ACCESS`.
        Access = 3,
        /// `CLOSE`.
        Close = 4,
        /// `COMMIT`.
        Commit = 5,
        /// `CREATE`.
        Create = 6,
        /// `DELEGPURGE`.
        DelegPurge = 7,
        /// `DELEGRETURN`.
        DelegReturn = 8,
        /// `GETATTR`.
        GetAttr = 9,
        /// `GETFH`.
        GetFh = 10,
        /// `LINK`.
        Link = 11,
        /// `LOCK`.
        Lock = 12,
        /// `LOCKT`.
        LockT = 13,
        /// `LOCKU`.
        LockU = 14,
        /// `LOOKUP`.
        Lookup = 15,
        /// `LOOKUPP`.
        LookupP = 16,
        /// `NVERIFY`.
        NVerify = 17,
        /// `OPEN`.
        Open = 18,
        /// `OPENATTR`.
        OpenAttr = 19,
        /// `OPEN_CONFIRM`.
        OpenConfirm = 20,
        /// `OPEN_DOWNGRADE`.
        OpenDowngrade = 21,
        /// `PUTFH`.
        PutFh = 22,
        /// `PUTPUBFH`.
        PutPubFh = 23,
        /// `PUTROOTFH`.
        PutRootFh = 24,
        /// `READ`.
        Read = 25,
        /// `READDIR`.
        ReadDir = 26,
        /// `READLINK`.
        ReadLink = 27,
        /// `REMOVE`.
        Remove = 28,
        /// `RENAME`.
        Rename = 29,
        /// `RENEW`.
        Renew = 30,
        /// `RESTOREFH`.
        RestoreFh = 31,
        /// `SAVEFH`.
        SaveFh = 32,
        /// `SECINFO`.
        SecInfo = 33,
        /// `SETATTR`.
        SetAttr = 34,
        /// `SETCLIENTID`.
        SetClientId = 35,
        /// `SETCLIENTID_CONFIRM`.
        SetClientIdConfirm = 36,
        /// `VERIFY`.
        Verify = 37,
        /// `WRITE`.
        Write = 38,
        /// `RELEASE_LOCKOWNER`.
        ReleaseLockOwner = 39,
        /// `BACKCHANNEL_CTL`.
        BackchannelCtl = 40,
        /// `BIND_CONN_TO_SESSION`.
        BindConnToSession = 41,
        /// `EXCHANGE_ID`.
        ExchangeId = 42,
        /// `CREATE_SESSION`.
        CreateSession = 43,
        /// `DESTROY_SESSION`.
        DestroySession = 44,
        /// `FREE_STATEID`.
        FreeStateid = 45,
        /// `GET_DIR_DELEGATION`.
        GetDirDelegation = 46,
        /// `GETDEVICEINFO`.
        GetDeviceInfo = 47,
        /// `GETDEVICELIST`.
        GetDeviceList = 48,
        /// `LAYOUTCOMMIT`.
        LayoutCommit = 49,
        /// `LAYOUTGET`.
        LayoutGet = 50,
        /// `LAYOUTRETURN`.
        LayoutReturn = 51,
        /// `SECINFO_NO_NAME`.
        SecInfoNoName = 52,
        /// `SEQUENCE`.
        Sequence = 53,
        /// `SET_SSV`.
        SetSsv = 54,
        /// `TEST_STATEID`.
        TestStateid = 55,
        /// `WANT_DELEGATION`.
        WantDelegation = 56,
        /// `DESTROY_CLIENTID`.
        DestroyClientId = 57,
        /// `RECLAIM_COMPLETE`.
        ReclaimComplete = 58,
        /// `ALLOCATE`.
        Allocate = 59,
        /// `COPY`.
        Copy = 60,
        /// `COPY_NOTIFY`.
        CopyNotify = 61,
        /// `DEALLOCATE`.
        Deallocate = 62,
        /// `IO_ADVISE`.
        IoAdvise = 63,
        /// `LAYOUTERROR`.
        LayoutError = 64,
        /// `LAYOUTSTATS`.
        LayoutStats = 65,
        /// `OFFLOAD_CANCEL`.
        OffloadCancel = 66,
        /// `OFFLOAD_STATUS`.
        OffloadStatus = 67,
        /// `READ_PLUS`.
        ReadPlus = 68,
        /// `SEEK`.
        Seek = 69,
        /// `WRITE_SAME`.
        WriteSame = 70,
        /// `CLONE`.
        Clone = 71,
        /// `GETXATTR`.
        GetXattr = 72,
        /// `SETXATTR`.
        SetXattr = 73,
        /// `LISTXATTRS`.
        ListXattrs = 74,
        /// `REMOVEXATTR`.
        RemoveXattr = 75,
        /// `ILLEGAL`.
        Illegal = 10044,
    }

    /// An operation of `CB_COMPOUND` (`nfs_cb_opnum4`).
    pub enum CbOpNum {
        /// `CB_GETATTR`.
        GetAttr = 3,
        /// `CB_RECALL`.
        Recall = 4,
        /// `CB_LAYOUTRECALL`.
        LayoutRecall = 5,
        /// `CB_NOTIFY`.
        Notify = 6,
        /// `CB_PUSH_DELEG`.
        PushDeleg = 7,
        /// `CB_RECALL_ANY`.
        RecallAny = 8,
        /// `CB_RECALLABLE_OBJ_AVAIL`.
        RecallableObjAvail = 9,
        /// `CB_RECALL_SLOT`.
        RecallSlot = 10,
        /// `CB_SEQUENCE`.
        Sequence = 11,
        /// `CB_WANTS_CANCELLED`.
        WantsCancelled = 12,
        /// `CB_NOTIFY_LOCK`.
        NotifyLock = 13,
        /// `CB_NOTIFY_DEVICEID`.
        NotifyDeviceid = 14,
        /// `CB_OFFLOAD`.
        Offload = 15,
        /// `CB_ILLEGAL`.
        Illegal = 10044,
    }
}

impl OpNum {
    /// The RFC's name, without `OP_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Access => "ACCESS",
            Self::Close => "CLOSE",
            Self::Commit => "COMMIT",
            Self::Create => "CREATE",
            Self::DelegPurge => "DELEGPURGE",
            Self::DelegReturn => "DELEGRETURN",
            Self::GetAttr => "GETATTR",
            Self::GetFh => "GETFH",
            Self::Link => "LINK",
            Self::Lock => "LOCK",
            Self::LockT => "LOCKT",
            Self::LockU => "LOCKU",
            Self::Lookup => "LOOKUP",
            Self::LookupP => "LOOKUPP",
            Self::NVerify => "NVERIFY",
            Self::Open => "OPEN",
            Self::OpenAttr => "OPENATTR",
            Self::OpenConfirm => "OPEN_CONFIRM",
            Self::OpenDowngrade => "OPEN_DOWNGRADE",
            Self::PutFh => "PUTFH",
            Self::PutPubFh => "PUTPUBFH",
            Self::PutRootFh => "PUTROOTFH",
            Self::Read => "READ",
            Self::ReadDir => "READDIR",
            Self::ReadLink => "READLINK",
            Self::Remove => "REMOVE",
            Self::Rename => "RENAME",
            Self::Renew => "RENEW",
            Self::RestoreFh => "RESTOREFH",
            Self::SaveFh => "SAVEFH",
            Self::SecInfo => "SECINFO",
            Self::SetAttr => "SETATTR",
            Self::SetClientId => "SETCLIENTID",
            Self::SetClientIdConfirm => "SETCLIENTID_CONFIRM",
            Self::Verify => "VERIFY",
            Self::Write => "WRITE",
            Self::ReleaseLockOwner => "RELEASE_LOCKOWNER",
            Self::BackchannelCtl => "BACKCHANNEL_CTL",
            Self::BindConnToSession => "BIND_CONN_TO_SESSION",
            Self::ExchangeId => "EXCHANGE_ID",
            Self::CreateSession => "CREATE_SESSION",
            Self::DestroySession => "DESTROY_SESSION",
            Self::FreeStateid => "FREE_STATEID",
            Self::GetDirDelegation => "GET_DIR_DELEGATION",
            Self::GetDeviceInfo => "GETDEVICEINFO",
            Self::GetDeviceList => "GETDEVICELIST",
            Self::LayoutCommit => "LAYOUTCOMMIT",
            Self::LayoutGet => "LAYOUTGET",
            Self::LayoutReturn => "LAYOUTRETURN",
            Self::SecInfoNoName => "SECINFO_NO_NAME",
            Self::Sequence => "SEQUENCE",
            Self::SetSsv => "SET_SSV",
            Self::TestStateid => "TEST_STATEID",
            Self::WantDelegation => "WANT_DELEGATION",
            Self::DestroyClientId => "DESTROY_CLIENTID",
            Self::ReclaimComplete => "RECLAIM_COMPLETE",
            Self::Allocate => "ALLOCATE",
            Self::Copy => "COPY",
            Self::CopyNotify => "COPY_NOTIFY",
            Self::Deallocate => "DEALLOCATE",
            Self::IoAdvise => "IO_ADVISE",
            Self::LayoutError => "LAYOUTERROR",
            Self::LayoutStats => "LAYOUTSTATS",
            Self::OffloadCancel => "OFFLOAD_CANCEL",
            Self::OffloadStatus => "OFFLOAD_STATUS",
            Self::ReadPlus => "READ_PLUS",
            Self::Seek => "SEEK",
            Self::WriteSame => "WRITE_SAME",
            Self::Clone => "CLONE",
            Self::GetXattr => "GETXATTR",
            Self::SetXattr => "SETXATTR",
            Self::ListXattrs => "LISTXATTRS",
            Self::RemoveXattr => "REMOVEXATTR",
            Self::Illegal => "ILLEGAL",
        }
    }
}
