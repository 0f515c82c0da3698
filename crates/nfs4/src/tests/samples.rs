//! Goal: arguments and results of every operation round-trip and refuse truncation at every byte. Method: one
//! line for each sample; a second test checks that no operation was left out.

use std::collections::BTreeSet;

use xdr::{Decoder, List, Opaque, OpaqueBuf, decode_all, encode_to_vec};

use crate::{cb::*, layout::*, ops::*, *};

const NAME: Name<'static> = Opaque(b"some name");
const SID: Stateid = Stateid {
    seqid: 7,
    other: *b"stateid-othr",
};
const SESSION: SessionId = SessionId { bytes: [0x5e; 16] };
const VERF: Verifier = Verifier {
    bytes: *b"verifier",
};
const DEVICE: DeviceId = DeviceId { bytes: [0xde; 16] };
const TIME: NfsTime = NfsTime {
    seconds: -5,
    nanoseconds: 999_999_999,
};
const CINFO: ChangeInfo = ChangeInfo {
    atomic: true,
    before: 1,
    after: 2,
};
const OWNER: StateOwner<'static> = StateOwner {
    clientid: ClientId { value: 9 },
    owner: Opaque(b"owner"),
};
const DENIED: LockDenied<'static> = LockDenied {
    offset: 1,
    length: u64::MAX,
    lock_type: LockType::Read,
    owner: OWNER,
};
const RESPONSE: WriteResponse = WriteResponse {
    callback_id: Some(SID),
    count: 1 << 40,
    committed: StableHow::DataSync,
    write_verifier: VERF,
};
const CHANNEL: ChannelAttrs = ChannelAttrs {
    header_pad_bytes: 0,
    request_bytes_max: 1,
    response_bytes_max: 2,
    response_cached_bytes_max: 3,
    operations_max: 4,
    requests_max: 5,
    rdma_ird: Some(6),
};

fn bits() -> Bitmap {
    Bitmap::of(&[0, 33, 81])
}

fn fattr() -> Fattr<'static> {
    Fattr::new(&Attrs {
        size: Some(1 << 33),
        mode: Some(0o644),
        owner: Some(Owner::from(&b"1000"[..])),
        time_modify_set: Some(SetTime::Client(TIME)),
        ..Attrs::default()
    })
}

fn ace() -> Ace {
    Ace {
        ace_type: ACE_TYPE_ALLOW,
        flag: ACE_IDENTIFIER_GROUP,
        access_mask: ACE_READ_DATA,
        who: Owner::from(&b"EVERYONE@"[..]),
    }
}

fn impl_id() -> ImplId<'static> {
    ImplId {
        domain: Opaque(b"example.org"),
        name: Opaque(b"test 1"),
        date: TIME,
    }
}

fn sec_parms() -> List<CallbackSecParms<'static>, SEC_PARMS_MAX> {
    List(vec![
        CallbackSecParms::None,
        CallbackSecParms::Sys(AuthSysParms {
            stamp: 1,
            machine_name: Opaque(b"host"),
            uid: 2,
            gid: 3,
            gids: List(vec![4, 5]),
        }),
        CallbackSecParms::Gss(GssCbHandles {
            service: GssService::Privacy,
            handle_from_server: Opaque(b"s"),
            handle_from_client: Opaque(b"client"),
        }),
    ])
}

fn protect_ops() -> StateProtectOps {
    StateProtectOps {
        must_enforce: bits(),
        must_allow: Bitmap::EMPTY,
    }
}

fn exchange_id(state_protect: StateProtectArgs<'static>) -> ExchangeIdArgs<'static> {
    ExchangeIdArgs {
        client_owner: ClientOwner {
            verifier: VERF,
            ownerid: Opaque(b"Linux NFSv4.1 host"),
        },
        flags: EXCHGID_USE_PNFS_MDS,
        state_protect,
        client_impl_id: Some(impl_id()),
    }
}

fn exchange_id_res(state_protect: StateProtectRes<'static>) -> ExchangeIdRes<'static> {
    ExchangeIdRes {
        clientid: ClientId { value: 1 },
        sequence: 1,
        flags: EXCHGID_USE_PNFS_DS | EXCHGID_CONFIRMED_R,
        state_protect,
        server_owner: ServerOwner {
            minor_id: 0,
            major_id: Opaque(b"server"),
        },
        server_scope: Opaque(b"scope"),
        server_impl_id: None,
    }
}

fn ssv_parms() -> StateProtectArgs<'static> {
    StateProtectArgs::Ssv(SsvParms {
        ops: protect_ops(),
        hash_algs: List(vec![Opaque(b"sha")]),
        encr_algs: List(vec![Opaque(b"aes"), Opaque(b"")]),
        window: 4,
        gss_handles_count: 1,
    })
}

fn ssv_info() -> StateProtectRes<'static> {
    StateProtectRes::Ssv(SsvProtInfo {
        ops: protect_ops(),
        hash_alg: 0,
        encr_alg: 1,
        ssv_bytes: 32,
        window: 4,
        handles: List(vec![Opaque(b"handle")]),
    })
}

