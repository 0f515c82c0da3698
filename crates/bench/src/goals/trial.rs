//! A comparison before it is made: who takes part, and which goals its ratios answer.
//!
//! Rows plan their trials without doing anything, so that a test can hold the plans against the table of goals. What a subject needs
//! beforehand (a test file, the sizes of messages) is made by the [`Stage`] when the trial is played.

use super::Bench;
use super::table::{Denominator, Goal, Limit, Shape};
use crate::bare::ping_pong::Sizes;
use crate::nfs::cluster::{self, Carrier, ClusterOptions};
use crate::process::Launcher;
use crate::report;
use crate::runner::{Comparison, Metric, Spread};
use crate::{BenchError, Subject, pattern};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Makes a subject when the trial is played.
pub(super) type Player = Box<dyn FnOnce(&Stage<'_>) -> Result<Box<dyn Subject>, BenchError>>;

/// What the table of a trial looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// A column for each subject.
    Metrics,
    /// A line for each subject.
    Servers,
    /// A line for each number of data servers: creates alone, then whole first lives, and then their ends.
    Curve(Vec<u16>),
    /// A line for each number of servers: creates that are eager, made ahead, and at own data servers.
    Creates(Vec<u16>),
}

/// Where subjects keep their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    /// In memory, unless the user names another folder.
    Tmpfs,
    /// On a disk, unless the user names another folder.
    Disk,
}

/// A ratio that a trial shows, whether there is a goal for it or not.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    /// What one subject does.
    pub(super) shape: Shape,
    /// What the others are called.
    pub(super) to: Denominator,
    /// The one.
    pub(super) ours: usize,
    /// The others: what they take together.
    pub(super) bases: Vec<usize>,
    /// Shown when there is no goal.
    pub(super) metric: Metric,
    /// Of the one, where its shape does not say all.
    pub(super) note: &'static str,
    /// What the machine can do at all: no goal asks for more than a share of it. With it there is one base.
    pub(super) raw: Option<(Denominator, usize)>,
}

/// A comparison before it is made.
pub(super) struct Trial {
    pub(super) title: String,
    pub(super) ground: Ground,
    pub(super) connections: usize,
    pub(super) look: Look,
    pub(super) players: Vec<Player>,
    pub(super) claims: Vec<Claim>,
}

impl Trial {
    pub(super) fn new(title: impl Into<String>, ground: Ground, connections: usize) -> Self {
        Self {
            title: title.into(),
            ground,
            connections,
            look: Look::Metrics,
            players: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Another subject; returns its place.
    pub(super) fn add<S: Subject + 'static>(
        &mut self,
        make: impl FnOnce(&Stage<'_>) -> Result<S, BenchError> + 'static,
    ) -> usize {
        let player = move |stage: &Stage<'_>| Ok(Box::new(make(stage)?) as Box<dyn Subject>);
        self.players.push(Box::new(player));
        self.players.len() - 1
    }

    /// How many of its claims answer a goal.
    #[cfg(test)]
    pub(super) fn answers(&self, goal: &Goal) -> usize {
        let claims = self.claims.iter();
        claims.filter(|claim| claim.answers(goal)).count()
    }

    /// A ratio of one subject to another.
    pub(super) fn claim(
        &mut self,
        shape: &Shape,
        ours: usize,
        (to, base): (Denominator, usize),
        metric: Metric,
    ) -> &mut Claim {
        self.claims.push(Claim {
            shape: shape.clone(),
            to,
            ours,
            bases: vec![base],
            metric,
            note: "",
            raw: None,
        });
        self.claims.last_mut().expect("one was just added")
    }
}

impl Claim {
    fn answers(&self, goal: &Goal) -> bool {
        self.note.is_empty() && self.shape == goal.shape && self.to == goal.to
    }

    fn raw(&self, goal: &Goal, comparison: &Comparison) -> Option<Raw> {
        let (to, raw) = self.raw?;
        let &[base] = self.bases.as_slice() else {
            return None;
        };
        let peer = comparison.ratio_to(base, raw, goal.metric);
        Some(Raw {
            to,
            demand: peer.map(|peer| peer * goal.limit.factor()),
            ratio: comparison.ratio_to(self.ours, raw, goal.metric),
            limit: goal.limit.of_raw(),
        })
    }

    /// A line for each goal that it answers, or one that is only shown.
    fn verdicts(&self, goals: &[Goal], comparison: &Comparison) -> Vec<Verdict> {
        let verdict = |metric, goal: Option<&Goal>| Verdict {
            what: format!("{}{}, to {}", self.shape.text(), self.note, self.to.name()),
            metric,
            goal: goal.cloned(),
            ratio: comparison.ratio_to_sum(self.ours, &self.bases, metric),
            raw: goal.and_then(|goal| self.raw(goal, comparison)),
        };
        let answered: Vec<Verdict> = goals
            .iter()
            .filter(|goal| self.answers(goal))
            .map(|goal| verdict(goal.metric, Some(goal)))
            .collect();
        if answered.is_empty() {
            vec![verdict(self.metric, None)]
        } else {
            answered
        }
    }
}

/// What a goal comes to by the raw limit that was measured in the same rounds.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    to: Denominator,
    /// What the goal asks for, to the raw subject.
    demand: Option<Spread>,
    /// What there is, to the raw subject.
    ratio: Option<Spread>,
    /// What may be asked for.
    limit: Limit,
}

impl Raw {
    /// Whether the goal asks for more than may be asked for.
    fn applies(&self) -> bool {
        self.demand
            .is_some_and(|demand| self.limit.is_below(demand))
    }

