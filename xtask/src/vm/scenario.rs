//! The scenarios: their names, running a list of them in a guest, and the table of results.
//!
//! A scenario is a script `vm/guest/scenarios/NAME.sh`. Many run in one guest, one after the
//! other; when one takes the guest down with it, a fresh guest runs the rest. Entry points:
//! [`select`], [`run_list`], [`print_table`].

use std::time::Duration;

use super::capture;
use super::clones;
use super::drain;
use super::error::{Failure, Result};
use super::evict;
use super::failover;
use super::foreign;
use super::full;
use super::guest::{Guest, GuestBuilder, GuestExit, GuestRun};
use super::hosted::{self, HostPart};
use super::hostgone;
use super::identities;
use super::kernels;
use super::multipath;
use super::net::{Net, SECOND_IP};
use super::prepare::Tools;
use super::qemu::Qemu;
use super::trunks;

/// What a scenario needs besides a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Server,
    /// A Ropewalk server: extended attributes, layout policies among them, access control lists, delegations.
    Ropewalk,
    /// A server that gives layouts of at least two data servers.
    Layouts,
    /// The host, which kills the server and starts it again.
    Crash,
    /// A Ropewalk cluster whose servers the host can kill one by one.
    Cluster,
    /// As [`Needs::Cluster`], with two copies of each stripe.
    Copies,
    /// As [`Needs::Copies`], with two further networks between the cluster and the guest.
    CopiesOnRails,
    /// As [`Needs::Cluster`], with two NFSv3 servers of others.
    Foreign,
    /// As [`Needs::Cluster`], with two further networks between it and the guest.
    Rails,
    /// A Ropewalk cluster on a disk of its own that may be filled.
    SmallDisk,
    /// A Ropewalk cluster on a file system whose files can share storage.
    SharedStorage,
}

/// One scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The script's name without `.sh`.
    pub(crate) name: &'static str,
    /// What it checks, in a few words.
    checks: &'static str,
    /// What it needs.
    pub(crate) needs: Needs,
    /// The host's part; a scenario that has one gets a guest of its own.
    pub(crate) part: Option<HostPart>,
}

const fn plain(name: &'static str, checks: &'static str) -> Scenario {
    Scenario {
        name,
        checks,
        needs: Needs::Server,
        part: None,
    }
}

const fn extended(name: &'static str, checks: &'static str) -> Scenario {
    Scenario {
        needs: Needs::Ropewalk,
        ..plain(name, checks)
    }
}

const fn hosted(
    name: &'static str,
    checks: &'static str,
    needs: Needs,
    part: HostPart,
) -> Scenario {
    Scenario {
        name,
        checks,
        needs,
        part: Some(part),
    }
}

