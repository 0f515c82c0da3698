//! SET_SIZE and REMOVE (rules R3, R4, R9).
//!
//! # Ordering
//! Floor or tombstone durable, I/O of before ended, index lowered durably, then the object. A crash in between leaves an
//! object that is longer than its mark, or one without an entry; the MDS repeats the call and finds it.
//!
//! # Failure
//! Items fail one by one; what was lowered stays lowered.

use control::{ItemStatuses, RemoveArgs, RemoveItem, SetSizeArgs, SetSizeItem, Status};
use layout::Floor;
use objects::{OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStore};

use super::objects::id_of;
use crate::Ds;
use crate::durable::Fault;
use crate::index::OBJECTS_PER_FILE_MAX;

/// Cuts objects, durably.
pub(super) async fn set_size(ds: &Ds, args: SetSizeArgs) -> Result<ItemStatuses, Status> {
    let floor = |item: &SetSizeItem| Floor::File {
        file_id: item.object.file_id,
        epoch: item.floor,
        through_key: item.through_key,
    };
    let floors: Vec<_> = args.items.0.iter().map(floor).collect();
    ds.fence(&floors).await?;
    let mut statuses = Vec::with_capacity(args.items.0.len());
    for item in &args.items.0 {
        let id = id_of(&item.object);
        ds.sizes.forget(id.file_id);
        statuses.push(match cut(ds, id, item.size_bytes).await {
            Ok(()) => Status::Ok,
            Err(fault) => {
                ds.note(id, &fault);
                fault.status()
            }
        });
    }
    Ok(statuses.into())
}

async fn cut(ds: &Ds, id: ObjectId, size_bytes: u64) -> Result<(), Fault> {
    let _order = ds.stripe(id.file_id).lock().await;
    let now = match ds.objects.stat(id) {
        Ok(now) => now,
        Err(ObjectError::NotFound) => {
            // Missing although it has a mark: lost. What the cut leaves of the mark goes on saying so to whoever reads or writes.
            let known = ds.index.known(id)?;
            if known.high_water_bytes > 0 && size_bytes > 0 {
                ds.note(id, &Fault::Lost);
            }
            let seq = ds.index.lower(id, size_bytes)?;
            return Ok(ds.index.durable(seq).await?);
        }
        Err(e) => return Err(Fault::Object(e)),
    };
    let seq = ds.index.lower(id, size_bytes)?;
    ds.index.durable(seq).await?;
    // One that is shorter than its mark must stay so: zeros would hide what is lost (R9).
    let is_short = now.size_bytes < ds.index.known(id)?.high_water_bytes;
    let cut = move |objects: &dyn ObjectStore| {
        if now.size_bytes <= size_bytes {
            if is_short || now.allocated_bytes == 0 || size_bytes >= OBJECT_BYTES_MAX {
                return Ok(());
            }
            // Storage may be reserved behind the new end. A cut that comes from beyond gives it back, and takes no byte that is
            // written before the end meanwhile.
            objects.set_size(id, size_bytes + 1)?;
        }
        objects.set_size(id, size_bytes)
    };
    ds.blocking(cut).await.map_err(Fault::Object)
}

/// Removes files.
pub(super) async fn remove(ds: &Ds, args: RemoveArgs) -> Result<ItemStatuses, Status> {
    let mut floors = Vec::with_capacity(args.items.0.len() * 2);
    for item in &args.items.0 {
        floors.push(Floor::Tombstone {
            file_id: item.file_id,
            generation: item.generation,
            through_key: item.through_key,
        });
        floors.push(Floor::File {
            file_id: item.file_id,
            epoch: item.floor,
            through_key: item.through_key,
        });
    }
    ds.fence(&floors).await?;
    let mut statuses = Vec::with_capacity(args.items.0.len());
    for item in &args.items.0 {
        ds.sizes.forget(item.file_id);
        statuses.push(remove_one(ds, item).await);
    }
    Ok(statuses.into())
}

async fn remove_one(ds: &Ds, item: &RemoveItem) -> Status {
    let id = ObjectId {
        file_id: item.file_id,
        generation: item.generation.saturating_sub(1),
        mirror: 0,
    };
    let removed = async {
        let _order = ds.stripe(item.file_id).lock().await;
        let mut ids = ds.index.objects_below(item.file_id, item.generation)?;
        if !ids.is_empty() {
            let seq = ds.index.forget(&ids)?;
            ds.index.durable(seq).await?;
        }
        // An object whose entry was lost in a crash, or forgotten by a call that a crash cut short: usually this one.
        if item.generation > 0 && !ids.contains(&id) {
            ids.push(id);
        }
        let more = ids.len() >= OBJECTS_PER_FILE_MAX;
        let all = ds.blocking(move |objects| {
            ids.iter().try_for_each(|id| match objects.remove(*id) {
                Ok(()) | Err(ObjectError::NotFound) => Ok(()),
                Err(e) => Err(e),
            })
        });
        all.await.map(|()| more).map_err(Fault::Object)
    };
    match removed.await {
        Ok(false) => Status::Ok,
        Ok(true) => Status::TryLater,
        Err(fault) => {
            ds.note(id, &fault);
            fault.status()
        }
    }
}
