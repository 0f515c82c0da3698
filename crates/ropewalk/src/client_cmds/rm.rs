//! `ropewalk rm`.

use super::CliError;
use super::each::{Below, Tally};
use super::error::Failures;
use super::output::Listing;
use super::remote::{Place, Servers};
use client::FileHandle;
use futures_util::{StreamExt, stream};
use serde_json::json;
use std::ffi::OsString;

/// Removals in flight.
const REMOVALS: usize = 16;
/// Most directories that wait to be removed.
const DIRS_WAITING_MAX: usize = 1 << 20;
/// Rounds over a directory whose names keep coming back.
const ROUNDS_MAX: u32 = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// nfs://HOST[:PORT]/PATH, admin:/PATH, or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Remove directories and what is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Do not complain about what does not exist
    #[arg(short, long)]
    force: bool,
    /// Print JSON: what was done
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    for path in &args.paths {
        let place = servers.place(path).await?;
        let removed = one(args, &place).await;
        let removed =
            removed.and_then(|()| out.done(|| json!({ "removed": place.url.to_string() })));
        failures.note(removed)?;
    }
    out.finish()?;
    failures.verdict("removal")
}

async fn one(args: &Args, place: &Place) -> Result<(), CliError> {
    if place.name().is_empty() {
        return Err(CliError::new(format!(
            "refusing to remove the root {}",
            place.url
        )));
    }
    let object = match place.client.lookup_link(place.path()).await {
        Err(e) if e.is_not_found() && args.force => return Ok(()),
        found => found.map_err(CliError::cannot("remove", &place.url))?,
    };
    if !object.metadata.is_dir() {
        return remove(place).await;
    }
    if !args.recursive {
        return Err(CliError::new(format!(
            "{} is a directory; use -r to remove it with all that is in it",
            place.url
        )));
    }
    tree(Below {
        place: place.clone(),
        fh: object.fh,
        metadata: object.metadata,
    })
    .await
}

async fn remove(place: &Place) -> Result<(), CliError> {
    judge(place, place.client.remove(place.path()).await)
}

/// The same by its name in a directory.
async fn remove_in(place: &Place, dir: &FileHandle) -> Result<(), CliError> {
    judge(place, place.client.remove_in(dir, place.name()).await)
}

fn judge(place: &Place, removed: Result<(), client::Error>) -> Result<(), CliError> {
    match removed {
        // Somebody else was faster.
        Err(e) if e.is_not_found() => Ok(()),
        done => done.map_err(CliError::cannot("remove", &place.url)),
    }
}

/// A directory that is removed, with where its name is: none for the top, which goes by its path.
struct Dir {
    below: Below,
    parent: Option<FileHandle>,
    rounds: u32,
}

impl Dir {
    /// Removes it once it is empty.
    async fn remove(&self) -> Result<(), CliError> {
        let place = &self.below.place;
        match &self.parent {
            Some(parent) => remove_in(place, parent).await,
            None => remove(place).await,
        }
    }

    /// Removes all but directories; returns those.
    async fn empty(&self, tally: &mut Tally) -> Result<Vec<Self>, CliError> {
        let (place, fh) = (&self.below.place, &self.below.fh);
        let mut reading = place.client.read_dir_of(fh.clone()).with_handles();
        let mut below = Vec::new();
        loop {
            let page = reading.next_page().await;
            let Some(page) = page.map_err(CliError::cannot("read", &place.url))? else {
                return Ok(below);
            };
            let (dirs, files): (Vec<_>, Vec<_>) =
                page.into_iter().partition(|e| e.metadata.is_dir());
            for dir in dirs {
                below.push(Self {
                    below: Below::of(place, dir).await?,
                    parent: Some(fh.clone()),
                    rounds: 0,
                });
            }
            let removals = files.into_iter().map(|e| place.child(&e.name));
            let mut removals = stream::iter(removals)
                .map(|place| async move { remove_in(&place, fh).await })
                .buffer_unordered(REMOVALS);
            while let Some(done) = removals.next().await {
                done?;
                tally.one();
            }
        }
    }
}

/// Removes a tree from its leaves up, by handles ([`Below`]).
async fn tree(root: Below) -> Result<(), CliError> {
    let mut tally = Tally::new("removed");
    let mut stack = vec![Dir {
        below: root,
        parent: None,
        rounds: 0,
    }];
    while let Some(mut dir) = stack.pop() {
        let below = dir.empty(&mut tally).await?;
        if below.is_empty() {
            dir.remove().await?;
            tally.one();
            continue;
        }
        if dir.rounds >= ROUNDS_MAX || stack.len() + below.len() > DIRS_WAITING_MAX {
            return Err(CliError::new(format!(
                "cannot remove {}: too many directories, or names keep coming back",
                dir.below.place.url
            )));
        }
        dir.rounds += 1;
        stack.push(dir);
        stack.extend(below);
    }
    Ok(())
}