/// All scenarios in the order in which they run, the quick and basic ones first.
pub(crate) const SCENARIOS: &[Scenario] = &[
    plain(
        "mount",
        "mount, write, read back past the cache, show mountstats",
    ),
    plain("df", "sizes and room as df asks for them"),
    plain(
        "special",
        "special files, modes, owners, groups, links, times, names",
    ),
    plain(
        "preserve",
        "cp -a, tar, mv, install keep every attribute; another user's write takes set-id bits off",
    ),
    extended(
        "opens",
        "a newer kernel sends neither CLOSE nor SETATTR for files that it makes; the times are kept",
    ),
    plain(
        "atime",
        "reads move the access time of files, directories and links as relatime does",
    ),
    extended(
        "xattr",
        "extended attributes: large values, long lists, permissions, layout policies (--ds-count)",
    ),
    extended(
        "restripe",
        "files get other stripes and copies while programs write and read them (--ds-count)",
    ),
    extended(
        "acl",
        "NFSv4 access control lists: enforced, inherited, in step with the mode (--ds-count)",
    ),
    extended(
        "nfs3",
        "a directory by NFSv3 and NFSv4: names, contents, listings, open files (--nfs3)",
    ),
    plain(
        "openunlink",
        "unlink and rename of open files, here and by another mount",
    ),
    plain(
        "truncate",
        "truncate under another mount's open; no old data come back",
    ),
    plain("direct", "O_DIRECT over holes and at the end of the file"),
    plain(
        "aio",
        "the size of a file counts in asynchronous direct writes that have completed",
    ),
    plain("sparse", "a 2 GiB sparse file"),
    extended(
        "ranges",
        "fallocate, holes, SEEK_DATA, copies within the server, by two mounts (--ds-count)",
    ),
    Scenario {
        needs: Needs::SharedStorage,
        ..plain(
            "clone",
            "clones of files that take no room (--shared-storage)",
        )
    },
    plain(
        "mmap",
        "shared and private mappings between processes and mounts",
    ),
    plain(
        "locks",
        "byte-range locks between two mounts and between processes",
    ),
    extended(
        "delegations",
        "files are delegated, and called back when a second client comes (--ds-count)",
    ),
    plain(
        "fsx",
        "random I/O against a model, buffered, mapped and direct",
    ),
    plain("build", "unpack and build a C project"),
    plain("git", "git clone, commit, merge, gc, clone back"),
    plain("manyfiles", "many files in one directory"),
    hosted(
        "pnfs",
        "layouts are used: LAYOUTGET, data only to the data servers (--ds-count)",
        Needs::Layouts,
        hosted::pnfs,
    ),
    plain(
        "inline",
        "files around the size up to which they lie in the metadata store, by two mounts",
    ),
    hosted(
        "small",
        "small files lie in the metadata store, and nothing of large new ones ever does (--crash --cluster-dir)",
        Needs::Cluster,
        hosted::small,
    ),
    hosted(
        "capture",
        "tshark decodes the traffic of small scenarios without complaint (--nfs3 --register-rpcbind --crash --cluster-dir)",
        Needs::Cluster,
        capture::capture,
    ),
    hosted(
        "trunks",
        "nconnect and a second address: every connection carries the one session; the MDS is killed under it (--crash --cluster-dir)",
        Needs::Cluster,
        trunks::trunks,
    ),
    hosted(
        "multipath",
        "data servers with addresses of two networks, of which one is cut, and both carry data before (--crash --cluster-dir)",
        Needs::Rails,
        multipath::multipath,
    ),
    hosted(
        "identities",
        "a user in 40 groups, and owners by name: manage_gids and domain (--crash --cluster-dir)",
        Needs::Cluster,
        identities::identities,
    ),
    hosted(
        "evict",
        "a client is evicted while it writes with a lock and without (--crash --cluster-dir)",
        Needs::Cluster,
        evict::evict,
    ),
    hosted(
        "clones",
        "two machines of one host name make files, and the server says so",
        Needs::Server,
        clones::clones,
    ),
    hosted(
        "kernels",
        "two kernels change files around the size of inline files in turn",
        Needs::Server,
        kernels::kernels,
    ),
    hosted(
        "crash",
        "kill -9 of the server in the middle of work (--crash)",
        Needs::Crash,
        hosted::crash,
    ),
    extended(
        "versions",
        "NFSv3, 4.0, 4.1 and 4.2 on one directory, in every pair: contents, opens, locks, delegations (--nfs3 --register-rpcbind)",
    ),
    extended(
        "layoutpairs",
        "one directory by layouts, and by NFSv3 and NFSv4.0 through the MDS (--nfs3)",
    ),
    hosted(
        "nfs3locks",
        "locks by NFSv3 and by NFSv4, and kill -9 of the server under them (--nfs3 --register-rpcbind --crash)",
        Needs::Cluster,
        hosted::crash,
    ),
    hosted(
        "dscrash",
        "kill -9 of data servers in the middle of work, and one that is stopped (--crash --cluster-dir)",
        Needs::Cluster,
        hosted::ds_crash,
    ),
    hosted(
        "failover",
        "data servers with two copies are killed, stopped, hang and go away in the middle of work (--crash --cluster-dir --copies 2)",
        Needs::Copies,
        failover::failover,
    ),
    hosted(
        "hostgone",
        "the machine of a data server with two copies goes away without a word (--crash --cluster-dir --copies 2)",
        Needs::CopiesOnRails,
        hostgone::host_gone,
    ),
    hosted(
        "full",
        "a full store and a full disk: ENOSPC, nothing lost, removal gives room back (--small-disk)",
        Needs::SmallDisk,
        full::full,
    ),
    hosted(
        "foreign",
        "a directory on two NFSv3 servers of others, one of which is killed in the middle of a write (--crash --cluster-dir --foreign)",
        Needs::Foreign,
        foreign::foreign,
    ),
    hosted(
        "foreignstripes",
        "files striped over two NFSv3 servers of others, by Linux 6.18 or newer (--crash --cluster-dir --foreign --newer=trixie-backports)",
        Needs::Foreign,
        foreign::stripes,
    ),
    hosted(
        "foreignknfsd",
        "the server of the guest's own kernel holds data beside two others, and stops in the middle of a write (as foreignstripes)",
        Needs::Foreign,
        foreign::knfsd,
    ),
    hosted(
        "fsynccrash",
        "kill -9 of the MDS between fsync's WRITEs and its LAYOUTCOMMIT (--crash --cluster-dir)",
        Needs::Cluster,
        hosted::fsync_crash,
    ),
    // The last one: it leaves a cluster with a data server less.
    hosted(
        "drain",
        "data servers with two copies are drained, filled again, replaced and removed in the middle of work (--crash --cluster-dir --copies 2)",
        Needs::Copies,
        drain::drain,
    ),
];

