//! One change to files, or to whole trees.
//!
//! A tree is walked by handles: what was seen in a directory is what is changed, and entered. Whoever may write in the tree can
//! put a link in the place of a directory meanwhile, and it leads nowhere.

use super::CliError;
use super::error::Failures;
use super::output::beside;
use super::remote::Place;
use client::{DirEntry, FileHandle, Metadata, SetAttrs};
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Changes in flight.
const CHANGES: usize = 16;
/// Most directories that wait.
const DIRS_WAITING_MAX: usize = 1 << 20;
/// What takes longer shows how far it is.
const LONG: Duration = Duration::from_secs(1);

/// How much was done, shown on a terminal when that takes long.
pub(super) struct Tally {
    since: Instant,
    /// What is counted.
    what: &'static str,
    count: u64,
    bar: Option<ProgressBar>,
}

impl Tally {
    /// Nothing yet of what is called `what`.
    pub(super) fn new(what: &'static str) -> Self {
        Self {
            since: Instant::now(),
            what,
            count: 0,
            bar: None,
        }
    }

    /// One more is done, or has failed, which is told.
    pub(super) fn note(
        &mut self,
        done: Result<(), CliError>,
        failures: &mut Failures,
    ) -> Result<(), CliError> {
        if done.is_ok() {
            self.one();
        }
        beside(self.bar.as_ref(), || failures.note(done))
    }

    /// One more is done.
    pub(super) fn one(&mut self) {
        self.count += 1;
        let is_long = self.since.elapsed() >= LONG;
        if self.bar.is_none() && is_long && std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            let style = format!("{{spinner}} {{pos}} {}, {{elapsed}}", self.what);
            if let Ok(style) = ProgressStyle::with_template(&style) {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.count);
        }
    }

    /// What was done.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

impl Drop for Tally {
    /// Nor does a command that a signal ends leave a bar.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Something in a directory.
pub(super) struct Below {
    pub(super) place: Place,
    pub(super) fh: FileHandle,
    pub(super) metadata: Metadata,
}

impl Below {
    /// An entry of a directory that was read with handles. A server of others that tells none is asked by name, but not with
    /// root's rights: the name may mean something else by now.
    pub(super) async fn of(dir: &Place, entry: DirEntry) -> Result<Self, CliError> {
        let place = dir.child(&entry.name);
        let (fh, metadata) = match entry.fh {
            Some(fh) => (fh, entry.metadata),
            None if place.url.is_admin() => {
                let why = format!("{}: the server does not tell its handle", place.url);
                return Err(CliError::new(why));
            }
            None => {
                let found = place.client.lookup_link(place.path()).await;
                let object = found.map_err(CliError::cannot("find", &place.url))?;
                (object.fh, object.metadata)
            }
        };
        Ok(Self {
            place,
            fh,
            metadata,
        })
    }
}

/// A change of attributes.
pub(super) struct Change {
    pub(super) wanted: SetAttrs,
    /// As in "cannot change the owner of".
    pub(super) what: &'static str,
}

impl Change {
    /// Makes it at a place; with `is_recursive` at all below as well, directories before what is in them. Symbolic links below
    /// are left alone. Returns how much was changed.
    pub(super) async fn make(
        &self,
        root: &Place,
        is_recursive: bool,
        failures: &mut Failures,
    ) -> Result<u64, CliError> {
        if is_recursive {
            return self.tree(root, failures).await;
        }
        let set = root.client.set_attrs(root.path(), &self.wanted).await;
        set.map_err(CliError::cannot(self.what, &root.url))?;
        Ok(1)
    }

    async fn tree(&self, root: &Place, failures: &mut Failures) -> Result<u64, CliError> {
        // As chown(1) -R does it: a link is no way into a tree.
        let found = root.client.lookup_link(root.path()).await;
        let object = found.map_err(CliError::cannot("find", &root.url))?;
        if object.metadata.is_symlink() {
            return Err(CliError::new(format!(
                "{} is a symbolic link; name what it leads to",
                root.url
            )));
        }
        let top = Below {
            place: root.clone(),
            fh: object.fh,
            metadata: object.metadata,
        };
        let mut tally = Tally::new("changed");
        tally.note(self.one(&top).await, failures)?;
        let mut waiting = vec![top];
        while let Some(dir) = waiting.pop() {
            if !dir.metadata.is_dir() {
                continue;
            }
            let read = self.level(&dir, &mut waiting, &mut tally, failures).await;
            match read {
                Err(e) => tally.note(Err(e), failures)?,
                Ok(()) if waiting.len() > DIRS_WAITING_MAX => {
                    let dir = dir.place.url;
                    let why = format!("{dir}: more than {DIRS_WAITING_MAX} directories wait");
                    return Err(CliError::new(why));
                }
                Ok(()) => {}
            }
        }
        Ok(tally.count())
    }

    /// Changes all that is in a directory; its directories wait.
    async fn level(
        &self,
        dir: &Below,
        waiting: &mut Vec<Below>,
        tally: &mut Tally,
        failures: &mut Failures,
    ) -> Result<(), CliError> {
        let reading = dir.place.client.read_dir_of(dir.fh.clone());
        let mut reading = reading.with_handles();
        loop {
            let page = reading.next_page().await;
            let Some(page) = page.map_err(CliError::cannot("read", &dir.place.url))? else {
                return Ok(());
            };
            let found = page.into_iter().filter(|e| !e.metadata.is_symlink());
            let place = &dir.place;
            let mut changes = stream::iter(found)
                .map(|entry| async move {
                    let below = Below::of(place, entry).await?;
                    Ok::<_, CliError>((self.one(&below).await, below))
                })
                .buffer_unordered(CHANGES);
            while let Some(changed) = changes.next().await {
                match changed {
                    Ok((done, below)) => {
                        tally.note(done, failures)?;
                        waiting.extend(Some(below).filter(|below| below.metadata.is_dir()));
                    }
                    Err(e) => tally.note(Err(e), failures)?,
                }
            }
        }
    }

    /// With root's rights a file with other names stays as it is: a user may have linked somebody else's file into the tree.
    async fn one(&self, below: &Below) -> Result<(), CliError> {
        let Below {
            place,
            fh,
            metadata,
        } = below;
        if place.url.is_admin() && !metadata.is_dir() && metadata.links_count > 1 {
            return Err(CliError::new(format!(
                "{} is left as it is: it has {} names, and some may be outside of the tree; name it by itself",
                place.url, metadata.links_count
            )));
        }
        let set = place.client.set_attrs_of(fh, &self.wanted).await;
        set.map_err(CliError::cannot(self.what, &place.url))
    }
}
