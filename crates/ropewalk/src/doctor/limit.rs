//! Time limits of checks: each runs on a thread of its own, and a row says so when it gives no answer in time.
//!
//! # Failure
//! A thread that waits for a disk cannot be ended. It is left behind, and ends with this process.

use super::row::{Row, Verdict};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a disk may take for what a check wants of it.
pub(super) const DISK_MAX: Duration = Duration::from_secs(5);
/// How long a server may take to answer: more than it has for its status.
pub(super) const SERVER_MAX: Duration = Duration::from_secs(8);
/// How long this machine may take: its processes, devices and programs. Three programs may take their time one after the other.
pub(super) const MACHINE_MAX: Duration = Duration::from_secs(20);

/// What a check may have to wait for, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    max: Duration,
    /// From whom there is no answer.
    from: String,
    /// What to do then.
    action: String,
    /// How bad that is.
    verdict: Verdict,
}

impl Limit {
    /// A check that looks at the disk of `path`.
    pub(super) fn disk(path: &Path) -> Self {
        let shown = path.display();
        Self {
            max: DISK_MAX,
            from: format!("the disk of {shown}"),
            action: format!(
                "see in `dmesg` what its disk or its file server has, and whether `ls {shown}` comes back"
            ),
            verdict: Verdict::Failed,
        }
    }

    /// A question to the server that keeps its state in `dir`.
    pub(super) fn server(dir: &Path) -> Self {
        Self {
            max: SERVER_MAX,
            ..Self::disk(dir)
        }
    }

    /// A check that asks this machine for `what`.
    pub(super) fn machine(what: &str, action: &str) -> Self {
        Self {
            max: MACHINE_MAX,
            from: what.to_owned(),
            action: action.to_owned(),
            verdict: Verdict::Warning,
        }
    }

    /// The same with another patience.
    #[cfg(test)]
    pub(super) fn within(self, max: Duration) -> Self {
        Self { max, ..self }
    }

    /// What is said of a check that has not answered.
    pub(super) fn late(&self) -> String {
        format!("no answer in {} s from {}", self.max.as_secs(), self.from)
    }

    /// What to do then.
    pub(super) fn action(&self) -> &str {
        &self.action
    }

    fn late_row(&self, check: &'static str) -> Row {
        match self.verdict {
            Verdict::Failed => Row::failed(check, self.late(), self.action.as_str()),
            _ => Row::warning(check, self.late(), self.action.as_str()),
        }
    }
}

/// Work that was begun on a thread of its own.
pub(super) struct Begun<T> {
    answer: Receiver<T>,
    end: Instant,
}

/// Begins work, which counts as late after `limit`. Work that cannot be begun, or panics, is late too.
pub(super) fn begin<T: Send + 'static>(
    limit: &Limit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Begun<T> {
    let (told, answer) = channel();
    let run = move || {
        // Nobody waits any more for an answer that is late.
        let _ = told.send(work());
    };
    let started = std::thread::Builder::new().name("check".to_owned());
    // The receiver sees that the thread is not there.
    let _ = started.spawn(run);
    Begun {
        answer,
        end: Instant::now() + limit.max,
    }
}

impl<T> Begun<T> {
    /// The answer; none when it is late.
    pub(super) fn answer(self) -> Option<T> {
        let left = self.end.saturating_duration_since(Instant::now());
        self.answer.recv_timeout(left).ok()
    }
}

/// A check that was begun, with its limit.
pub(super) struct Job {
    check: &'static str,
    server: Option<String>,
    limit: Limit,
    begun: Begun<Vec<Row>>,
}

impl Job {
    /// Begins a check of this machine.
    pub(super) fn begin(
        check: &'static str,
        limit: Limit,
        work: impl FnOnce() -> Vec<Row> + Send + 'static,
    ) -> Self {
        Self {
            check,
            server: None,
            begun: begin(&limit, work),
            limit,
        }
    }

    /// The same, about this server.
    pub(super) fn of(self, server: &str) -> Self {
        Self {
            server: Some(server.to_owned()),
            ..self
        }
    }

    /// Its rows, or one that says that it is late.
    pub(super) fn rows(self) -> Vec<Row> {
        let (check, limit, server) = (self.check, self.limit, self.server);
        let rows = self.begun.answer();
        let rows = rows.unwrap_or_else(|| vec![limit.late_row(check)]);
        let about = |row: Row| match &server {
            Some(server) => row.of(server),
            None => row,
        };
        rows.into_iter().map(about).collect()
    }
}

/// The rows of all jobs, in their order.
pub(super) fn rows(jobs: Vec<Job>) -> Vec<Row> {
    jobs.into_iter().flat_map(Job::rows).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: a check that never returns holds up no other one, and is named with what to do.
    use super::*;

    fn never() -> Vec<Row> {
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn a_check_that_never_returns_is_a_row_and_the_others_stay() {
        let second = Duration::from_secs(1);
        let begun = Instant::now();
        let disk = Limit::disk(Path::new("/srv/x")).within(second);
        let program = Limit::machine("nft", "run `nft` by hand").within(second);
        let jobs = vec![
            Job::begin("state directory", disk.clone(), never).of("ds"),
            Job::begin("port", disk.clone(), || vec![Row::ok("port", "is free")]),
            Job::begin("free space", disk, || panic!("a defect")),
            Job::begin("firewall", program, never),
        ];
        let rows = rows(jobs);
        assert!(begun.elapsed() < 10 * second, "{:?}", begun.elapsed());
        let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
        let wanted = [
            Verdict::Failed,
            Verdict::Ok,
            Verdict::Failed,
            Verdict::Warning,
        ];
        assert_eq!(verdicts, wanted, "{rows:?}");
        assert_eq!(rows[0].server.as_deref(), Some("ds"));
        assert_eq!(rows[0].says, "no answer in 1 s from the disk of /srv/x");
        assert!(rows[0].action.as_ref().unwrap().contains("`ls /srv/x`"));
        assert_eq!(rows[3].says, "no answer in 1 s from nft");
    }
}
