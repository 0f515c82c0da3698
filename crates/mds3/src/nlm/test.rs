//! TEST (RFC 1813 §6.3.2): the lock in the way, and whose it is.

use super::cx::{Cx, Later, extent, kind_of, range_of, stats_of};
use super::host::{HostName, owner_of, svid_and_oh};
use nfs4::NfsStatus;
use nlm::{Nlm4Holder, Nlm4Stats, Nlm4TestArgs, Nlm4TestReply};
use state::{LockDenied, LockKind};
use xdr::{Encode, Encoder, Opaque};

/// Writes the result.
pub(super) async fn test(
    cx: &mut Cx<'_>,
    args: &Nlm4TestArgs<'_>,
    e: &mut Encoder,
) -> Result<(), Later> {
    let found = find(cx, args).await;
    args.cookie.encode(e);
    match &found {
        Ok(None) => Nlm4TestReply::Other(Nlm4Stats::Granted).encode(e),
        Ok(Some(denied)) => Nlm4TestReply::Denied(holder(cx, denied)).encode(e),
        Err(status) => match stats_of(*status)? {
            // Without a holder there is no such answer.
            Nlm4Stats::Denied => Nlm4TestReply::Other(Nlm4Stats::Failed).encode(e),
            stats => Nlm4TestReply::Other(stats).encode(e),
        },
    }
    Ok(())
}

async fn find(cx: &mut Cx<'_>, args: &Nlm4TestArgs<'_>) -> Result<Option<LockDenied>, NfsStatus> {
    let wanted = (range_of(&args.alock)?, kind_of(args.exclusive));
    let inode = cx.file(args.alock.fh)?;
    cx.enter(args.alock.caller_name.0).await?;
    let owner = owner_of(args.alock.svid, args.alock.oh);
    fs::test_by_host(cx.fs(), &cx.actor, &inode, &owner, wanted).await
}

/// Whose lock it is. A client of NFSv4 has no process that others could name.
fn holder<'d>(cx: &Cx<'_>, denied: &'d LockDenied) -> Nlm4Holder<'d> {
    let clients = cx.fs().clients().lock();
    let name = clients.owner(denied.client).map(<[u8]>::to_vec);
    let is_host = name.is_some_and(|name| {
        HostName::parse(&name).is_some() && clients.find_host(&name) == Some(denied.client)
    });
    let (svid, oh) = match is_host {
        true => svid_and_oh(&denied.owner),
        false => (0, Opaque(&denied.owner)),
    };
    let (l_offset, l_len) = extent(denied.range);
    Nlm4Holder {
        exclusive: denied.kind == LockKind::Write,
        svid,
        oh,
        l_offset,
        l_len,
    }
}
