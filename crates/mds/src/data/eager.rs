//! Eager creation: the objects of a new file are made on all of its data servers before OPEN is answered, as the published system does it.
//! The default is lazy: the first WRITE to a data server makes the object there, and a create costs the same however many there are.
//!
//! # Ordering
//! The file is durable before a data server hears of it, so no object ever belongs to a number that a crash takes back. A removal may
//! come while objects are made: its tombstone waits for those under way at the data server and refuses later ones.
//!
//! # Failure
//! The file is there without its objects, as every file is under lazy creation, and the first WRITE makes what is missing. So a data server that
//! is away holds nobody up, one that fails is told of in the log, and one that does not answer loses its connection. A crash in between leaves the
//! same; so does a create that is answered again after a restart.

use super::call::{DsError, call};
use super::sizes::object_of;
use crate::Mds;
use crate::cx::Cx;
use control::{CreateArgs, ObjectRef, Status};
use meta::Seq;
use namespace::Inode;
use nfs4::NfsStatus;
use server::Nfsd;
use transport::ConnHandle;

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
    inode: &Inode,
) -> Result<(), NfsStatus> {
    let mds = nfsd.role();
    let data = mds.data();
    let Some(placement) = inode.placement.filter(|_| data.creation == Creation::Eager) else {
        return Ok(());
    };
    mds.durable(Seq(cx.observed_seq)).await?;
    let ids = data.group_servers(placement.group);
    let live: Vec<(u32, ConnHandle)> = {
        let servers = data.servers.lock();
        let conn = |ds: u32| servers.live_conn(ds).map(|conn| (ds, conn));
        ids.into_iter().filter_map(conn).collect()
    };
    let object = object_of(inode);
    let mut tasks = tokio::task::JoinSet::new();
    for (ds, conn) in live {
        tasks.spawn(async move {
            if let Err(error) = make_one(&conn, object).await {
                tracing::warn!(ds, file = object.file_id, %error, "an object is left to the first write");
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}

async fn make_one(conn: &ConnHandle, object: ObjectRef) -> Result<(), DsError> {
    let args = CreateArgs {
        objects: vec![object].into(),
    };
    let answer = call(conn, &args).await?;
    match answer.0.as_slice() {
        // Removed meanwhile.
        [Status::Ok | Status::Removed] => Ok(()),
        [status] => Err(DsError::Refused(control::Refusal::new(
            *status,
            "the object was not made",
        ))),
        _ => Err(DsError::Malformed),
    }
}