fn open(how: OpenHow<'static>, claim: OpenClaim<'static>) -> OpenArgs<'static> {
    OpenArgs {
        seqid: 0,
        share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
        share_deny: SHARE_DENY_NONE,
        owner: OWNER,
        how,
        claim,
    }
}

fn create_both() -> CreateHow<'static> {
    CreateHow::Exclusive41(CreateVerfAttrs {
        verifier: VERF,
        attrs: fattr(),
    })
}

fn read_delegation() -> Delegation {
    Delegation::Read(ReadDelegation {
        stateid: SID,
        recall: false,
        permissions: ace(),
    })
}

fn write_delegation(space_limit: SpaceLimit) -> Delegation {
    Delegation::Write(WriteDelegation {
        stateid: SID,
        recall: true,
        space_limit,
        permissions: ace(),
    })
}

fn blocks() -> SpaceLimit {
    SpaceLimit::Blocks(ModifiedLimit {
        blocks_count: 8,
        block_bytes: 4096,
    })
}

fn open_res(delegation: Delegation) -> OpenRes {
    OpenRes {
        stateid: SID,
        cinfo: CINFO,
        rflags: OPEN_RESULT_LOCKTYPE_POSIX,
        attrset: bits(),
        delegation,
    }
}

fn lock(locker: Locker<'static>) -> LockArgs<'static> {
    LockArgs {
        lock_type: LockType::WriteW,
        reclaim: true,
        offset: 3,
        length: 4,
        locker,
    }
}

fn new_locker() -> Locker<'static> {
    Locker::New(OpenToLockOwner {
        open_seqid: 0,
        open_stateid: SID,
        lock_seqid: 0,
        lock_owner: OWNER,
    })
}

fn create(object_type: CreateType<'static>) -> CreateArgs<'static> {
    CreateArgs {
        object_type,
        name: Opaque(b"name"),
        attrs: fattr(),
    }
}

fn layout_commit(offset: Option<u64>, time: Option<NfsTime>) -> LayoutCommitArgs<'static> {
    LayoutCommitArgs {
        offset: 0,
        length: LENGTH_TO_EOF,
        reclaim: false,
        stateid: SID,
        last_write_offset: offset,
        time_modify: time,
        layout_update: LayoutUpdate {
            layout_type: LAYOUT_NFSV4_1_FILES,
            body: Opaque(b""),
        },
    }
}

