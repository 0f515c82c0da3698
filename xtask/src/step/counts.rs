//! Counts of tests and names of failures, and how they are read from what a program prints.

use std::time::Duration;

/// Lines of one step about its failures that are kept for the end.
const FAILURES_MAX: usize = 20;

/// Tests by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    pub(super) const PASSED: Self = Self {
        passed: 1,
        failed: 0,
        skipped: 0,
    };
    pub(super) const FAILED: Self = Self {
        passed: 0,
        failed: 1,
        skipped: 0,
    };
    pub(super) const SKIPPED: Self = Self {
        passed: 0,
        failed: 0,
        skipped: 1,
    };

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// What became of a step.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) name: String,
    pub(super) counts: Counts,
    /// What it says of its failures.
    pub(super) failures: Vec<String>,
    pub(super) time: Duration,
}

/// How the tests of a program are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The program is one test.
    Whole,
    /// The sum of libtest's result lines (`test result: ok. 5 passed; ...`).
    Libtest,
    /// The last line in the form of our own closing line.
    ClosingLine,
}

/// The counts of a program that ended: a failure that it did not count is still one.
pub(super) fn judge(counts: Option<Counts>, success: bool) -> Counts {
    let mut counts = counts.unwrap_or(if success {
        Counts::PASSED
    } else {
        Counts::FAILED
    });
    if !success && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

/// What is heard from a program: its counts, and what it says of its failures.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) counts: Option<Counts>,
    pub(super) failures: Vec<String>,
}

impl Heard {
    /// Takes a line of a program.
    pub(super) fn line(&mut self, counting: Counting, line: &str) {
        match counting {
            Counting::Whole => {}
            Counting::Libtest => {
                if let Some(counts) = libtest(line) {
                    self.counts.get_or_insert_default().add(counts);
                }
            }
            Counting::ClosingLine => self.counts = closing_line(line).or(self.counts),
        }
        if names_a_failure(line) && self.failures.len() < FAILURES_MAX {
            self.failures.push(line.trim_end().to_owned());
        }
    }
}

/// Whether a line is one of libtest, of ours or of cargo that says what failed.
fn names_a_failure(line: &str) -> bool {
    let of_libtest = line.starts_with("test ") && line.trim_end().ends_with("... FAILED");
    let of_a_panic = line.starts_with("thread '") && line.contains("panicked at");
    let others = ["FAIL ", "error", "Diff in "];
    of_libtest || of_a_panic || others.iter().any(|start| line.starts_with(start))
}

fn libtest(line: &str) -> Option<Counts> {
    let (_, fields) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut fields = fields.split("; ");
    let mut next = |what| number(fields.next()?, what);
    Some(Counts {
        passed: next("passed")?,
        failed: next("failed")?,
        skipped: next("ignored")?,
    })
}

fn closing_line(line: &str) -> Option<Counts> {
    let fields: Vec<&str> = line.trim_end().split(", ").collect();
    let [passed, failed, skipped] = fields[..] else {
        return None;
    };
    Some(Counts {
        passed: number(passed, "passed")?,
        failed: number(failed, "failed")?,
        skipped: number(skipped, "skipped")?,
    })
}

/// The number of `5 passed`.
fn number(field: &str, what: &str) -> Option<u64> {
    field.strip_suffix(what)?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    //! Lines of real runs.
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
        }
    }

    #[test]
    fn results_of_libtest_and_of_ours_are_read() {
        let line =
            "test result: FAILED. 5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(libtest(line), Some(counts(5, 1, 2)));
        assert_eq!(
            closing_line(&format!("{}\n", counts(1, 2, 3))),
            Some(counts(1, 2, 3))
        );
        for other in [
            "",
            "running 5 tests",
            "test a ... ok",
            "5 passed",
            "a, b, c",
        ] {
            assert_eq!(
                (libtest(other), closing_line(other)),
                (None, None),
                "{other}"
            );
        }
    }
    #[test]
    fn lines_that_name_a_failure_are_kept_up_to_a_limit() {
        let mut heard = Heard::default();
        let failures = [
            "test a::b ... FAILED",
            "thread 'a::b' panicked at crates/a/src/b.rs:1:2:",
            "FAIL power (NFSv4.1, 3.0 s): no answer",
            "error: could not compile `a`",
        ];
        for line in failures {
            heard.line(Counting::Libtest, "test c ... ok\n");
            heard.line(Counting::Libtest, &format!("{line}\n"));
        }
        assert_eq!(heard.failures, failures);
        for _ in 0..FAILURES_MAX {
            heard.line(Counting::Whole, failures[3]);
        }
        assert_eq!(heard.failures.len(), FAILURES_MAX);
    }
}
