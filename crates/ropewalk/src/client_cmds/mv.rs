//! `ropewalk mv`.

use super::CliError;
use super::output::Listing;
use super::remote::Servers;
use serde_json::json;
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to rename, and the new name or the directory to move to: nfs://HOST[:PORT]/PATH, or paths below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
    /// Print JSON: what was done
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let Some((to, from)) = args.paths.split_last() else {
        return Err(CliError::usage("mv needs two paths"));
    };
    let to = servers.place(to).await?;
    let into = matches!(to.client.metadata(to.path()).await, Ok(m) if m.is_dir());
    if from.len() > 1 && !into {
        return Err(CliError::new(format!("{} is not a directory", to.url)));
    }
    let mut out = Listing::new(args.json);
    for path in from {
        let from = servers.place(path).await?;
        if from.url.server() != to.url.server() {
            return Err(CliError::usage(format!(
                "{} and {} are on different servers; use cp, then rm",
                from.url, to.url
            )));
        }
        let target = match into {
            true => to.child(from.name()),
            false => to.clone(),
        };
        let renamed = from.client.rename(from.path(), target.path()).await;
        renamed.map_err(CliError::cannot(
            "rename",
            format_args!("{} to {}", from.url, target.url),
        ))?;
        out.done(|| json!({ "from": from.url.to_string(), "to": target.url.to_string() }))?;
    }
    out.finish()
}
