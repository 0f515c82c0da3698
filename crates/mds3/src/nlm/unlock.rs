//! UNLOCK (RFC 1813 §6.3.5). What is not locked counts as unlocked, and the file need not be there any more.

use super::cx::{Cx, Later, outcome, range_of};
use super::host::owner_of;
use nfs4::NfsStatus;
use nlm::{Nlm4Stats, Nlm4UnlockArgs};

pub(super) fn unlock(cx: &Cx<'_>, args: &Nlm4UnlockArgs<'_>) -> Result<Nlm4Stats, Later> {
    outcome(release(cx, args))
}

fn release(cx: &Cx<'_>, args: &Nlm4UnlockArgs<'_>) -> Result<(), NfsStatus> {
    let range = range_of(&args.alock)?;
    let file = cx.file_id(args.alock.fh)?;
    let Some(client) = cx.known(args.alock.caller_name.0) else {
        return Ok(());
    };
    let owner = owner_of(args.alock.svid, args.alock.oh);
    fs::unlock_by_host(cx.fs(), client, &owner, file, range)
}