    fn json(&self) -> Value {
        json!({
            "to": self.to.name(),
            "goal": self.limit.text(),
            "demand": report::spread_json(self.demand),
            "ratio": report::spread_json(self.ratio),
            "applies": self.applies(),
        })
    }
}

/// One line of the last table.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) what: String,
    pub(super) metric: Metric,
    pub(super) goal: Option<Goal>,
    pub(super) ratio: Option<Spread>,
    /// Where the goal has one.
    pub(super) raw: Option<Raw>,
}

impl Verdict {
    /// A goal that nothing was compared for.
    pub(super) fn unmeasured(goal: &Goal) -> Self {
        Self {
            what: format!("{}, to {}", goal.shape.text(), goal.to.name()),
            metric: goal.metric,
            goal: Some(goal.clone()),
            ratio: None,
            raw: None,
        }
    }

    /// Whether the goal as it stands is met.
    fn is_met_as_it_stands(&self) -> Option<bool> {
        Some(self.goal.as_ref()?.limit.is_met(self.ratio?))
    }

    /// The raw limit that decides in place of the goal: only where that is not met, and asks for too much.
    fn decides(&self) -> Option<&Raw> {
        let raw = self.raw.as_ref().filter(|raw| raw.applies());
        raw.filter(|_| self.is_met_as_it_stands() == Some(false))
    }

    fn is_met(&self) -> Option<bool> {
        match self.decides() {
            Some(raw) => Some(raw.limit.is_met(raw.ratio?)),
            None => self.is_met_as_it_stands(),
        }
    }

    /// The verdict, and why it is not that of the goal as it stands.
    fn verdict(&self) -> String {
        let (Some(raw), Some(goal)) = (self.decides(), &self.goal) else {
            return self.word().to_owned();
        };
        let more = match goal.limit {
            Limit::AtLeast(_) => "more",
            Limit::AtMost(_) => "less",
        };
        format!(
            "{}: {} of {raw_name}; limit: {:.2} of {raw_name}, as {} x {} asks for {more} than that",
            self.word(),
            report::cell(raw.ratio),
            raw.limit.factor(),
            goal.limit.factor(),
            goal.to.name(),
            raw_name = raw.to.name(),
        )
    }

    fn word(&self) -> &'static str {
        match (self.is_met(), &self.goal) {
            (Some(true), _) => "met",
            (Some(false), _) => "missed",
            (None, Some(_)) => "not measured",
            (None, None) => "shown",
        }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let goal = self.goal.as_ref().map(|goal| goal.limit.text());
        vec![
            self.what.clone(),
            self.metric.name().to_owned(),
            goal.unwrap_or_else(|| "-".to_owned()),
            report::cell(self.ratio),
            self.verdict(),
        ]
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "what": self.what,
            "metric": self.metric.name(),
            "goal": self.goal.as_ref().map(|goal| goal.limit.text()),
            "ratio": report::spread_json(self.ratio),
            "raw_limit": self.raw.as_ref().map(Raw::json),
            "is_met": self.is_met(),
        })
    }
}

/// How many of the goals among the lines are met, missed and not measured.
pub(super) fn count(verdicts: &[Verdict]) -> [usize; 3] {
    let goals = verdicts.iter().filter(|verdict| verdict.goal.is_some());
    let mut counts = [0; 3];
    for verdict in goals {
        counts[match verdict.is_met() {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        }] += 1;
    }
    counts
}