/// What to give the guests.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The server's port.
    pub(crate) port: u16,
    /// The path that is mounted.
    pub(crate) export: String,
    /// Further variables of the scripts' environment.
    pub(crate) env: Vec<(String, String)>,
    /// Memory of a guest, MiB.
    pub(crate) mem_mib: u32,
    /// A scenario is killed after this time.
    pub(crate) scenario_limit: Duration,
    /// Whether the guests' output is shown while it comes.
    pub(crate) echo: bool,
    /// What guests run on, if not on User Mode Linux.
    pub(crate) qemu: Option<Qemu>,
}

/// Time that a guest gets beyond that of its scenarios, for its boot and end.
const GUEST_EXTRA: Duration = Duration::from_secs(240);

impl Settings {
    /// A guest that mounts the server with this version; the caller adds script and limit.
    pub(crate) fn guest<'a>(
        &'a self,
        net: &'a Net,
        tools: &'a Tools,
        vers: &str,
    ) -> GuestBuilder<'a> {
        let guest = match &self.qemu {
            None => Guest::builder(net, tools).mem_mib(self.mem_mib),
            Some(qemu) => Guest::under_qemu(net, qemu).env("RDMA", "none"),
        };
        let mut guest = guest
            .env("PORT", self.port)
            .env("VERS", vers)
            .env("EXPORT", &self.export)
            .env("MNT", "/mnt/a")
            .env("PNFS_MIB", hosted::PNFS_MIB)
            .env("SMALL_FILES", hosted::SMALL_FILES)
            .env("SMALL_BYTES", hosted::SMALL_BYTES)
            .env("LARGE_MIB", hosted::LARGE_MIB)
            .env("FSYNC_MIB", hosted::FSYNC_MIB)
            .env("FAILOVER_MIB", failover::FAILOVER_MIB)
            .env("DISK_MIB", full::DISK_MIB)
            .env("CAPTURE_MIB", capture::CAPTURE_MIB)
            .env("CLONES_S", clones::CLONES_S)
            .env("NCONNECT", trunks::NCONNECT)
            .env("SECOND", SECOND_IP)
            .echo(self.echo);
        for (name, value) in &self.env {
            guest = guest.env(name, value);
        }
        guest
    }
}

/// The result of one scenario with one version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// The scenario's name.
    pub(crate) name: String,
    /// The version it was mounted with.
    pub(crate) vers: String,
    /// `None` when it passed, else why it did not.
    pub(crate) failure: Option<String>,
    /// How long it took in the guest, s; 0 when that is not known.
    pub(crate) seconds: f64,
    /// Remarks of the scenario (lines that begin with `# `).
    pub(crate) notes: Vec<String>,
}

impl Outcome {
    /// Whether the scenario failed.
    pub(crate) fn is_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// The outcome as a JSON value.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "scenario": self.name,
            "vers": self.vers,
            "passed": self.failure.is_none(),
            "failure": self.failure,
            "seconds": self.seconds,
        })
    }
}

