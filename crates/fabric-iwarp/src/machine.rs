//! One iWARP stream as a state machine over bytes: no sockets, no clock.
//!
//! Work, receives and memory go in by [`Machine::post`] and its like. Bytes go out by [`Machine::outgoing`] and
//! [`Machine::wrote`], and come in by [`Machine::room`] and [`Machine::read`]. What is complete collects until
//! [`Machine::take_completions`].
//!
//! # Copies
//! Outgoing payload is never copied here. Frames are pieces: our header and trailer, and the caller's bytes or a range of a file,
//! which the system sends from where it lies. Incoming payload of a large segment is read straight into its place, which
//! [`Machine::room`] offers, and that of the segments after it too. While such payload is due, only headers are read in front of
//! it. Otherwise what arrives after a header in the same read is copied once out of the inbox.
//!
//! # Ordering
//! Messages are sent whole, one after the other. A Read Response goes ahead of queued work, but the two take
//! turns, so that neither waits for more than one message of the other. (Peers need not take segments of two
//! tagged, or of two untagged, messages interleaved.) Work completes in the order posted.
//!
//! # Failure
//! The first fault ends the stream. What was owned is handed back as flushed. A Terminate message is left in the
//! outgoing bytes after the frame that is under way.

mod ahead;
mod aside;
mod gather;
mod inbox;
mod outbox;
mod parts;
mod put_aside;
mod read_ahead;
mod rx;
mod spare;
mod state;
mod tx;

pub use outbox::Outgoing;
pub use read_ahead::Room;
pub use state::{Machine, SEND_BYTES_MAX, Start, TRANSFER_BYTES_MAX};
