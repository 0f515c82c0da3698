//! The codes of a Terminate message, every one that we send or know.
//!
//! Those of RDMAP are from RFC 5040 §4.8, and those of DDP from RFC 5041 §7.2. Those of MPA are from RFC 5044 §8 and
//! RFC 6581 §8.

use fabric::Fault;

/// Layer, type and code of an error (RFC 5040 Figure 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Term {
    /// 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// Error type within the layer, 4 bits.
    pub kind: u8,
    /// Error code within the type.
    pub code: u8,
}

macro_rules! terms {
    ($($(#[$doc:meta])* $name:ident = $layer:literal / $kind:literal / $code:literal => $fault:ident;)+) => {
        impl Term {
            $($(#[$doc])* pub const $name: Self = Self { layer: $layer, kind: $kind, code: $code };)+

            /// All codes that have a name here.
            pub const ALL: &[(&'static str, Self, Fault)] =
                &[$((stringify!($name), Self::$name, Fault::$fault),)+];
        }
    };
}

terms! {
    /// Something of our own broke (RDMAP).
    LOCAL_CATASTROPHIC = 0 / 0 / 0 => Protocol;
    /// A Read Request for memory that is not exposed.
    READ_INVALID_STAG = 0 / 1 / 0x00 => BadKey;
    /// A Read Request beyond the memory.
    READ_BOUNDS = 0 / 1 / 0x01 => OutOfBounds;
    /// A Read Request for memory that may only be written, or a Write into what may only be read.
    ACCESS_RIGHTS = 0 / 1 / 0x02 => WrongRights;
    /// A steering tag of another stream (only received: our tables are per stream).
    READ_FOREIGN_STAG = 0 / 1 / 0x03 => BadKey;
    /// A Read Request whose end wraps.
    READ_TO_WRAP = 0 / 1 / 0x04 => OutOfBounds;
    /// A Send that invalidates what is not exposed.
    CANNOT_INVALIDATE = 0 / 1 / 0x09 => CannotInvalidate;
    /// Another version of RDMAP.
    RDMAP_VERSION = 0 / 2 / 0x05 => Protocol;
    /// An opcode that does not fit here.
    UNEXPECTED_OPCODE = 0 / 2 / 0x06 => Protocol;
    /// The stream is broken.
    STREAM_CATASTROPHIC = 0 / 2 / 0x07 => Protocol;
    /// A message of a form that has no code of its own.
    UNSPECIFIED = 0 / 2 / 0xff => Protocol;
    /// A frame that holds no segment (DDP).
    DDP_CATASTROPHIC = 1 / 0 / 0x00 => Protocol;
    /// A tagged segment for memory that is not exposed.
    INVALID_STAG = 1 / 1 / 0x00 => BadKey;
    /// A tagged segment beyond the memory.
    BOUNDS = 1 / 1 / 0x01 => OutOfBounds;
    /// A steering tag of another stream (only received).
    FOREIGN_STAG = 1 / 1 / 0x02 => BadKey;
    /// A tagged segment whose end wraps.
    TO_WRAP = 1 / 1 / 0x03 => OutOfBounds;
    /// Another version of DDP in a tagged segment.
    TAGGED_VERSION = 1 / 1 / 0x04 => Protocol;
    /// A queue that does not exist.
    INVALID_QUEUE = 1 / 2 / 0x01 => Protocol;
    /// A message without a buffer, or a Read Request above the agreed depth.
    NO_BUFFER = 1 / 2 / 0x02 => NoReceive;
    /// A message out of sequence.
    MSN_RANGE = 1 / 2 / 0x03 => Protocol;
    /// A segment that does not continue its message.
    INVALID_MO = 1 / 2 / 0x04 => Protocol;
    /// A message longer than its buffer.
    TOO_LONG = 1 / 2 / 0x05 => ReceiveTooSmall;
    /// Another version of DDP in an untagged segment.
    UNTAGGED_VERSION = 1 / 2 / 0x06 => Protocol;
    /// A frame whose CRC is wrong (MPA).
    CRC = 2 / 0 / 0x02 => Damaged;
    /// Marker and length disagree (only received).
    MARKER = 2 / 0 / 0x03 => Protocol;
    /// Something of our own broke during set-up.
    MPA_CATASTROPHIC = 2 / 0 / 0x05 => Protocol;
    /// The responder wants more reads than this side serves.
    INSUFFICIENT_IRD = 2 / 0 / 0x06 => TooManyReads;
    /// The responder takes no RTR indication that this side can send.
    NO_MATCHING_RTR = 2 / 0 / 0x07 => Protocol;
}

impl Term {
    /// The fault, in the words of all fabrics.
    #[must_use]
    pub fn fault(self) -> Fault {
        // The code of a local catastrophic error says nothing (RFC 5040 Figure 9).
        Self::ALL
            .iter()
            .find(|(_, term, _)| *term == self)
            .map_or(Fault::Protocol, |(_, _, fault)| *fault)
    }
}