/// Finds scenarios by name; `all` stands for those that `has` says can run.
pub(crate) fn select(
    names: &[String],
    has: impl Fn(Needs) -> bool,
) -> Result<Vec<&'static Scenario>> {
    let mut selected: Vec<&'static Scenario> = Vec::new();
    for name in names {
        if name == "all" {
            selected.extend(SCENARIOS.iter().filter(|scenario| has(scenario.needs)));
            continue;
        }
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
        let scenario = scenario.ok_or_else(|| {
            Failure::new(format!(
                "there is no scenario {name}; see 'cargo xtask vm list'"
            ))
        })?;
        if !has(scenario.needs) {
            return Err(Failure::new(format!(
                "scenario {name} needs more: {}",
                scenario.checks
            )));
        }
        selected.push(scenario);
    }
    Ok(selected)
}

/// Runs scenarios in guests, as few as it takes, and returns one outcome for each.
pub(crate) fn run_list(
    net: &Net,
    tools: &Tools,
    settings: &Settings,
    vers: &str,
    scenarios: &[&Scenario],
) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    // Each guest yields at least one outcome, so this ends.
    while outcomes.len() < scenarios.len() {
        let rest = &scenarios[outcomes.len()..];
        let names: Vec<&str> = rest.iter().map(|scenario| scenario.name).collect();
        let count = u32::try_from(rest.len()).expect("there are few scenarios");
        let run = settings
            .guest(net, tools, vers)
            .script("run-scenarios.sh")
            .env("SCENARIOS", names.join(" "))
            .env("SCENARIO_LIMIT_S", settings.scenario_limit.as_secs())
            .timeout(settings.scenario_limit * count + GUEST_EXTRA)
            .run()?;
        if let Some(boot) = run.boot {
            println!("NFSv{vers}: guest booted in {:.1} s", boot.as_secs_f64());
        }
        let found = read_outcomes(&run, vers, &names);
        for outcome in &found {
            print_outcome(outcome);
        }
        outcomes.extend(found);
    }
    Ok(outcomes)
}

/// Reads the frames that `run-scenarios.sh` prints. The first scenario without an end is the one
/// that took the guest down; there is always at least one outcome.
fn read_outcomes(run: &GuestRun, vers: &str, names: &[&str]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for line in run.output.lines() {
        if line.starts_with("## begin ") {
            lines.clear();
        } else if let Some(end) = line.strip_prefix("## end ") {
            let mut words = end.split_whitespace();
            let (name, status) = (words.next().unwrap_or(""), words.next().unwrap_or("none"));
            let seconds = words
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(0.0);
            let why = format!("status {status}");
            outcomes.push(judge(
                (name, vers),
                (status == "0", &why),
                seconds,
                &lines,
                run,
            ));
        } else {
            lines.push(line);
        }
    }
    let is_cut = matches!(run.rc, GuestExit::TimedOut | GuestExit::Died) || outcomes.is_empty();
    if let Some(name) = names.get(outcomes.len()).filter(|_| is_cut) {
        let (how, last) = (how(run.rc), run.last_words(&lines));
        outcomes.push(Outcome {
            name: (*name).to_owned(),
            vers: vers.to_owned(),
            failure: Some(format!("{how}; {last}")),
            seconds: 0.0,
            notes: Vec::new(),
        });
    }
    outcomes
}

/// How a guest ended, for a person.
fn how(rc: GuestExit) -> String {
    match rc {
        GuestExit::TimedOut => "the guest was killed at its time limit".to_owned(),
        GuestExit::Died => "the guest's kernel ended".to_owned(),
        GuestExit::Status(status) => format!("the guest ended with status {status}"),
    }
}

/// A scenario passed when it said so and its script ended with 0: neither alone is enough. `lines` are what the
/// console said meanwhile.
fn judge(
    (name, vers): (&str, &str),
    (ended_well, how): (bool, &str),
    seconds: f64,
    lines: &[&str],
    run: &GuestRun,
) -> Outcome {
    let fail = format!("FAIL {name}: ");
    let said_ok = lines
        .iter()
        .any(|line| line.strip_prefix("ok ") == Some(name));
    let why = lines
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix(&fail))
        .map(str::to_owned);
    let failure = match (why, said_ok && ended_well) {
        (Some(why), _) => Some(why),
        (None, true) => None,
        (None, false) => {
            let last = run.last_words(lines);
            Some(format!("{how} without a word of why; {last}"))
        }
    };
    let notes = lines
        .iter()
        .filter_map(|line| line.strip_prefix("# "))
        .map(str::to_owned);
    Outcome {
        name: name.to_owned(),
        vers: vers.to_owned(),
        failure,
        seconds,
        notes: notes.collect(),
    }
}

