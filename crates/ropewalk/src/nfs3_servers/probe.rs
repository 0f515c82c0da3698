//! `ropewalk ds probe-nfs3`: whether an NFSv3 server of others could hold data for this file system, and what it lacks.

use super::found::{json, text};
use super::reach::Target;
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use clap::Args;

/// Where an NFSv3 server is.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The server and the directory that it exports, as HOST:/PATH
    #[arg(value_name = "HOST:/PATH")]
    pub target: String,
    /// Port of NFS [default: what its rpcbind says, or 2049]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Port of MOUNT [default: what its rpcbind says, or that of NFS]
    #[arg(long, value_name = "PORT")]
    pub mount_port: Option<u16>,
}

impl TargetArgs {
    pub(super) fn target(&self) -> Target<'_> {
        Target {
            text: &self.target,
            port: self.port,
            mount_port: self.mount_port,
        }
    }
}

/// `ropewalk ds probe-nfs3`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Tries the server. It fails when the server is not fit.
pub(crate) fn run(args: &ProbeArgs) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot("start"))?;
    let target = args.target.target();
    let report = runtime.block_on(async {
        let reached = target.reach().await?;
        let report = reached.probe().await;
        reached.leave().await;
        report
    })?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&json(&report));
            out::line(&text.map_err(cannot("write JSON"))?)?;
        }
        false => out::print(&text(&report))?,
    }
    match report.is_fit() {
        true => Ok(()),
        false => Err(failed(format!("{} cannot hold data", target.text))),
    }
}
