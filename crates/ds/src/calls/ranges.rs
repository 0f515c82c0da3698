//! MAP, PUNCH, RESERVE and CLONE: where an object has data, holes that are made, storage that is taken and that is shared (RFC 7862 §15.1,
//! §15.4, §15.11, §15.13).
//!
//! # Ordering
//! What changes an object counts as in flight on its file, like a WRITE: fences and removals wait for it, and one that the
//! MDS has given up on ends before this server serves again. The index has the object before storage is taken that only a removal
//! gives back.
//!
//! # Failure
//! A call that fails may have done a part; each may be repeated.

use control::{
    CloneArgs, MAP_RANGES_MAX, MapArgs, MapOk, PunchArgs, PunchOk, Range, ReserveArgs, ReserveOk,
    Status,
};
use layout::Striping;
use objects::{Content, ObjectError, ObjectId, ObjectStore};
use transport::ConnHandle;

use super::objects::{id_of, is_removed};
use crate::Ds;
use crate::durable::Fault;

/// Pieces of an object that one MAP looks at, before it says how far it came.
const STEPS_MAX: usize = 4096;
/// Stripes whose storage one RESERVE takes.
const UNITS_MAX: usize = 1024;

/// The stripes of this data server.
#[derive(Clone, Copy)]
struct Own {
    striping: Striping,
    index: u32,
}

impl Own {
    fn of(stripes: control::Stripes) -> Result<Self, Status> {
        let striping = stripes.striping().ok_or(Status::Invalid)?;
        Ok(Self {
            striping,
            index: stripes.index,
        })
    }

    fn next(self, offset: u64) -> u64 {
        self.striping.next_own(self.index, offset)
    }
}

/// Where an object has data.
pub(super) async fn map(ds: &Ds, args: MapArgs) -> Result<MapOk, Status> {
    let own = Own::of(args.stripes)?;
    let id = id_of(&args.object);
    if is_removed(ds, id) {
        return Err(Status::Removed);
    }
    let look = async {
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
    let id = id_of(&args.object);
    let _flight = ds.gate.enter_for(conn, id.file_id, id.generation)?;
    let verifier = ds.verifier();
    let punched = async {
        ds.check_once(id)?;
        let Range { start, end } = args.range;
        let len = end.saturating_sub(start);
        let punch = move |objects: &dyn ObjectStore| objects.punch(id, start, len);
        match ds.blocking(punch).await {
            Ok(()) => {}
            // Never written: a hole as it is.
            Err(ObjectError::NotFound) => return Ok(()),
            Err(e) => return Err(Fault::Object(e)),
        }
        ds.index.wrote(id, (ds.clock)())?;
        if args.durable {
            ds.make_durable(id).await?;
        }
        Ok(())
    };
    punched.await.map_err(|fault: Fault| {
        ds.note(id, &fault);
        fault.status()
    })?;
    Ok(PunchOk { verifier })
}

/// Takes storage for own stripes.
pub(super) async fn reserve(
    ds: &Ds,
    conn: &ConnHandle,
    args: ReserveArgs,
) -> Result<ReserveOk, Status> {
    let own = Own::of(args.stripes)?;
    let id = id_of(&args.object);
    let _flight = ds.gate.enter_for(conn, id.file_id, id.generation)?;
    let reserved = async {
        ds.check_once(id)?;
        ds.index.wrote(id, (ds.clock)())?;
        let work = move |objects: &dyn ObjectStore| reserve_own(objects, id, own, args.range);
        let through = ds.blocking(work).await.map_err(Fault::Object)?;
        ds.make_durable(id).await?;
        Ok(through)
    };
    let through = reserved.await.map_err(|fault: Fault| {
        ds.note(id, &fault);
        fault.status()
    })?;
    Ok(ReserveOk { through })
}

/// Lets a range of an object be what that of another is.
pub(super) async fn clone(ds: &Ds, conn: &ConnHandle, args: CloneArgs) -> Result<(), Status> {
    let (src, dst) = (id_of(&args.src), id_of(&args.dst));
    let _flight = ds.gate.enter_for(conn, dst.file_id, dst.generation)?;
    if is_removed(ds, src) {
        return Err(Status::Removed);
    }
    let Range { start, end } = args.range;
    let len = end.saturating_sub(start);
    let clone = move |objects: &dyn ObjectStore| {
        objects.clone_range((src, args.src_offset), (dst, start), len)
    };
    let cloned = async {
        // What is lost is no hole (R9).
        ds.check_mark(src, ds.size_of(src)?)?;
        ds.check_once(dst)?;
        if len == 0 {
            return ds.blocking(clone).await.map_err(Fault::Object);
        }
        ds.index.wrote(dst, (ds.clock)())?;
        ds.blocking(clone).await.map_err(Fault::Object)?;
        ds.make_durable(dst).await
    };
    cloned.await.map_err(|fault: Fault| {
        ds.note(dst, &fault);
        fault.status()
    })
}

/// Takes storage for some own stripes; returns how far.
fn reserve_own(
    objects: &dyn ObjectStore,
    id: ObjectId,
    own: Own,
    asked: Range,
) -> Result<u64, ObjectError> {
    let unit_bytes = u64::from(own.striping.unit_bytes());
    let mut at = own.next(asked.start);
    check_room(objects, id, own, asked)?;
    for _ in 0..UNITS_MAX {
        if at >= asked.end {
            return Ok(asked.end);
        }
        let stop = if own.striping.width() == 1 {
            asked.end
        } else {
            asked.end.min(at - at % unit_bytes + unit_bytes)
        };
        objects.reserve(id, at, stop - at)?;
        at = own.next(stop);
    }
    Ok(at.min(asked.end))
}

/// Refuses what cannot be had at all, before any of it is taken. What the object has already counts in its favour.
fn check_room(
    objects: &dyn ObjectStore,
    id: ObjectId,
    own: Own,
    asked: Range,
) -> Result<(), ObjectError> {
    let unit_bytes = u64::from(own.striping.unit_bytes());
    let share = asked.end.saturating_sub(asked.start) / u64::from(own.striping.width());
    let taken = match objects.stat(id) {
        Ok(stat) => stat.allocated_bytes,
        Err(ObjectError::NotFound) => 0,
        Err(e) => return Err(e),
    };
    let more = share.saturating_sub(unit_bytes).saturating_sub(taken);
    if more > objects.capacity()?.free_bytes {
        return Err(ObjectError::NoSpace);
    }
    Ok(())
}
