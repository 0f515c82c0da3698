//! Instructions of single operations, counted by callgrind and compared with a baseline that is kept in git.
//!
//! The program that does the operations is `crates/mds/benches/instructions.rs`: a CALL's bytes in, its reply's bytes
//! out, stores in memory, no sockets, no clock. It is built as packages are (profile `dist`). What is counted does not
//! depend on how fast or how busy the machine is. Two runs of one program count the same to the last instruction. It
//! does depend on the compiler, so the baseline says for which it holds. It depends a little on the C library
//! (`malloc`, `memcpy`), whose forms follow from a processor that valgrind makes up. That one is the same on every
//! x86-64 with AVX2.
//!
//! Entry points: [`run`], [`check`].

use crate::repo::{self, Result};
use crate::tools;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is counted, in the order of tables.
const OPERATIONS: [&str; 5] = ["getattr", "read", "write", "create", "mkdir"];
/// The baseline.
const BASELINE: &str = "crates/mds/benches/instructions.json";
/// The function below which instructions are counted.
const COUNTED: &str = "--toggle-collect=*one_counted_poll*";
/// How much an operation may grow with the compiler of the baseline, in percent.
const GROWTH_PERCENT_MAX: u64 = 5;
/// The same with another version of it. Another optimiser moves counts by some percent in both directions, which is
/// nothing that a change of ours did. An operation that does something twice is still found.
const GROWTH_PERCENT_OTHER_RUSTC_MAX: u64 = 25;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Make what is counted now the baseline
    #[arg(long)]
    bless: bool,
}

/// Instructions for one operation, by its name.
type Counts = BTreeMap<String, u64>;

/// What compiled the program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Toolchain {
    rustc: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Baseline {
    toolchain: Toolchain,
    counts: Counts,
}

/// How counts stand to a baseline.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// What makes the check fail.
    problems: Vec<String>,
    /// What is worth a word.
    remarks: Vec<String>,
}

/// An error when valgrind is not there, which has callgrind.
pub(crate) fn check() -> Result<()> {
    tools::need(&["valgrind"])
}

/// Counts, and compares or blesses.
pub(crate) fn run(args: &Args) -> Result<()> {
    check()?;
    let toolchain = Toolchain::here()?;
    let program = build()?;
    let mut counts = Counts::new();
    for operation in OPERATIONS {
        counts.insert(operation.to_owned(), count(&program, operation)?);
    }
    let now = Baseline { toolchain, counts };
    if args.bless {
        let path = repo::root().join(BASELINE);
        std::fs::write(path, now.text()).map_err(|e| format!("cannot write {BASELINE}: {e}"))?;
        print!("{}", table(None, &now.counts));
        println!("instructions: these are the baseline now");
        return Ok(());
    }
    let old = Baseline::parse(&repo::read(BASELINE)?)?;
    print!("{}", table(Some(&old.counts), &now.counts));
    let verdict = judge(&old, &now);
    for remark in &verdict.remarks {
        println!("instructions: {remark}");
    }
    if !verdict.problems.is_empty() {
        let stem = program.display();
        println!("where they go: callgrind_annotate --inclusive=yes {stem}.OPERATION.callgrind");
    }
    repo::verdict("instructions", &verdict.problems)
}

impl Toolchain {
    fn here() -> Result<Self> {
        let text = repo::output(Command::new("rustc").arg("-vV").current_dir(repo::root()))?;
        Self::parse(&text).ok_or_else(|| "rustc -vV: unexpected form".to_owned())
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name));
        Some(Self {
            rustc: field("release: ")?.to_owned(),
            host: field("host: ")?.to_owned(),
        })
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rustc {} for {}", self.rustc, self.host)
    }
}

impl Baseline {
    fn text(&self) -> String {
        let value = json!({
            "rustc": self.toolchain.rustc,
            "host": self.toolchain.host,
            "instructions": self.counts,
        });
        format!("{value:#}\n")
    }

