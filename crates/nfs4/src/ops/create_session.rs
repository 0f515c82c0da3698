//! `CREATE_SESSION` (RFC 8881 §18.36).

use xdr::List;

use super::{CallbackSecParms, SEC_PARMS_MAX};
use crate::{ClientId, OpNum, SessionId};

/// The reply cache outlives the server process.
pub const CREATE_SESSION_PERSIST: u32 = 1;
/// This connection is to carry the back channel too.
pub const CREATE_SESSION_CONN_BACK_CHAN: u32 = 2;
/// This connection is to switch to RDMA.
pub const CREATE_SESSION_CONN_RDMA: u32 = 4;

xdr::xdr_struct! {
    /// `channel_attrs4`: sizes and depths of one channel.
    #[derive(Copy, Default)]
    pub struct ChannelAttrs {
        /// Bytes of padding before WRITE data.
        pub header_pad_bytes: u32,
        /// Largest request in bytes, with its RPC header.
        pub request_bytes_max: u32,
        /// Largest reply in bytes, with its RPC header.
        pub response_bytes_max: u32,
        /// Largest reply in bytes that is cached.
        pub response_cached_bytes_max: u32,
        /// Most operations of a COMPOUND.
        pub operations_max: u32,
        /// Most slots.
        pub requests_max: u32,
        /// RDMA inbound read queue depth (an array of at most one item).
        pub rdma_ird: Option<u32>,
    }

    /// Arguments of `CREATE_SESSION`.
    pub struct CreateSessionArgs<'a> {
        /// The client, as EXCHANGE_ID named it.
        pub clientid: ClientId,
        /// Next in the client's sequence of these requests.
        pub sequence: u32,
        /// `CREATE_SESSION_*` flags.
        pub flags: u32,
        /// Fore channel.
        pub fore_chan_attrs: ChannelAttrs,
        /// Back channel.
        pub back_chan_attrs: ChannelAttrs,
        /// RPC program of callbacks.
        pub cb_program: u32,
        /// Credentials that callbacks may use.
        pub sec_parms: List<CallbackSecParms<'a>, SEC_PARMS_MAX>,
    }

    /// Result of `CREATE_SESSION`.
    #[derive(Copy)]
    pub struct CreateSessionRes {
        /// The new session.
        pub session_id: SessionId,
        /// That of the request.
        pub sequence: u32,
        /// `CREATE_SESSION_*` flags that were granted.
        pub flags: u32,
        /// Fore channel as granted.
        pub fore_chan_attrs: ChannelAttrs,
        /// Back channel as granted.
        pub back_chan_attrs: ChannelAttrs,
    }
}

operations! { OpNum::CreateSession: CreateSessionArgs<'_> => CreateSessionRes; }
