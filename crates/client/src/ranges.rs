//! Work on ranges that the server does by itself: ALLOCATE, DEALLOCATE, COPY and CLONE (RFC 7862 §15.1, §15.4, §15.2, §15.13).
//!
//! # Ordering
//! What this client has written to the files is durable before the server is asked. Nothing of it is sent again later,
//! over what the server has done.
//!
//! # Failure
//! A copy that goes on after its answer is asked for until it has ended, by CB_OFFLOAD or OFFLOAD_STATUS. One that the server
//! does not know any more is done again, as is one whose bytes a restart may have taken. What fails otherwise may be done in part.

use crate::Error;
use crate::backoff::Backoff;
use crate::file::File4;
use crate::flush::Gate;
use crate::retry::REOPENS_MAX;
use crate::retry::is_stateid_gone;
use nfs4::cb::OffloadInfo;
use nfs4::ops::{
    AllocateArgs, AllocateRes, CloneArgs, CloneRes, CommitArgs, CommitRes, CopyArgs, CopyRes,
    DeallocateArgs, DeallocateRes, OffloadStatusArgs, OffloadStatusRes, PutFhArgs, PutFhRes,
    SaveFhArgs, SaveFhRes, WriteResponse,
};
use nfs4::{CompoundBuilder, NfsStatus, OpError, StableHow, Stateid, Verifier};
use session_client::Outcome;
use std::time::Duration;
use xdr::Opaque;

/// How long an end is waited for before the server is asked.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// A copy that has ended well.
struct Ended {
    count: u64,
    /// What may still be lost, and the verifier that says so; `None` when nothing can.
    unstable: Option<Verifier>,
}

impl Ended {
    fn of(response: WriteResponse) -> Self {
        let is_stable = response.committed == StableHow::FileSync;
        Self {
            count: response.count,
            unstable: (!is_stable).then_some(response.write_verifier),
        }
    }
}

