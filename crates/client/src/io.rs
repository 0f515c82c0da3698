//! READ and WRITE of ranges: cut into jobs by the layout, many in flight, each sent to its data server or to the MDS.
//!
//! # Ownership
//! The caller holds the node's `gate`. Data of a WRITE are slices of the caller's bytes; data of a READ are slices of
//! the reply's record.
//!
//! # Failure
//! A data server that fails makes its segment unusable; the failed ranges are planned anew, at last through the
//! MDS, and counted. Errors that the MDS would answer too (no space, say) end the call.

use crate::Error;
use crate::backoff::Backoff;
use crate::device::Ds;
use crate::retry::REOPENS_MAX;
use crate::retry::is_busy;
use crate::retry::is_stateid_gone;
use crate::state::{Node, Open, Target};
use crate::stats::add;
use crate::stripes::Segment;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use nfs4::ops::{PutFhArgs, PutFhRes, ReadArgs, ReadRes, WriteArgsPayload, WriteRes};
use nfs4::{FileHandle, NfsStatus, OpError, StableHow};
use session_client::{Build, Outcome};
use std::sync::Arc;
use transport::Payload;
use xdr::Opaque;

/// Layouts tried for one range before it goes through the MDS.
const LAYOUTS_TRIED_MAX: u32 = 3;
/// READs in a row that may answer nothing without the end of the file.
pub(crate) const EMPTY_READS_MAX: u32 = 3;

/// A range for one request.
#[derive(Debug, Clone)]
struct Job {
    offset: u64,
    len: u32,
    via: Via,
}

#[derive(Debug, Clone)]
enum Via {
    Ds {
        ds: Arc<Ds>,
        fh: FileHandle,
        object_offset: u64,
        segment: Arc<Segment>,
    },
    /// How stable its writes are to be.
    Mds(StableHow),
}

/// Why a job has no result.
enum Failure {
    /// The data server, or the layout: plan anew.
    Layout,
    /// For good.
    Fatal(Error),
}

/// What a READ job brought.
pub(crate) struct Got {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) eof: bool,
}

