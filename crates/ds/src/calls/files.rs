//! SET_SIZE and REMOVE (rules R3, R4, R9).
//!
//! # Ordering
//! Floor or tombstone durable, I/O of before ended, index lowered durably, then the object. A crash in between leaves
//! an object that is longer than its mark, or one without an entry. The MDS repeats the call and finds it.
//!
//! # Failure
//! Items fail one by one; what was lowered stays lowered.

use control::{ItemStatuses, RemoveItem, RemoveObjectsArgs, SetSizeArgs, SetSizeItem, Status};
use layout::Floor;
use objects::ObjectId;

use super::objects::id_of;
use crate::apply::Change;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::part::Part;

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
        statuses.push(match cut(ds, item).await {
            Ok(()) => Status::Ok,
            Err(fault) => {
                let fault = ds.given_up(Part::of_ref(&item.object), fault);
                ds.note(id, &fault);
                fault.status()
            }
        });
    }
    Ok(statuses.into())
}

/// Cuts a part here and at its other members.
async fn cut(ds: &Ds, item: &SetSizeItem) -> Result<(), Fault> {
    let part = Part::of_ref(&item.object);
    let reign = ds.reign_of(part)?;
    ds.check_copies(part)?;
    let (_, passed) = ds.change(part, Change::Cut(item.size_bytes), None).await?;
    passed.acknowledged().await?;
    ds.check_reign(part, reign)?;
    ds.check_copies(part)
}

/// Removes files.
pub(super) async fn remove(ds: &Ds, args: RemoveObjectsArgs) -> Result<ItemStatuses, Status> {
    let mut floors = Vec::with_capacity(args.items.0.len() * 2);
    for item in &args.items.0 {
        ds.gate.note_removed(item.file_id, item.generation);
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
        place: 0,
    };
    if item.generation == 0 {
        // No generation is below this one.
        return Status::Ok;
    }
    let change = Change::Remove {
        places: item.places,
    };
    let removed = ds.apply(id, change, (ds.clock)()).await;
    match removed.map(|applied| applied.is_more) {
        Ok(false) => Status::Ok,
        Ok(true) => Status::TryLater,
        Err(fault) => {
            ds.note(id, &fault);
            fault.status()
        }
    }
}
