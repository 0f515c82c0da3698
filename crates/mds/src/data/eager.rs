//! Eager creation: the objects of a new file are made on all of its data servers before OPEN is answered, as the published system does it.
//! The default is lazy: the first WRITE to a data server makes the object there, and a create costs the same however many there are.
//!
//! # Ordering
//! The file is durable before a data server hears of it, so no object ever belongs to a number that a crash takes back. A removal may
//! come while objects are made: its tombstone waits for those under way at the data server and refuses later ones.
//!
//! # Failure
//! The file is there without its objects, as every file is under lazy creation, and the first WRITE makes what is missing. So a data server that
//! is away holds nobody up; one that fails, or does not answer in time, is told of in the log and not asked again for a while. A crash in between
//! leaves the same; so does a create that is answered again after a restart.

use super::proxy;
use crate::Mds;
use crate::cx::Cx;
use futures_util::future::join_all;
use meta::Seq;
use namespace::Inode;
use nfs4::NfsStatus;
use server::Nfsd;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long an OPEN waits for the objects of its file.
const WAIT_MS: u64 = 5_000;
/// For how long a data server that has not made one is not asked for others.
const PAUSE_MS: u64 = 15_000;

/// When the objects of a new file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Creation {
    /// By the first WRITE to each data server.
    #[default]
    Lazy,
    /// With the file, on all of its data servers.
    Eager,
}

/// Makes the objects of a file that was just made, where that is the setting.
///
/// # Errors
/// Only when the file itself does not become durable.
pub(crate) async fn make_objects(
    nfsd: &Nfsd<Mds>,
    cx: &Cx<'_>,
    inode: &Arc<Inode>,
) -> Result<(), NfsStatus> {
    let mds = nfsd.role();
    let data = mds.data();
    let Some(placement) = inode.placement.filter(|_| data.creation == Creation::Eager) else {
        return Ok(());
    };
    mds.durable(Seq(cx.observed_seq)).await?;
    let ids = data.group_servers(placement.group);
    let asked = data.servers.lock().asked_for_objects(&ids);
    let making = asked.into_iter().map(|ds| make_one(nfsd, inode, ds));
    join_all(making).await;
    Ok(())
}

async fn make_one(nfsd: &Nfsd<Mds>, inode: &Arc<Inode>, ds: u32) {
    let wait = Duration::from_millis(WAIT_MS);
    let made = tokio::time::timeout(wait, proxy::make_object(nfsd, inode, ds)).await;
    match made {
        // Removed meanwhile.
        Ok(Ok(()) | Err(NfsStatus::Stale)) => return,
        Ok(Err(status)) => {
            tracing::warn!(ds, file = inode.id.0, %status, "an object is left to the first write");
        }
        Err(_) => {
            tracing::warn!(
                ds,
                file = inode.id.0,
                "no answer; an object is left to the first write"
            );
        }
    }
    if let Some(server) = nfsd.role().data().servers.lock().map.get_mut(&ds) {
        server.lazy_until = Some(Instant::now() + Duration::from_millis(PAUSE_MS));
    }
}
