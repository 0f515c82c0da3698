//! `ropewalk du`.

use super::error::Failures;
use super::output::Listing;
use super::remote::{Place, Servers};
use super::{CliError, show};
use client::DirEntry;
use serde_json::json;
use std::collections::HashSet;
use std::ffi::OsString;

/// Most files with several names that are remembered, to be counted once.
const LINKED_MAX: usize = 1 << 20;
/// Deepest tree.
const DEPTH_MAX: usize = 4096;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// nfs://HOST[:PORT]/PATH (?vers=3 for NFSv3), or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", default_value = "")]
    paths: Vec<OsString>,
    /// Sizes with units, as 1.5M; otherwise KiB
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Only a total for each PATH
    #[arg(short, long)]
    summarize: bool,
    /// Print JSON, in bytes
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    let mut linked = HashSet::new();
    for path in &args.paths {
        let place = servers.place(path).await?;
        let added = add_up(args, &place, &mut linked, &mut out, &mut failures).await;
        failures.note(added)?;
    }
    out.finish()?;
    failures.verdict("directory")
}

/// A directory in progress.
struct Level {
    place: Place,
    bytes: u64,
    dirs: Vec<(Place, u64)>,
}

async fn add_up(
    args: &Args,
    root: &Place,
    linked: &mut HashSet<u64>,
    out: &mut Listing,
    failures: &mut Failures,
) -> Result<(), CliError> {
    let found = root.client.lookup(root.path()).await;
    let m = found.map_err(CliError::cannot("read", &root.url))?.metadata;
    if !m.is_dir() {
        return report(args, root, m.space_bytes, out);
    }
    let mut stack = vec![level(root, m.space_bytes, linked, failures).await?];
    while let Some(mut top) = stack.pop() {
        match top.dirs.pop() {
            Some((place, own)) if stack.len() < DEPTH_MAX => {
                stack.push(top);
                stack.push(level(&place, own, linked, failures).await?);
            }
            Some((place, _)) => {
                failures.note(Err(CliError::new(format!("{} is too deep", place.url))))?;
                stack.push(top);
            }
            None => {
                if !args.summarize || stack.is_empty() {
                    report(args, &top.place, top.bytes, out)?;
                }
                if let Some(above) = stack.last_mut() {
                    above.bytes += top.bytes;
                }
            }
        }
    }
    Ok(())
}

/// Reads a directory: its files are added up, its directories wait. One that cannot be read counts with what it takes itself.
async fn level(
    place: &Place,
    own_bytes: u64,
    linked: &mut HashSet<u64>,
    failures: &mut Failures,
) -> Result<Level, CliError> {
    let mut level = Level {
        place: place.clone(),
        bytes: own_bytes,
        dirs: Vec::new(),
    };
    let read = async {
        let mut reading = place.client.read_dir(place.path()).await?;
        while let Some(page) = reading.next_page().await? {
            for e in page {
                level.add(&e, linked);
            }
        }
        Ok::<_, client::Error>(())
    };
    let read = read.await.map_err(CliError::cannot("read", &place.url));
    failures.note(read)?;
    Ok(level)
}

impl Level {
    fn add(&mut self, e: &DirEntry, linked: &mut HashSet<u64>) {
        let m = &e.metadata;
        if m.is_dir() {
            self.dirs.push((self.place.child(&e.name), m.space_bytes));
            return;
        }
        let is_known = m.links_count > 1 && linked.len() < LINKED_MAX && !linked.insert(m.file_id);
        if !is_known {
            self.bytes += m.space_bytes;
        }
    }
}

fn report(args: &Args, place: &Place, bytes: u64, out: &mut Listing) -> Result<(), CliError> {
    let text = || {
        let size = match args.human_readable {
            true => show::human(bytes),
            false => bytes.div_ceil(1024).to_string(),
        };
        format!("{size}\t{}", place.url)
    };
    let path = String::from_utf8_lossy(place.path());
    out.item(text, || json!({ "path": path, "bytes": bytes }))
}
