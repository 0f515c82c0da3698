//! How an inline file comes to data servers when it outgrows the metadata store (T8).
//!
//! # Ownership
//! The file's gate is held alone: I/O waits meanwhile, and nobody has a layout of an inline file.
//!
//! # Ordering
//! 1. The intent, with the place, is durable.
//! 2. If an earlier attempt left it: a new epoch is durable, and every data server has cut its object to nothing under it.
//! 3. The bytes are durable at the data servers.
//! 4. One transaction gives the file its place and ends the inline bytes. It is durable before the gate opens, which may be
//!    after [`place`] has returned.
//!
//! # Failure
//! Until the last step the file is inline and whole. The caller gets the error of a data server, and the next attempt goes on
//! from the intent. A late write of the earlier attempt is below the floor of the cut.
//!
//! May call: the name space, `stripes`, `quiesce`.

use crate::actor::Actor;
use crate::foreign_files::{file_at, note_objects};
use crate::fs::Fs;
use crate::quiesce;
use crate::target::{io_key, target};
use bytes::Bytes;
use control::{SetSizeArgs, SetSizeItem};
use foreign::FileAt;
use layout::{Epoch, Rights};
use meta::Seq;
use namespace::{Inode, Placement, Placing};
use nfs4::{NfsStatus, StableHow};
use std::sync::Arc;
use stripes::{Expelled, Spread};
use tokio::sync::OwnedRwLockWriteGuard;

/// Gives an inline file a place: the one named, or one by its layout policy. Returns the file as it is then. A file that has
/// a place, or was begun to be given one, keeps that.
///
/// # Errors
/// `Delay` while a data server of the place is away, or I/O on the file goes on for long; `NoSpc` when all are full.
pub async fn place(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    wanted: Option<Placement>,
) -> Result<Arc<Inode>, NfsStatus> {
    let file = inode.id;
    let alone = quiesce::gate(fs, file).await?;
    let (inode, bytes) = actor.look(fs, |ns, op| ns.read_inline(op, file))?;
    if !inode.is_inline() {
        return Ok(inode);
    }
    let placement = match wanted {
        Some(placement) => placement,
        None => fs.place(
            inode.layout_policy().unwrap_or_default(),
            inode.is_foreign(),
        )?,
    };
    // As a rule no data server has heard of an empty file.
    let unheard = match bytes.is_empty() {
        true => actor.ns(fs, |ns, op| ns.place_unheard(op, file, placement)),
        false => Err(NfsStatus::Delay),
    };
    let placed = match unheard {
        Err(NfsStatus::Delay) => {
            let begun = begin(fs, actor, &inode, placement).await?.placement;
            fill(fs, actor, &inode, begun, &bytes).await?;
            let placed = actor.ns(fs, |ns, op| ns.place(op, file, begun))?;
            match file_at(fs, &placed).filter(|_| !bytes.is_empty()) {
                Some(far) => {
                    note_objects(fs, actor, file, &far)?;
                    actor.ns(fs, |ns, op| ns.getattr(op, file))?
                }
                None => placed,
            }
        }
        placed => placed?,
    };
    open_when_durable(fs, actor.observed, alone);
    Ok(placed)
}

/// Keeps the gate until a crash does not take the place back. The caller need not wait: LAYOUTGET makes its own mark
/// meanwhile, and one sync serves both.
fn open_when_durable(fs: &Arc<Fs>, placed: Seq, alone: OwnedRwLockWriteGuard<()>) {
    let fs = Arc::clone(fs);
    tokio::spawn(async move {
        // A store that has failed makes nothing durable any more, and no reply leaves.
        let _failed = fs.durable(placed).await;
        drop(alone);
    });
}

/// Notes the place durably; what an earlier attempt may have left there is cut.
async fn begin(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    placement: Placement,
) -> Result<Placing, NfsStatus> {
    let placing = actor.ns(fs, |ns, op| ns.begin_placing(op, inode.id, placement))?;
    if !placing.is_again {
        fs.durable(actor.observed).await?;
        return Ok(placing);
    }
    let floor = actor.ns(fs, |ns, op| ns.raise_epoch(op, inode.id))?;
    fs.durable(actor.observed).await?;
    let at = at(inode, placing.placement);
    if let Some(far) = file_at(fs, &at) {
        let far = FileAt {
            epoch: floor,
            ..far
        };
        return match fs.foreign.cut(&far, 0).await? {
            0 => Ok(placing),
            _ => Err(NfsStatus::Delay),
        };
    }
    let spread = Spread::of(&fs.cluster, &at, Expelled::Fails)?;
    let spread = spread.ok_or(NfsStatus::ServerFault)?;
    let item = |place| SetSizeItem {
        object: spread.object(place),
        size_bytes: 0,
        floor: Epoch::from_u64(floor),
        through_key: fs.cluster.newest_key_id(),
    };
    let args = |place| SetSizeArgs {
        items: vec![item(place)].into(),
    };
    for (_, answer) in spread.ask_all(args).await? {
        crate::truncate::is_cut(&answer)?;
    }
    Ok(placing)
}

/// Writes the bytes of the file to its data servers, durably.
async fn fill(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    placement: Placement,
    bytes: &Bytes,
) -> Result<(), NfsStatus> {
    if bytes.is_empty() {
        return Ok(());
    }
    let key = io_key(fs);
    // The epoch may have risen since the file was looked at.
    let now = actor.look(fs, |ns, op| ns.getattr(op, inode.id))?;
    let target = target(fs, key.as_ref(), &at(&now, placement), Rights::ReadWrite)?;
    let written = target.write(fs, 0, StableHow::DataSync, bytes);
    match written.await?.committed {
        StableHow::Unstable => Err(NfsStatus::Delay),
        StableHow::DataSync | StableHow::FileSync => Ok(()),
    }
}

/// The file as it will be.
fn at(inode: &Inode, placement: Placement) -> Inode {
    Inode {
        placement: Some(placement),
        ..inode.clone()
    }
}
