//! The client table: EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, SEQUENCE and
//! leases (RFC 8881 §18.35, §18.36, §18.37, §18.50, §18.46, §8.3).
//!
//! Owns client records and sessions. Does not own opens, locks or layouts: where a rule asks whether a client has such
//! state, the caller passes a closure. For each [`RemovedClient`] the caller must drop that client's state and close its
//! sessions' callbacks. If it is `recorded`, the caller must delete its durable record *before* any other client is
//! granted what it held.
//!
//! Memory: a client takes about 400 bytes, its owner (up to [`OWNER_BYTES_MAX`], twice) and its principal (up to
//! [`PRINCIPAL_BYTES_MAX`]). A session takes about 700 bytes plus its slot table.
//!
//! # Ownership
//! A client owns its sessions; removing it removes them.
//!
//! # Ordering
//! A record "holds" is durable before the reply that grants the first state ([`Clients::record_needed`]). It is gone before
//! another client profits from the loss of the state (RFC 8881 §8.4.3, first edge).
//!
//! # Failure
//! Everything here is lost with the process; only the records are not.

mod bindings;
mod connection_index;
mod evict;
mod exchange;
mod hosts;
mod lease;
mod listing;
mod minor_0;
mod minor_0_record;
mod record;
mod records;
mod sessions;
mod shares;
mod table;

pub use exchange::{ExchangeArgs, Exchanged};
pub use hosts::HOST_PRINCIPAL;
pub use listing::{ClientKind, ClientView};
pub use minor_0::{ClientIdConfirmed, SetClientId, SetClientIdRequest};
pub use minor_0_record::CallbackTarget;
pub use record::{ClientRecord, OWNER_BYTES_MAX, OWNER_PREFIX, PRINCIPAL_BYTES_MAX, Principal};
pub use sessions::{CreateSession, CreateSessionArgs, Sequenced};
pub use shares::SlotRecall;
pub use table::{ClientLimits, Clients, RemovedClient, SessionCreated};

#[cfg(test)]
mod minor_0_tests;
#[cfg(test)]
mod tests;