fn layout_return(what: LayoutReturn<'static>) -> LayoutReturnArgs<'static> {
    LayoutReturnArgs {
        reclaim: false,
        layout_type: LAYOUT_NFSV4_1_FILES,
        iomode: IoMode::Any,
        what,
    }
}

fn layout_recall(what: LayoutRecall<'static>) -> CbLayoutRecallArgs<'static> {
    CbLayoutRecallArgs {
        layout_type: LAYOUT_NFSV4_1_FILES,
        iomode: IoMode::Rw,
        changed: true,
        what,
    }
}

fn net_addr() -> NetAddr {
    NetAddr {
        netid: OpaqueBuf(b"tcp".to_vec()),
        uaddr: OpaqueBuf(b"192.0.2.1.8.1".to_vec()),
    }
}

fn copy(source_servers: Vec<NetLoc>) -> CopyArgs {
    CopyArgs {
        src_stateid: SID,
        dst_stateid: Stateid::CURRENT,
        src_offset: 1,
        dst_offset: 2,
        count: 0,
        consecutive: true,
        synchronous: false,
        source_servers: List(source_servers),
    }
}

fn sec_infos() -> Vec<SecInfo> {
    vec![
        SecInfo::Flavor(FLAVOR_SYS),
        SecInfo::Gss(GssInfo {
            oid: OpaqueBuf(vec![1, 2, 3]),
            qop: 0,
            service: GssService::Integrity,
        }),
    ]
}

/// Arguments: encode, decode, compare; then cut at every byte.
macro_rules! check_args {
    ($seen:expr, $value:expr, $ty:ty) => {{
        let value: $ty = $value;
        let bytes = encode_to_vec(&value);
        assert_eq!(
            decode_all::<$ty>(&bytes),
            Ok(value),
            "{}",
            stringify!($value)
        );
        for cut in 0..bytes.len() {
            let refused = decode_all::<$ty>(&bytes[..cut]).is_err();
            assert!(refused, "{} cut at {cut}", stringify!($value));
        }
        $seen.insert(<$ty as OpArgs>::OP as u32);
    }};
}

/// Results: the same, with the status that the value goes with.
macro_rules! check_res {
    ($seen:expr, $value:expr, $ty:ty) => {{
        let value: $ty = $value;
        let status = value.status();
        let bytes = encode_to_vec(&value);
        let mut d = Decoder::new(&bytes);
        let again = <$ty>::decode_res(status, &mut d);
        assert_eq!(d.remaining(), 0, "{}", stringify!($value));
        assert_eq!(again, Ok(Some(value)), "{}", stringify!($value));
        for cut in 0..bytes.len() {
            let refused = <$ty>::decode_res(status, &mut Decoder::new(&bytes[..cut])).is_err();
            assert!(refused, "{} cut at {cut}", stringify!($value));
        }
        $seen.insert(<$ty as OpBody>::OP as u32);
    }};
}

macro_rules! table {
    ($check:ident: $( $ty:ty = $value:expr; )*) => {{
        let mut seen = BTreeSet::new();
        $( $check!(seen, $value, $ty); )*
        seen
    }};
}

fn assert_covers_fore(seen: &BTreeSet<u32>) {
    for op in OpNum::ALL {
        let expected = *op != OpNum::Illegal;
        assert_eq!(seen.contains(&(*op as u32)), expected, "{op:?}");
    }
}

fn assert_covers_back(seen: &BTreeSet<u32>) {
    for op in CbOpNum::ALL {
        let expected = *op != CbOpNum::Illegal;
        assert_eq!(seen.contains(&(*op as u32)), expected, "{op:?}");
    }
}

/// Up to LAYOUTCOMMIT by name.
fn args_early() -> BTreeSet<u32> {
    table! { check_args:
        AccessArgs = AccessArgs { access: ACCESS_XALIST };
        BackchannelCtlArgs<'_> = BackchannelCtlArgs { cb_program: 0x4000_0000, sec_parms: sec_parms() };
        BindConnToSessionArgs = BindConnToSessionArgs { session_id: SESSION, dir: ChannelDirFromClient::BackOrBoth, use_conn_in_rdma_mode: false };
        CloseArgs = CloseArgs { seqid: 1, open_stateid: SID };
        CommitArgs = CommitArgs { offset: 1 << 50, count: 0 };
        CreateArgs<'_> = create(CreateType::Lnk(Opaque(b"../target")));
        CreateArgs<'_> = create(CreateType::Blk(SpecData { major: 8, minor: 1 }));
        CreateArgs<'_> = create(CreateType::Chr(SpecData { major: 1, minor: 3 }));
        CreateArgs<'_> = create(CreateType::Sock);
        CreateArgs<'_> = create(CreateType::Fifo);
        CreateArgs<'_> = create(CreateType::Dir);
        CreateArgs<'_> = create(CreateType::Other(77));
        CreateSessionArgs<'_> = CreateSessionArgs { clientid: ClientId { value: 3 }, sequence: 1, flags: CREATE_SESSION_CONN_BACK_CHAN, fore_chan_attrs: CHANNEL, back_chan_attrs: ChannelAttrs::default(), cb_program: 1, sec_parms: sec_parms() };
        DelegPurgeArgs = DelegPurgeArgs { clientid: ClientId { value: 3 } };
        DelegReturnArgs = DelegReturnArgs { stateid: SID };
        DestroyClientIdArgs = DestroyClientIdArgs { clientid: ClientId { value: u64::MAX } };
        DestroySessionArgs = DestroySessionArgs { session_id: SESSION };
        ExchangeIdArgs<'_> = exchange_id(StateProtectArgs::None);
        ExchangeIdArgs<'_> = exchange_id(StateProtectArgs::MachCred(protect_ops()));
        ExchangeIdArgs<'_> = exchange_id(ssv_parms());
        FreeStateidArgs = FreeStateidArgs { stateid: SID };
        GetDirDelegationArgs = GetDirDelegationArgs { signal_deleg_avail: true, notification_types: bits(), child_attr_delay: TIME, dir_attr_delay: TIME, child_attributes: bits(), dir_attributes: Bitmap::EMPTY };
        GetAttrArgs = GetAttrArgs { attr_request: bits() };
        GetDeviceInfoArgs = GetDeviceInfoArgs { device_id: DEVICE, layout_type: 1, maxcount: 4096, notify_types: Bitmap::of(&[1, 2]) };
        GetDeviceListArgs = GetDeviceListArgs { layout_type: 1, maxdevices: 5, cookie: 6, cookie_verifier: VERF };
        GetFhArgs = GetFhArgs {};
    }
}

/// LAYOUTCOMMIT to OPEN by name.
fn args_middle() -> BTreeSet<u32> {
    table! { check_args:
        LayoutCommitArgs<'_> = layout_commit(None, None);
        LayoutCommitArgs<'_> = layout_commit(Some(4095), Some(TIME));
        LayoutGetArgs = LayoutGetArgs { signal_layout_avail: false, layout_type: 4, iomode: IoMode::Rw, offset: 0, length: LENGTH_TO_EOF, minlength: 1, stateid: SID, maxcount: 4096 };
        LayoutReturnArgs<'_> = layout_return(LayoutReturn::File(LayoutReturnFile { offset: 0, length: LENGTH_TO_EOF, stateid: SID, body: Opaque(b"") }));
        LayoutReturnArgs<'_> = layout_return(LayoutReturn::Fsid);
        LayoutReturnArgs<'_> = layout_return(LayoutReturn::All);
        LinkArgs<'_> = LinkArgs { new_name: NAME };
        LockArgs<'_> = lock(new_locker());
        LockArgs<'_> = lock(Locker::Exist(ExistLockOwner { lock_stateid: SID, lock_seqid: 1 }));
        LockTArgs<'_> = LockTArgs { lock_type: LockType::Write, offset: 0, length: 1, owner: OWNER };
        LockUArgs = LockUArgs { lock_type: LockType::ReadW, seqid: 1, lock_stateid: SID, offset: 0, length: 1 };
        LookupArgs<'_> = LookupArgs { name: NAME };
        LookupPArgs = LookupPArgs {};
        NVerifyArgs<'_> = NVerifyArgs { attrs: fattr() };
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::Null(NAME));
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::Previous(DelegationType::Write));
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::DelegateCur(ClaimDelegateCur { stateid: SID, name: NAME }));
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::DelegatePrev(NAME));
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::Fh);
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::DelegCurFh(SID));
        OpenArgs<'_> = open(OpenHow::NoCreate, OpenClaim::DelegPrevFh);
        OpenArgs<'_> = open(OpenHow::Create(CreateHow::Unchecked(fattr())), OpenClaim::Null(NAME));
        OpenArgs<'_> = open(OpenHow::Create(CreateHow::Guarded(fattr())), OpenClaim::Null(NAME));
        OpenArgs<'_> = open(OpenHow::Create(CreateHow::Exclusive(VERF)), OpenClaim::Null(NAME));
        OpenArgs<'_> = open(OpenHow::Create(create_both()), OpenClaim::Null(NAME));
    }
}

