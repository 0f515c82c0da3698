//! Whether rpcbind knows of a metadata server that is to be registered with it. Changes no registration.

use super::row::Row;
use super::server::Running;
use crate::config::MdsConfig;
use crate::rpcbind::nfs3_registered;

/// The name of its row.
pub(super) const CHECK: &str = "rpcbind";

/// For a metadata server with `register_rpcbind`.
pub(super) fn check(mds: &MdsConfig, running: &Running) -> Option<Row> {
    if !(mds.nfs3 && mds.register_rpcbind) {
        return None;
    }
    let listener = mds.listen.first()?;
    let answer = nfs3_registered(*listener).map_err(|e| e.to_string());
    Some(judge(answer, running.status.is_some()))
}

/// By where NFSv3 is registered, and where it is to be.
fn judge(answer: Result<(String, String), String>, runs: bool) -> Row {
    match answer {
        Err(why) => Row::failed(
            CHECK,
            why,
            "systemctl start rpcbind, and restart the metadata server",
        ),
        Ok((is, to_be)) if is == to_be => Row::ok(CHECK, format!("NFSv3 is registered at {is}")),
        Ok((is, _)) if is.is_empty() && !runs => {
            Row::ok(CHECK, "NFSv3 is not registered, as the server does not run")
        }
        Ok((is, _)) if is.is_empty() => Row::failed(
            CHECK,
            "NFSv3 is not registered: rpcbind was started after the server",
            "restart the metadata server",
        ),
        Ok((is, _)) => Row::failed(
            CHECK,
            format!("NFSv3 is registered for another server, at {is}"),
            "stop that server (systemctl disable --now nfs-server), and restart the metadata server",
        ),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a registration that is missing or another's is named.
    use super::*;
    use crate::doctor::row::Verdict;
    use std::path::Path;

    #[test]
    fn registrations_have_their_verdicts() {
        let at = |is: &str| Ok((is.to_owned(), "127.0.0.1.8.1".to_owned()));
        for (answer, runs, verdict) in [
            (at("127.0.0.1.8.1"), true, Verdict::Ok),
            (at(""), false, Verdict::Ok),
            (at(""), true, Verdict::Failed),
            (at("0.0.0.0.8.1"), true, Verdict::Failed),
            (Err("no rpcbind".to_owned()), true, Verdict::Failed),
        ] {
            let row = judge(answer, runs);
            assert_eq!(row.verdict, verdict, "{row:?}");
        }
        let mds = MdsConfig::at(Path::new("/s"));
        assert_eq!(check(&mds, &Running::default()), None);
    }
}
