//! One run of the suite: its program, and what its closing table says.
//!
//! The suite's own JSON file does not tell a test that passed from one that was not asked for. The table is read
//! instead: a line `CODE MODULE.FUNCTION : OUTCOME` for each test that was asked for, with a message below when it did
//! not pass.

use crate::repo::{self, Result};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the suite generates from its XDR files, and cannot run without.
const GENERATED: &str = "xdrdef/nfs4_pack.py";
/// Folder of the tests for NFSv4.0.
const FOLDER_0: &str = "nfs4.0";
/// Folder of the tests for NFSv4.1 and later.
const FOLDER: &str = "nfs4.1";
/// What stands around the closing table.
const RULE: &str = "**********";

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// Allowed, but the suite knows of something better.
    Warned,
    /// A test that it depends on did not pass.
    Skipped,
}

/// One test that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) code: String,
    pub(super) outcome: Outcome,
    pub(super) message: String,
}

/// What a run found.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) tests: Vec<Test>,
}

impl Report {
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.that(outcome).count()
    }

    /// Those that ended so.
    pub(super) fn that(&self, outcome: Outcome) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(move |t| t.outcome == outcome)
    }
}

/// One run.
pub(super) struct Run<'a> {
    pub(super) checkout: &'a Path,
    pub(super) python: &'a Path,
    /// Everything that it prints.
    pub(super) log: &'a Path,
    /// The cluster's directory, for the helper.
    pub(super) cluster: &'a Path,
    /// `HOST:PORT/EXPORT`; the export is made.
    pub(super) target: String,
    pub(super) minor: u32,
    pub(super) flags: &'a [&'a str],
}

/// Has the suite generate its codecs, unless it has them.
pub(super) fn prepare(checkout: &Path, python: &Path) -> Result<()> {
    if !checkout.join(FOLDER).join("testserver.py").is_file() {
        return Err(format!("{} is no checkout of pynfs", checkout.display()));
    }
    let is_generated = || {
        let is_there = |folder| checkout.join(folder).join(GENERATED).is_file();
        is_there(FOLDER_0) && is_there(FOLDER)
    };
    if is_generated() {
        return Ok(());
    }
    let mut command = Command::new(python);
    command.args(["setup.py", "build"]).current_dir(checkout);
    // Its set-up script calls `python3` by that name.
    if let Some(folder) = python.parent().filter(|folder| folder.is_dir()) {
        let folder = std::path::absolute(folder).map_err(|e| e.to_string())?;
        let mut path = folder.into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command.env("PATH", path);
    }
    repo::output(&mut command)?;
    if is_generated() {
        Ok(())
    } else {
        Err("the suite's setup.py made no codecs: are ply and xdrlib3 installed?".to_owned())
    }
}

/// Runs it to its end.
pub(super) fn run(run: &Run<'_>) -> Result<Report> {
    let unable = |e| format!("cannot write {}: {e}", run.log.display());
    let log = File::create(run.log).map_err(unable)?;
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let helper = format!(
        "'{}' pynfs-helper '{}'",
        own.display(),
        run.cluster.display()
    );
    let python = if run.python.is_file() {
        std::path::absolute(run.python).map_err(|e| e.to_string())?
    } else {
        run.python.to_owned()
    };
    Command::new(python)
        .args(["-u", "testserver.py", &run.target, "--maketree"])
        .arg(format!("--minorversion={}", run.minor))
        .args(["--showomit", "--serverhelper", &helper])
        .args(run.flags)
        .current_dir(
            run.checkout
                .join(if run.minor == 0 { FOLDER_0 } else { FOLDER }),
        )
        .stdin(Stdio::null())
        .stderr(log.try_clone().map_err(unable)?)
        .stdout(log)
        .status()
        .map_err(|e| format!("cannot run {}: {e}", run.python.display()))?;
    let text = std::fs::read(run.log).map_err(unable)?;
    let report = parse(&String::from_utf8_lossy(&text));
    if report.tests.is_empty() {
        return Err(format!("no test was run: see {}", run.log.display()));
    }
    Ok(report)
}

/// Reads the closing table.
fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let table = text.lines().skip_while(|line| !line.starts_with(RULE));
    for line in table.skip(1).take_while(|line| !line.starts_with(RULE)) {
        if let Some(test) = test(line) {
            report.tests.push(test);
        } else if let Some(last) = report.tests.last_mut() {
            if !last.message.is_empty() {
                last.message.push(' ');
            }
            last.message.push_str(line.trim());
        }
    }
    report
}

fn test(line: &str) -> Option<Test> {
    let (name, outcome) = line.rsplit_once(" : ")?;
    let mut words = name.split_whitespace();
    let (code, function, None) = (words.next()?, words.next()?, words.next()) else {
        return None;
    };
    if line.starts_with(' ') || !function.starts_with("st_") {
        return None;
    }
    let outcome = match outcome.trim() {
        "PASS" => Outcome::Passed,
        "WARNING" | "UNSUPPORTED" => Outcome::Warned,
        "OMIT" | "NOT RUN" | "WAITING TO RUN" => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    Some(Test {
        code: code.to_owned(),
        outcome,
        message: String::new(),
    })
}

#[cfg(test)]
mod tests {
    //! A closing table with each outcome, in the suite's form.
    use super::*;

    #[test]
    fn the_closing_table_is_read() {
        let text = "noise A st_a.b : PASS\n\
            **************************************************\n\
            AB1      st_one.testOne                                   : PASS\n\
            AB2      st_one.testTwo                                   : FAILURE\n           \
            OP_X should return A : B, instead\n           got C\n\
            AB3      st_two.testThree                                 : WARNING\n           hm\n\
            AB4      st_two.testFour                                  : OMIT\n           Dependency AB2 st_one.testTwo failed\n\
            **************************************************\n\
            Command line asked for 4 of 9 tests\n";
        let report = parse(text);
        let found: Vec<_> = report
            .tests
            .iter()
            .map(|t| (t.code.as_str(), t.outcome))
            .collect();
        assert_eq!(
            found,
            [
                ("AB1", Outcome::Passed),
                ("AB2", Outcome::Failed),
                ("AB3", Outcome::Warned),
                ("AB4", Outcome::Skipped)
            ]
        );
        let failed: Vec<_> = report.that(Outcome::Failed).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].message, "OP_X should return A : B, instead got C");
        assert_eq!(report.count(Outcome::Passed), 1);
    }

    #[test]
    fn a_run_that_broke_off_has_no_tests() {
        assert!(parse("Traceback\nsome error : here\n").tests.is_empty());
    }
}
