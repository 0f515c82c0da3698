//! `EXCHANGE_ID` (RFC 8881 §18.35).

use xdr::{List, Opaque};

use crate::{
    Bitmap, ClientId, ClientOwner, GSS_HANDLE_BYTES_MAX, ImplId, OID_BYTES_MAX, OPAQUE_BYTES_MAX,
    OpNum, ServerOwner,
};

/// The client takes `NFS4ERR_MOVED` as a referral.
pub const EXCHGID_SUPP_MOVED_REFER: u32 = 0x1;
/// The client takes `NFS4ERR_MOVED` as a migration.
pub const EXCHGID_SUPP_MOVED_MIGR: u32 = 0x2;
/// A DESTROY_SESSION or a new verifier waits for the operations in progress (RFC 7862 §14.1).
pub const EXCHGID_SUPP_FENCE_OPS: u32 = 0x4;
/// Stateids are bound to the principal.
pub const EXCHGID_BIND_PRINC_STATEID: u32 = 0x100;
/// A server without pNFS.
pub const EXCHGID_USE_NON_PNFS: u32 = 0x1_0000;
/// A metadata server.
pub const EXCHGID_USE_PNFS_MDS: u32 = 0x2_0000;
/// A data server.
pub const EXCHGID_USE_PNFS_DS: u32 = 0x4_0000;
/// All roles.
pub const EXCHGID_MASK_PNFS: u32 = 0x7_0000;
/// Update of a confirmed record (arguments only).
pub const EXCHGID_UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
/// The record is confirmed (results only).
pub const EXCHGID_CONFIRMED_R: u32 = 0x8000_0000;
/// Every flag that a client may send.
pub const EXCHGID_MASK_A: u32 = EXCHGID_SUPP_MOVED_REFER
    | EXCHGID_SUPP_MOVED_MIGR
    | EXCHGID_SUPP_FENCE_OPS
    | EXCHGID_BIND_PRINC_STATEID
    | EXCHGID_MASK_PNFS
    | EXCHGID_UPD_CONFIRMED_REC_A;

/// Most hash or encryption algorithms that a client offers for SSV.
pub const SSV_ALGS_MAX: u32 = 32;
/// Most SSV context handles that a server gives out.
pub const SSV_HANDLES_MAX: u32 = 64;

xdr::xdr_struct! {
    /// `state_protect_ops4`: which operations the protection covers.
    #[derive(Copy, Default)]
    pub struct StateProtectOps {
        /// Operations that must use the protected credential.
        pub must_enforce: Bitmap,
        /// Operations that may use it in place of the usual one.
        pub must_allow: Bitmap,
    }

    /// `ssv_sp_parms4`.
    pub struct SsvParms<'a> {
        /// What is protected.
        pub ops: StateProtectOps,
        /// OIDs of hash algorithms.
        pub hash_algs: List<Opaque<'a, OID_BYTES_MAX>, SSV_ALGS_MAX>,
        /// OIDs of encryption algorithms.
        pub encr_algs: List<Opaque<'a, OID_BYTES_MAX>, SSV_ALGS_MAX>,
        /// Versions of the SSV that are kept.
        pub window: u32,
        /// Context handles that the client asks for.
        pub gss_handles_count: u32,
    }

    /// `ssv_prot_info4`.
    pub struct SsvProtInfo<'a> {
        /// What is protected.
        pub ops: StateProtectOps,
        /// Index in the client's list.
        pub hash_alg: u32,
        /// Index in the client's list.
        pub encr_alg: u32,
        /// Bytes of the SSV.
        pub ssv_bytes: u32,
        /// Versions of the SSV that are kept.
        pub window: u32,
        /// Context handles.
        pub handles: List<Opaque<'a, GSS_HANDLE_BYTES_MAX>, SSV_HANDLES_MAX>,
    }

    /// Arguments of `EXCHANGE_ID`.
    pub struct ExchangeIdArgs<'a> {
        /// Who asks.
        pub client_owner: ClientOwner<'a>,
        /// `EXCHGID_*` flags.
        pub flags: u32,
        /// Wanted protection of state.
        pub state_protect: StateProtectArgs<'a>,
        /// The client's product (an array of at most one item).
        pub client_impl_id: Option<ImplId<'a>>,
    }

    /// Result of `EXCHANGE_ID`.
    pub struct ExchangeIdRes<'a> {
        /// The client from now on.
        pub clientid: ClientId,
        /// First sequence number for `CREATE_SESSION`.
        pub sequence: u32,
        /// `EXCHGID_*` flags.
        pub flags: u32,
        /// Granted protection of state.
        pub state_protect: StateProtectRes<'a>,
        /// Who answers.
        pub server_owner: ServerOwner<'a>,
        /// Where clientids and stateids are one space.
        pub server_scope: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// The server's product (an array of at most one item).
        pub server_impl_id: Option<ImplId<'a>>,
    }
}

xdr::xdr_union! {
    /// `state_protect4_a`.
    pub union StateProtectArgs<'a> {
        /// `SP4_NONE`.
        None = 0,
        /// `SP4_MACH_CRED`.
        MachCred(ops: StateProtectOps) = 1,
        /// `SP4_SSV`.
        Ssv(parms: SsvParms<'a>) = 2,
    }

    /// `state_protect4_r`.
    pub union StateProtectRes<'a> {
        /// `SP4_NONE`.
        None = 0,
        /// `SP4_MACH_CRED`.
        MachCred(ops: StateProtectOps) = 1,
        /// `SP4_SSV`.
        Ssv(info: SsvProtInfo<'a>) = 2,
    }
}

operations! { OpNum::ExchangeId: ExchangeIdArgs<'_> => ExchangeIdRes<'a>; }
