//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use nlm::nsm::{Mon, MonId, MyId, NsmProc, NsmRes, SmStatRes, SmStatus, StatChge};
use nlm::{
    Fsh4Access, Fsh4Mode, Nlm4Holder, Nlm4Lock, Nlm4LockArgs, Nlm4Notify, Nlm4Share, Nlm4ShareArgs,
    Nlm4TestReply, Nlm4TestRes, NlmProc, fuzz,
};
use replay::Target;
use ropewalk_nlm as nlm;
use xdr::{Encode, Opaque};

const TARGETS: &[Target] = &[
    ("nlm_message", fuzz::message, lock),
    ("nlm_message/test_reply", fuzz::message, test_reply),
    ("nlm_message/share", fuzz::message, share),
    ("nlm_message/free_all", fuzz::message, free_all),
    ("nlm_message/mon", fuzz::message, mon),
    ("nlm_message/mon_reply", fuzz::message, mon_reply),
    ("nlm_message/notify", fuzz::message, notify),
    ("nlm_message/status", fuzz::message, status),
];

fn message(head: [u8; 4], body: &impl Encode) -> Vec<u8> {
    [head.to_vec(), xdr::encode_to_vec(body)].concat()
}

fn lock() -> Vec<u8> {
    let args = Nlm4LockArgs {
        cookie: Opaque(&[0, 0, 1, 0]),
        block: true,
        exclusive: true,
        alock: Nlm4Lock {
            caller_name: Opaque(b"client.example"),
            fh: Opaque(&[0xab; 26]),
            oh: Opaque(b"12@client.example"),
            svid: 12,
            l_offset: 1 << 40,
            l_len: 0,
        },
        reclaim: false,
        state: 3,
    };
    message(fuzz::nlm_call(NlmProc::Lock), &args)
}

fn test_reply() -> Vec<u8> {
    let holder = Nlm4Holder {
        exclusive: true,
        svid: 12,
        oh: Opaque(b"12@client.example"),
        l_offset: 0,
        l_len: 4096,
    };
    let result = Nlm4TestRes {
        cookie: Opaque(&[0, 0, 2, 0]),
        stat: Nlm4TestReply::Denied(holder),
    };
    message(fuzz::nlm_reply(NlmProc::Test), &result)
}

fn share() -> Vec<u8> {
    let args = Nlm4ShareArgs {
        cookie: Opaque(&[]),
        share: Nlm4Share {
            caller_name: Opaque(b"pc"),
            fh: Opaque(&[0xab; 26]),
            oh: Opaque(b"owner"),
            mode: Fsh4Mode::DenyBoth,
            access: Fsh4Access::Read,
        },
        reclaim: false,
    };
    message(fuzz::nlm_call(NlmProc::Share), &args)
}

fn free_all() -> Vec<u8> {
    let args = Nlm4Notify {
        name: Opaque(b"pc"),
        state: 4,
    };
    message(fuzz::nlm_call(NlmProc::FreeAll), &args)
}

fn mon() -> Vec<u8> {
    let args = Mon {
        mon_id: MonId {
            mon_name: Opaque(b"client.example"),
            my_id: MyId {
                my_name: Opaque(b"server.example"),
                my_prog: nlm::PROGRAM,
                my_vers: nlm::VERSION,
                my_proc: 16,
            },
        },
        private: [5; 16],
    };
    message(fuzz::nsm_call(NsmProc::Mon), &args)
}

fn mon_reply() -> Vec<u8> {
    let result = SmStatRes {
        res_stat: NsmRes::Succ,
        state: 21,
    };
    message(fuzz::nsm_reply(NsmProc::Mon), &result)
}

fn notify() -> Vec<u8> {
    let args = StatChge {
        mon_name: Opaque(b"client.example"),
        state: 23,
    };
    message(fuzz::nsm_call(NsmProc::Notify), &args)
}

fn status() -> Vec<u8> {
    let args = SmStatus {
        mon_name: Opaque(b"client.example"),
        state: 23,
        private: [5; 16],
    };
    message(fuzz::nsm_status(), &args)
}
