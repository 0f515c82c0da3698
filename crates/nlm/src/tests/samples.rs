//! One value of each kind of message.

use crate::nsm::{
    Mon, MonId, MyId, NsmCall, NsmReply, NsmRes, SmName, SmStat, SmStatRes, SmStatus, StatChge,
};
use crate::{
    Fsh4Access, Fsh4Mode, Nlm4CancArgs, Nlm4Holder, Nlm4Lock, Nlm4LockArgs, Nlm4Notify, Nlm4Res,
    Nlm4Share, Nlm4ShareArgs, Nlm4ShareRes, Nlm4Stats, Nlm4TestArgs, Nlm4TestReply, Nlm4TestRes,
    Nlm4UnlockArgs, NlmCall, NlmReply,
};
use xdr::Opaque;

const COOKIE: Opaque<'static, 1024> = Opaque(&[0, 0, 0, 9]);

pub(super) const LOCK: Nlm4Lock<'static> = Nlm4Lock {
    caller_name: Opaque(b"alpha"),
    fh: Opaque(&[1, 2, 3, 4, 5, 6]),
    oh: Opaque(b"7@alpha"),
    svid: 7,
    l_offset: 0x1_0000_0000,
    l_len: 16,
};

pub(super) const LOCK_ARGS: Nlm4LockArgs<'static> = Nlm4LockArgs {
    cookie: COOKIE,
    block: true,
    exclusive: true,
    alock: LOCK,
    reclaim: false,
    state: 3,
};

const TEST_ARGS: Nlm4TestArgs<'static> = Nlm4TestArgs {
    cookie: COOKIE,
    exclusive: false,
    alock: LOCK,
};

const CANC_ARGS: Nlm4CancArgs<'static> = Nlm4CancArgs {
    cookie: COOKIE,
    block: true,
    exclusive: false,
    alock: LOCK,
};

const UNLOCK_ARGS: Nlm4UnlockArgs<'static> = Nlm4UnlockArgs {
    cookie: COOKIE,
    alock: LOCK,
};

const SHARE_ARGS: Nlm4ShareArgs<'static> = Nlm4ShareArgs {
    cookie: COOKIE,
    share: Nlm4Share {
        caller_name: Opaque(b"beta"),
        fh: Opaque(&[9; 64]),
        oh: Opaque(&[]),
        mode: Fsh4Mode::DenyWrite,
        access: Fsh4Access::Both,
    },
    reclaim: true,
};

pub(super) const HELD: Nlm4TestRes<'static> = Nlm4TestRes {
    cookie: COOKIE,
    stat: Nlm4TestReply::Denied(Nlm4Holder {
        exclusive: true,
        svid: -1,
        oh: Opaque(b"h"),
        l_offset: 5,
        l_len: 0,
    }),
};

const FREE: Nlm4TestRes<'static> = Nlm4TestRes {
    cookie: COOKIE,
    stat: Nlm4TestReply::Other(Nlm4Stats::Granted),
};

const fn res(stat: Nlm4Stats) -> Nlm4Res<'static> {
    Nlm4Res {
        cookie: COOKIE,
        stat,
    }
}

const SHARE_RES: Nlm4ShareRes<'static> = Nlm4ShareRes {
    cookie: COOKIE,
    stat: Nlm4Stats::DeniedGracePeriod,
    sequence: 0,
};

const MY_ID: MyId<'static> = MyId {
    my_name: Opaque(b"us"),
    my_prog: 100_021,
    my_vers: 4,
    my_proc: 16,
};

const MON_ID: MonId<'static> = MonId {
    mon_name: Opaque(b"alpha"),
    my_id: MY_ID,
};

pub(super) const MON: Mon<'static> = Mon {
    mon_id: MON_ID,
    private: *b"0123456789abcdef",
};

pub(super) const NOTIFY: StatChge<'static> = StatChge {
    mon_name: Opaque(b"alpha"),
    state: 5,
};

