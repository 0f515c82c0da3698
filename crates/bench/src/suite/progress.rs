//! How far a suite is: a bar on a terminal, a line for each step elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};

/// Progress over a number of steps, on standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    steps_count: u64,
    step: u64,
}

impl Progress {
    pub(crate) fn new(steps_count: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}")
                .expect("a literal template");
            ProgressBar::new(steps_count).with_style(style)
        });
        Self {
            bar,
            steps_count,
            step: 0,
        }
    }

    /// A step begins.
    pub(crate) fn step(&mut self, text: &str) {
        self.step += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.step - 1);
                bar.set_message(text.to_owned());
            }
            None if !text.is_empty() => say(&format!("{}/{}: {text}", self.step, self.steps_count)),
            None => {}
        }
    }

    /// Something else happens.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => say(text),
        }
    }

    /// All steps are done.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn say(text: &str) {
    // Nobody is left to be told of a failure.
    let _ = writeln!(std::io::stderr(), "{text}");
}
