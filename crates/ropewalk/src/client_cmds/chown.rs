//! `ropewalk chown`.

use super::CliError;
use super::each::Change;
use super::error::Failures;
use super::output::Listing;
use super::remote::Servers;
use crate::nss;
use client::SetAttrs;
use serde_json::json;
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The owner, the group, or both: names of this machine, or numbers
    #[arg(value_name = "OWNER[:GROUP]", value_parser = parse_owner)]
    owner: Owner,
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

/// Who is to own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    uid: Option<u32>,
    gid: Option<u32>,
}

fn parse_owner(text: &str) -> Result<Owner, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, group),
        None => (text, ""),
    };
    let given = |name: &str, id: fn(&str) -> Result<u32, String>| match name {
        "" => Ok(None),
        name => id(name).map(Some),
    };
    let (uid, gid) = (given(user, nss::user_id)?, given(group, nss::group_id)?);
    match (uid, gid) {
        (None, None) => Err("write OWNER, OWNER:GROUP or :GROUP".to_owned()),
        (uid, gid) => Ok(Owner { uid, gid }),
    }
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let wanted = SetAttrs {
        uid: args.owner.uid,
        gid: args.owner.gid,
        ..SetAttrs::default()
    };
    let change = Change {
        wanted,
        what: "change the owner of",
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

#[cfg(test)]
mod tests {
    //! Goal: owners are read as chown(1) reads them.
    use super::*;

    #[test]
    fn an_owner_is_a_user_a_group_or_both() {
        for (text, uid, gid) in [
            ("0", Some(0), None),
            ("root:0", Some(0), Some(0)),
            (":7", None, Some(7)),
            ("1000:", Some(1000), None),
        ] {
            assert_eq!(parse_owner(text), Ok(Owner { uid, gid }), "{text}");
        }
        for text in ["", ":", "no such user here", "0:no such group here", "-1"] {
            assert!(parse_owner(text).is_err(), "{text}");
        }
    }
}
