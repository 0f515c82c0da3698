//! `ropewalk stat`.

use super::error::Failures;
use super::output::Listing;
use super::remote::Servers;
use super::{CliError, show};
use std::ffi::{OsStr, OsString};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// nfs://HOST[:PORT]/PATH (?vers=3 for NFSv3), or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Follow a symbolic link
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    for path in &args.paths {
        failures.note(one(args, path, servers, &mut out).await)?;
    }
    out.finish()?;
    failures.verdict("file")
}

async fn one(
    args: &Args,
    path: &OsStr,
    servers: &Servers,
    out: &mut Listing,
) -> Result<(), CliError> {
    let place = servers.place(path).await?;
    let found = match args.dereference {
        true => place.client.lookup(place.path()).await,
        false => place.client.lookup_link(place.path()).await,
    };
    let m = found
        .map_err(CliError::cannot("stat", &place.url))?
        .metadata;
    let target = match m.is_symlink() {
        true => place.client.readlink(place.path()).await.ok(),
        false => None,
    };
    let text = || {
        let arrow = target
            .as_ref()
            .map_or_else(String::new, |t| format!(" -> {}", show::name(t)));
        format!(
            "{}{arrow}\n  type {}   size {}   space {}   inode {}   links {}\n  mode {:04o} ({})   owner {}   group {}\n  accessed {}   modified {}   changed {} (UTC)",
            place.url,
            show::type_name(m.file_type),
            m.size,
            m.space_bytes,
            m.file_id,
            m.links_count,
            m.mode,
            show::mode(&m),
            m.owner,
            m.group,
            show::time(m.atime),
            show::time(m.mtime),
            show::time(m.ctime),
        )
    };
    out.item(text, || show::json_of(&place.url, &m, target.as_deref()))
}
