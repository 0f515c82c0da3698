//! The fencing epoch: a number that only rises, signed into every data-server handle and compared
//! with the floors of a data server.
//!
//! The high half is the MDS's `boot`, the low half a counter of the inode. So the first epoch of a
//! new boot is above every epoch that an older boot could have signed, for all files at once (R6).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// A fencing epoch: `boot` in the high 32 bits, the inode's counter in the low 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Epoch(u64);

impl Epoch {
    /// Below every epoch that is ever signed.
    pub const ZERO: Self = Self(0);

    /// The epoch of `counter` in `boot`.
    #[must_use]
    pub const fn new(boot: u32, counter: u32) -> Self {
        // Widening casts: `From` is not const.
        #[allow(clippy::cast_lossless, reason = "u64::from is not const")]
        Self(((boot as u64) << 32) | counter as u64)
    }

    /// The lowest epoch of `boot`: the cluster-wide floor that a restarted MDS raises.
    #[must_use]
    pub const fn boot_floor(boot: u32) -> Self {
        Self::new(boot, 0)
    }

    /// An epoch from its stored form.
    #[must_use]
    pub const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    /// The stored form.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The boot half.
    #[must_use]
    pub const fn boot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The counter half.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }

    /// The next epoch of the same boot, or `None` when the counter is used up. Then only the next boot can fence:
    /// running on into the boot half would collide with its floor.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.counter().checked_add(1) {
            Some(counter) => Some(Self::new(self.boot(), counter)),
            None => None,
        }
    }
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.boot(), self.counter())
    }
}

impl Decode<'_> for Epoch {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u64().map(Self)
    }
}

impl Encode for Epoch {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.0);
    }
}
