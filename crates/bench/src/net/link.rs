//! What a link is: a rate and an MTU.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The MTU of Ethernet.
pub const MTU_DEFAULT: u32 = 1500;
/// Smallest and largest rate.
const BITS_PER_S_MIN: u64 = 1_000_000;
const BITS_PER_S_MAX: u64 = 100_000_000_000;
/// A bucket holds what the rate gives in one tick of a slow kernel (1/250 s). It never holds less than some packets of the
/// largest size.
const TICKS_PER_S: u64 = 250;
const BURST_BYTES_MIN: u64 = 256 << 10;
/// Bytes wait before a link for this part of a second, as in a switch with small buffers, and never less than two bursts.
const QUEUES_PER_S: u64 = 100;

/// How many bits pass in a second, headers of all layers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rate {
    /// Bits for each second.
    pub bits_per_s: u64,
}

impl Rate {
    /// Bytes for each second.
    #[must_use]
    pub const fn bytes_per_s(self) -> u64 {
        self.bits_per_s / 8
    }

    pub(super) fn burst_bytes(self) -> u64 {
        (self.bytes_per_s() / TICKS_PER_S).max(BURST_BYTES_MIN)
    }

    pub(super) fn queue_bytes(self) -> u64 {
        (self.bytes_per_s() / QUEUES_PER_S).max(2 * self.burst_bytes())
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bits_per_s {
            b if b.is_multiple_of(1_000_000_000) => write!(f, "{} Gbit/s", b / 1_000_000_000),
            b if b.is_multiple_of(1_000_000) => write!(f, "{} Mbit/s", b / 1_000_000),
            b => write!(f, "{b} bit/s"),
        }
    }
}

/// A rate that means nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateError;

impl std::fmt::Display for RateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "write a rate from 1mbit to 100gbit, as in 500mbit")
    }
}

impl std::error::Error for RateError {}

impl FromStr for Rate {
    type Err = RateError;

    /// As tc(8) has rates: a whole number and `kbit`, `mbit` or `gbit`.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let units = [
            ("kbit", 1_000),
            ("mbit", 1_000_000),
            ("gbit", 1_000_000_000),
        ];
        let lower = text.to_ascii_lowercase();
        let found = units
            .iter()
            .find_map(|(unit, of)| Some((lower.strip_suffix(unit)?, *of)));
        let (number, unit) = found.ok_or(RateError)?;
        let bits = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
        let bits = bits.filter(|bits| (BITS_PER_S_MIN..=BITS_PER_S_MAX).contains(bits));
        bits.map(|bits_per_s| Self { bits_per_s }).ok_or(RateError)
    }
}

/// A link of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// In each direction.
    pub rate: Rate,
    /// Largest packet without the header of the link.
    pub mtu_bytes: u32,
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "links of {}, MTU {}", self.rate, self.mtu_bytes)
    }
}

#[cfg(test)]
mod tests {
    //! Rates are read as tc(8) reads them, and buckets are never smaller than a packet.
    use super::*;

    #[test]
    fn rates_have_a_unit_and_a_range() {
        let bits = |text: &str| text.parse::<Rate>().map(|rate| rate.bits_per_s);
        assert_eq!(bits("500mbit"), Ok(500_000_000));
        assert_eq!(bits("10Gbit"), Ok(10_000_000_000));
        assert_eq!(bits("1000kbit"), Ok(1_000_000));
        for wrong in [
            "", "500", "mbit", "-1mbit", "0mbit", "999kbit", "101gbit", "1.5gbit", "500mbps",
        ] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn buckets_and_queues_grow_with_the_rate() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(rate("500mbit").burst_bytes(), 256 << 10);
        assert_eq!(rate("500mbit").queue_bytes(), 625_000);
        assert_eq!(rate("1mbit").queue_bytes(), 512 << 10);
        assert_eq!(rate("10gbit").burst_bytes(), 5_000_000);
        let link = Link {
            rate: rate("500mbit"),
            mtu_bytes: 1500,
        };
        assert_eq!(link.to_string(), "links of 500 Mbit/s, MTU 1500");
        assert_eq!(rate("1500kbit").to_string(), "1500000 bit/s");
    }
}
