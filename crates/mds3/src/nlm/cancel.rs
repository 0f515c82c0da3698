//! CANCEL (RFC 1813 §6.3.4): a blocked request is taken back. One that was granted meanwhile stays: its host unlocks it.

use super::cx::{Cx, Later, kind_of, outcome, range_of};
use super::host::owner_of;
use nfs4::NfsStatus;
use nlm::{Nlm4CancArgs, Nlm4Stats};
use state::LockArgs;

pub(super) fn cancel(cx: &Cx<'_>, args: &Nlm4CancArgs<'_>) -> Result<Nlm4Stats, Later> {
    outcome(forget(cx, args))
}

fn forget(cx: &Cx<'_>, args: &Nlm4CancArgs<'_>) -> Result<(), NfsStatus> {
    let wanted = LockArgs {
        range: range_of(&args.alock)?,
        kind: kind_of(args.exclusive),
        blocking: true,
    };
    let file = cx.file_id(args.alock.fh)?;
    if let Some(client) = cx.known(args.alock.caller_name.0) {
        let owner = owner_of(args.alock.svid, args.alock.oh);
        fs::cancel_by_host(cx.fs(), client, &owner, file, wanted);
    }
    Ok(())
}