/// A trial's comparison, its text, and what it says about the goals.
pub(super) struct Measured {
    pub(super) title: String,
    pub(super) comparison: Comparison,
    pub(super) text: String,
    pub(super) verdicts: Vec<Verdict>,
}

/// Where a trial is played, with what its subjects need.
pub(super) struct Stage<'a> {
    bench: &'a Bench<'a>,
    dir: PathBuf,
    file: OnceCell<NamedTempFile>,
    sizes: OnceCell<Sizes>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(bench: &'a Bench<'a>, dir: PathBuf) -> Self {
        Self {
            bench,
            dir,
            file: OnceCell::new(),
            sizes: OnceCell::new(),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn program(&self) -> &Path {
        &self.bench.program
    }

    pub(super) fn launcher(&self) -> Launcher {
        self.bench.launcher.clone()
    }

    /// A cluster that keeps all on the ground.
    pub(super) fn cluster(&self, ds_count: u16, carrier: Carrier) -> ClusterOptions {
        let tcp = ClusterOptions {
            ds_count,
            in_memory: false,
            ..ClusterOptions::new(self.bench.program.clone(), self.dir.clone())
        };
        tcp.over(carrier)
    }

    /// The same, or in memory when the user wants that.
    pub(super) fn any_cluster(&self, ds_count: u16, carrier: Carrier) -> ClusterOptions {
        ClusterOptions {
            in_memory: self.bench.options.memory,
            ..self.cluster(ds_count, carrier)
        }
    }

    /// A file with the pattern, the same for all subjects.
    pub(super) fn test_file(&self, size_bytes: u64) -> Result<PathBuf, BenchError> {
        if self.file.get().is_none() {
            let file = crate::own::file(&self.dir).map_err(BenchError::io("make the test file"))?;
            pattern::write(file.as_file(), size_bytes)?;
            let _ = self.file.set(file);
        }
        let file = self.file.get().expect("it was just made");
        Ok(file.path().to_owned())
    }

    /// The sizes of messages, found out once.
    pub(super) fn sizes(
        &self,
        find: impl FnOnce() -> Result<Sizes, BenchError>,
    ) -> Result<Sizes, BenchError> {
        if let Some(sizes) = self.sizes.get() {
            return Ok(*sizes);
        }
        let sizes = find()?;
        Ok(*self.sizes.get_or_init(|| sizes))
    }
}

impl Bench<'_> {
    /// Makes the comparison of a trial in `dir`.
    pub(super) fn play(
        &self,
        trial: Trial,
        goals: &[Goal],
        dir: PathBuf,
    ) -> Result<Measured, BenchError> {
        let title = format!("{}; on {}", trial.title, place(&dir));
        let stage = Stage::new(self, dir);
        let subjects: Result<Vec<_>, BenchError> = trial
            .players
            .into_iter()
            .map(|player| player(&stage))
            .collect();
        let comparison = self.compare(trial.connections, subjects?)?;
        let verdicts = trial
            .claims
            .iter()
            .flat_map(|claim| claim.verdicts(goals, &comparison))
            .collect();
        let text = match &trial.look {
            Look::Metrics => report::table(&title, &comparison, &self.machine),
            Look::Servers => super::looks::servers(&title, &comparison, &self.machine),
            Look::Curve(counts) => super::looks::curve(&title, &comparison, counts, &self.machine),
            Look::Creates(counts) => {
                super::looks::creates(&title, &comparison, counts, &self.machine)
            }
        };
        Ok(Measured {
            title,
            comparison,
            text,
            verdicts,
        })
    }
}

/// A folder and what it is on.
pub(super) fn place(dir: &Path) -> String {
    format!("{} ({})", dir.display(), cluster::file_system(dir))
}

#[cfg(test)]
mod tests {
    //! Which lines the last table has.
    use super::*;
    use crate::goals::Row;
    use crate::goals::table::tests::all;
    use crate::runner::Runs;
    use crate::runner::tests::known;

    /// The verdict on a goal when ours, the peer and the raw subject have made so many requests, each for one second of CPU.
    fn beside_raw(goal: &Goal, ours: u64, peer: u64, raw: u64) -> Verdict {
        let (mut comparison, _) = known();
        let sample = comparison.subjects[0].samples[0].clone();
        let runs = |count: u64| Runs {
            name: String::new(),
            settings: Value::Null,
            samples: vec![crate::Sample {
                requests_count: count,
                ..sample.clone()
            }],
        };
        comparison.subjects = vec![runs(ours), runs(peer), runs(raw)];
        let mut trial = Trial::new("", Ground::Tmpfs, 16);
        let claim = trial.claim(&goal.shape, 0, (goal.to, 1), goal.metric);
        claim.raw = Some((Denominator::PingPong, 2));
        trial.claims[0].verdicts(std::slice::from_ref(goal), &comparison)[0].clone()
    }