/// OPENATTR to WRITE by name.
fn args_late() -> BTreeSet<u32> {
    table! { check_args:
        OpenAttrArgs = OpenAttrArgs { create_dir: true };
        OpenDowngradeArgs = OpenDowngradeArgs { open_stateid: SID, seqid: 0, share_access: 1, share_deny: 0 };
        PutFhArgs<'_> = PutFhArgs { object: Opaque(b"0123456789abcdef!") };
        PutPubFhArgs = PutPubFhArgs {};
        PutRootFhArgs = PutRootFhArgs {};
        ReadArgs = ReadArgs { stateid: Stateid::READ_BYPASS, offset: 1, count: 2 };
        ReadDirArgs = ReadDirArgs { cookie: 1, cookie_verifier: VERF, dircount: 2, maxcount: 3, attr_request: bits() };
        ReadLinkArgs = ReadLinkArgs {};
        ReclaimCompleteArgs = ReclaimCompleteArgs { one_fs: false };
        RemoveArgs<'_> = RemoveArgs { target: NAME };
        RenameArgs<'_> = RenameArgs { old_name: NAME, new_name: Opaque(b"") };
        RestoreFhArgs = RestoreFhArgs {};
        SaveFhArgs = SaveFhArgs {};
        SecInfoArgs<'_> = SecInfoArgs { name: NAME };
        SecInfoNoNameArgs = SecInfoNoNameArgs { style: SecInfoStyle::Parent };
        SequenceArgs = SequenceArgs { session_id: SESSION, sequence_id: 1, slot_id: 2, highest_slot_id: 3, cache_this: true };
        SetAttrArgs<'_> = SetAttrArgs { stateid: SID, attrs: fattr() };
        SetSsvArgs<'_> = SetSsvArgs { ssv: Opaque(b"ssv"), digest: Opaque(b"digest") };
        TestStateidArgs = TestStateidArgs { stateids: List(vec![SID, Stateid::ANONYMOUS]) };
        VerifyArgs<'_> = VerifyArgs { attrs: fattr() };
        WantDelegationArgs = WantDelegationArgs { want: SHARE_WANT_ANY_DELEG, claim: DelegClaim::Fh };
        WantDelegationArgs = WantDelegationArgs { want: 0, claim: DelegClaim::Previous(DelegationType::Read) };
        WantDelegationArgs = WantDelegationArgs { want: 0, claim: DelegClaim::DelegPrevFh };
        WriteArgs<'_> = WriteArgs { stateid: SID, offset: 9, stable: StableHow::FileSync, data: Opaque(b"some data") };
    }
}