    fn parse(text: &str) -> Result<Self> {
        let bad = |what: &str| format!("{BASELINE}: {what}");
        let value: Value = serde_json::from_str(text).map_err(|e| bad(&e.to_string()))?;
        let field = |name: &str| {
            let found = value[name].as_str();
            found.map(str::to_owned).ok_or_else(|| bad(name))
        };
        let list = value["instructions"].as_object();
        let counts = list.ok_or_else(|| bad("instructions"))?.iter();
        let counts = counts.map(|(name, n)| Some((name.clone(), n.as_u64().filter(|n| *n > 0)?)));
        Ok(Self {
            toolchain: Toolchain {
                rustc: field("rustc")?,
                host: field("host")?,
            },
            counts: counts
                .collect::<Option<_>>()
                .ok_or_else(|| bad("a count must be a number above 0"))?,
        })
    }
}

/// Builds the program and says where it is.
fn build() -> Result<PathBuf> {
    let output = repo::cargo()
        .args([
            "build",
            "--profile=dist",
            "--locked",
            "--message-format=json",
        ])
        .args(["--package=ropewalk-mds", "--bench=instructions"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        return Err("the program that is counted does not build".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = text.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == "instructions";
        let path = message["executable"].as_str().filter(|_| is_ours)?;
        Some(PathBuf::from(path))
    });
    executable.ok_or_else(|| "cargo does not say where the program is".to_owned())
}

/// Instructions for one operation.
fn count(program: &Path, operation: &str) -> Result<u64> {
    let profile = format!("{}.{operation}.callgrind", program.display());
    let mut command = Command::new("valgrind");
    // Nothing of the caller's surroundings may reach the program.
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path);
    command
        .args(["--tool=callgrind", COUNTED])
        .arg(format!("--callgrind-out-file={profile}"))
        .arg(program)
        .arg(operation);
    let printed = repo::output(&mut command)?;
    let times: u64 = printed
        .trim()
        .parse()
        .map_err(|_| format!("{operation}: the program printed {printed:?}"))?;
    let text =
        std::fs::read_to_string(&profile).map_err(|e| format!("cannot read {profile}: {e}"))?;
    let total = total(&text).ok_or_else(|| format!("{profile}: no total"))?;
    match total.checked_div(times) {
        None | Some(0) => Err(format!("{operation}: nothing was counted")),
        Some(each) => Ok(each),
    }
}

/// The sum of a profile of callgrind.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().rfind(|line| line.starts_with("totals: "))?;
    line.strip_prefix("totals: ")?.trim().parse().ok()
}

fn judge(old: &Baseline, now: &Baseline) -> Verdict {
    let mut verdict = Verdict::default();
    let (then, here) = (&old.toolchain, &now.toolchain);
    if then.host != here.host {
        verdict.remarks.push(format!(
            "the baseline is of {then}, this is {here}: nothing is compared"
        ));
        return verdict;
    }
    let percent_max = if then == here {
        GROWTH_PERCENT_MAX
    } else {
        verdict.remarks.push(format!(
            "the baseline is of {then}, this is {here}: only growth above {GROWTH_PERCENT_OTHER_RUSTC_MAX} % counts"
        ));
        GROWTH_PERCENT_OTHER_RUSTC_MAX
    };
    let bless = "if that is meant, say why in the commit and `cargo xtask instructions --bless`";
    for (name, new) in &now.counts {
        let Some(was) = old.counts.get(name) else {
            let problem = format!("{name} has no baseline; {bless}");
            verdict.problems.push(problem);
            continue;
        };
        let (old_scaled, new_scaled) = (u128::from(*was) * 100, u128::from(*new) * 100);
        let margin = u128::from(*was) * u128::from(percent_max);
        if new_scaled > old_scaled + margin {
            let problem = format!(
                "{name} takes {new} instructions, and took {was}: more than {percent_max} % above; {bless}"
            );
            verdict.problems.push(problem);
        } else if new_scaled + margin < old_scaled {
            let remark = format!(
                "{name} takes {new} instructions, and took {was}; `--bless` keeps that gain"
            );
            verdict.remarks.push(remark);
        }
    }
    for name in old.counts.keys() {
        if !now.counts.contains_key(name) {
            let problem = format!("{name} is in the baseline and was not counted; {bless}");
            verdict.problems.push(problem);
        }
    }
    verdict
}

