//! STAT and COMMIT of single objects.

use control::{CommitObjectsArgs, CommitOk, ObjectRef, StatArgs, StatItem, StatOk, Status};
use nfs4::NfsTime;
use objects::{ObjectError, ObjectId};

use crate::ds::Ds;
use crate::fault::Fault;
use crate::part::Part;

pub(super) const fn id_of(object: &ObjectRef) -> ObjectId {
    Part::of_ref(object).id
}

fn status_of(ds: &Ds, id: ObjectId, done: Result<(), Fault>) -> Status {
    match done {
        Ok(()) => Status::Ok,
        Err(fault) => {
            ds.note(id, &fault);
            fault.status()
        }
    }
}

pub(super) fn is_removed(ds: &Ds, id: ObjectId) -> bool {
    ds.gate
        .with_floors(|floors| floors.is_removed(id.file_id, id.generation))
}

/// What is known of objects.
pub(super) async fn stat(ds: &Ds, args: StatArgs) -> StatOk {
    let mut items = Vec::with_capacity(args.objects.0.len());
    for object in &args.objects.0 {
        let part = Part::of_ref(object);
        let id = part.id;
        items.push(stat_one(ds, part).await.unwrap_or_else(|fault| {
            ds.note(id, &fault);
            nothing(fault.status())
        }));
    }
    StatOk {
        items: items.into(),
    }
}

fn nothing(status: Status) -> StatItem {
    StatItem {
        status,
        size_bytes: 0,
        durable_bytes: 0,
        space_bytes: 0,
        modified: NfsTime::default(),
    }
}

/// A lost object still has its mark: the file is as long as it was.
async fn stat_one(ds: &Ds, part: Part) -> Result<StatItem, Fault> {
    ds.reign_of(part)?;
    let id = part.id;
    if is_removed(ds, id) {
        return Ok(nothing(Status::Removed));
    }
    if !ds.is_there(part)? {
        return Ok(nothing(Status::NotFound));
    }
    let found = match ds.blocking(move |objects| objects.stat(id)).await {
        Ok(found) => Some(found),
        Err(ObjectError::NotFound) => None,
        Err(e) => return Err(Fault::Object(e)),
    };
    match ds.check_mark(id, found.map(|f| f.size_bytes)) {
        Ok(()) if found.is_none() => return Ok(nothing(Status::NotFound)),
        Err(fault @ Fault::Lost) => ds.note(id, &fault),
        result => result?,
    }
    let known = ds.index.known(id)?;
    let space_bytes = found.map_or(0, |f| f.allocated_bytes);
    ds.space_told.set(id, space_bytes);
    Ok(StatItem {
        status: Status::Ok,
        size_bytes: found.map_or(0, |f| f.size_bytes),
        durable_bytes: known.high_water_bytes,
        space_bytes,
        modified: known.modified,
    })
}

/// Makes writes durable.
pub(super) async fn commit(ds: &Ds, args: CommitObjectsArgs) -> CommitOk {
    let mut statuses = Vec::with_capacity(args.objects.0.len());
    for object in &args.objects.0 {
        let id = id_of(object);
        statuses.push(if is_removed(ds, id) {
            Status::Removed
        } else {
            let part = Part::of_ref(object);
            let done = ds.promise_copies(part).await;
            status_of(ds, id, done.map_err(|fault| ds.given_up(part, fault)))
        });
    }
    CommitOk {
        verifier: ds.verifier(),
        statuses: statuses.into(),
    }
}
