//! How a worker speaks with its parent.

use super::files::Bypass;
use super::job::{Counted, Said};
use crate::BenchError;
use crate::load::Tally;
use crate::process::cpu_of_this_process;
use std::future::Future;
use std::io;
use tokio::sync::mpsc;

/// Brings a message to the parent.
pub(crate) type Say = Box<dyn FnMut(&Said) -> io::Result<()> + Send>;

/// How a worker speaks with its parent.
pub(crate) struct Link {
    pub(super) say: Say,
    pub(super) go: mpsc::Receiver<()>,
    /// How the reads of the work are kept from the page cache of this machine, where that has to be.
    pub(crate) bypass: Option<Bypass>,
}

impl Link {
    pub(crate) fn new(say: Say, go: mpsc::Receiver<()>) -> Self {
        Self {
            say,
            go,
            bypass: None,
        }
    }

    pub(super) fn say(&mut self, said: &Said) -> Result<(), BenchError> {
        (self.say)(said).map_err(BenchError::io("speak with the parent"))
    }

    pub(super) async fn wait(&mut self) -> Result<(), BenchError> {
        self.go.recv().await.ok_or(BenchError::Alone)
    }

    /// Waits until all workers of the run are here.
    pub(crate) async fn barrier(&mut self) -> Result<(), BenchError> {
        self.say(&Said::Waiting)?;
        self.wait().await
    }

    /// Waits until all workers are ready, works, and says what was done.
    pub(crate) async fn phase(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<Vec<Tally>, BenchError>>,
    ) -> Result<Vec<Tally>, BenchError> {
        self.ready(name).await?;
        let cpu = cpu_of_this_process()?;
        let tallies = work.await?;
        let mut sum = Tally::new();
        tallies.iter().for_each(|tally| sum.merge(tally));
        self.done(&sum, cpu)?;
        Ok(tallies)
    }

    /// Waits until all workers are ready for a phase, which must end with [`Link::done`].
    pub(crate) async fn ready(&mut self, phase: &str) -> Result<(), BenchError> {
        self.say(&Said::Ready(phase.to_owned()))?;
        self.wait().await
    }

    /// Ends a phase at whose start this process had used so much CPU time.
    pub(crate) fn done(
        &mut self,
        tally: &Tally,
        cpu_before: std::time::Duration,
    ) -> Result<(), BenchError> {
        let cpu = cpu_of_this_process()?.saturating_sub(cpu_before);
        let cpu_us = u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX);
        self.say(&Said::Done(Counted::new(tally, cpu_us, self.bypass)))
    }
}
