//! The beginning and the end of every call: who it works for, and whether its reply may leave.

use mds::Mds;
use nfs4::NfsStatus;
use rpc::{Credential, Rejection};
use rpc_service::Call;
use server::{Nfsd, Role, User, effects_lost};

/// The actor of a call, as the exports admit its caller.
pub(crate) async fn admit(nfsd: &Nfsd<Mds>, call: &Call<'_>) -> Result<fs::Actor, Rejection> {
    let user = Credential::parse(&call.header.credential).and_then(User::of);
    let user = user.map_err(Rejection::Auth)?;
    let mds = nfsd.role();
    mds.prepare(&user).await;
    let admitted = mds.admit(call.conn, &user).map_err(Rejection::Auth)?;
    Ok(fs::Actor::clone(&admitted))
}

/// Waits until all that a call has observed is durable (rule R7). Closes the connection when the store has failed.
pub(crate) async fn settle(
    nfsd: &Nfsd<Mds>,
    call: &Call<'_>,
    actor: &fs::Actor,
) -> Result<(), NfsStatus> {
    let settled = nfsd.role().fs().durable(actor.observed).await;
    settled.inspect_err(|why| effects_lost(call.conn, call.header.xid, *why))
}
