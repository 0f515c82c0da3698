//! Waivers of lengths: who may be longer than the limit, how long exactly, and why.
//!
//! A line of the file reads `PLACE | LINES | REASON`. The count is exact: when the code shrinks the
//! waiver shrinks with it, and when the code is below the limit the waiver goes. So the list is a ratchet.

use crate::repo::Result;

/// A length that is above its limit, unless waived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooLong {
    /// `PATH` or `PATH::FUNCTION`.
    pub(super) place: String,
    pub(super) lines: usize,
    pub(super) limit: usize,
}

/// Where the waivers stand.
pub(super) const PATH: &str = "xtask/tidy-waivers.txt";

/// The waivers of the repository.
#[derive(Debug, Default)]
pub(super) struct Waivers(Vec<Waiver>);

#[derive(Debug)]
struct Waiver {
    place: String,
    lines: usize,
}

impl Waivers {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut waivers = Vec::new();
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = || format!("{PATH}: not `PLACE | LINES | REASON`: {line}");
            let cells: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
            let [place, lines, reason] = cells[..] else {
                return Err(bad());
            };
            if place.is_empty() || reason.is_empty() {
                return Err(bad());
            }
            waivers.push(Waiver {
                place: place.to_owned(),
                lines: lines.parse().map_err(|_| bad())?,
            });
        }
        Ok(Self(waivers))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// What is too long and not waived, and which waivers no longer fit.
    pub(super) fn judge(&self, lengths: &[TooLong]) -> Vec<String> {
        let mut problems = Vec::new();
        for long in lengths {
            let TooLong {
                place,
                lines,
                limit,
            } = long;
            match self.0.iter().find(|waiver| waiver.place == *place) {
                Some(waiver) if waiver.lines == *lines => {}
                Some(waiver) if waiver.lines > *lines => problems.push(format!(
                    "{place}: {lines} lines; lower its waiver from {}",
                    waiver.lines
                )),
                Some(waiver) => problems.push(format!(
                    "{place}: {lines} lines, {} are waived",
                    waiver.lines
                )),
                None => problems.push(format!("{place}: {lines} lines, the limit is {limit}")),
            }
        }
        for waiver in &self.0 {
            if !lengths.iter().any(|long| long.place == waiver.place) {
                problems.push(format!("{PATH}: {} needs no waiver", waiver.place));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    //! The ratchet: equal passes, longer and shorter do not.
    use super::*;

    fn long(lines: usize) -> Vec<TooLong> {
        vec![TooLong {
            place: "a.rs::f".to_owned(),
            lines,
            limit: 70,
        }]
    }

    #[test]
    fn a_waiver_fits_exactly() {
        let waivers = Waivers::parse("# why\n\na.rs::f | 80 | one linear story\n").unwrap();
        assert_eq!(waivers.count(), 1);
        assert_eq!(waivers.judge(&long(80)), Vec::<String>::new());
        assert_eq!(
            waivers.judge(&long(81)),
            ["a.rs::f: 81 lines, 80 are waived"]
        );
        assert_eq!(
            waivers.judge(&long(79)),
            ["a.rs::f: 79 lines; lower its waiver from 80"]
        );
        assert_eq!(
            waivers.judge(&[]),
            ["xtask/tidy-waivers.txt: a.rs::f needs no waiver"]
        );
    }

    #[test]
    fn without_a_waiver_the_limit_holds() {
        let none = Waivers::default();
        assert_eq!(
            none.judge(&long(71)),
            ["a.rs::f: 71 lines, the limit is 70"]
        );
    }

    #[test]
    fn a_waiver_without_reason_is_refused() {
        for bad in ["a.rs::f | 80", "a.rs::f | 80 | ", "a.rs::f | many | why"] {
            assert!(Waivers::parse(bad).is_err(), "{bad}");
        }
    }
}