/// Judges a guest whose script was the scenario itself.
pub(crate) fn judge_single(run: &GuestRun, vers: &str, name: &str, took: Duration) -> Outcome {
    let lines: Vec<&str> = run.output.lines().collect();
    let ended_well = run.rc == GuestExit::Status(0);
    let end = (ended_well, &how(run.rc)[..]);
    judge((name, vers), end, took.as_secs_f64(), &lines, run)
}

/// What failed, with what the host found before what the guest said. Of a guest that died, which the host may have
/// noticed by an error of its own, both are told.
pub(crate) fn with_finding(
    found: Option<String>,
    run: &GuestRun,
    said: Option<String>,
) -> Option<String> {
    match (found, said) {
        (Some(found), Some(said)) if run.rc == GuestExit::Died => Some(format!("{found}; {said}")),
        (found, said) => found.or(said),
    }
}

/// Prints one outcome as it comes; the remarks of a failed one help to find out why.
pub(crate) fn print_outcome(outcome: &Outcome) {
    let Outcome {
        name,
        vers,
        seconds,
        ..
    } = outcome;
    match &outcome.failure {
        None => println!("ok {name} (NFSv{vers}, {seconds:.1} s)"),
        Some(why) => {
            for note in &outcome.notes {
                println!("    {note}");
            }
            println!("FAIL {name} (NFSv{vers}, {seconds:.1} s): {why}");
        }
    }
}

/// Prints the results, a line per scenario and a column per version; returns whether all passed.
pub(crate) fn print_table(outcomes: &[Outcome]) -> bool {
    let mut versions: Vec<&str> = outcomes.iter().map(|outcome| &*outcome.vers).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut names: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !names.contains(&&*outcome.name) {
            names.push(&outcome.name);
        }
    }
    let heads: Vec<String> = versions
        .iter()
        .map(|vers| format!("{:>16}", format!("NFSv{vers}")))
        .collect();
    println!("\n{:<14}{}", "scenario", heads.concat());
    for name in names {
        let cells: Vec<String> = versions
            .iter()
            .map(|vers| {
                let found = outcomes.iter().find(|o| o.name == name && o.vers == *vers);
                let cell = found.map_or("-".to_owned(), |outcome| {
                    let verdict = if outcome.failure.is_none() {
                        "ok"
                    } else {
                        "FAIL"
                    };
                    format!("{verdict} {:>6.1} s", outcome.seconds)
                });
                format!("{cell:>16}")
            })
            .collect();
        println!("{name:<14}{}", cells.concat());
    }
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    failed == 0 && !outcomes.is_empty()
}

/// Prints the names of the scenarios and what they check.
pub(crate) fn print_list() {
    for scenario in SCENARIOS {
        println!("{:<14}{}", scenario.name, scenario.checks);
    }
}

#[cfg(test)]
mod tests {
    //! The reading of a guest's output, which decides between pass and fail.

    use super::*;

    fn run(rc: GuestExit, output: &str) -> GuestRun {
        GuestRun {
            rc,
            output: output.to_owned(),
            boot: None,
            log: None,
        }
    }

    #[test]
    fn a_scenario_passes_only_with_its_word_and_status_zero() {
        let text = "## begin a\n# note\nok a\n## end a 0 1.5\n## begin b\nok b\n## end b 1 0.1\n\
                    ## begin c\n## end c 0 0.1\n## begin d\nok d\nFAIL d: oops\n## end d 0 0.1\n";
        let outcomes = read_outcomes(
            &run(GuestExit::Status(1), text),
            "4.1",
            &["a", "b", "c", "d"],
        );
        let failed: Vec<bool> = outcomes.iter().map(|o| o.failure.is_some()).collect();
        assert_eq!(failed, [false, true, true, true]);
        assert_eq!(outcomes[0].seconds, 1.5);
        assert_eq!(outcomes[0].notes, ["note"]);
        assert_eq!(outcomes[3].failure.as_deref(), Some("oops"));
    }