    fn peer_goal(metric: Metric) -> Goal {
        let mut goals = all().into_iter();
        let wanted = |goal: &Goal| goal.row == Row::Peer && goal.metric == metric;
        goals.find(wanted).unwrap()
    }

    #[test]
    fn no_goal_asks_for_more_than_the_raw_limit_allows() {
        let goal = peer_goal(Metric::RequestsPerSecond);
        assert_eq!(goal.limit, Limit::AtLeast(2.0));
        // Twice 400 of 1000 can be asked for.
        let asked = beside_raw(&goal, 790, 400, 1000);
        assert_eq!(
            (asked.is_met(), asked.verdict().as_str()),
            (Some(false), "missed")
        );
        assert_eq!(asked.json()["raw_limit"]["applies"], false);
        // Twice 500 cannot, so it is 950.
        let met = beside_raw(&goal, 950, 500, 1000);
        assert_eq!(met.is_met(), Some(true));
        assert_eq!(
            met.verdict(),
            format!(
                "met: 0.950 [0.950 0.950] of ping-pong; limit: 0.95 of ping-pong, as 2 x {} asks for more than that",
                goal.to.name()
            )
        );
        let json = met.json();
        assert_eq!(json["goal"], ">= 2.00");
        assert_eq!(json["ratio"]["median"], 1.9);
        assert_eq!(json["raw_limit"]["goal"], ">= 0.95");
        assert_eq!(json["raw_limit"]["demand"]["median"], 1.0);
        assert_eq!(json["raw_limit"]["ratio"]["median"], 0.95);
        let missed = beside_raw(&goal, 940, 500, 1000);
        assert_eq!(missed.is_met(), Some(false));
        assert!(missed.verdict().starts_with("missed: 0.940 "));
        // The goal as it stands is enough in any case.
        let more = beside_raw(&goal, 1000, 500, 1100);
        assert_eq!(
            (more.is_met(), more.verdict().as_str()),
            (Some(true), "met")
        );
        assert_eq!(count(&[asked, met, missed, more]), [2, 2, 0]);
    }

    #[test]
    fn no_goal_asks_for_less_cpu_than_the_raw_limit_allows() {
        let goal = peer_goal(Metric::CpuUsPerRequest);
        assert_eq!(goal.limit, Limit::AtMost(0.5));
        // Half of the peer's CPU is what 2000 requests take; of the raw server 1.05 times may be asked for, which is 1995.
        let met = beside_raw(&goal, 1996, 1000, 2100);
        assert_eq!(met.is_met(), Some(true));
        let text = met.verdict();
        assert!(
            text.contains("limit: 1.05 of ping-pong, as 0.5 x"),
            "{text}"
        );
        assert!(text.ends_with("asks for less than that"), "{text}");
        assert_eq!(beside_raw(&goal, 1994, 1000, 2100).is_met(), Some(false));
        // Half of 900's can be asked for.
        assert_eq!(beside_raw(&goal, 1799, 900, 2100).verdict(), "missed");
    }

    #[test]
    fn a_claim_shows_its_goals_or_itself() {
        let (comparison, _) = known();
        let goals = all();
        let goal = &goals[0];
        let mut trial = Trial::new("", Ground::Tmpfs, 1);
        trial.claim(&goal.shape, 1, (goal.to, 0), Metric::LatencyP50Us);
        let claim = trial.claims.remove(0);
        let verdicts = claim.verdicts(&goals, &comparison);
        // One for the rate, one for the CPU time.
        assert_eq!(verdicts.len(), 2);
        assert_eq!(verdicts[0].ratio.unwrap().median, 0.5);
        assert_eq!(verdicts[0].word(), "missed");
        let noted = Claim {
            note: " otherwise",
            ..claim
        };
        let verdicts = noted.verdicts(&goals, &comparison);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].word(), "shown");
        assert_eq!(count(&verdicts), [0, 0, 0]);
        let unmeasured = Verdict::unmeasured(goal);
        assert_eq!(unmeasured.word(), "not measured");
        assert_eq!(count(&[unmeasured]), [0, 0, 1]);
    }
}
