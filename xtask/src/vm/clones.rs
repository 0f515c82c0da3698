//! The host's part of `clones`: a second guest with the host name of the first, so that both are one client to the server.
//!
//! The guests take turns only at the end. Of a Ropewalk cluster the host also asks whether it says who they are.
//! Entry point: [`clones`].

use super::error::Result;
use super::guest::Guest;
use super::hosted::{Finding, Stage, end_other};
use super::net::Net;

/// How long both make files, s; the script reads it from here.
pub(crate) const CLONES_S: u32 = 20;

/// Starts the other machine, and looks at what the server says of the two.
pub(crate) fn clones(stage: &mut Stage<'_>) -> Result<Finding> {
    let address = Net::guest_ip(0);
    let number = address.rsplit('.').next().unwrap_or_default();
    let mut other = (stage.second("scenarios/clones.sh"))
        .env("HOST_NAME", format!("guest-{number}"))
        .spawn()?;
    let found = play(stage, &mut other);
    end_other(other, found, "the other machine")
}

fn play(stage: &mut Stage<'_>, other: &mut Guest) -> Result<Finding> {
    if !(stage.guest.await_signal("mounted")? && other.await_signal("mounted")?) {
        return Ok(Some("not both machines have mounted".to_owned()));
    }
    stage.guest.signal("both")?;
    other.signal("both")?;
    if !(stage.guest.await_signal("made")? && other.await_signal("made")?) {
        return Ok(Some("not both machines have made files".to_owned()));
    }
    let told = told(stage)?;
    stage.guest.signal("alone")?;
    if stage.guest.await_signal("done")? {
        other.signal("alone")?;
    }
    Ok(told)
}

/// Whether `status` and the counter tell people of both machines.
fn told(stage: &Stage<'_>) -> Result<Finding> {
    let Some(cluster) = stage.victim.cluster() else {
        return Ok(None);
    };
    let status = cluster.mds()?;
    let clash = &status["name_clashes"][0];
    let counted = status["counters"]["client_name_clashes"].as_u64();
    println!("    # {} lives ended", counted.unwrap_or(0));
    let named = |slot| {
        let addresses = clash["addresses"].as_array();
        addresses.is_some_and(|all| all.iter().any(|a| *a == Net::guest_ip(slot)))
    };
    Ok((!(named(0) && named(1) && counted > Some(0)))
        .then(|| format!("status does not name both machines: {clash}, {counted:?} times")))
}
