//! The table of tests that may fail, each with the section of an RFC that says why it may.
//!
//! One row a line: `CODE | MINORS | SECTION | REASON`, where MINORS is `1`, `2` or `1,2`. A row whose test passes is an error, so
//! that the table can only shrink; one whose test was not asked for says nothing.

use super::suite::{Outcome, Report};
use crate::repo::Result;

/// Where the table lies.
pub(super) const PATH: &str = "xtask/pynfs-expected.txt";

#[derive(Debug, PartialEq, Eq)]
struct Row {
    code: String,
    minors: Vec<u32>,
    section: String,
    reason: String,
}

/// The table.
#[derive(Debug)]
pub(super) struct Expected {
    rows: Vec<Row>,
}

/// Where a run and the table differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) failed_unexpectedly: Vec<String>,
    pub(super) passed_unexpectedly: Vec<String>,
}

impl Differences {
    pub(super) fn count(&self) -> usize {
        self.failed_unexpectedly.len() + self.passed_unexpectedly.len()
    }
}

impl Expected {
    /// Reads the table; lines that begin with `#` are comments.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate();
        let rows = lines
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
            .map(|(index, line)| {
                row(line).ok_or_else(|| {
                    format!(
                        "{PATH}:{}: not `CODE | MINORS | SECTION | REASON`",
                        index + 1
                    )
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self { rows })
    }

    fn row(&self, minor: u32, code: &str) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.code == code && row.minors.contains(&minor))
    }

    /// Why `code` may fail.
    pub(super) fn reason(&self, minor: u32, code: &str) -> Option<String> {
        let row = self.row(minor, code)?;
        Some(format!("{} ({})", row.reason, row.section))
    }

    /// Compares a run with the table.
    pub(super) fn compare(&self, minor: u32, report: &Report) -> Differences {
        let codes = |outcome: Outcome, expected: bool| {
            let tests = report.tests.iter().filter(|t| t.outcome == outcome);
            let tests = tests.filter(|t| self.row(minor, &t.code).is_some() == expected);
            tests.map(|t| t.code.clone()).collect()
        };
        Differences {
            failed_unexpectedly: codes(Outcome::Failed, false),
            passed_unexpectedly: codes(Outcome::Passed, true),
        }
    }
}

fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [code, minors, section, reason] = fields[..] else {
        return None;
    };
    let minors = minors.split(',').map(|m| m.trim().parse().ok());
    let minors: Vec<u32> = minors.collect::<Option<_>>()?;
    let complete = !code.is_empty() && section.starts_with("RFC ") && !reason.is_empty();
    complete.then(|| Row {
        code: code.to_owned(),
        minors,
        section: section.to_owned(),
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    //! The committed table, and one of each kind of difference.
    use super::super::suite::Test;
    use super::*;

    fn report(tests: &[(&str, Outcome)]) -> Report {
        let test = |(code, outcome): &(&str, Outcome)| Test {
            code: (*code).to_owned(),
            outcome: *outcome,
            message: String::new(),
        };
        Report {
            tests: tests.iter().map(test).collect(),
        }
    }

    #[test]
    fn the_committed_table_can_be_read() {
        let text = crate::repo::read(PATH).unwrap();
        assert!(!Expected::parse(&text).unwrap().rows.is_empty());
    }

    #[test]
    fn rows_without_a_section_or_a_reason_are_refused() {
        for line in [
            "A | 1 | why",
            "A | 3x | RFC 1 | b",
            "A | 1 | section 5 | b",
            "A | 1 | RFC 1 |",
        ] {
            assert!(Expected::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn both_kinds_of_differences_are_found() {
        let table =
            Expected::parse("# table\n\nA | 1,2 | RFC 1 §2 | a\nB | 2 | RFC 1 §3 | b\n").unwrap();
        let report = report(&[
            ("A", Outcome::Passed),
            ("B", Outcome::Failed),
            ("C", Outcome::Failed),
            ("D", Outcome::Skipped),
        ]);
        let names = |codes: &[&str]| codes.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let one = table.compare(1, &report);
        assert_eq!(one.failed_unexpectedly, names(&["B", "C"]));
        assert_eq!(one.passed_unexpectedly, names(&["A"]));
        let two = table.compare(2, &report);
        assert_eq!(two.failed_unexpectedly, names(&["C"]));
        assert_eq!(two.count(), 2);
        assert_eq!(table.reason(2, "B").unwrap(), "b (RFC 1 §3)");
        assert_eq!(table.reason(1, "B"), None);
    }
}
