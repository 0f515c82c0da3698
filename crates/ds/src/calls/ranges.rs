//! MAP, PUNCH, RESERVE and CLONE (RFC 7862 §15.1, §15.4, §15.11, §15.13): where an object has data, making holes,
//! taking storage, and sharing it.
//!
//! # Ordering
//! What changes an object counts as in flight on its file, like a WRITE: fences and removals wait for it. A change that
//! the MDS has given up on ends before this server serves again. The index has the object before storage is taken that
//! only a removal gives back.
//!
//! # Failure
//! A call that fails may have done a part; each may be repeated.

use control::{
    CloneObjectArgs, MAP_RANGES_MAX, MapArgs, MapOk, PunchArgs, PunchOk, Range, ReserveArgs,
    ReserveOk, Status,
};
use objects::{Content, ObjectError, ObjectId, ObjectStore};
use transport::ConnHandle;

use super::objects::{id_of, is_removed};
use crate::apply::Change;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::own_stripes::Own;
use crate::part::Part;

/// Pieces of an object that one MAP looks at, before it says how far it came.
const STEPS_MAX: usize = 4096;
/// Where an object has data.
pub(super) async fn map(ds: &Ds, args: MapArgs) -> Result<MapOk, Status> {
    let own = Own::of(args.stripes)?;
    let id = id_of(&args.object);
    if is_removed(ds, id) {
        return Err(Status::Removed);
    }
    let look = async {
        let part = Part::of_ref(&args.object);
        ds.reign_of(part)?;
        if !ds.is_there(part)? {
            return Ok(nothing(args.range));
        }
        let size = ds.size_of(id)?;
        // What is lost is no hole (R9).
        ds.check_mark(id, size)?;
        let Some(size_bytes) = size else {
            return Ok(nothing(args.range));
        };
        let ranges_max = args.ranges_max.clamp(1, MAP_RANGES_MAX) as usize;
        let look = move |objects: &dyn ObjectStore| {
            data_of(objects, id, own, (args.range, size_bytes), ranges_max)
        };
        match ds.blocking(look).await {
            Ok(found) => Ok(found),
            Err(ObjectError::NotFound) => Ok(nothing(args.range)),
            Err(e) => Err(Fault::Object(e)),
        }
    };
    look.await.map_err(|fault: Fault| {
        ds.note(id, &fault);
        fault.status()
    })
}

fn nothing(asked: Range) -> MapOk {
    MapOk {
        size_bytes: 0,
        ranges: Vec::new().into(),
        through: asked.end,
    }
}

/// Walks over the data of an object. Foreign stripes between two own ones neither part nor join what is found.
fn data_of(
    objects: &dyn ObjectStore,
    id: ObjectId,
    own: Own,
    (asked, size_bytes): (Range, u64),
    ranges_max: usize,
) -> Result<MapOk, ObjectError> {
    let mut ranges: Vec<Range> = Vec::new();
    let end = asked.end.min(size_bytes);
    let mut at = own.next(asked.start);
    let mut through = asked.end;
    let mut steps = 0;
    while at < end {
        if steps == STEPS_MAX {
            through = at;
            break;
        }
        steps += 1;
        let Some(data) = objects.seek(id, at, Content::Data)? else {
            break;
        };
        let start = own.next(data);
        if start > data {
            // A foreign stripe, where there is nothing of the file.
            at = start;
            continue;
        }
        if start >= end {
            break;
        }
        let hole = objects.seek(id, start, Content::Hole)?;
        let stop = hole.unwrap_or(size_bytes).min(end);
        let joins = ranges
            .last()
            .is_some_and(|last| own.next(last.end) == start);
        if !joins && ranges.len() == ranges_max {
            through = start;
            break;
        }
        match ranges.last_mut().filter(|_| joins) {
            Some(last) => last.end = stop,
            None => ranges.push(Range { start, end: stop }),
        }
        at = own.next(stop);
    }
    Ok(MapOk {
        size_bytes,
        ranges: ranges.into(),
        through,
    })
}

/// Makes a hole.
pub(super) async fn punch(ds: &Ds, conn: &ConnHandle, args: PunchArgs) -> Result<PunchOk, Status> {
    let part = Part::of_ref(&args.object);
    let id = part.id;
    let _flight = ds.gate.enter_for(conn, id.file_id, id.generation)?;
    let verifier = ds.verifier();
    let punched = async {
        let reign = ds.reign_of(part)?;
        ds.check_copies(part)?;
        let (applied, passed) = ds.change(part, Change::Punch(args.range), None).await?;
        passed.acknowledged().await?;
        if args.durable && applied.is_changed {
            ds.promise(part).await?;
            ds.check_kept(&applied)?;
        }
        ds.check_reign(part, reign)?;
        ds.check_copies(part)
    };
    punched.await.map_err(|fault| refused(ds, part, fault))?;
    Ok(PunchOk { verifier })
}

/// Takes storage for own stripes.
pub(super) async fn reserve(
    ds: &Ds,
    conn: &ConnHandle,
    args: ReserveArgs,
) -> Result<ReserveOk, Status> {
    let own = Own::of(args.stripes)?;
    let part = Part::of_ref(&args.object);
    let id = part.id;
    let _flight = ds.gate.enter_for(conn, id.file_id, id.generation)?;
    let reserved = async {
        let change = Change::Reserve {
            own,
            range: args.range,
        };
        ds.check_copies(part)?;
        let (applied, passed) = ds.change(part, change, None).await?;
        passed.acknowledged().await?;
        ds.promise_copies(part).await?;
        ds.check_kept(&applied)?;
        Ok(applied.through)
    };
    let through = reserved.await.map_err(|fault| refused(ds, part, fault))?;
    Ok(ReserveOk { through })
}

/// Lets a range of an object be what that of another is. An empty range only asks whether that can be done.
pub(super) async fn clone(ds: &Ds, conn: &ConnHandle, args: CloneObjectArgs) -> Result<(), Status> {
    let part = Part::of_ref(&args.dst);
    let (src, dst) = (id_of(&args.src), part.id);
    let _flight = ds.gate.enter_for(conn, dst.file_id, dst.generation)?;
    if is_removed(ds, src) {
        return Err(Status::Removed);
    }
    let cloned = async {
        let change = Change::Clone {
            src,
            src_offset: args.src_offset,
            range: args.range,
        };
        if args.range.end <= args.range.start {
            // A question, about a file that may lie in another group.
            return ds.apply(dst, change, (ds.clock)()).await.map(drop);
        }
        ds.check_copies(part)?;
        let (applied, passed) = ds.change(part, change, None).await?;
        passed.acknowledged().await?;
        if applied.is_changed {
            ds.promise(part).await?;
            ds.check_kept(&applied)?;
        }
        ds.check_copies(part)
    };
    cloned.await.map_err(|fault| refused(ds, part, fault))
}

fn refused(ds: &Ds, part: Part, fault: Fault) -> Status {
    let fault = ds.given_up(part, fault);
    ds.note(part.id, &fault);
    fault.status()
}
