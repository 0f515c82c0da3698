//! Arguments and results of each procedure of NLM version 4 (RFC 1813 §6.2).

use crate::{
    Nlm4CancArgs, Nlm4LockArgs, Nlm4Notify, Nlm4Res, Nlm4ShareArgs, Nlm4ShareRes, Nlm4TestArgs,
    Nlm4TestRes, Nlm4UnlockArgs, NlmProc,
};

bodies! {
    /// Arguments of a call.
    pub enum NlmCall<'a> of NlmProc {
        /// None.
        Null,
        /// What to test.
        Test(body: Nlm4TestArgs<'a>),
        /// What to lock.
        Lock(body: Nlm4LockArgs<'a>),
        /// What to take back.
        Cancel(body: Nlm4CancArgs<'a>),
        /// What to unlock.
        Unlock(body: Nlm4UnlockArgs<'a>),
        /// What is locked now.
        Granted(body: Nlm4TestArgs<'a>),
        /// As `Test`.
        TestMsg(body: Nlm4TestArgs<'a>),
        /// As `Lock`.
        LockMsg(body: Nlm4LockArgs<'a>),
        /// As `Cancel`.
        CancelMsg(body: Nlm4CancArgs<'a>),
        /// As `Unlock`.
        UnlockMsg(body: Nlm4UnlockArgs<'a>),
        /// As `Granted`.
        GrantedMsg(body: Nlm4TestArgs<'a>),
        /// The answer to `TestMsg`.
        TestRes(body: Nlm4TestRes<'a>),
        /// The answer to `LockMsg`.
        LockRes(body: Nlm4Res<'a>),
        /// The answer to `CancelMsg`.
        CancelRes(body: Nlm4Res<'a>),
        /// The answer to `UnlockMsg`.
        UnlockRes(body: Nlm4Res<'a>),
        /// The answer to `GrantedMsg`.
        GrantedRes(body: Nlm4Res<'a>),
        /// What to share.
        Share(body: Nlm4ShareArgs<'a>),
        /// The share that ends.
        Unshare(body: Nlm4ShareArgs<'a>),
        /// What to lock, without monitoring.
        NmLock(body: Nlm4LockArgs<'a>),
        /// Whose locks end.
        FreeAll(body: Nlm4Notify<'a>),
    }

    /// Results of a call. Those of `_MSG` and `_RES` are never sent: see [`NlmProc::is_message`].
    pub enum NlmReply<'a> of NlmProc {
        /// None.
        Null,
        /// What was found.
        Test(body: Nlm4TestRes<'a>),
        /// GRANTED, BLOCKED or why not.
        Lock(body: Nlm4Res<'a>),
        /// Whether it was taken back.
        Cancel(body: Nlm4Res<'a>),
        /// Whether it is unlocked.
        Unlock(body: Nlm4Res<'a>),
        /// Whether the client takes the lock.
        Granted(body: Nlm4Res<'a>),
        /// None.
        TestMsg,
        /// None.
        LockMsg,
        /// None.
        CancelMsg,
        /// None.
        UnlockMsg,
        /// None.
        GrantedMsg,
        /// None.
        TestRes,
        /// None.
        LockRes,
        /// None.
        CancelRes,
        /// None.
        UnlockRes,
        /// None.
        GrantedRes,
        /// Whether it is shared.
        Share(body: Nlm4ShareRes<'a>),
        /// Whether the share has ended.
        Unshare(body: Nlm4ShareRes<'a>),
        /// As `Lock`.
        NmLock(body: Nlm4Res<'a>),
        /// None.
        FreeAll,
    }
}