pub(super) const STATUS: SmStatus<'static> = SmStatus {
    mon_name: Opaque(b"alpha"),
    state: 5,
    private: [0xfe; 16],
};

/// Arguments of each procedure of NLM, in the order of their numbers.
pub(super) fn nlm_calls() -> Vec<NlmCall<'static>> {
    vec![
        NlmCall::Null,
        NlmCall::Test(TEST_ARGS),
        NlmCall::Lock(LOCK_ARGS),
        NlmCall::Cancel(CANC_ARGS),
        NlmCall::Unlock(UNLOCK_ARGS),
        NlmCall::Granted(TEST_ARGS),
        NlmCall::TestMsg(TEST_ARGS),
        NlmCall::LockMsg(LOCK_ARGS),
        NlmCall::CancelMsg(CANC_ARGS),
        NlmCall::UnlockMsg(UNLOCK_ARGS),
        NlmCall::GrantedMsg(TEST_ARGS),
        NlmCall::TestRes(HELD),
        NlmCall::LockRes(res(Nlm4Stats::Blocked)),
        NlmCall::CancelRes(res(Nlm4Stats::Granted)),
        NlmCall::UnlockRes(res(Nlm4Stats::StaleFh)),
        NlmCall::GrantedRes(res(Nlm4Stats::Denied)),
        NlmCall::Share(SHARE_ARGS),
        NlmCall::Unshare(SHARE_ARGS),
        NlmCall::NmLock(LOCK_ARGS),
        NlmCall::FreeAll(Nlm4Notify {
            name: Opaque(b"alpha"),
            state: 4,
        }),
    ]
}

/// Results of each procedure of NLM, in the order of their numbers; TEST has two.
pub(super) fn nlm_replies() -> Vec<NlmReply<'static>> {
    vec![
        NlmReply::Null,
        NlmReply::Test(HELD),
        NlmReply::Test(FREE),
        NlmReply::Lock(res(Nlm4Stats::Blocked)),
        NlmReply::Cancel(res(Nlm4Stats::Granted)),
        NlmReply::Unlock(res(Nlm4Stats::FBig)),
        NlmReply::Granted(res(Nlm4Stats::Denied)),
        NlmReply::TestMsg,
        NlmReply::LockMsg,
        NlmReply::CancelMsg,
        NlmReply::UnlockMsg,
        NlmReply::GrantedMsg,
        NlmReply::TestRes,
        NlmReply::LockRes,
        NlmReply::CancelRes,
        NlmReply::UnlockRes,
        NlmReply::GrantedRes,
        NlmReply::Share(SHARE_RES),
        NlmReply::Unshare(SHARE_RES),
        NlmReply::NmLock(res(Nlm4Stats::DeniedNoLocks)),
        NlmReply::FreeAll,
    ]
}

/// Arguments of each procedure of NSM, in the order of their numbers.
pub(super) fn nsm_calls() -> Vec<NsmCall<'static>> {
    vec![
        NsmCall::Null,
        NsmCall::Stat(SmName {
            mon_name: Opaque(b"alpha"),
        }),
        NsmCall::Mon(MON),
        NsmCall::Unmon(MON_ID),
        NsmCall::UnmonAll(MY_ID),
        NsmCall::SimuCrash,
        NsmCall::Notify(NOTIFY),
    ]
}

/// Results of each procedure of NSM, in the order of their numbers.
pub(super) fn nsm_replies() -> Vec<NsmReply> {
    vec![
        NsmReply::Null,
        NsmReply::Stat(SmStatRes {
            res_stat: NsmRes::Fail,
            state: 1,
        }),
        NsmReply::Mon(SmStatRes {
            res_stat: NsmRes::Succ,
            state: -1,
        }),
        NsmReply::Unmon(SmStat { state: 7 }),
        NsmReply::UnmonAll(SmStat { state: 9 }),
        NsmReply::SimuCrash,
        NsmReply::Notify,
    ]
}
