//! The clients of one server: their sessions' connections, the clock of leases, and callbacks.
//!
//! [`ClientTable`] owns the table of clients and sessions ([`state::Clients`]), the connections they came on, and the
//! clock that leases are counted by. It sends callbacks ([`ClientTable::callback`]) and asks idle clients for slots. The
//! COMPOUND engine and the file service share one table by `Arc`.
//!
//! May call: `state`, `transport` and the codecs. May not call: a server or a file service, and it does not know what a
//! file is.
#![forbid(unsafe_code)]

mod back_channel;
mod callback;
mod callback_path;
mod dialed;
mod dials;
mod implementations;
mod listing;
mod probe;
mod slot_recall;
mod table;

pub use callback_path::{
    BuildCallback, CALLBACK_MS_MAX, CallbackError, CallbackPath, TakeResult, Taken, Try,
    begin_cb_compound, deliver, status_only,
};
pub use implementations::IMPLEMENTATION_BYTES_MAX;
pub use listing::{ADDRESSES_MAX, KnownClient, PAGE_CLIENTS};
pub use table::{ClientTable, RandomU64};
