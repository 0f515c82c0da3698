//! `ropewalk ds drain-nfs3`, `ropewalk ds undrain-nfs3` and `ropewalk ds remove-nfs3`.

use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::Outcome;
use crate::out;
use clap::Args;

/// An NFSv3 server of others, as `f3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerId(pub(crate) u32);

impl std::str::FromStr for ServerId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let digits = text.strip_prefix('f');
        let digits = digits.filter(|d| d.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        number
            .map(Self)
            .ok_or("a server of others is f and a number, as `ropewalk ds list` shows it")
    }
}

impl std::fmt::Display for ServerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// `ropewalk ds drain-nfs3`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Id of the server, as `ropewalk ds list` shows it: f1, f2, ...
    id: ServerId,
    #[command(flatten)]
    place: MdsPlace,
}

/// `ropewalk ds undrain-nfs3`.
#[derive(Debug, Args)]
pub(crate) struct UndrainArgs {
    /// Id of the server, as `ropewalk ds list` shows it: f1, f2, ...
    id: ServerId,
    #[command(flatten)]
    place: MdsPlace,
}

/// `ropewalk ds remove-nfs3`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Id of the server, as `ropewalk ds list` shows it: f1, f2, ...
    id: ServerId,
    /// Remove it even if files may lie there. What they have there alone is lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: MdsPlace,
}

/// Gives a server no new files, and its files to others.
pub(crate) fn drain(args: &DrainArgs) -> Outcome {
    let server_id = args.id.0;
    ask::<()>(&mds_server(&args.place)?, &Request::DrainNfs3 { server_id })?;
    out::line(&format!(
        "server {} gets no new files, and its files move to others; `ropewalk ds list` shows how many are left",
        args.id
    ))
}

/// Gives a server new files again.
pub(crate) fn undrain(args: &UndrainArgs) -> Outcome {
    let server_id = args.id.0;
    ask::<()>(
        &mds_server(&args.place)?,
        &Request::UndrainNfs3 { server_id },
    )?;
    out::line(&format!("server {} gets new files again", args.id))
}

/// Takes a server out of the cluster.
pub(crate) fn remove(args: &RemoveArgs) -> Outcome {
    let order = Request::RemoveNfs3 {
        server_id: args.id.0,
        force: args.force,
    };
    ask::<()>(&mds_server(&args.place)?, &order)?;
    out::line(&format!(
        "server {} is used no more; what it has in its directory .ropewalk-* can be removed",
        args.id
    ))
}

#[cfg(test)]
mod tests {
    use super::ServerId;

    #[test]
    fn a_server_of_others_is_no_data_server() {
        assert_eq!("f3".parse(), Ok(ServerId(3)));
        assert_eq!(ServerId(3).to_string(), "f3");
        for wrong in ["3", "f", "f-1", "f+1", "F3", "f4294967296", ""] {
            assert!(wrong.parse::<ServerId>().is_err(), "{wrong}");
        }
    }
}
