//! Copies of parts: the primary of a place passes on what it applies to the other members (rules P5 to P8).
//!
//! [`Ds::change`] applies a change and passes it on; [`Ds::promise`] answers when every member in sync has all of a part
//! durably. `stream` has the queue for one member, `send` carries it, `receive` takes it in, `fill` gives a member what
//! it lacks, `settle` says which parts that is not looked at for, `lacking` counts the parts that lack a copy, `drain` waits until
//! members have all, `leave` removes the parts of places that are left, `room` says how much fits. `tasks` keeps one task
//! for each stream and each member that is filled.
//!
//! # Ownership
//! The rows say who the members are; only this process says what was passed on. Bytes stay where they came in until the
//! member has them, up to a bound for each member.
//!
//! # Ordering
//! Applying a change and giving it its number is one step under the order lock of its file. Rows are read under that
//! lock, so a change goes to a new member or is in what that member is filled from. Nobody holds an order lock over a
//! wait for a member whose work could need that lock: `receive` takes none.
//!
//! # Failure
//! A member that does not take items is reported to the MDS, and counts no more when the MDS says so durably (rule P11).
//! Until then nothing is promised.

mod ask;
mod change;
mod drain;
mod fill;
mod fill_rate;
mod fill_share;
mod fill_turn;
mod lacking;
mod leave;
mod levelled;
mod noted;
mod own_room;
pub(crate) mod receive;
mod received;
pub(crate) mod removed;
mod room;
mod send;
mod settle;
mod stream;
pub(crate) mod table;
mod tasks;

pub(crate) use ask::Asked;
pub use receive::PartsProgram;
pub use tasks::{CopiesConfig, run};
