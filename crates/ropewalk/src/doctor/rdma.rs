//! RDMA: whether what servers are to listen on can be had. The survey is that of `ropewalk rdma`.

use super::row::Row;
use crate::rdma::uses_devices;
use crate::rdma_provider::ProviderChoice;
use fabric_verbs::survey;
use std::net::SocketAddr;

/// The name of its row.
pub(super) const CHECK: &str = "RDMA";

/// For a server that listens for RDMA.
pub(super) fn check((choice, listen): (ProviderChoice, &[SocketAddr])) -> Row {
    let why_not = survey().why_not();
    judge(choice, why_not.as_deref(), uses_devices(choice, listen))
}

/// For a machine where no server does.
pub(super) fn unused() -> Row {
    match survey().why_not() {
        None => Row::ok(
            CHECK,
            "is not used, though devices can be (`ropewalk rdma`)",
        ),
        Some(_) => Row::ok(CHECK, "is not used"),
    }
}

fn judge(choice: ProviderChoice, why_not: Option<&str>, by_devices: bool) -> Row {
    let devices = "see `ropewalk rdma`, or set rdma_provider = \"iwarp\", which needs no device";
    match (choice, why_not) {
        (ProviderChoice::Iwarp, _) => {
            Row::ok(CHECK, "runs on the built-in software iWARP, as configured")
        }
        (ProviderChoice::Verbs, Some(why)) => {
            Row::failed(CHECK, format!("devices cannot be used: {why}"), devices)
        }
        (ProviderChoice::Auto, why) if !by_devices => Row::warning(
            CHECK,
            format!(
                "runs on software iWARP: {}",
                why.unwrap_or("an address of `rdma_listen` is on no device")
            ),
            "see `ropewalk rdma`; with rdma_provider = \"iwarp\" this is as wished",
        ),
        _ => Row::ok(CHECK, "devices can be used"),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what was wished for and cannot be had is named.
    use super::*;
    use crate::doctor::row::Verdict;

    #[test]
    fn wishes_have_their_verdicts() {
        let none = Some("no device");
        for (choice, why_not, by_devices, verdict) in [
            (ProviderChoice::Iwarp, none, false, Verdict::Ok),
            (ProviderChoice::Verbs, none, true, Verdict::Failed),
            (ProviderChoice::Verbs, None, true, Verdict::Ok),
            (ProviderChoice::Auto, none, false, Verdict::Warning),
            (ProviderChoice::Auto, None, false, Verdict::Warning),
            (ProviderChoice::Auto, None, true, Verdict::Ok),
        ] {
            let row = judge(choice, why_not, by_devices);
            assert_eq!(row.verdict, verdict, "{row:?}");
        }
        assert_eq!(unused().verdict, Verdict::Ok);
    }
}
