//! `BACKCHANNEL_CTL` (RFC 8881 §18.33), and the callback security parameters that it shares with
//! `CREATE_SESSION`.

use xdr::{List, Opaque};

use crate::{GSS_HANDLE_BYTES_MAX, OpNum};

/// Most callback security flavors of one request; clients send one or two.
pub const SEC_PARMS_MAX: u32 = 16;
/// Longest machine name of AUTH_SYS in bytes (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: u32 = 255;
/// Most supplementary groups of AUTH_SYS (RFC 5531 appendix A).
pub const AUTH_SYS_GIDS_MAX: u32 = 16;

xdr::xdr_enum! {
    /// Service of RPCSEC_GSS (RFC 2203 §5.3.1).
    pub enum GssService {
        /// Authentication only.
        None = 1,
        /// Checksums.
        Integrity = 2,
        /// Encryption.
        Privacy = 3,
    }
}

xdr::xdr_struct! {
    /// `authsys_parms` (RFC 5531 appendix A).
    pub struct AuthSysParms<'a> {
        /// Arbitrary.
        pub stamp: u32,
        /// Name of the caller's machine.
        pub machine_name: Opaque<'a, MACHINE_NAME_BYTES_MAX>,
        /// User.
        pub uid: u32,
        /// Primary group.
        pub gid: u32,
        /// Further groups.
        pub gids: List<u32, AUTH_SYS_GIDS_MAX>,
    }

    /// `gss_cb_handles4`.
    pub struct GssCbHandles<'a> {
        /// Service of callbacks.
        pub service: GssService,
        /// The context as the server names it.
        pub handle_from_server: Opaque<'a, GSS_HANDLE_BYTES_MAX>,
        /// The context as the client names it.
        pub handle_from_client: Opaque<'a, GSS_HANDLE_BYTES_MAX>,
    }

    /// Arguments of `BACKCHANNEL_CTL`.
    pub struct BackchannelCtlArgs<'a> {
        /// RPC program of callbacks.
        pub cb_program: u32,
        /// Credentials that callbacks may use.
        pub sec_parms: List<CallbackSecParms<'a>, SEC_PARMS_MAX>,
    }

    /// Result of `BACKCHANNEL_CTL`.
    #[derive(Copy)]
    pub struct BackchannelCtlRes {}
}

xdr::xdr_union! {
    /// `callback_sec_parms4`: a credential for callbacks, by RPC flavor.
    pub union CallbackSecParms<'a> {
        /// AUTH_NONE.
        None = 0,
        /// AUTH_SYS.
        Sys(parms: AuthSysParms<'a>) = 1,
        /// RPCSEC_GSS.
        Gss(handles: GssCbHandles<'a>) = 6,
    }
}

operations! { OpNum::BackchannelCtl: BackchannelCtlArgs<'_> => BackchannelCtlRes; }
