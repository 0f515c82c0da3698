//! ONC RPC v2 (RFC 5531): messages, AUTH_NONE and AUTH_SYS, record marking.
//!
//! The crate owns the bytes of CALL and REPLY headers, authenticators, the record marks of stream
//! transports and universal addresses. It does no I/O and keeps no call table. Of programs it knows
//! [`rpcbind`] alone, by which others are found: arguments and results of others stay in the caller's
//! [`xdr::Decoder`] and [`xdr::Encoder`].
//!
//! Entry points: [`peek`], [`CallHeader`], [`ReplyHeader`], [`begin_success`], [`encode_error`],
//! [`AuthSys`], [`RecordReader`], [`UniversalAddress`].
#![forbid(unsafe_code)]

mod address;
mod auth;
mod call;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod message;
mod record;
mod reply;
pub mod rpcbind;

pub use address::{AddressError, Netid, UniversalAddress};
pub use auth::{
    AUTH_BODY_BYTES_MAX, AUTH_SYS_GIDS_MAX, AUTH_SYS_MACHINE_BYTES_MAX, AuthStat, AuthSys,
    Credential, OpaqueAuth, STARTTLS, flavor,
};
pub use call::{CallHeader, CallHeaderError, CallStart, peek};
pub use message::{MessageType, RPC_VERSION};
pub use record::{
    FRAGMENT_BYTES_MAX, Fed, RESERVE_STEP_BYTES, RecordError, RecordLimits, RecordReader,
    fragment_header,
};
pub use reply::{
    AcceptError, CallRefusal, Rejection, ReplyHeader, ReplyVerdict, begin_success, encode_error,
};

#[cfg(test)]
mod tests;