    #[test]
    fn the_scenario_that_takes_the_guest_down_fails() {
        let text = "## begin a\nok a\n## end a 0 1.0\n## begin b\nhalf\n";
        let outcomes = read_outcomes(&run(GuestExit::TimedOut, text), "4.2", &["a", "b", "c"]);
        assert_eq!(outcomes.len(), 2);
        assert!(
            outcomes[1]
                .failure
                .as_deref()
                .is_some_and(|why| why.contains("half"))
        );
    }

    #[test]
    fn a_guest_without_output_fails_the_first_scenario() {
        for rc in [GuestExit::Died, GuestExit::Status(0)] {
            let outcomes = read_outcomes(&run(rc, "no init"), "4.2", &["a", "b"]);
            assert_eq!(outcomes.len(), 1);
            assert!(outcomes[0].failure.is_some());
        }
    }

    #[test]
    fn a_guest_that_ends_without_its_last_word_is_shown_by_its_console() {
        let text: String = (0..30).map(|line| format!("line {line}\n")).collect();
        let mut died = run(GuestExit::Died, &text);
        died.log = Some("jobs/7-0/console.log".into());
        let failure = |run: &GuestRun| judge_single(run, "4.2", "nfs", Duration::ZERO).failure;
        let why = failure(&died).expect("it did not pass");
        let start =
            "the guest's kernel ended without a word of why; its console said last:\nline 10\n";
        assert!(why.starts_with(start), "{why}");
        let end = "line 29\nthe whole console: jobs/7-0/console.log";
        assert!(why.ends_with(end), "{why}");
        let silent = failure(&run(GuestExit::Died, ""));
        assert!(silent.is_some_and(|why| why.ends_with("; its console said nothing")));
        let framed = "## begin a\nKernel panic\n## end a 137 0.1\n";
        let outcomes = read_outcomes(&run(GuestExit::Status(1), framed), "4.2", &["a"]);
        let why = outcomes[0].failure.as_deref();
        assert!(why.is_some_and(|why| why.contains("status 137") && why.ends_with("Kernel panic")));
    }

    #[test]
    fn the_word_of_a_scenario_is_enough() {
        let told = run(GuestExit::Status(1), "much\nFAIL nfs: no mount\n");
        let outcome = judge_single(&told, "4.2", "nfs", Duration::ZERO);
        assert_eq!(outcome.failure.as_deref(), Some("no mount"));
    }

    #[test]
    fn what_the_host_found_hides_no_guest_that_died() {
        let (found, said) = (|| Some("no ping".to_owned()), || Some("panic".to_owned()));
        let died = run(GuestExit::Died, "");
        let both = with_finding(found(), &died, said());
        assert_eq!(both.as_deref(), Some("no ping; panic"));
        assert_eq!(with_finding(None, &died, said()), said());
        let stopped = run(GuestExit::TimedOut, "");
        assert_eq!(with_finding(found(), &stopped, said()), found());
    }

    #[test]
    fn all_leaves_out_what_cannot_run() {
        let names = ["all".to_owned()];
        let plain = select(&names, |needs| needs == Needs::Server).expect("all is a name");
        assert!(plain.iter().all(|scenario| scenario.needs == Needs::Server));
        assert_eq!(
            select(&names, |_| true).expect("all is a name").len(),
            SCENARIOS.len()
        );
        assert!(select(&["crash".to_owned()], |needs| needs == Needs::Server).is_err());
        assert!(select(&["nothing".to_owned()], |_| true).is_err());
    }

    #[test]
    fn every_scenario_has_its_script() {
        let scripts = super::super::prepare::guest_scripts().join("scenarios");
        for scenario in SCENARIOS {
            let is_alone = matches!(
                scenario.needs,
                Needs::Server | Needs::Ropewalk | Needs::SharedStorage
            );
            assert!(is_alone || scenario.part.is_some(), "{}", scenario.name);
            assert!(
                scripts.join(format!("{}.sh", scenario.name)).is_file(),
                "{}",
                scenario.name
            );
        }
    }
}
