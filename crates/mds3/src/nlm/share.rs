//! SHARE and UNSHARE (RFC 1813 §6.3.16, §6.3.17): opens with deny modes, as DOS has them.

use super::cx::{Cx, Later, outcome};
use super::host::share_of;
use nfs4::NfsStatus;
use nlm::{Nlm4Share, Nlm4ShareArgs, Nlm4Stats};

pub(super) async fn share(cx: &mut Cx<'_>, args: &Nlm4ShareArgs<'_>) -> Result<Nlm4Stats, Later> {
    outcome(take(cx, &args.share, args.reclaim).await)
}

async fn take(cx: &mut Cx<'_>, args: &Nlm4Share<'_>, reclaim: bool) -> Result<(), NfsStatus> {
    let inode = cx.file(args.fh)?;
    cx.enter(args.caller_name.0).await?;
    let wanted = (share_of(args.access, args.mode), reclaim);
    fs::share_by_host(cx.fs(), &mut cx.actor, &inode, args.oh.0, wanted).await
}

pub(super) fn unshare(cx: &Cx<'_>, args: &Nlm4ShareArgs<'_>) -> Result<Nlm4Stats, Later> {
    outcome(release(cx, &args.share))
}

fn release(cx: &Cx<'_>, args: &Nlm4Share<'_>) -> Result<(), NfsStatus> {
    let file = cx.file_id(args.fh)?;
    if let Some(client) = cx.known(args.caller_name.0) {
        fs::unshare_by_host(cx.fs(), client, args.oh.0, file);
    }
    Ok(())
}
