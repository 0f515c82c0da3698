//! Bodies of the fuzz targets. They live here so that an ordinary test replays the corpus and generated samples; the
//! `fuzz` package at the root only calls them.
//!
//! Each takes bytes of a peer and must neither panic nor allocate beyond a small multiple of its input. What decodes
//! must also encode, and decode to the same value again; a panic here is a finding.

use xdr::{Decode, Decoder, Encoder};

use crate::{
    CbCompoundHeader, CbCompoundReply, CbOpNum, CompoundHeader, CompoundReply, Fattr, MdsThreshold,
    NfsStatus, OpBody, OpNum, OpReader, OpRes, ReplyWriter, ThresholdItem, Thresholds, cb,
    decode_fattr,
    flex_files::{FlexDeviceAddr, FlexLayout, FlexLayoutHint, FlexLayoutReturn, FlexLayoutUpdate},
    layout::{FileLayout, FileLayoutDsAddr, FileLayoutHint},
    ops,
};

/// Decodes a value and sends it through a round trip; `false` when it does not decode. A macro, because input and
/// copy have different lifetimes.
macro_rules! round_trip {
    ($ty:ty, $d:expr) => {
        match <$ty>::decode($d) {
            Err(_) => false,
            Ok(value) => {
                let bytes = xdr::encode_to_vec(&value);
                let again: $ty = xdr::decode_all(&bytes).expect("what was encoded decodes");
                assert_eq!(again, value, "a round trip changed a value");
                true
            }
        }
    };
}

/// The same for the body of a result; `false` when it does not decode or there is none.
macro_rules! round_trip_res {
    ($ty:ty, $status:expr, $d:expr) => {
        match <$ty>::decode_res($status, $d) {
            Err(_) | Ok(None) => false,
            Ok(Some(value)) => {
                assert_eq!(value.status(), $status, "a body goes with another status");
                let bytes = xdr::encode_to_vec(&value);
                let again = <$ty>::decode_res($status, &mut Decoder::new(&bytes));
                assert_eq!(again, Ok(Some(value)), "a round trip changed a result");
                true
            }
        }
    };
}

macro_rules! dispatch {
    ($num:ident, $module:ident: $( $op:ident: $args:ident $(<$la:lifetime>)?, $res:ident $(<$lr:lifetime>)?; )*) => {
        /// Arguments of an operation; `false` when they do not decode or the operation has no types.
        fn args(op: $num, d: &mut Decoder<'_>) -> bool {
            match op {
                $( $num::$op => round_trip!($module::$args $(<$la>)?, d), )*
                _ => false,
            }
        }

        /// Result of an operation.
        fn res(op: $num, status: NfsStatus, d: &mut Decoder<'_>) -> bool {
            match op {
                $( $num::$op => round_trip_res!($module::$res $(<$lr>)?, status, d), )*
                _ => false,
            }
        }
    };
}

mod fore {
    use super::*;