/// NFSv4.2 and extended attributes.
fn args_of_4_2() -> BTreeSet<u32> {
    table! { check_args:
        AllocateArgs = AllocateArgs { stateid: SID, offset: 1, length: 2 };
        CloneArgs = CloneArgs { src_stateid: SID, dst_stateid: SID, src_offset: 1, dst_offset: 2, count: 0 };
        CopyArgs = copy(vec![]);
        CopyArgs = copy(vec![NetLoc::Name(OpaqueBuf(b"n".to_vec())), NetLoc::Url(OpaqueBuf(b"nfs://".to_vec())), NetLoc::NetAddr(net_addr())]);
        CopyNotifyArgs = CopyNotifyArgs { src_stateid: SID, destination_server: NetLoc::NetAddr(net_addr()) };
        DeallocateArgs = DeallocateArgs { stateid: SID, offset: 1, length: 2 };
        GetXattrArgs<'_> = GetXattrArgs { name: NAME };
        IoAdviseArgs = IoAdviseArgs { stateid: SID, offset: 0, count: 0, hints: Bitmap::of(&[IO_ADVISE_SEQUENTIAL]) };
        LayoutErrorArgs = LayoutErrorArgs { offset: 0, length: 1, stateid: SID, errors: List(vec![DeviceError { device_id: DEVICE, status: 5, opnum: 38 }]) };
        LayoutStatsArgs<'_> = LayoutStatsArgs { offset: 0, length: 1, stateid: SID, read: IoInfo { count: 1, bytes: 2 }, write: IoInfo::default(), device_id: DEVICE, layout_update: LayoutUpdate { layout_type: 4, body: Opaque(b"12345") } };
        ListXattrsArgs = ListXattrsArgs { cookie: 1, maxcount: 2 };
        OffloadCancelArgs = OffloadCancelArgs { stateid: SID };
        OffloadStatusArgs = OffloadStatusArgs { stateid: SID };
        ReadPlusArgs = ReadPlusArgs { stateid: SID, offset: 1, count: 2 };
        RemoveXattrArgs<'_> = RemoveXattrArgs { name: NAME };
        SeekArgs = SeekArgs { stateid: SID, offset: 1, what: CONTENT_HOLE };
        SetXattrArgs<'_> = SetXattrArgs { option: SetXattrOption::Replace, name: NAME, value: Opaque(b"value") };
        WriteSameArgs<'_> = WriteSameArgs { stateid: SID, stable: StableHow::Unstable, adb: AppDataBlock { offset: 1, block_bytes: 2, blocks_count: 3, reloff_blocknum: 4, block_num: 5, reloff_pattern: 6, pattern: Opaque(b"pat") } };
    }
}

const CLIENT_ADDR: ClientAddr<'static> = ClientAddr {
    netid: Opaque(b"tcp"),
    uaddr: Opaque(b"192.0.2.1.8.1"),
};

fn set_client_id() -> SetClientIdArgs<'static> {
    SetClientIdArgs {
        client: ClientOwner {
            verifier: VERF,
            ownerid: Opaque(b"Linux NFSv4.0 host"),
        },
        callback: CbClient {
            program: 0x4000_0000,
            location: CLIENT_ADDR,
        },
        callback_ident: 1,
    }
}

/// What NFSv4.1 removed.
fn args_of_4_0() -> BTreeSet<u32> {
    table! { check_args:
        OpenConfirmArgs = OpenConfirmArgs { open_stateid: SID, seqid: 2 };
        ReleaseLockOwnerArgs<'_> = ReleaseLockOwnerArgs { owner: OWNER };
        RenewArgs = RenewArgs { clientid: ClientId { value: 3 } };
        SetClientIdArgs<'_> = set_client_id();
        SetClientIdConfirmArgs = SetClientIdConfirmArgs { clientid: ClientId { value: 3 }, confirm: VERF };
    }
}

/// What NFSv4.1 removed.
fn res_of_4_0() -> BTreeSet<u32> {
    table! { check_res:
        OpenConfirmRes = OpenConfirmRes { open_stateid: SID };
        ReleaseLockOwnerRes = ReleaseLockOwnerRes {};
        RenewRes = RenewRes {};
        SetClientIdRes<'_> = SetClientIdRes::Ok(ClientIdSet { clientid: ClientId { value: 3 }, confirm: VERF });
        SetClientIdRes<'_> = SetClientIdRes::InUse(CLIENT_ADDR);
        SetClientIdConfirmRes = SetClientIdConfirmRes {};
    }
}

