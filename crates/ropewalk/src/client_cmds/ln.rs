//! `ropewalk ln`.

use super::CliError;
use super::output::Listing;
use super::remote::Servers;
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An existing file (nfs://HOST[:PORT]/PATH, or a path below ROPEWALK_URL); with -s the text of the link, taken as it is
    #[arg(value_name = "TARGET")]
    target: OsString,
    /// The new name, or a directory for it
    #[arg(value_name = "LINK")]
    link: OsString,
    /// Make a symbolic link
    #[arg(short, long)]
    symbolic: bool,
    /// Print JSON: what was done
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let mut link = servers.place(&args.link).await?;
    let target_name = args.target.as_bytes();
    if matches!(link.client.metadata(link.path()).await, Ok(m) if m.is_dir()) {
        let end = target_name
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(0, |i| i + 1);
        let name = target_name[..end].rsplit(|b| *b == b'/').next();
        link = link.child(name.unwrap_or_default());
    }
    let mut out = Listing::new(args.json);
    if args.symbolic {
        let made = link.client.symlink(target_name, link.path()).await;
        made.map_err(CliError::cannot("make the link", &link.url))?;
        let text = String::from_utf8_lossy(target_name);
        out.done(|| json!({ "link": link.url.to_string(), "text": text }))?;
        return out.finish();
    }
    let target = servers.place(&args.target).await?;
    if target.url.server() != link.url.server() {
        return Err(CliError::usage(
            "a hard link and its file are on one server",
        ));
    }
    let made = link.client.link(target.path(), link.path()).await;
    made.map_err(CliError::cannot(
        "link",
        format_args!("{} to {}", link.url, target.url),
    ))?;
    out.done(|| json!({ "link": link.url.to_string(), "file": target.url.to_string() }))?;
    out.finish()
}
