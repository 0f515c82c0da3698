//! `ropewalk chmod`.

use super::CliError;
use super::each::Change;
use super::error::Failures;
use super::mkdir::parse_mode;
use super::output::Listing;
use super::remote::Servers;
use client::SetAttrs;
use serde_json::json;
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Permission bits, in octal
    #[arg(value_name = "MODE", value_parser = parse_mode)]
    mode: u32,
    /// nfs://HOST[:PORT]/PATH, admin:/PATH, or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Change all that is in directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print JSON: how much was changed
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let wanted = SetAttrs {
        mode: Some(args.mode),
        ..SetAttrs::default()
    };
    let change = Change {
        wanted,
        what: "change the mode of",
    };
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    for path in &args.paths {
        let place = servers.place(path).await?;
        let changed = change.make(&place, args.recursive, &mut failures).await;
        let told = changed.and_then(|count| {
            out.done(|| json!({ "changed": place.url.to_string(), "count": count }))
        });
        failures.note(told)?;
    }
    out.finish()?;
    failures.verdict("change")
}