#[test]
fn arguments_of_every_operation_round_trip_and_refuse_truncation() {
    let mut seen = args_early();
    seen.extend(args_middle());
    seen.extend(args_late());
    seen.extend(args_of_4_2());
    seen.extend(args_of_4_0());
    assert_covers_fore(&seen);
}

/// Up to LAYOUTGET by name.
fn res_early() -> BTreeSet<u32> {
    let granted = |layouts| {
        LayoutGetRes::Ok(LayoutsGranted {
            return_on_close: true,
            stateid: SID,
            layouts: List(layouts),
        })
    };
    let layout = Layout {
        offset: 0,
        length: LENGTH_TO_EOF,
        iomode: IoMode::Rw,
        layout_type: 1,
        body: Opaque(b"body"),
    };
    table! { check_res:
        AccessRes = AccessRes { supported: 63, access: 1 };
        BackchannelCtlRes = BackchannelCtlRes {};
        BindConnToSessionRes = BindConnToSessionRes { session_id: SESSION, dir: ChannelDirFromServer::Both, use_conn_in_rdma_mode: false };
        CloseRes = CloseRes { open_stateid: Stateid::INVALID };
        CommitRes = CommitRes { write_verifier: VERF };
        CreateRes = CreateRes { cinfo: CINFO, attrset: bits() };
        CreateSessionRes = CreateSessionRes { session_id: SESSION, sequence: 1, flags: 2, fore_chan_attrs: CHANNEL, back_chan_attrs: CHANNEL };
        DelegPurgeRes = DelegPurgeRes {};
        DelegReturnRes = DelegReturnRes {};
        DestroyClientIdRes = DestroyClientIdRes {};
        DestroySessionRes = DestroySessionRes {};
        ExchangeIdRes<'_> = exchange_id_res(StateProtectRes::None);
        ExchangeIdRes<'_> = exchange_id_res(StateProtectRes::MachCred(protect_ops()));
        ExchangeIdRes<'_> = exchange_id_res(ssv_info());
        FreeStateidRes = FreeStateidRes {};
        GetDirDelegationRes = GetDirDelegationRes::Unavail(true);
        GetDirDelegationRes = GetDirDelegationRes::Ok(DirDelegation { cookie_verifier: VERF, stateid: SID, notification: bits(), child_attributes: bits(), dir_attributes: bits() });
        GetAttrRes<'_> = GetAttrRes { attributes: fattr() };
        GetDeviceInfoRes<'_> = GetDeviceInfoRes::Ok(DeviceInfo { device_addr: DeviceAddr { layout_type: 1, body: Opaque(b"addr") }, notification: bits() });
        GetDeviceInfoRes<'_> = GetDeviceInfoRes::TooSmall { mincount: 5000 };
        GetDeviceListRes = GetDeviceListRes { cookie: 1, cookie_verifier: VERF, devices: List(vec![DEVICE, DEVICE]), eof: true };
        GetFhRes<'_> = GetFhRes { object: Opaque(b"handle") };
        LayoutCommitRes = LayoutCommitRes { new_size: Some(4096) };
        LayoutCommitRes = LayoutCommitRes { new_size: None };
        LayoutGetRes<'_> = granted(vec![layout, layout]);
        LayoutGetRes<'_> = LayoutGetRes::TryLater { will_signal: true };
    }
}

