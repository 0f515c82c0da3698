//! `ropewalk ls`.

use super::error::Failures;
use super::output::Listing;
use super::remote::{Place, Servers};
use super::{CliError, show};
use client::{DirEntry, Metadata};
use std::ffi::OsString;

/// Most directories that wait to be listed with -R.
const DIRS_WAITING_MAX: usize = 1 << 20;
/// Most names that are sorted together; a larger directory is sorted in parts.
const SORTED_MAX: usize = 1 << 17;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// nfs://HOST[:PORT]/PATH (?vers=3 for NFSv3), or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", default_value = "")]
    paths: Vec<OsString>,
    /// Show mode, links, owner, group, size and time of modification (UTC)
    #[arg(short)]
    long: bool,
    /// Go into directories
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show names that begin with a dot
    #[arg(short, long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    for path in &args.paths {
        let place = servers.place(path).await?;
        let listed = list(args, &place, &mut out, &mut failures).await;
        failures.note(listed)?;
    }
    out.finish()?;
    failures.verdict("listing")
}

async fn list(
    args: &Args,
    place: &Place,
    out: &mut Listing,
    failures: &mut Failures,
) -> Result<(), CliError> {
    let found = place.client.lookup(place.path()).await;
    let object = found.map_err(CliError::cannot("list", &place.url))?;
    if !object.metadata.is_dir() {
        let name = place.name().to_vec();
        return entry(args, place, &name, &object.metadata, out).await;
    }
    let with_headings = args.recursive || args.paths.len() > 1;
    let mut waiting = vec![place.clone()];
    let mut first = true;
    while let Some(dir) = waiting.pop() {
        if with_headings {
            let gap = if first { "" } else { "\n" };
            out.heading(&format!("{gap}{}:", dir.url))?;
        }
        first = false;
        match directory(args, &dir, out).await {
            Ok(mut below) => {
                below.truncate(DIRS_WAITING_MAX.saturating_sub(waiting.len()));
                waiting.extend(below.into_iter().rev());
            }
            Err(e) => failures.note(Err(e))?,
        }
    }
    Ok(())
}

/// Lists one directory; returns the directories in it when they are to be listed too.
async fn directory(args: &Args, dir: &Place, out: &mut Listing) -> Result<Vec<Place>, CliError> {
    let cannot = |e| CliError::cannot("list", &dir.url)(e);
    let mut reading = dir.client.read_dir(dir.path()).await.map_err(cannot)?;
    let (mut below, mut sorted) = (Vec::new(), Vec::new());
    loop {
        let page = reading.next_page().await.map_err(cannot)?;
        let is_last = page.is_none();
        let shown = |e: &DirEntry| args.all || !e.name.starts_with(b".");
        sorted.extend(page.into_iter().flatten().filter(shown));
        if !is_last && sorted.len() < SORTED_MAX {
            continue;
        }
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        for e in sorted.drain(..) {
            let child = dir.child(&e.name);
            entry(args, &child, &e.name, &e.metadata, out).await?;
            if args.recursive && e.metadata.is_dir() {
                below.push(child);
            }
        }
        if is_last {
            return Ok(below);
        }
    }
}

async fn entry(
    args: &Args,
    place: &Place,
    name: &[u8],
    m: &Metadata,
    out: &mut Listing,
) -> Result<(), CliError> {
    let wants_target = m.is_symlink() && (args.long || args.json);
    let target = if wants_target {
        place.client.readlink(place.path()).await.ok()
    } else {
        None
    };
    let text = || {
        let name = show::name(name);
        if !args.long {
            return name;
        }
        let arrow = target
            .as_ref()
            .map_or_else(String::new, |t| format!(" -> {}", show::name(t)));
        format!(
            "{} {:>3} {:>8} {:>8} {:>12} {} {name}{arrow}",
            show::mode(m),
            m.links_count,
            m.owner,
            m.group,
            m.size,
            show::time(m.mtime),
        )
    };
    out.item(text, || show::json_of(&place.url, m, target.as_deref()))
}
