//! `ropewalk chmod`.

use super::CliError;
use super::each::each;
use super::error::Failures;
use super::mkdir::parse_mode;
use super::remote::Servers;
use client::SetAttrs;
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
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let wanted = SetAttrs {
        mode: Some(args.mode),
        ..SetAttrs::default()
    };
    let mut failures = Failures::default();
    for path in &args.paths {
        let place = servers.place(path).await?;
        let changed = each(&place, args.recursive, &mut failures, async |place| {
            let set = place.client.set_attrs(place.path(), &wanted).await;
            set.map_err(CliError::cannot("change the mode of", &place.url))
        });
        let changed = changed.await;
        failures.note(changed)?;
    }
    failures.verdict("change")
}