/// LAYOUTRETURN to WRITE by name.
fn res_late() -> BTreeSet<u32> {
    let entry = |cookie, name| DirEntry {
        cookie,
        name: Opaque(name),
        attrs: fattr(),
    };
    table! { check_res:
        LayoutReturnRes = LayoutReturnRes { stateid: Some(SID) };
        LayoutReturnRes = LayoutReturnRes { stateid: None };
        LinkRes = LinkRes { cinfo: CINFO };
        LockRes<'_> = LockRes::Ok(LockGranted { lock_stateid: SID });
        LockRes<'_> = LockRes::Denied(DENIED);
        LockTRes<'_> = LockTRes::Ok;
        LockTRes<'_> = LockTRes::Denied(DENIED);
        LockURes = LockURes { lock_stateid: SID };
        LookupRes = LookupRes {};
        LookupPRes = LookupPRes {};
        NVerifyRes = NVerifyRes {};
        OpenRes = open_res(Delegation::None);
        OpenRes = open_res(read_delegation());
        OpenRes = open_res(write_delegation(SpaceLimit::Size(1)));
        OpenRes = open_res(write_delegation(blocks()));
        OpenRes = open_res(Delegation::NoneExt(WhyNoDelegation::NotWanted));
        OpenRes = open_res(Delegation::NoneExt(WhyNoDelegation::Contention(true)));
        OpenRes = open_res(Delegation::NoneExt(WhyNoDelegation::Resource(false)));
        OpenAttrRes = OpenAttrRes {};
        OpenDowngradeRes = OpenDowngradeRes { open_stateid: SID };
        PutFhRes = PutFhRes {};
        PutPubFhRes = PutPubFhRes {};
        PutRootFhRes = PutRootFhRes {};
        ReadRes<'_> = ReadRes { eof: true, data: Opaque(b"some data") };
        ReadDirRes<'_> = ReadDirRes { cookie_verifier: VERF, entries: vec![entry(3, b"a"), entry(4, b"bcdef")], eof: false };
        ReadDirRes<'_> = ReadDirRes { cookie_verifier: VERF, entries: vec![], eof: true };
        ReadLinkRes<'_> = ReadLinkRes { link: Opaque(b"/target") };
        ReclaimCompleteRes = ReclaimCompleteRes {};
        RemoveRes = RemoveRes { cinfo: CINFO };
        RenameRes = RenameRes { source_cinfo: CINFO, target_cinfo: ChangeInfo::default() };
        RestoreFhRes = RestoreFhRes {};
        SaveFhRes = SaveFhRes {};
        SecInfoRes = SecInfoRes { flavors: List(sec_infos()) };
        SecInfoNoNameRes = SecInfoNoNameRes { flavors: List(sec_infos()) };
        SequenceRes = SequenceRes { session_id: SESSION, sequence_id: 1, slot_id: 2, highest_slot_id: 3, target_highest_slot_id: 4, status_flags: SEQ_STATUS_CB_PATH_DOWN };
        SetAttrRes = SetAttrRes { status: NfsStatus::Ok, attrsset: bits() };
        SetAttrRes = SetAttrRes { status: NfsStatus::Perm, attrsset: Bitmap::EMPTY };
        SetSsvRes<'_> = SetSsvRes { digest: Opaque(b"digest") };
        TestStateidRes = TestStateidRes { statuses: List(vec![NfsStatus::Ok, NfsStatus::BadStateid]) };
        VerifyRes = VerifyRes {};
        WantDelegationRes = WantDelegationRes { delegation: read_delegation() };
        WriteRes = WriteRes { count: 9, committed: StableHow::FileSync, write_verifier: VERF };
    }
}

/// NFSv4.2 and extended attributes.
fn res_of_4_2() -> BTreeSet<u32> {
    table! { check_res:
        AllocateRes = AllocateRes {};
        CloneRes = CloneRes {};
        CopyRes = CopyRes::Ok(Copied { response: RESPONSE, requirements: CopyRequirements { consecutive: true, synchronous: false } });
        CopyRes = CopyRes::NoReqs(CopyRequirements { consecutive: false, synchronous: true });
        CopyNotifyRes = CopyNotifyRes { lease_time: TIME, stateid: SID, source_servers: List(vec![NetLoc::NetAddr(net_addr())]) };
        DeallocateRes = DeallocateRes {};
        GetXattrRes<'_> = GetXattrRes { value: Opaque(b"value") };
        IoAdviseRes = IoAdviseRes { hints: bits() };
        LayoutErrorRes = LayoutErrorRes {};
        LayoutStatsRes = LayoutStatsRes {};
        ListXattrsRes<'_> = ListXattrsRes { cookie: 1, names: List(vec![Opaque(b"a"), Opaque(b"bc")]), eof: true };
        OffloadCancelRes = OffloadCancelRes {};
        OffloadStatusRes = OffloadStatusRes { count: 1, complete: Some(NfsStatus::Io) };
        ReadPlusRes<'_> = ReadPlusRes { eof: true, contents: List(vec![ReadPlusContent::Data(ReadPlusData { offset: 0, data: Opaque(b"xyz") }), ReadPlusContent::Hole(ReadPlusHole { offset: 3, length: 9 })]) };
        RemoveXattrRes = RemoveXattrRes { cinfo: CINFO };
        SeekRes = SeekRes { eof: false, offset: 7 };
        SetXattrRes = SetXattrRes { cinfo: CINFO };
        WriteSameRes = WriteSameRes { response: RESPONSE };
    }
}

#[test]
fn results_of_every_operation_round_trip_and_refuse_truncation() {
    let mut seen = res_early();
    seen.extend(res_late());
    seen.extend(res_of_4_2());
    seen.extend(res_of_4_0());
    assert_covers_fore(&seen);
}

