//! Lengths of time as people write them: `90s`, `30m`, `1h`, `7d`. And the time now.

use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Units, the largest first, and their seconds.
const UNITS: [(char, u64); 4] = [('d', 24 * 3600), ('h', 3600), ('m', 60), ('s', 1)];

/// A length of time in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Length(pub Duration);

impl Length {
    /// In milliseconds.
    pub(crate) fn as_ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Reads a whole number with one of the units.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let (_, unit_s) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let digits = &text[..text.len() - 1];
    let count: u64 = digits.parse().ok()?;
    Some(Duration::from_secs(count.checked_mul(*unit_s)?))
}

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse =
            || format!("`{text}` is no length of time: write a number and s, m, h or d, as in 24h");
        parse(&text).map(Self).ok_or_else(refuse)
    }
}

impl From<Length> for String {
    fn from(length: Length) -> Self {
        let seconds = length.0.as_secs();
        let whole = |(_, unit): &&(char, u64)| seconds.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().find(whole).unwrap_or(&('s', 1));
        format!("{}{name}", seconds / unit)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is written is read as it was meant, and written again the same.
    use super::*;

    #[test]
    fn a_length_has_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800)] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "1", "h", "-1h", "1.5h", "18446744073709551615d", "1µ"] {
            assert_eq!(parse(wrong), None, "{wrong}");
            assert!(Length::try_from(wrong.to_owned()).is_err());
        }
        for (text, again) in [
            ("90s", "90s"),
            ("120m", "2h"),
            ("24h", "1d"),
            ("61m", "61m"),
        ] {
            let length = Length::try_from(text.to_owned()).unwrap();
            assert_eq!(String::from(length), again);
        }
    }
}
