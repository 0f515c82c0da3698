//! Types of SHARE, UNSHARE and FREE_ALL: sharing of opens as DOS has it (RFC 1813 §6.1.4; their values are XNFS's).

use crate::{CallerName, Netobj, Nlm4Stats};
use xdr::Opaque;

/// Longest name of a host in FREE_ALL, in bytes (`LM_MAXNAMELEN`, which is `LM_MAXSTRLEN` + 1).
pub const NOTIFY_NAME_BYTES_MAX: u32 = 1025;

xdr::xdr_enum! {
    /// `fsh4_mode`: what an open denies to others.
    pub enum Fsh4Mode {
        /// `fsm_DN`: nothing.
        DenyNone = 0,
        /// `fsm_DR`: reading.
        DenyRead = 1,
        /// `fsm_DW`: writing.
        DenyWrite = 2,
        /// `fsm_DRW`: both.
        DenyBoth = 3,
    }

    /// `fsh4_access`: what an open is for.
    pub enum Fsh4Access {
        /// `fsa_NONE`: neither.
        None = 0,
        /// `fsa_R`: reading.
        Read = 1,
        /// `fsa_W`: writing.
        Write = 2,
        /// `fsa_RW`: both.
        Both = 3,
    }
}

xdr::xdr_struct! {
    /// `nlm4_share`: a file, an owner, and how it is shared.
    #[derive(Copy)]
    pub struct Nlm4Share<'a> {
        /// The host that asks.
        pub caller_name: CallerName<'a>,
        /// The file: the bytes of its `nfs_fh3`.
        pub fh: Netobj<'a>,
        /// Host or process that asks.
        pub oh: Netobj<'a>,
        /// What is denied to others.
        pub mode: Fsh4Mode,
        /// What the open is for.
        pub access: Fsh4Access,
    }

    /// `nlm4_shareargs`: arguments of SHARE and UNSHARE.
    #[derive(Copy)]
    pub struct Nlm4ShareArgs<'a> {
        /// Comes back in the answer.
        pub cookie: Netobj<'a>,
        /// The share.
        pub share: Nlm4Share<'a>,
        /// Whether it was held before the server restarted.
        pub reclaim: bool,
    }

    /// `nlm4_shareres`: result of SHARE and UNSHARE.
    #[derive(Copy)]
    pub struct Nlm4ShareRes<'a> {
        /// Of the call.
        pub cookie: Netobj<'a>,
        /// What became of it.
        pub stat: Nlm4Stats,
        /// Without use; servers send zero.
        pub sequence: i32,
    }

    /// `nlm4_notify`: arguments of FREE_ALL.
    #[derive(Copy)]
    pub struct Nlm4Notify<'a> {
        /// The host whose locks and shares end.
        pub name: Opaque<'a, NOTIFY_NAME_BYTES_MAX>,
        /// Its new NSM state.
        pub state: i32,
    }
}
