//! FREE_ALL (RFC 1813 §6.3.19): a host that has no NSM says that all its locks and shares end. It speaks for itself alone.

use super::cx::Cx;
use nlm::Nlm4Notify;

pub(super) async fn free_all(cx: &Cx<'_>, args: &Nlm4Notify<'_>) {
    let host = cx.host(args.name.0);
    if fs::host_gone(cx.fs(), &host.to_bytes()).await {
        tracing::info!(%host, "a host freed all its locks");
    }
}
