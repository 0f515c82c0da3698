//! A comparison before it is made: who takes part, and which goals its ratios answer.
//!
//! Rows plan their trials without doing anything, so that a test can hold the plans against the table of goals. What a subject needs
//! beforehand (a test file, the sizes of messages) is made by the [`Stage`] when the trial is played.

use super::Bench;
use super::table::{Denominator, Goal, Shape};
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
        });
        self.claims.last_mut().expect("one was just added")
    }
}

impl Claim {
    fn answers(&self, goal: &Goal) -> bool {
        self.note.is_empty() && self.shape == goal.shape && self.to == goal.to
    }

    /// A line for each goal that it answers, or one that is only shown.
    fn verdicts(&self, goals: &[Goal], comparison: &Comparison) -> Vec<Verdict> {
        let verdict = |metric, goal: Option<&Goal>| Verdict {
            what: format!("{}{}, to {}", self.shape.text(), self.note, self.to.name()),
            metric,
            goal: goal.cloned(),
            ratio: comparison.ratio_to_sum(self.ours, &self.bases, metric),
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

/// One line of the last table.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) what: String,
    pub(super) metric: Metric,
    pub(super) goal: Option<Goal>,
    pub(super) ratio: Option<Spread>,
}

impl Verdict {
    /// A goal that nothing was compared for.
    pub(super) fn unmeasured(goal: &Goal) -> Self {
        Self {
            what: format!("{}, to {}", goal.shape.text(), goal.to.name()),
            metric: goal.metric,
            goal: Some(goal.clone()),
            ratio: None,
        }
    }

    fn is_met(&self) -> Option<bool> {
        Some(self.goal.as_ref()?.limit.is_met(self.ratio?))
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
            self.word().to_owned(),
        ]
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "what": self.what,
            "metric": self.metric.name(),
            "goal": self.goal.as_ref().map(|goal| goal.limit.text()),
            "ratio": report::spread_json(self.ratio),
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
    use crate::goals::table::tests::all;
    use crate::runner::tests::known;

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