impl Node {
    /// Reads `len` bytes. The answers are in the order of the file and may be short.
    pub(crate) async fn read_range(
        self: &Arc<Self>,
        open: &Arc<Open>,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Got>, Error> {
        let mut done = Vec::new();
        let mut todo = vec![(offset, len)];
        let mut tried = 0;
        while !todo.is_empty() {
            let jobs = self.plan(open, &todo, false, tried).await?;
            todo.clear();
            let results: Vec<_> = stream::iter(jobs)
                .map(|job| async move { (self.read_job(open, &job).await, job) })
                .buffer_unordered(self.client.config.in_flight_max.max(1))
                .collect()
                .await;
            for (result, job) in results {
                match result {
                    Ok(got) => done.push(got),
                    Err(failure) => todo.push(self.failed(failure, &job)?),
                }
            }
            tried += 1;
        }
        done.sort_by_key(|got| got.offset);
        Ok(done)
    }

    /// Writes ranges, at least as stable as `least`. Bytes that a server may still lose are in the node's table afterwards.
    pub(crate) async fn write_ranges(
        self: &Arc<Self>,
        open: &Arc<Open>,
        ranges: Vec<(u64, Bytes)>,
        least: StableHow,
    ) -> Result<(), Error> {
        let mut todo: Vec<(u64, u64)> =
            ranges.iter().map(|(at, d)| (*at, d.len() as u64)).collect();
        let data_of = |job: &Job| -> Bytes {
            let holds = |(at, d): &&(u64, Bytes)| {
                *at <= job.offset && job.offset + u64::from(job.len) <= at + d.len() as u64
            };
            let (at, data) = ranges.iter().find(holds).expect("a job lies in a range");
            let from = usize::try_from(job.offset - at).expect("within a range");
            data.slice(from..from + job.len as usize)
        };
        let mut tried = 0;
        while !todo.is_empty() {
            let jobs = self.plan(open, &todo, true, tried).await?;
            todo.clear();
            let with_data = jobs.into_iter().map(|job| (data_of(&job), job));
            let results: Vec<_> = stream::iter(with_data.collect::<Vec<_>>())
                .map(|(data, job)| async move {
                    let stable = job.stable().max(least);
                    (self.write_job(open, &job, data, stable).await, job)
                })
                .buffer_unordered(self.client.config.in_flight_max.max(1))
                .collect()
                .await;
            for (result, job) in results {
                if let Err(failure) = result {
                    todo.push(self.failed(failure, &job)?);
                }
            }
            tried += 1;
        }
        Ok(())
    }

    /// The range to plan anew, or the error that ends the call.
    fn failed(&self, failure: Failure, job: &Job) -> Result<(u64, u64), Error> {
        match failure {
            Failure::Fatal(e) => return Err(e),
            Failure::Layout => {}
        }
        if let Via::Ds { segment, .. } = &job.via {
            self.segment_failed(segment);
        }
        Ok((job.offset, u64::from(job.len)))
    }

    /// Cuts ranges into jobs. After some tries all go through the MDS.
    async fn plan(
        &self,
        open: &Open,
        ranges: &[(u64, u64)],
        write: bool,
        tried: u32,
    ) -> Result<Vec<Job>, Error> {
        let mut jobs = Vec::new();
        for (offset, len) in ranges.iter().copied() {
            let end = offset.saturating_add(len);
            let small = self.small.lock().through_mds(offset, len, write);
            if let Some(stable) = small {
                self.through_mds((offset, len), write, stable, &mut jobs);
                continue;
            }
            let segment = if tried < LAYOUTS_TRIED_MAX {
                self.segment(open, offset, end, write).await?
            } else {
                None
            };
            let Some(segment) = segment else {
                if tried > 0 {
                    add(&self.client.stats.mds_fallbacks, 1);
                }
                self.through_mds((offset, len), write, StableHow::Unstable, &mut jobs);
                continue;
            };
            for part in segment.parts(offset, len) {
                if !part.ds.can_serve(&self.client.waits).await {
                    add(&self.client.stats.ds_failures, 1);
                    add(&self.client.stats.mds_fallbacks, 1);
                    let range = (part.offset, part.len);
                    self.through_mds(range, write, StableHow::Unstable, &mut jobs);
                    continue;
                }
                let step = if write {
                    part.ds.write_bytes_max()
                } else {
                    part.ds.read_bytes_max()
                };
                cut(part.offset, part.len, step, |offset, len| {
                    jobs.push(Job {
                        offset,
                        len,
                        via: Via::Ds {
                            ds: Arc::clone(&part.ds),
                            fh: part.fh.clone(),
                            object_offset: part.object_offset + (offset - part.offset),
                            segment: Arc::clone(&segment),
                        },
                    });
                });
            }
        }
        Ok(jobs)
    }

    fn through_mds(
        &self,
        (offset, len): (u64, u64),
        write: bool,
        stable: StableHow,
        jobs: &mut Vec<Job>,
    ) {
        let step = if write {
            self.client.write_bytes_max()
        } else {
            self.client.read_bytes_max()
        };
        cut(offset, len, step, |offset, len| {
            jobs.push(Job {
                offset,
                len,
                via: Via::Mds(stable),
            });
        });
    }

    async fn read_job(self: &Arc<Self>, open: &Arc<Open>, job: &Job) -> Result<Got, Failure> {
        let mut got = Got {
            offset: job.offset,
            len: u64::from(job.len),
            chunks: Vec::new(),
            eof: false,
        };
        let (mut at, mut empty) = (0, 0);
        while at < job.len && !got.eof {
            let (outcome, counter) = self
                .send(open, job, at, &|b, stateid, offset| {
                    b.push(&ReadArgs {
                        stateid,
                        offset,
                        count: job.len - at,
                    });
                    Vec::new()
                })
                .await?;
            let mut reply = outcome.results().map_err(fatal)?;
            reply.take::<PutFhRes>().map_err(fatal)?;
            let read = reply.take::<ReadRes<'_>>().map_err(fatal)?;
            let len = u32::try_from(read.data.0.len()).unwrap_or(u32::MAX);
            if len > job.len - at {
                return Err(Failure::Fatal(Error::Malformed("more data than asked for")));
            }
            empty = if len == 0 { empty + 1 } else { 0 };
            if empty > EMPTY_READS_MAX {
                return Err(Failure::Fatal(Error::Malformed("READ without data")));
            }
            add(counter.0, u64::from(len));
            if len > 0 {
                got.chunks.push(outcome.record().slice_ref(read.data.0));
            }
            got.eof = read.eof;
            at += len;
        }
        Ok(got)
    }

    async fn write_job(
        self: &Arc<Self>,
        open: &Arc<Open>,
        job: &Job,
        data: Bytes,
        stable: StableHow,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while at < job.len {
            let rest = data.slice(at as usize..);
            let (outcome, counter) = self
                .send(open, job, at, &|b, stateid, offset| {
                    b.push(&WriteArgsPayload {
                        stateid,
                        offset,
                        stable,
                        len: job.len - at,
                    });
                    vec![Payload::Bytes(rest.clone())]
                })
                .await?;
            let mut reply = outcome.results().map_err(fatal)?;
            reply.take::<PutFhRes>().map_err(fatal)?;
            let res = reply.take::<WriteRes>().map_err(fatal)?;
            if res.count == 0 || res.count > job.len - at {
                return Err(Failure::Fatal(Error::Malformed("count of a WRITE")));
            }
            if res.committed < stable {
                let why = "a WRITE less stable than asked for";
                return Err(Failure::Fatal(Error::Malformed(why)));
            }
            add(counter.1, u64::from(res.count));
            let offset = job.offset + u64::from(at);
            let mut dirty = self.dirty.lock();
            if res.committed == StableHow::FileSync {
                dirty.cut(offset, u64::from(res.count));
            } else {
                let written = rest.slice(..res.count as usize);
                dirty.insert(offset, written, job.target(), res.write_verifier);
            }
            drop(dirty);
            at += res.count;
        }
        Ok(())
    }

    /// Sends one READ or WRITE behind a PUTFH, `at` bytes into the job; the reply's PUTFH and I/O have succeeded.
    /// Also returns the counters for bytes read and written.
    async fn send(
        self: &Arc<Self>,
        open: &Arc<Open>,
        job: &Job,
        at: u32,
        io: &(dyn Fn(&mut nfs4::CompoundBuilder, nfs4::Stateid, u64) -> Vec<Payload> + Send + Sync),
    ) -> Result<(Outcome, Counters<'_>), Failure> {
        let stats = &self.client.stats;
        let mut reopens = 0;
        loop {
            // Taken once for all tries of the request, which must be the same.
            let stateid = open.io_stateid();
            let (fh, offset) = match &job.via {
                Via::Ds {
                    fh, object_offset, ..
                } => (fh, *object_offset),
                Via::Mds(_) => (&self.fh, job.offset),
            };
            let build: &Build<'_> = &|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&fh.0),
                });
                io(b, stateid, offset + u64::from(at))
            };
            if let Via::Ds { ds, .. } = &job.via {
                let outcome = self.send_ds(ds, build).await?;
                let counters = Counters(&stats.ds_read_bytes, &stats.ds_written_bytes);
                return Ok((outcome, counters));
            }
            if open.is_lost() {
                return Err(Failure::Fatal(Error::OpenLost));
            }
            let outcome = self.client.call(build).await.map_err(Failure::Fatal)?;
            let status = outcome.results().map_err(fatal)?.status;
            if status.is_ok() {
                let counters = Counters(&stats.mds_read_bytes, &stats.mds_written_bytes);
                return Ok((outcome, counters));
            }
            let error = OpError::Status { op: None, status };
            if !is_stateid_gone(&error) || reopens == REOPENS_MAX {
                return Err(fatal(error));
            }
            if open.io_stateid() == stateid {
                // Otherwise a recovery has already brought a new one.
                reopens += 1;
                self.client
                    .reopen(self, open)
                    .await
                    .map_err(Failure::Fatal)?;
            }
        }
    }

    async fn send_ds(&self, ds: &Ds, build: &Build<'_>) -> Result<Outcome, Failure> {
        let mut backoff = Backoff::new(self.client.config.ds_give_up);
        let _waiting = self.client.waits.enter(ds.wait());
        loop {
            let outcome = match ds.call(&self.client.caller, build).await {
                Ok(outcome) => outcome,
                Err(e) => {
                    tracing::debug!("a data server failed: {e}");
                    return Err(Failure::Layout);
                }
            };
            match outcome.results().map_err(fatal)?.status {
                NfsStatus::Ok => return Ok(outcome),
                status if is_busy(status) => {
                    if !backoff.wait().await {
                        return Err(Failure::Layout);
                    }
                }
                status
                @ (NfsStatus::NoSpc | NfsStatus::DQuot | NfsStatus::FBig | NfsStatus::Io) => {
                    return Err(Failure::Fatal(Error::Status(status)));
                }
                status => {
                    tracing::debug!("a data server answered {status}; asking for a new layout");
                    return Err(Failure::Layout);
                }
            }
        }
    }
}

/// Counters of bytes read and of bytes written.
struct Counters<'a>(
    &'a std::sync::atomic::AtomicU64,
    &'a std::sync::atomic::AtomicU64,
);

impl Job {
    fn stable(&self) -> StableHow {
        match &self.via {
            Via::Ds { .. } => StableHow::Unstable,
            Via::Mds(stable) => *stable,
        }
    }

    /// Who must COMMIT what this job wrote.
    fn target(&self) -> Target {
        match &self.via {
            Via::Ds { segment, .. } if segment.is_commit_thru_mds => Target::ThroughMds,
            Via::Ds { ds, fh, .. } => Target::Ds(Arc::clone(ds), fh.clone()),
            Via::Mds(_) => Target::Mds,
        }
    }
}

fn fatal(e: OpError) -> Failure {
    Failure::Fatal(e.into())
}

/// Cuts a range into steps of at most `step` bytes.
pub(crate) fn cut(offset: u64, len: u64, step: u32, mut job: impl FnMut(u64, u32)) {
    let mut done = 0;
    while done < len {
        let part = u32::try_from(len - done).map_or(step, |left| left.min(step));
        job(offset + done, part);
        done += u64::from(part);
    }
}