    dispatch! { OpNum, ops:
        Access: AccessArgs, AccessRes;
        Close: CloseArgs, CloseRes;
        Commit: CommitArgs, CommitRes;
        Create: CreateArgs<'_>, CreateRes;
        DelegPurge: DelegPurgeArgs, DelegPurgeRes;
        DelegReturn: DelegReturnArgs, DelegReturnRes;
        GetAttr: GetAttrArgs, GetAttrRes<'_>;
        GetFh: GetFhArgs, GetFhRes<'_>;
        Link: LinkArgs<'_>, LinkRes;
        Lock: LockArgs<'_>, LockRes<'_>;
        LockT: LockTArgs<'_>, LockTRes<'_>;
        LockU: LockUArgs, LockURes;
        Lookup: LookupArgs<'_>, LookupRes;
        LookupP: LookupPArgs, LookupPRes;
        NVerify: NVerifyArgs<'_>, NVerifyRes;
        Open: OpenArgs<'_>, OpenRes;
        OpenAttr: OpenAttrArgs, OpenAttrRes;
        OpenConfirm: OpenConfirmArgs, OpenConfirmRes;
        OpenDowngrade: OpenDowngradeArgs, OpenDowngradeRes;
        PutFh: PutFhArgs<'_>, PutFhRes;
        PutPubFh: PutPubFhArgs, PutPubFhRes;
        PutRootFh: PutRootFhArgs, PutRootFhRes;
        Read: ReadArgs, ReadRes<'_>;
        ReadDir: ReadDirArgs, ReadDirRes<'_>;
        ReadLink: ReadLinkArgs, ReadLinkRes<'_>;
        Remove: RemoveArgs<'_>, RemoveRes;
        Rename: RenameArgs<'_>, RenameRes;
        Renew: RenewArgs, RenewRes;
        RestoreFh: RestoreFhArgs, RestoreFhRes;
        SaveFh: SaveFhArgs, SaveFhRes;
        SecInfo: SecInfoArgs<'_>, SecInfoRes;
        SetAttr: SetAttrArgs<'_>, SetAttrRes;
        SetClientId: SetClientIdArgs<'_>, SetClientIdRes<'_>;
        SetClientIdConfirm: SetClientIdConfirmArgs, SetClientIdConfirmRes;
        Verify: VerifyArgs<'_>, VerifyRes;
        Write: WriteArgs<'_>, WriteRes;
        ReleaseLockOwner: ReleaseLockOwnerArgs<'_>, ReleaseLockOwnerRes;
        BackchannelCtl: BackchannelCtlArgs<'_>, BackchannelCtlRes;
        BindConnToSession: BindConnToSessionArgs, BindConnToSessionRes;
        ExchangeId: ExchangeIdArgs<'_>, ExchangeIdRes<'_>;
        CreateSession: CreateSessionArgs<'_>, CreateSessionRes;
        DestroySession: DestroySessionArgs, DestroySessionRes;
        FreeStateid: FreeStateidArgs, FreeStateidRes;
        GetDirDelegation: GetDirDelegationArgs, GetDirDelegationRes;
        GetDeviceInfo: GetDeviceInfoArgs, GetDeviceInfoRes<'_>;
        GetDeviceList: GetDeviceListArgs, GetDeviceListRes;
        LayoutCommit: LayoutCommitArgs<'_>, LayoutCommitRes;
        LayoutGet: LayoutGetArgs, LayoutGetRes<'_>;
        LayoutReturn: LayoutReturnArgs<'_>, LayoutReturnRes;
        SecInfoNoName: SecInfoNoNameArgs, SecInfoNoNameRes;
        Sequence: SequenceArgs, SequenceRes;
        SetSsv: SetSsvArgs<'_>, SetSsvRes<'_>;
        TestStateid: TestStateidArgs, TestStateidRes;
        WantDelegation: WantDelegationArgs, WantDelegationRes;
        DestroyClientId: DestroyClientIdArgs, DestroyClientIdRes;
        ReclaimComplete: ReclaimCompleteArgs, ReclaimCompleteRes;
        Allocate: AllocateArgs, AllocateRes;
        Copy: CopyArgs, CopyRes;
        CopyNotify: CopyNotifyArgs, CopyNotifyRes;
        Deallocate: DeallocateArgs, DeallocateRes;
        IoAdvise: IoAdviseArgs, IoAdviseRes;
        LayoutError: LayoutErrorArgs, LayoutErrorRes;
        LayoutStats: LayoutStatsArgs<'_>, LayoutStatsRes;
        OffloadCancel: OffloadCancelArgs, OffloadCancelRes;
        OffloadStatus: OffloadStatusArgs, OffloadStatusRes;
        ReadPlus: ReadPlusArgs, ReadPlusRes<'_>;
        Seek: SeekArgs, SeekRes;
        WriteSame: WriteSameArgs<'_>, WriteSameRes;
        Clone: CloneArgs, CloneRes;
        GetXattr: GetXattrArgs<'_>, GetXattrRes<'_>;
        SetXattr: SetXattrArgs<'_>, SetXattrRes;
        ListXattrs: ListXattrsArgs, ListXattrsRes<'_>;
        RemoveXattr: RemoveXattrArgs<'_>, RemoveXattrRes;
    }

    pub(super) fn request(data: &[u8]) {
        let mut d = Decoder::new(data);
        let Ok(header) = CompoundHeader::decode(&mut d) else {
            return;
        };
        let mut reply = ReplyWriter::<OpNum>::new(Encoder::new(), header.tag.0);
        let mut reader = OpReader::new(d, header.ops_count);
        while let Some(Ok(number)) = reader.next_op() {
            let Some(op) = OpNum::from_u32(number) else {
                reply.illegal();
                break;
            };
            if !args(op, reader.decoder()) {
                reply.error(op, NfsStatus::BadXdr);
                break;
            }
            reply.error(op, NfsStatus::Delay);
        }
        let bytes = reply.finish(NfsStatus::BadXdr).into_bytes();
        CompoundReply::new(Decoder::new(&bytes)).expect("our own reply decodes");
    }

    pub(super) fn reply(data: &[u8]) {
        let Ok(mut reply) = CompoundReply::new(Decoder::new(data)) else {
            return;
        };
        while let Ok(Some(result)) = reply.next_result() {
            let Some(op) = OpNum::from_u32(result.op) else {
                return;
            };
            if !res(op, result.status, reply.decoder()) {
                return;
            }
        }
    }
}

mod back {
    use super::*;