impl File4 {
    /// Takes storage for a range, durably; the file grows to its end.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn allocate(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.may_write()?;
        self.flush().await?;
        let outcome = self
            .call_as_holders(&[self], |b, stateids| {
                b.push(&AllocateArgs {
                    stateid: stateids[0],
                    offset,
                    length: len,
                });
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<AllocateRes>()?;
        self.node.small.lock().grown(offset.saturating_add(len));
        Ok(())
    }

    /// Makes a hole of a range, durably. The size stays.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn deallocate(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.may_write()?;
        self.flush().await?;
        let outcome = self
            .call_as_holders(&[self], |b, stateids| {
                b.push(&DeallocateArgs {
                    stateid: stateids[0],
                    offset,
                    length: len,
                });
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<DeallocateRes>()?;
        Ok(())
    }

    /// Lets a range of this file be what a range of `src` is, without a copy of it; durable. 0 bytes are all to the end of `src`.
    ///
    /// # Errors
    /// [`Error`]; `XDev` and `NotSupp` when the server cannot share the storage of the two.
    pub(crate) async fn clone_from(
        &self,
        offset: u64,
        src: &Self,
        src_offset: u64,
        len: u64,
    ) -> Result<(), Error> {
        self.may_write()?;
        src.may_read()?;
        src.flush().await?;
        let _one = self.node.flushing.lock().await;
        let _alone = self.node.gate.write().await;
        self.node.flush_alone(Gate::Held).await?;
        // The file may get another place, which the server waits for all layouts for.
        self.node.return_layout().await?;
        let outcome = self
            .call_as_holders(&[self, src], |b, stateids| {
                b.push(&CloneArgs {
                    src_stateid: stateids[1],
                    dst_stateid: stateids[0],
                    src_offset,
                    dst_offset: offset,
                    count: len,
                });
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<SaveFhRes>()?;
        reply.take::<PutFhRes>()?;
        reply.take::<CloneRes>()?;
        self.node.small.lock().grown(offset.saturating_add(len));
        Ok(())
    }

    /// Copies a range of `src`; returns how many bytes of it, which are durable then. 0 bytes are all to the end of `src`.
    ///
    /// # Errors
    /// [`Error`]; a part may have been copied.
    pub(crate) async fn copy_from(
        &self,
        offset: u64,
        src: &Self,
        src_offset: u64,
        len: u64,
    ) -> Result<u64, Error> {
        self.may_write()?;
        src.may_read()?;
        src.flush().await?;
        self.flush().await?;
        let mut backoff = Backoff::new(self.client.0.config.give_up);
        loop {
            let begun = self.send_copy(offset, src, src_offset, len).await?;
            let ended = match begun.callback_id {
                None => Some(Ended::of(begun)),
                Some(copy) => self.end_of_copy(copy).await?,
            };
            if let Some(ended) = ended
                && self.is_there(&ended).await?
            {
                let end = offset.saturating_add(ended.count);
                self.node.small.lock().grown(end);
                return Ok(ended.count);
            }
            if !backoff.wait().await {
                return Err(Error::NotCommitted);
            }
        }
    }

    async fn send_copy(
        &self,
        offset: u64,
        src: &Self,
        src_offset: u64,
        len: u64,
    ) -> Result<WriteResponse, Error> {
        let outcome = self
            .call_as_holders(&[self, src], |b, stateids| {
                b.push(&CopyArgs {
                    src_stateid: stateids[1],
                    dst_stateid: stateids[0],
                    src_offset,
                    dst_offset: offset,
                    count: len,
                    consecutive: true,
                    synchronous: false,
                    source_servers: Vec::new().into(),
                });
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<SaveFhRes>()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<CopyRes>()? {
            CopyRes::Ok(copied) => Ok(copied.response),
            CopyRes::NoReqs(_) => Err(Error::Status(NfsStatus::OffloadNoReqs)),
        }
    }

    /// Waits for a copy that goes on; `None` when it must be done again.
    async fn end_of_copy(&self, copy: Stateid) -> Result<Option<Ended>, Error> {
        let offloads = &self.client.0.offloads;
        loop {
            let mut ended = std::pin::pin!(offloads.ended.notified());
            ended.as_mut().enable();
            if let Some(info) = offloads.take(copy) {
                return ended_by(info);
            }
            if tokio::time::timeout(ASK_AFTER, ended).await.is_ok() {
                continue;
            }
            match self.copy_status(copy).await {
                Ok(OffloadStatusRes {
                    count,
                    complete: Some(NfsStatus::Ok),
                }) => {
                    return Ok(Some(Ended {
                        count,
                        unstable: None,
                    }));
                }
                Ok(OffloadStatusRes {
                    complete: Some(status),
                    ..
                }) => return failed(status),
                Ok(_) => {}
                // It has restarted, or has just been told that this client knows the end.
                Err(e) if e.status() == Some(NfsStatus::BadStateid) => {
                    return offloads.take(copy).map_or(Ok(None), ended_by);
                }
                Err(e) => return Err(e),
            }
        }
    }

    async fn copy_status(&self, copy: Stateid) -> Result<OffloadStatusRes, Error> {
        let outcome = self
            .client
            .0
            .call(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&self.node.fh.0),
                });
                b.push(&OffloadStatusArgs { stateid: copy });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        Ok(reply.take::<OffloadStatusRes>()?)
    }

    /// Whether what was copied is durable, after a COMMIT if it needs one.
    async fn is_there(&self, ended: &Ended) -> Result<bool, Error> {
        let Some(verifier) = ended.unstable else {
            return Ok(true);
        };
        let outcome = self
            .client
            .0
            .call(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&self.node.fh.0),
                });
                b.push(&CommitArgs {
                    offset: 0,
                    count: 0,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        Ok(reply.take::<CommitRes>()?.write_verifier == verifier)
    }

    fn may_write(&self) -> Result<(), Error> {
        if !self.open.can_write() {
            return Err(Error::NotOpenFor("writing"));
        }
        self.open.locks.check()
    }

    fn may_read(&self) -> Result<(), Error> {
        if !self.open.can_read() {
            return Err(Error::NotOpenFor("reading"));
        }
        self.open.locks.check()
    }

    /// Sends an operation on the first of `files`, the current one, and on the second, the saved one, under the stateids of their
    /// opens. Those change when the server restarts or forgets them meanwhile; which of two is not told, so both are opened anew.
    async fn call_as_holders(
        &self,
        files: &[&Self],
        push: impl Fn(&mut CompoundBuilder, &[Stateid]) + Send + Sync,
    ) -> Result<Outcome, Error> {
        for _ in 0..REOPENS_MAX {
            let stateids: Vec<_> = files.iter().map(|file| file.open.io_stateid()).collect();
            let put = |b: &mut CompoundBuilder, file: &Self| {
                b.push(&PutFhArgs {
                    object: Opaque(&file.node.fh.0),
                });
            };
            let outcome = self
                .client
                .0
                .call_once(&|b| {
                    if let Some(saved) = files.get(1) {
                        put(b, saved);
                        b.push(&SaveFhArgs {});
                    }
                    put(b, files[0]);
                    push(b, &stateids);
                    Vec::new()
                })
                .await?;
            let status = outcome.results()?.status;
            if !is_stateid_gone(&OpError::Status { op: None, status }) {
                return Ok(outcome);
            }
            for (file, stateid) in files.iter().zip(stateids) {
                if file.open.is_lost() {
                    return Err(Error::OpenLost);
                }
                if file.open.io_stateid() == stateid {
                    // Otherwise a recovery has already brought a new one.
                    self.client.0.reopen(&file.node, &file.open).await?;
                }
            }
        }
        Err(Error::OpenLost)
    }
}

fn ended_by(info: OffloadInfo) -> Result<Option<Ended>, Error> {
    match info {
        OffloadInfo::Ok(response) => Ok(Some(Ended::of(response))),
        OffloadInfo::Failed { status, .. } => failed(status),
    }
}

/// A copy that could not go on is done again, one that cannot be done is not.
fn failed(status: NfsStatus) -> Result<Option<Ended>, Error> {
    match status {
        NfsStatus::Delay => Ok(None),
        status => Err(Error::Status(status)),
    }
}
