//! `ropewalk ds add-nfs3`: gives the metadata server the order, and shows what it found.

use super::probe::TargetArgs;
use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use clap::Args;
use control::ADDRESSES_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `ropewalk ds add-nfs3`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Address of NFS that clients are told, preferred first; repeatable. One of them must be in reach of the metadata
    /// server too [default: where the metadata server found it]
    #[arg(long = "client-address", value_name = "HOST:PORT")]
    client_addresses: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: MdsPlace,
}

/// What came of it. A server that is not fit has no id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Added {
    /// `f1`, `f2`, ...
    pub(crate) id: Option<String>,
    /// The report of the probe for programs.
    pub(crate) report: serde_json::Value,
    /// The same for people.
    pub(crate) report_text: String,
    /// Where clients are told that it is.
    pub(crate) client_addresses: Vec<String>,
    /// What a client machine looks for with `ropewalk ds probe-nfs3 --expect`.
    pub(crate) code: Option<String>,
    /// What an administrator should know, each a sentence.
    pub(crate) remarks: Vec<String>,
}

/// Has the metadata server try a server and add it. It fails when the server is not fit.
pub(crate) fn run(args: &AddArgs) -> Outcome {
    let server = mds_server(&args.place)?;
    let target = &args.target.target;
    if args.client_addresses.len() > ADDRESSES_MAX as usize {
        return Err(failed(format!(
            "a server has at most {ADDRESSES_MAX} addresses"
        )));
    }
    let order = Request::AddNfs3 {
        target: target.clone(),
        port: args.target.port,
        mount_port: args.target.mount_port,
        client_addresses: args.client_addresses.clone(),
    };
    if !args.json {
        out::say(format!(
            "the metadata server tries {target}; this takes up to 30 s"
        ));
    }
    let added: Added = ask(&server, &order)?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&added).map_err(cannot("write JSON"))?;
            out::line(&text)?;
        }
        false => out::print(&text(&added, &args.target))?,
    }
    match added.id {
        Some(_) => Ok(()),
        None => Err(failed(format!("{target} cannot hold data"))),
    }
}

fn text(added: &Added, target: &TargetArgs) -> String {
    let Some(id) = &added.id else {
        return added.report_text.clone();
    };
    let mut text = added.report_text.clone();
    text += &format!(
        "\nit is server {id}; clients find it at {}\n",
        added.client_addresses.join(" ")
    );
    if let Some(code) = &added.code {
        text += &format!(
            "see on a client machine whether it reaches the same export: ropewalk ds probe-nfs3 {} --expect {code}\n",
            target.as_typed()
        );
    }
    for remark in &added.remarks {
        text += &format!("{remark}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_fit_is_shown_by_its_report_alone() {
        let mut added = Added {
            report_text: "report\n".to_owned(),
            client_addresses: vec!["192.0.2.7:2049".to_owned()],
            remarks: vec!["mind this".to_owned()],
            ..Added::default()
        };
        let mut target = TargetArgs {
            target: "nas:/data".to_owned(),
            port: None,
            mount_port: None,
        };
        assert_eq!(text(&added, &target), "report\n");
        added.id = Some("f3".to_owned());
        added.code = Some("1-2".to_owned());
        let shown = text(&added, &target);
        assert!(shown.contains("probe-nfs3 nas:/data --expect 1-2\n"));
        (target.port, target.mount_port) = (Some(2050), Some(20_048));
        let shown = text(&added, &target);
        for part in [
            "report\n",
            "server f3;",
            "192.0.2.7:2049",
            "mind this\n",
            "probe-nfs3 nas:/data --port 2050 --mount-port 20048 --expect 1-2\n",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
}
