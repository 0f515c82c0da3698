//! `ropewalk mkdir`.

use super::CliError;
use super::output::Listing;
use super::remote::{Place, Servers};
use client::{Error, NfsStatus};
use serde_json::json;
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// nfs://HOST[:PORT]/PATH, or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Make the directories above too, and take existing ones
    #[arg(short, long)]
    parents: bool,
    /// Permission bits, in octal
    #[arg(short, long, value_name = "MODE", default_value = "755", value_parser = parse_mode)]
    mode: u32,
    /// Print JSON: what was done
    #[arg(long)]
    json: bool,
}

pub(super) fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|m| *m <= 0o7777)
        .ok_or_else(|| "write permission bits in octal, as in 755".to_owned())
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let mut out = Listing::new(args.json);
    for path in &args.paths {
        let place = servers.place(path).await?;
        let made = match args.parents {
            true => with_parents(&place, args.mode).await,
            false => place.client.mkdir(place.path(), args.mode).await.map(drop),
        };
        made.map_err(CliError::cannot("make the directory", &place.url))?;
        out.done(|| json!({ "made": place.url.to_string() }))?;
    }
    out.finish()
}

/// Makes every directory of the path that is missing.
pub(crate) async fn with_parents(place: &Place, mode: u32) -> Result<(), Error> {
    let path = place.path();
    let ends = (1..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
    for end in ends {
        let above = &path[..end];
        match place.client.mkdir(above, mode).await {
            Ok(_) => {}
            // The root, and names like `.`, exist.
            Err(Error::Path(_)) => {}
            Err(e) => match place.client.metadata(above).await {
                Ok(m) if m.is_dir() => {}
                Ok(_) => return Err(Error::Status(NfsStatus::NotDir)),
                Err(_) => return Err(e),
            },
        }
    }
    Ok(())
}
