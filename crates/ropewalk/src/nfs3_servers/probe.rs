//! `ropewalk ds probe-nfs3`: whether an NFSv3 server of others could hold data for this file system, and what it lacks.

use super::found::{json, text};
use super::reach::Target;
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use clap::Args;
use foreign::{ExportIdentity, Sighting};

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
    /// As it is given to a command.
    pub(super) fn as_typed(&self) -> String {
        let mut typed = self.target.clone();
        let ports = [("--port", self.port), ("--mount-port", self.mount_port)];
        for (option, port) in ports {
            if let Some(port) = port {
                typed += &format!(" {option} {port}");
            }
        }
        typed
    }

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
    /// Only look whether it is the export that the metadata server uses: on a client machine, with the code that `add-nfs3`
    /// printed
    #[arg(long, value_name = "CODE")]
    expect: Option<ExportIdentity>,
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
    if let Some(identity) = &args.expect {
        let seen = runtime.block_on(async {
            let reached = target.reach().await?;
            let seen = reached.look(identity).await;
            reached.leave().await;
            seen
        })?;
        return tell(identity, seen, args);
    }
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

/// It fails unless it is the same export.
fn tell(identity: &ExportIdentity, seen: Sighting, args: &ProbeArgs) -> Outcome {
    let said = said(identity, seen);
    let is_same = seen == Sighting::Same;
    if args.json {
        let told = serde_json::json!({ "same": is_same, "why": (!is_same).then_some(&said) });
        out::line(&told.to_string())?;
    }
    let said = format!("{}: {said}", args.target.target);
    match (is_same, args.json) {
        (true, true) => Ok(()),
        (true, false) => out::line(&said),
        (false, _) => Err(failed(said)),
    }
}

/// What a sighting means, and what to do.
fn said(identity: &ExportIdentity, seen: Sighting) -> String {
    let file = identity.file_name();
    match seen {
        Sighting::Same => "it is the export that the metadata server uses".to_owned(),
        Sighting::OtherCode => format!(
            "{file} has another code: this is another export of the cluster, or it was removed and added again and has a newer code"
        ),
        Sighting::NoFile => format!(
            "there is no {file}: this is another export, or another server has this name or address here"
        ),
        Sighting::NoSearch => format!(
            "nobody may look for {file} there: let others search the exported directory (chmod o+x), and look again"
        ),
        Sighting::NoRead => {
            format!("{file} is there and may not be read: give it mode 0644, and look again")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sighting_says_what_differs() {
        let identity = ExportIdentity {
            cluster_id: 0xab,
            code: 1,
        };
        for (seen, part) in [
            (Sighting::Same, "it is the export"),
            (Sighting::OtherCode, "another code"),
            (
                Sighting::NoFile,
                "there is no .ropewalk-identity-00000000000000ab:",
            ),
            (Sighting::NoSearch, "o+x"),
            (Sighting::NoRead, "0644"),
        ] {
            let said = said(&identity, seen);
            assert!(said.contains(part), "{said}");
        }
    }
}
