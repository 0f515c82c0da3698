//! Steps of a test run: each is run, timed and counted, and the sum is the closing line.
//!
//! A step is another program or a check of ours. What it prints is passed on as it comes, and read as
//! [`Counting`] says. A step that prints no counts is one test. [`beside`] runs several at a time.

mod beside;
mod counts;

pub(crate) use beside::Program;
pub(crate) use counts::Counting;

use crate::repo::Result;
use counts::{Counts, Done, Heard, judge};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The steps so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Done>,
}

impl Steps {
    /// Runs a program as a step. Its standard output is read, passed on and counted.
    pub(crate) fn program(&mut self, name: &str, counting: Counting, command: &mut Command) {
        announce(name);
        let start = Instant::now();
        let (counts, failures) = match stream(command, counting) {
            Ok((heard, success)) => (judge(heard.counts, success), heard.failures),
            Err(message) => {
                eprintln!("{name}: {message}");
                (Counts::FAILED, vec![message])
            }
        };
        self.push(name, counts, failures, start.elapsed());
    }

    /// Runs a check of ours as a step.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        announce(name);
        let start = Instant::now();
        let (counts, failures) = match check() {
            Ok(()) => (Counts::PASSED, Vec::new()),
            Err(message) => {
                eprintln!("{name}: {message}");
                (Counts::FAILED, vec![message])
            }
        };
        self.push(name, counts, failures, start.elapsed());
    }

    /// Runs programs as steps, at most `at_once` of them at a time, started in the order of the list. What they print, on
    /// either output, is passed on line by line.
    pub(crate) fn beside(&mut self, at_once: usize, programs: Vec<Program>) {
        let names: Vec<&str> = programs.iter().map(|program| &program.name[..]).collect();
        announce(&names.join(", "));
        self.done.extend(beside::run(at_once, programs));
    }

    /// Notes a step that cannot run here: a skip for a developer, a failure in CI.
    pub(crate) fn missing(&mut self, name: &str, reason: &str) {
        announce(name);
        println!("{name}: cannot run here: {reason}");
        let counts = if in_ci() {
            Counts::FAILED
        } else {
            Counts::SKIPPED
        };
        self.push(name, counts, vec![reason.to_owned()], Duration::ZERO);
    }

    fn push(&mut self, name: &str, counts: Counts, failures: Vec<String>, time: Duration) {
        self.done.push(Done {
            name: name.to_owned(),
            counts,
            failures,
            time,
        });
    }

    /// Prints what failed, the table of steps and the closing line.
    pub(crate) fn finish(self) -> Result<()> {
        let mut sum = Counts::default();
        let failed = self.done.iter().filter(|done| done.counts.failed > 0);
        for Done { name, failures, .. } in failed {
            println!("\nfailed: {name}");
            for line in failures {
                println!("    {line}");
            }
        }
        println!("\n{:<24} {:>9}  result", "step", "seconds");
        for done in &self.done {
            let seconds = done.time.as_secs_f64();
            println!("{:<24} {seconds:>9.1}  {}", done.name, done.counts);
            sum.add(done.counts);
        }
        println!("\n{sum}");
        match sum.failed {
            0 => Ok(()),
            n => Err(format!("{n} failed")),
        }
    }
}

/// Whether this is a run where nothing may be left out.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn announce(name: &str) {
    println!("\n== {name}");
}

fn stream(command: &mut Command, counting: Counting) -> Result<(Heard, bool)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run {name}: {e}"))?;
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let mut heard = Heard::default();
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.map_err(|e| format!("cannot read what {name} prints: {e}"))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        heard.line(counting, &text);
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for {name}: {e}"))?;
    Ok((heard, status.success()))
}

#[cfg(test)]
mod tests {
    //! Lines of real runs, and programs that lie about their success.
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
        }
    }

    #[test]
    fn programs_are_counted_and_their_failures_too() {
        let shell = |counting, script: &str| {
            let mut steps = Steps::default();
            steps.program("a", counting, Command::new("sh").args(["-c", script]));
            steps.done[0].counts
        };
        for counting in [Counting::Whole, Counting::Libtest, Counting::ClosingLine] {
            assert_eq!(shell(counting, "true"), Counts::PASSED);
            assert_eq!(shell(counting, "exit 3"), Counts::FAILED);
        }
        let results = "for i in 1 2; do echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'; done";
        assert_eq!(shell(Counting::Libtest, results), counts(4, 0, 2));
        assert_eq!(shell(Counting::Whole, results), Counts::PASSED);
        let failed = format!("{results}; exit 1");
        assert_eq!(shell(Counting::Libtest, &failed), counts(4, 1, 2));
        let closing = "echo '9 passed, 9 failed, 9 skipped'; echo '2 passed, 0 failed, 0 skipped'";
        assert_eq!(shell(Counting::ClosingLine, closing), counts(2, 0, 0));
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let mut steps = Steps::default();
        steps.program(
            "a",
            Counting::Whole,
            &mut Command::new("no-such-program-of-ours"),
        );
        assert_eq!(steps.done[0].counts, Counts::FAILED);
        assert!(steps.finish().is_err());
    }

    #[test]
    fn the_sum_decides() {
        let mut steps = Steps::default();
        steps.check("good", || Ok(()));
        assert!(steps.finish().is_ok());
        let mut steps = Steps::default();
        steps.check("good", || Ok(()));
        steps.check("bad", || Err("no".to_owned()));
        assert!(steps.finish().is_err());
    }
}
