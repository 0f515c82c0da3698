//! Eager creation: the objects of a new file are made on all of its data servers before OPEN is answered. The published
//! system does so. The default is lazy: the first WRITE to a data server makes the object there, and a create costs the
//! same however many there are.
//!
//! # Ordering
//! The file is durable before a data server hears of it, so no object ever belongs to a number that a crash takes back. A removal may
//! come while objects are made: its tombstone waits for those under way at the data server and refuses later ones.
//!
//! # Failure
//! The file is there without its objects, as every file is under lazy creation, and the first WRITE makes what is missing. So a data server that
//! is away holds nobody up. One that fails, or does not answer in time, is told of in the log and not asked again for a while. A crash in between
//! leaves the same; so does a create that is answered again after a restart.

use crate::actor::Actor;
use crate::fs::{Creation, Fs};
use crate::io::make_object;
use foreign::is_foreign;
use futures_util::future::join_all;
use namespace::Inode;
use nfs4::NfsStatus;
use std::time::Duration;

/// How long an OPEN waits for the objects of its file.
const WAIT_MS: u64 = 5_000;
/// For how long a data server that has not made one is not asked for others.
const PAUSE_MS: u64 = 15_000;

/// Makes the objects of a file that was just made, where that is the setting.
///
/// # Errors
/// Only when the file itself does not become durable.
pub async fn make_objects(fs: &Fs, actor: &Actor, inode: &Inode) -> Result<(), NfsStatus> {
    let Some(placement) = inode
        .placement
        .filter(|_| fs.settings.creation == Creation::Eager)
    else {
        return Ok(());
    };
    fs.durable(actor.observed).await?;
    if is_foreign(placement.group) {
        make_foreign(fs, inode).await;
        return Ok(());
    }
    let ids = fs.cluster.group_servers(placement.group);
    let asked = fs.cluster.asked_for_objects(&ids);
    let places = ids.iter().enumerate().filter(|(_, ds)| asked.contains(ds));
    let making = places.map(|(place, ds)| make_one(fs, inode, place, *ds));
    join_all(making).await;
    Ok(())
}

/// As the published system does it: CREATE at each NFSv3 server before OPEN is answered.
async fn make_foreign(fs: &Fs, inode: &Inode) {
    let wait = Duration::from_millis(WAIT_MS);
    let made = tokio::time::timeout(wait, make_object(fs, inode, 0)).await;
    if let Ok(Err(status)) = made {
        tracing::warn!(file = inode.id.0, %status, "foreign objects are left to the first use");
    }
}

async fn make_one(fs: &Fs, inode: &Inode, place: usize, ds: u32) {
    let wait = Duration::from_millis(WAIT_MS);
    let made = tokio::time::timeout(wait, make_object(fs, inode, place)).await;
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
    fs.cluster.make_lazily(ds, Duration::from_millis(PAUSE_MS));
}