#[test]
fn callbacks_round_trip_and_refuse_truncation() {
    let fh = Opaque(b"file handle".as_slice());
    let change = DeviceNotification::Change {
        layout_type: 1,
        device_id: DEVICE,
        immediate: true,
    };
    let delete = DeviceNotification::Delete {
        layout_type: 1,
        device_id: DEVICE,
    };
    let notify = Notify {
        mask: bits(),
        values: Opaque(b"raw!"),
    };
    let lists = List(vec![ReferringCallList {
        session_id: SESSION,
        calls: List(vec![ReferringCall {
            sequence_id: 1,
            slot_id: 2,
        }]),
    }]);
    let failed = OffloadInfo::Failed {
        status: NfsStatus::NoSpc,
        copied_bytes: 5,
    };
    let seen = table! { check_args:
        CbGetAttrArgs<'_> = CbGetAttrArgs { fh, attr_request: bits() };
        CbLayoutRecallArgs<'_> = layout_recall(LayoutRecall::File(LayoutRecallFile { fh, offset: 0, length: LENGTH_TO_EOF, stateid: SID }));
        CbLayoutRecallArgs<'_> = layout_recall(LayoutRecall::Fsid(FsId { major: 1, minor: 2 }));
        CbLayoutRecallArgs<'_> = layout_recall(LayoutRecall::All);
        CbNotifyArgs<'_> = CbNotifyArgs { stateid: SID, fh, changes: List(vec![notify, notify]) };
        CbNotifyDeviceidArgs = CbNotifyDeviceidArgs { changes: List(vec![change, delete]) };
        CbNotifyLockArgs<'_> = CbNotifyLockArgs { fh, lock_owner: OWNER };
        CbOffloadArgs<'_> = CbOffloadArgs { fh, stateid: SID, info: OffloadInfo::Ok(RESPONSE) };
        CbOffloadArgs<'_> = CbOffloadArgs { fh, stateid: SID, info: failed };
        CbPushDelegArgs<'_> = CbPushDelegArgs { fh, delegation: write_delegation(blocks()) };
        CbRecallArgs<'_> = CbRecallArgs { stateid: SID, truncate: true, fh };
        CbRecallAnyArgs = CbRecallAnyArgs { objects_to_keep: 5, type_mask: Bitmap::of(&[RCA_FILE_LAYOUT]) };
        CbRecallableObjAvailArgs = CbRecallableObjAvailArgs { objects_to_keep: 5, type_mask: Bitmap::of(&[RCA_WDATA_DLG]) };
        CbRecallSlotArgs = CbRecallSlotArgs { target_highest_slot_id: 3 };
        CbSequenceArgs = CbSequenceArgs { session_id: SESSION, sequence_id: 1, slot_id: 0, highest_slot_id: 0, cache_this: false, referring_call_lists: lists };
        CbWantsCancelledArgs = CbWantsCancelledArgs { contended: true, resourced: false };
    };
    assert_covers_back(&seen);
    let seen = table! { check_res:
        CbGetAttrRes<'_> = CbGetAttrRes { attributes: fattr() };
        CbLayoutRecallRes = CbLayoutRecallRes {};
        CbNotifyRes = CbNotifyRes {};
        CbNotifyDeviceidRes = CbNotifyDeviceidRes {};
        CbNotifyLockRes = CbNotifyLockRes {};
        CbOffloadRes = CbOffloadRes {};
        CbPushDelegRes = CbPushDelegRes {};
        CbRecallRes = CbRecallRes {};
        CbRecallAnyRes = CbRecallAnyRes {};
        CbRecallableObjAvailRes = CbRecallableObjAvailRes {};
        CbRecallSlotRes = CbRecallSlotRes {};
        CbSequenceRes = CbSequenceRes { session_id: SESSION, sequence_id: 1, slot_id: 0, highest_slot_id: 15, target_highest_slot_id: 15 };
        CbWantsCancelledRes = CbWantsCancelledRes {};
    };
    assert_covers_back(&seen);
}

#[test]
fn a_payload_leaves_the_bytes_that_the_borrowed_form_has() {
    let data = b"payload data!";
    let len = u32::try_from(data.len()).unwrap();
    let read = ReadRes {
        eof: true,
        data: Opaque(data),
    };
    let write = WriteArgs {
        stateid: SID,
        offset: 5,
        stable: StableHow::DataSync,
        data: Opaque(data),
    };
    let read_payload = ReadResPayload { eof: true, len };
    let write_payload = WriteArgsPayload {
        stateid: SID,
        offset: 5,
        stable: StableHow::DataSync,
        len,
    };
    assert_eq!(insert(&read_payload, data), encode_to_vec(&read));
    assert_eq!(insert(&write_payload, data), encode_to_vec(&write));
}

/// What the transport does: inserts the payload with its padding.
fn insert(value: &impl xdr::Encode, data: &[u8]) -> Vec<u8> {
    let mut e = xdr::Encoder::new();
    value.encode(&mut e);
    let wire_len = e.wire_len();
    let (mut bytes, spans) = e.into_parts();
    assert_eq!(spans.len(), 1);
    let at = spans[0].at;
    let mut payload = data.to_vec();
    payload.resize(data.len() + xdr::padding(data.len()), 0);
    bytes.splice(at..at, payload);
    assert_eq!(bytes.len(), wire_len);
    bytes
}