    dispatch! { CbOpNum, cb:
        GetAttr: CbGetAttrArgs<'_>, CbGetAttrRes<'_>;
        Recall: CbRecallArgs<'_>, CbRecallRes;
        LayoutRecall: CbLayoutRecallArgs<'_>, CbLayoutRecallRes;
        Notify: CbNotifyArgs<'_>, CbNotifyRes;
        PushDeleg: CbPushDelegArgs<'_>, CbPushDelegRes;
        RecallAny: CbRecallAnyArgs, CbRecallAnyRes;
        RecallableObjAvail: CbRecallableObjAvailArgs, CbRecallableObjAvailRes;
        RecallSlot: CbRecallSlotArgs, CbRecallSlotRes;
        Sequence: CbSequenceArgs, CbSequenceRes;
        WantsCancelled: CbWantsCancelledArgs, CbWantsCancelledRes;
        NotifyLock: CbNotifyLockArgs<'_>, CbNotifyLockRes;
        NotifyDeviceid: CbNotifyDeviceidArgs, CbNotifyDeviceidRes;
        Offload: CbOffloadArgs<'_>, CbOffloadRes;
    }

    pub(super) fn request(data: &[u8]) {
        let mut d = Decoder::new(data);
        let Ok(header) = CbCompoundHeader::decode(&mut d) else {
            return;
        };
        let mut reader = OpReader::new(d, header.ops_count);
        while let Some(Ok(number)) = reader.next_op() {
            match CbOpNum::from_u32(number) {
                Some(op) if args(op, reader.decoder()) => {}
                _ => return,
            }
        }
    }

    pub(super) fn reply(data: &[u8]) {
        let Ok(mut reply) = CbCompoundReply::new(Decoder::new(data)) else {
            return;
        };
        while let Ok(Some(result)) = reply.next_result() {
            match CbOpNum::from_u32(result.op) {
                Some(op) if res(op, result.status, reply.decoder()) => {}
                _ => return,
            }
        }
    }
}

/// A COMPOUND request, as a server reads it.
pub fn compound_args(data: &[u8]) {
    fore::request(data);
}

/// A COMPOUND reply, as a client reads it.
pub fn compound_reply(data: &[u8]) {
    fore::reply(data);
}

/// A `CB_COMPOUND`: the first byte chooses request (even) or reply (odd).
pub fn cb_compound(data: &[u8]) {
    match data.split_first() {
        Some((choice, rest)) if choice % 2 == 0 => back::request(rest),
        Some((_, rest)) => back::reply(rest),
        None => {}
    }
}

fn thresholds(item: &ThresholdItem) {
    let alone = |item| MdsThreshold {
        items: vec![item].into(),
    };
    let of = item.layout_type;
    let Ok(known) = Thresholds::of(&alone(item.clone()), of) else {
        return;
    };
    let again = Thresholds::of(&alone(known.item(of)), of);
    assert_eq!(again, Ok(known), "a round trip changed thresholds");
}

/// A `fattr4` and its values.
pub fn fattr(data: &[u8]) {
    let Ok(fattr) = Fattr::decode(&mut Decoder::new(data)) else {
        return;
    };
    let Ok(attrs) = decode_fattr(&fattr) else {
        return;
    };
    assert_eq!(attrs.present(), fattr.mask, "a decoded attribute is absent");
    for item in attrs.mdsthreshold.iter().flat_map(|t| &t.items.0) {
        thresholds(item);
    }
    let again = decode_fattr(&Fattr::new(&attrs));
    assert_eq!(again, Ok(attrs), "a round trip changed attributes");
}

/// The bodies of the files layout: the first byte chooses which.
pub fn files_layout(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    let d = &mut Decoder::new(rest);
    match choice % 3 {
        0 => round_trip!(FileLayout, d),
        1 => round_trip!(FileLayoutDsAddr, d),
        _ => round_trip!(FileLayoutHint, d),
    };
}

/// The bodies of the flexible files layout: the first byte chooses which.
pub fn flex_files(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    let d = &mut Decoder::new(rest);
    match choice % 5 {
        0 => round_trip!(FlexLayout, d),
        1 => round_trip!(FlexDeviceAddr, d),
        2 => round_trip!(FlexLayoutReturn, d),
        3 => round_trip!(FlexLayoutUpdate, d),
        _ => round_trip!(FlexLayoutHint, d),
    };
}

/// Takes the bytes of a peer.
pub type Target = fn(&[u8]);

/// Every target by its name, for the test that replays the corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("compound_args", compound_args),
    ("compound_reply", compound_reply),
    ("cb_compound", cb_compound),
    ("fattr", fattr),
    ("files_layout", files_layout),
    ("flex_files", flex_files),
];
