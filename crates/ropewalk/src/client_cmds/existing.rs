//! `ropewalk layout set --existing`: files that are there get the layout too, one after the other, a few at one time.
//!
//! The work is the metadata server's: each file is asked for by its attribute `ropewalk.layout`, which then tells how far it
//! is. To stop and to start again loses nothing: what has the layout is passed over, and what was begun goes on at the server.
//! The first SIGINT or SIGTERM ends the walk when the files that are under way have ended, the second at once.

use super::error::Failures;
use super::output::{self, Listing};
use super::remote::{Place, Stop};
use super::wanted::{WantedLayout, XATTR, word};
use super::{CliError, show};
use client::{Error, NfsStatus};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Files that are asked for at one time: as many as the server works on.
const FILES_AT_ONCE: usize = 4;
/// Deepest tree, and most directories that wait.
const DIRS_MAX: usize = 1 << 20;
/// Tries of an order that the server puts off, a pause before each: ten minutes.
const TRIES_MAX: u32 = 3000;
/// Pause between two looks at the files that are worked on.
const LOOK: Duration = Duration::from_millis(200);

/// One walk.
pub(super) struct Walk<'a> {
    wanted: &'a WantedLayout,
    dry_run: bool,
    out: &'a mut Listing,
    failures: &'a mut Failures,
    bar: Option<ProgressBar>,
    stop: &'a Stop,
    running: VecDeque<Place>,
    /// Files that have the layout now, by this walk.
    files: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        wanted: &'a WantedLayout,
        (dry_run, quiet, stop): (bool, bool, &'a Stop),
        out: &'a mut Listing,
        failures: &'a mut Failures,
    ) -> Self {
        let bar = !quiet && io::stderr().is_terminal();
        Self {
            wanted,
            dry_run,
            out,
            failures,
            bar: bar.then(|| ProgressBar::new(0).with_style(style())),
            stop,
            running: VecDeque::new(),
            files: 0,
        }
    }

    /// Walks a directory, or takes one file.
    pub(super) async fn run(mut self, root: &Place) -> Result<(), CliError> {
        let found = root.client.lookup(root.path()).await;
        let metadata = found.map_err(CliError::cannot("read", &root.url))?.metadata;
        if self.bar.is_some() {
            self.count(root, metadata.is_dir()).await;
        }
        self.stop.end_itself(true);
        let walked = if metadata.is_dir() {
            self.dirs(root).await
        } else if metadata.is_file() {
            self.file(root).await
        } else {
            Err(CliError::new(format!("{} has no layout", root.url)))
        };
        let told = self.ended().await;
        self.stop.end_itself(false);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let walked = match walked {
            // The files that were under way count.
            Err(e) if e.is_interruption() => Err(self.stopped()),
            walked => walked,
        };
        walked.and(told)
    }

    /// Waits for the files that are under way.
    async fn ended(&mut self) -> Result<(), CliError> {
        while let Some(first) = self.running.pop_front() {
            self.until_done(&first).await?;
        }
        Ok(())
    }

    /// Counts the files for the bar. What cannot be read is told when it is its turn.
    async fn count(&self, root: &Place, is_dir: bool) {
        let Some(bar) = &self.bar else { return };
        if !is_dir {
            return bar.inc_length(1);
        }
        let mut waiting = vec![root.clone()];
        while let Some(dir) = waiting.pop() {
            let Ok(mut reading) = dir.client.read_dir(dir.path()).await else {
                continue;
            };
            while let Ok(Some(page)) = reading.next_page().await {
                let files = page.iter().filter(|entry| entry.metadata.is_file()).count();
                bar.inc_length(files as u64);
                let dirs = page.iter().filter(|entry| entry.metadata.is_dir());
                let room = DIRS_MAX.saturating_sub(waiting.len());
                waiting.extend(dirs.take(room).map(|entry| dir.child(&entry.name)));
            }
        }
    }

    /// A file is as it is to be, or is no more.
    fn passed(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn stopped(&self) -> CliError {
        CliError::stopped(format!(
            "stopped: {} files are laid out anew; the same command goes on with the others",
            self.files
        ))
    }

    async fn dirs(&mut self, root: &Place) -> Result<(), CliError> {
        let mut waiting = vec![root.clone()];
        while let Some(dir) = waiting.pop() {
            let read = self.dir(&dir, &mut waiting).await;
            self.failures.note(read)?;
        }
        Ok(())
    }

    async fn dir(&mut self, dir: &Place, waiting: &mut Vec<Place>) -> Result<(), CliError> {
        let reading = dir.client.read_dir(dir.path()).await;
        let mut reading = reading.map_err(CliError::cannot("read", &dir.url))?;
        loop {
            let page = reading.next_page().await;
            let page = page.map_err(CliError::cannot("read", &dir.url))?;
            let Some(page) = page else { return Ok(()) };
            for entry in page {
                let place = dir.child(&entry.name);
                if entry.metadata.is_file() {
                    let done = self.file(&place).await;
                    self.failures.note(done)?;
                } else if entry.metadata.is_dir() {
                    if waiting.len() >= DIRS_MAX {
                        return Err(CliError::new(format!(
                            "{} has too many directories",
                            dir.url
                        )));
                    }
                    waiting.push(place);
                }
            }
        }
    }

    /// Begins one file, once there is room for it.
    async fn file(&mut self, place: &Place) -> Result<(), CliError> {
        let text = match layout_of(place).await {
            // Removed meanwhile.
            Err(Error::Status(NfsStatus::NoEnt | NfsStatus::Stale)) => return Ok(()),
            found => found.map_err(CliError::cannot("read the layout of", &place.url))?,
        };
        if self.wanted.is_met_by(&text) {
            self.passed();
            return Ok(());
        }
        if self.stop.is_asked() {
            return Err(self.stopped());
        }
        if self.dry_run {
            return self.tell(place, "would be laid out anew");
        }
        while self.running.len() >= FILES_AT_ONCE {
            let Some(first) = self.running.pop_front() else {
                break;
            };
            self.until_done(&first).await?;
        }
        if self.stop.is_asked() {
            return Err(self.stopped());
        }
        let value = self.wanted.text.as_bytes();
        let mut tries = 0;
        loop {
            tries += 1;
            match place
                .client
                .set_xattr(place.path(), XATTR, Some(value))
                .await
            {
                Ok(()) => break,
                // Others have the server do as much as it does at one time.
                Err(Error::Status(NfsStatus::Delay)) if tries < TRIES_MAX => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(Error::Status(NfsStatus::NoEnt | NfsStatus::Stale)) => return Ok(()),
                Err(error) => {
                    return Err(CliError::cannot("set the layout of", &place.url)(error));
                }
            }
        }
        self.running.push_back(place.clone());
        Ok(())
    }

    async fn until_done(&mut self, place: &Place) -> Result<(), CliError> {
        let done = self.wait_for(place).await;
        self.passed();
        let (bar, failures) = (self.bar.as_ref(), &mut self.failures);
        output::beside(bar, || failures.note(done))
    }

    async fn wait_for(&mut self, place: &Place) -> Result<(), CliError> {
        loop {
            let text = match layout_of(place).await {
                Err(Error::Status(NfsStatus::NoEnt | NfsStatus::Stale)) => return Ok(()),
                found => found.map_err(CliError::cannot("read the layout of", &place.url))?,
            };
            if let Some(copied) = word(&text, "restriped") {
                if let Some(bar) = &self.bar {
                    let copied = show::human(copied.parse().unwrap_or(0));
                    bar.set_message(format!("{}: {copied}", place.url));
                    bar.tick();
                }
                tokio::time::sleep(LOOK).await;
                continue;
            }
            if self.wanted.is_met_by(&text) {
                self.files += 1;
                return self.tell(place, "laid out anew");
            }
            let why = match word(&text, "restripe_failed") {
                Some("NFS4ERR_DELAY") => {
                    "it is used too much, or data servers are away; try again later"
                }
                Some(status) => status,
                None => "the data servers that there are do not allow it",
            };
            return Err(CliError::new(format!(
                "cannot set the layout of {}: {why}",
                place.url
            )));
        }
    }

    fn tell(&mut self, place: &Place, what: &str) -> Result<(), CliError> {
        let path = String::from_utf8_lossy(place.path()).into_owned();
        let done = !self.dry_run;
        let told = || {
            self.out.item(
                || format!("{}: {what}", place.url),
                || json!({ "path": path, "restriped": done }),
            )
        };
        output::beside(self.bar.as_ref(), told)
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} files, {msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

async fn layout_of(place: &Place) -> Result<String, Error> {
    let value = place.client.xattr(place.path(), XATTR).await?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}
