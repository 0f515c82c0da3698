//! `ropewalk rm`.

use super::CliError;
use super::each::refuse_tree_as_admin;
use super::error::Failures;
use super::output::Listing;
use super::remote::{Place, Servers};
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
    /// nfs://HOST[:PORT]/PATH, or a path below ROPEWALK_URL
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
    refuse_tree_as_admin(place)?;
    tree(place).await
}

async fn remove(place: &Place) -> Result<(), CliError> {
    match place.client.remove(place.path()).await {
        // Somebody else was faster.
        Err(e) if e.is_not_found() => Ok(()),
        done => done.map_err(CliError::cannot("remove", &place.url)),
    }
}

/// Removes a tree from its leaves up.
async fn tree(root: &Place) -> Result<(), CliError> {
    let mut stack = vec![(root.clone(), 0)];
    while let Some((dir, rounds)) = stack.pop() {
        let below = empty(&dir).await?;
        if below.is_empty() {
            remove(&dir).await?;
            continue;
        }
        if rounds >= ROUNDS_MAX || stack.len() + below.len() > DIRS_WAITING_MAX {
            return Err(CliError::new(format!(
                "cannot remove {}: too many directories, or names keep coming back",
                dir.url
            )));
        }
        stack.push((dir, rounds + 1));
        stack.extend(below.into_iter().map(|d| (d, 0)));
    }
    Ok(())
}

/// Removes all but directories; returns those.
async fn empty(dir: &Place) -> Result<Vec<Place>, CliError> {
    let cannot = |e| CliError::cannot("read", &dir.url)(e);
    let mut reading = dir.client.read_dir(dir.path()).await.map_err(cannot)?;
    let mut below = Vec::new();
    while let Some(page) = reading.next_page().await.map_err(cannot)? {
        let (dirs, files): (Vec<_>, Vec<_>) = page.into_iter().partition(|e| e.metadata.is_dir());
        below.extend(dirs.iter().map(|e| dir.child(&e.name)));
        let removals = files.iter().map(|e| dir.child(&e.name));
        let mut removals = stream::iter(removals.collect::<Vec<_>>())
            .map(|place| async move { remove(&place).await })
            .buffer_unordered(REMOVALS);
        while let Some(done) = removals.next().await {
            done?;
        }
    }
    Ok(below)
}
