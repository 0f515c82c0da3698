//! Arguments and results of every callback (RFC 8881 §20, RFC 7862 §16), one file for each or for a tight family.
//!
//! The server writes the arguments and reads the results; the framing is [`crate::CbCompoundBuilder`] and
//! [`crate::CbCompoundReply`], and on the client's side [`crate::CbCompoundHeader`] and [`crate::ReplyWriter`].

mod getattr;
mod layoutrecall;
mod notify;
mod notify_deviceid;
mod notify_lock;
mod offload;
mod push_deleg;
mod recall;
mod recall_any;
mod recall_slot;
mod sequence;
mod wants_cancelled;

pub use getattr::*;
pub use layoutrecall::*;
pub use notify::*;
pub use notify_deviceid::*;
pub use notify_lock::*;
pub use offload::*;
pub use push_deleg::*;
pub use recall::*;
pub use recall_any::*;
pub use recall_slot::*;
pub use sequence::*;
pub use wants_cancelled::*;
