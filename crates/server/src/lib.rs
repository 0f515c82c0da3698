//! The COMPOUND engine and the session operations that MDS and DS share.
//!
//! [`Nfsd`] is a [`transport::Service`]: it judges the RPC header and the credential, walks over the
//! operations of a COMPOUND, executes those that make up sessions (EXCHANGE_ID, CREATE_SESSION, SEQUENCE, ...) and
//! the current file handle, and gives every other one to its [`Role`]. It owns the reply cache's use, the size limits of
//! replies, and the calls of the back channel ([`Nfsd::callback`]). It does not know what a file is.
//!
//! Entry points: [`Nfsd`], [`Role`], [`Compound`].
#![forbid(unsafe_code)]

mod back_channel;
mod compound;
mod counters;
mod execute;
mod nfsd;
mod ops;
mod persist;
mod probe;
mod role;
mod slot;
mod slot_recall;
mod tables;

pub use back_channel::{BuildCallback, CALLBACK_MS_MAX, CallbackError, TakeResult};
pub use compound::{Compound, SessionContext};
pub use counters::Counters;
pub use nfsd::{Nfsd, NfsdConfig};
pub use persist::{KEPT_RESULTS_BYTES_MAX, SlotOf};
pub use role::{Identity, Role};

use nfs4::{NfsStatus, OpBody, OpNum, ReplyWriter};

/// Writes the result of an operation, or its failure, and returns the status that was written.
pub fn answer<T: OpBody<Num = OpNum>>(
    reply: &mut ReplyWriter<OpNum>,
    result: Result<T, NfsStatus>,
) -> NfsStatus {
    match result {
        Ok(res) => {
            let status = res.status();
            let _ = reply.result(&res);
            status
        }
        Err(status) => {
            reply.error(T::OP, status);
            status
        }
    }
}