#[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
fn table(old: Option<&Counts>, new: &Counts) -> String {
    let mut out = format!(
        "{:<10} {:>12} {:>12} {:>8}\n",
        "operation", "baseline", "now", "ratio"
    );
    let named = OPERATIONS
        .iter()
        .filter_map(|name| new.get_key_value(*name));
    for (name, count) in named {
        let was = old.and_then(|old| old.get(name));
        let ratio = was.map(|was| format!("{:.4}", *count as f64 / *was as f64));
        let was = was.map_or_else(|| "-".to_owned(), u64::to_string);
        let ratio = ratio.unwrap_or_else(|| "-".to_owned());
        out += &format!("{name:<10} {was:>12} {count:>12} {ratio:>8}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    //! What grows fails, by the limit of its compiler; what is not known on both sides fails too.
    use super::*;

    fn baseline(rustc: &str, host: &str, counts: &[(&str, u64)]) -> Baseline {
        Baseline {
            toolchain: Toolchain {
                rustc: rustc.to_owned(),
                host: host.to_owned(),
            },
            counts: counts.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect(),
        }
    }

    fn here(counts: &[(&str, u64)]) -> Baseline {
        baseline("1.95.0", "x86_64-unknown-linux-gnu", counts)
    }

    #[test]
    fn growth_above_five_percent_fails() {
        let old = here(&[("create", 20_000), ("read", 1_000)]);
        let judged = |create| judge(&old, &here(&[("create", create), ("read", 1_000)]));
        for fine in [20_000, 21_000, 19_000] {
            assert_eq!(judged(fine), Verdict::default(), "{fine}");
        }
        let grown = judged(21_001);
        assert_eq!(grown.problems.len(), 1);
        assert!(grown.problems[0].starts_with("create takes 21001 instructions, and took 20000"));
        let gained = judged(18_999);
        assert!(gained.problems.is_empty());
        assert!(gained.remarks[0].contains("--bless"), "{gained:?}");
    }

    #[test]
    fn another_compiler_has_a_wider_limit_and_another_machine_none() {
        let counts = [("read", 1_000)];
        let host = "x86_64-unknown-linux-gnu";
        let old = baseline("1.94.0", host, &counts);
        let fine = judge(&old, &here(&[("read", 1_250)]));
        assert!(fine.problems.is_empty() && fine.remarks[0].contains("1.94.0"));
        assert_eq!(judge(&old, &here(&[("read", 1_251)])).problems.len(), 1);
        let old = baseline("1.95.0", "aarch64-unknown-linux-gnu", &counts);
        let other = judge(&old, &here(&[("read", 9_000)]));
        assert!(other.problems.is_empty());
        assert!(other.remarks[0].contains("nothing is compared"));
    }

    #[test]
    fn what_is_known_on_one_side_only_fails() {
        let (one, two) = (here(&[("read", 10)]), here(&[("read", 10), ("write", 10)]));
        assert!(judge(&one, &two).problems[0].starts_with("write has no baseline"));
        assert!(judge(&two, &one).problems[0].starts_with("write is in the baseline"));
    }

    #[test]
    fn the_baseline_is_read_as_it_was_written() {
        let all = here(&[("create", 5), ("read", 7)]);
        assert_eq!(Baseline::parse(&all.text()).unwrap(), all);
        for wrong in [
            "",
            "{}",
            r#"{"rustc":"1","host":"h","instructions":{"read":0}}"#,
            r#"{"rustc":"1","host":"h","instructions":{"read":"5"}}"#,
        ] {
            assert!(Baseline::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_baseline_of_the_repository_has_every_operation() {
        let kept = Baseline::parse(&repo::read(BASELINE).unwrap()).unwrap();
        let mut names: Vec<_> = kept.counts.keys().map(String::as_str).collect();
        let mut expected = OPERATIONS;
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }

    #[test]
    fn compilers_and_profiles_are_read() {
        let text =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: a-b\nrelease: 1.95.0\n";
        let toolchain = Toolchain::parse(text).unwrap();
        assert_eq!(toolchain.to_string(), "rustc 1.95.0 for a-b");
        assert_eq!(Toolchain::parse("rustc 1.95.0"), None);
        assert_eq!(total("events: Ir\nsummary: 5\n\ntotals: 42\n"), Some(42));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn the_table_shows_old_new_and_ratio() {
        let (old, new) = (
            here(&[("read", 1_000)]),
            here(&[("read", 1_100), ("write", 7)]),
        );
        let text = table(Some(&old.counts), &new.counts);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["read", "1000", "1100", "1.1000"]);
        assert_eq!(lines[2], ["write", "-", "7", "-"]);
    }
}
