//! NFSv4.0 (RFC 7530): a COMPOUND without SEQUENCE, on the same operations and the same state as NFSv4.1.
//!
//! Operations name their client, by its id or by a stateid. `walk` finds it, renews its lease and judges the sequence ids of
//! owners; then the operation of NFSv4.1 runs as ever.
//!
//! | What NFSv4.1 has | What stands for it here |
//! |---|---|
//! | the session's client | the client of the last operation that named one; before, that of the connection, or nobody (`NOBODY`) |
//! | the slot's reply cache | the replies of the last calls by address, transaction id and sum; the last reply of each owner |
//! | the session's sizes | `REPLY_BYTES_MAX` |
//! | persistent replies, layouts | nothing |
//!
//! # Ownership
//! `Minor0` has the owners and the kept replies of one server. Clients are in the client table.
//!
//! # Ordering
//! Never lock the table of owners while the client table is locked.

mod asked;
mod callers;
mod client_ids;
pub(crate) mod context;
mod status;
pub(crate) mod table;
mod turn;
pub(crate) mod walk;
