//! READ (RFC 8881 §18.22, §13.6). From the page cache the data leave by sendfile, or are copied where they are few. A
//! read that may wait for a disk is done where it blocks nobody. Past the end of the object the MDS is asked how long
//! the file is (rule R8).

use std::os::unix::fs::FileExt;

use bytes::Bytes;
use nfs4::NfsStatus;
use nfs4::ops::{ReadArgs, ReadResPayload};
use objects::{ObjectError, ObjectId, ObjectStore, Span};
use server::Compound;
use transport::{FilePayload, Payload};

use super::stateids::check_stateid;
use crate::counts::{add, count};
use crate::ds::Ds;
use crate::fault::Fault;
use crate::gate::Want;
use crate::part::Part;

/// Bytes of a READ result beside its data: operation, status, eof, length, padding.
const RESULT_BYTES: usize = 4 + 4 + 4 + 4 + 3;

pub(super) async fn read(
    ds: &Ds,
    cx: &mut Compound<'_, ()>,
    args: ReadArgs,
    room: usize,
) -> Result<ReadResPayload, NfsStatus> {
    let stateid = cx.resolve(args.stateid)?;
    let mut admitted = match ds.admit(cx, Want::Read) {
        Ok(admitted) => admitted,
        Err(why) => Box::pin(ds.admit_later(cx, Want::Read, why)).await?,
    };
    check_stateid(ds, stateid, admitted.is_proxy)?;
    let range = admitted.check_range(args.offset, u64::from(args.count));
    range.map_err(|refused| ds.refused(refused))?;
    count(&ds.counts.reads);
    let room = room.saturating_sub(RESULT_BYTES);
    let wanted = args.count.min(u32::try_from(room).unwrap_or(u32::MAX));
    let wanted = wanted.min(nfs4::IO_BYTES_MAX);
    if wanted == 0 && args.count > 0 {
        return Err(NfsStatus::RepTooBig);
    }
    let part = Part::of_handle(&admitted.handle);
    let id = part.id;
    let is_cold = ds.offload && !ds.objects.is_cached(id, args.offset, wanted);
    if is_cold {
        // Nobody's fence waits for a peer that does not read.
        drop(admitted);
        cx.charge_reply(wanted).await?;
        admitted = match ds.admit(cx, Want::Read) {
            Ok(admitted) => admitted,
            Err(why) => Box::pin(ds.admit_later(cx, Want::Read, why)).await?,
        };
    }
    let (handle, is_proxy) = (admitted.handle, admitted.is_proxy);
    let read = async {
        if !ds.is_there(part)? {
            return Ok((Span::Pieces(Vec::new()), 0));
        }
        from_object(ds, id, (args.offset, wanted), is_cold).await
    };
    let (data, size_bytes) = read.await.map_err(|fault| {
        ds.note(id, &fault);
        fault.nfs_status()
    })?;
    // What follows may wait for the MDS. The bytes are taken before that, whatever is fenced meanwhile.
    drop(admitted);
    let (eof, data) = if data.len() == wanted as usize {
        (false, data)
    } else if is_proxy {
        (true, data)
    } else {
        if !is_cold {
            cx.charge_reply(wanted).await?;
        }
        let file = ds.file_size(handle.file_id, handle.generation).await?;
        // Bytes beyond the size that the MDS knows are writes that were not committed to it yet.
        let end = file.max(size_bytes);
        fill(ds, data, args.offset, wanted, end)?
    };
    let counter = if is_proxy {
        &ds.counts.proxy_read_bytes
    } else {
        &ds.counts.client_read_bytes
    };
    add(counter, data.len());
    let len = u32::try_from(data.len()).expect("at most what was asked for");
    cx.payloads.push(payload(data));
    Ok(ReadResPayload { eof, len })
}

/// At most `len` bytes of the object, and its size when they are fewer.
async fn from_object(
    ds: &Ds,
    id: ObjectId,
    (offset, len): (u64, u32),
    is_cold: bool,
) -> Result<(Span, u64), Fault> {
    // Without threads for slow reads nobody knows where bytes come from.
    let is_verified = ds.sums.verifies_reads() && (is_cold || !ds.offload);
    if is_verified || ds.sums.has_damage() {
        Box::pin(ds.before_read(id, (offset, len), is_verified)).await?;
    }
    let read = if is_cold {
        count(&ds.counts.cold_reads);
        let cold = ds.blocking(move |objects| cold(objects, id, offset, len));
        cold.await.map(|(pieces, copied)| {
            add(&ds.counts.read_copied_bytes, copied);
            Span::Pieces(pieces)
        })
    } else {
        ds.objects.read(id, offset, len)
    };
    let span = match read {
        Ok(span) if span.len() == len as usize => return Ok((span, 0)),
        Ok(span) => span,
        Err(ObjectError::NotFound) => Span::Pieces(Vec::new()),
        Err(e) => return Err(Fault::Object(e)),
    };
    // Short: the end of the object, or a loss.
    let size_bytes = ds.size_of(id)?;
    ds.check_mark(id, size_bytes)?;
    Ok((span, size_bytes.unwrap_or(0)))
}

/// Reads into memory: the pages are not in the cache, or nobody knows.
fn cold(
    objects: &dyn ObjectStore,
    id: ObjectId,
    offset: u64,
    len: u32,
) -> Result<(Vec<Bytes>, usize), ObjectError> {
    let span = objects.read(id, offset, len)?;
    in_memory(span).map_err(ObjectError::Io)
}

/// The bytes of a span, and how many of them were copied.
fn in_memory(span: Span) -> std::io::Result<(Vec<Bytes>, usize)> {
    match span {
        Span::Pieces(pieces) => Ok((pieces, 0)),
        Span::File {
            file, offset, len, ..
        } => {
            if len == 0 {
                return Ok((Vec::new(), 0));
            }
            let mut buffer = vec![0; len as usize];
            file.read_exact_at(&mut buffer, offset)?;
            Ok((vec![buffer.into()], len as usize))
        }
    }
}

/// Completes data that end before `wanted` bytes with the zeros of a hole, up to the `end` of the file.
fn fill(
    ds: &Ds,
    data: Span,
    offset: u64,
    wanted: u32,
    end: u64,
) -> Result<(bool, Span), NfsStatus> {
    let inside = end.saturating_sub(offset).min(u64::from(wanted));
    let len = usize::try_from(inside).expect("at most a u32");
    let eof = offset.saturating_add(inside) >= end;
    if data.len() >= len {
        return Ok((eof, data));
    }
    let mut missing = len - data.len();
    let (mut pieces, copied) = in_memory(data).map_err(|e| {
        count(&ds.counts.io_errors);
        tracing::error!("reading an object: {e}");
        NfsStatus::Io
    })?;
    add(&ds.counts.read_copied_bytes, copied);
    while missing > 0 {
        let zeros = ds.zeros.slice(..missing.min(ds.zeros.len()));
        missing -= zeros.len();
        pieces.push(zeros);
    }
    Ok((eof, Span::Pieces(pieces)))
}

fn payload(span: Span) -> Payload {
    match span {
        Span::Pieces(pieces) => Payload::Pieces(pieces),
        Span::File {
            file,
            offset,
            len,
            hold,
        } => Payload::File(FilePayload {
            file,
            offset,
            len,
            guard: Box::new(hold),
        }),
    }
}
