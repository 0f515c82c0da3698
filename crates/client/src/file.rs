//! An open file.

use crate::client::Client4;
use crate::layouts::layoutreturn_args;
use crate::read_data::{READ_BYTES_MAX, ReadData, assemble};
use crate::retry::REOPENS_MAX;
use crate::retry::is_stateid_gone;
use crate::state::{Node, Open};
use crate::unlock::unlock_all;
use crate::{Error, Metadata, SetAttrs};
use bytes::Bytes;
use nfs4::ops::{CloseArgs, CloseRes, LayoutReturnRes, PutFhArgs, PutFhRes};
use nfs4::{FileHandle, OpError, StableHow};
use std::sync::Arc;
use xdr::Opaque;

/// A file that is open by NFSv4. Reads and writes may run concurrently. Close it with [`File::close`]: that is where errors of written data
/// show; a dropped file is closed in the background.
#[derive(Debug)]
pub(crate) struct File4 {
    pub(crate) client: Client4,
    pub(crate) node: Arc<Node>,
    pub(crate) open: Arc<Open>,
    closed: bool,
}

impl File4 {
    pub(crate) fn new(client: Client4, fh: FileHandle, open: Arc<Open>) -> Self {
        let node = Node::open(&client.0, fh, Arc::clone(&open));
        Self {
            client,
            node,
            open,
            closed: false,
        }
    }

    /// Takes what OPEN told of the file.
    pub(crate) fn opened(&self, metadata: &Metadata) {
        let mut small = self.node.small.lock();
        small.opened(metadata.size, metadata.thresholds);
    }

    /// The file's handle.
    #[must_use]
    pub(crate) fn handle(&self) -> &FileHandle {
        &self.node.fh
    }

    /// Reads up to `len` bytes at `offset`. Short only at the end of the file, or above 64 MiB.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn read_at(&self, offset: u64, len: u32) -> Result<ReadData, Error> {
        if !self.open.can_read() {
            return Err(Error::NotOpenFor("reading"));
        }
        self.open.locks.check()?;
        let len = u64::from(len.min(READ_BYTES_MAX)).min(u64::MAX - offset);
        if len == 0 {
            return Ok(ReadData::default());
        }
        let _gate = self.node.gate.read().await;
        let parts = self.node.read_range(&self.open, offset, len).await?;
        Ok(assemble(parts, offset, len, &self.node.dirty.lock()))
    }

    /// Writes all of `data` at `offset`. They are durable after [`File::flush`].
    ///
    /// # Errors
    /// [`Error`]; some of the bytes may have been written.
    pub(crate) async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_as(offset, data, StableHow::Unstable).await?;
        self.limit_uncommitted().await
    }

    /// Writes bytes that are durable when this returns, with the size of the file, as a file that is open with `O_SYNC`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub(crate) async fn write_sync_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_as(offset, data, StableHow::FileSync).await
    }

    async fn write_as(&self, offset: u64, data: Bytes, stable: StableHow) -> Result<(), Error> {
        if !self.open.can_write() {
            return Err(Error::NotOpenFor("writing"));
        }
        self.open.locks.check()?;
        if offset.checked_add(data.len() as u64).is_none() {
            return Err(Error::Status(nfs4::NfsStatus::FBig));
        }
        if data.is_empty() {
            return Ok(());
        }
        let _gate = self.node.gate.read().await;
        let ranges = vec![(offset, data)];
        self.node.write_ranges(&self.open, ranges, stable).await
    }

    /// Commits when too much is kept for it. One writer does; others go on until there is twice as much.
    async fn limit_uncommitted(&self) -> Result<(), Error> {
        let max = self.client.0.config.uncommitted_bytes_max;
        let kept = self.node.dirty.lock().bytes();
        if kept < max {
            return Ok(());
        }
        if kept < max.saturating_mul(2) {
            let Ok(_one) = self.node.flushing.try_lock() else {
                return Ok(());
            };
            return self.node.flush_alone(crate::flush::Gate::Open).await;
        }
        self.node.flush().await
    }

    /// Makes everything durable that was written before.
    ///
    /// # Errors
    /// [`Error`]; the data are kept and the next flush tries again.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        self.node.flush().await
    }

    /// Bytes that were written and are not durable yet.
    #[must_use]
    pub(crate) fn uncommitted_bytes(&self) -> u64 {
        self.node.dirty.lock().bytes()
    }

    /// Cuts or extends the file to `size` bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn set_len(&self, size: u64) -> Result<(), Error> {
        if !self.open.can_write() {
            return Err(Error::NotOpenFor("writing"));
        }
        let _one = self.node.flushing.lock().await;
        let _alone = self.node.gate.write().await;
        self.node.flush_alone(crate::flush::Gate::Held).await?;
        let attrs = SetAttrs {
            size: Some(size),
            ..SetAttrs::default()
        };
        self.set_attrs_as_holder(&attrs).await?;
        self.node.small.lock().resized(size);
        Ok(())
    }

    /// Sets attributes under the open, whose stateid changes when the server restarts or forgets it meanwhile.
    async fn set_attrs_as_holder(&self, attrs: &SetAttrs) -> Result<(), Error> {
        for _ in 0..REOPENS_MAX {
            let stateid = self.open.io_stateid();
            let set = self.client.set_attrs_by(&self.node.fh, stateid, attrs);
            match set.await {
                Err(Error::Status(status))
                    if is_stateid_gone(&OpError::Status { op: None, status }) => {}
                done => return done,
            }
            if self.open.is_lost() {
                return Err(Error::OpenLost);
            }
            if self.open.io_stateid() == stateid {
                // Otherwise a recovery has already brought a new one.
                self.client.0.reopen(&self.node, &self.open).await?;
            }
        }
        Err(Error::OpenLost)
    }

    /// The attributes as the MDS knows them; written data are flushed first, so that size and times are right.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn metadata(&self) -> Result<Metadata, Error> {
        self.flush().await?;
        self.client.metadata_of(&self.node.fh).await
    }

    /// Flushes, returns the layout when nobody else here uses the file, and closes.
    ///
    /// # Errors
    /// [`Error`]; the file is closed in any case as far as the server can be reached.
    pub(crate) async fn close(mut self) -> Result<(), Error> {
        self.closed = true;
        close(&self.node, &self.open).await
    }
}

impl Drop for File4 {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let (node, open) = (Arc::clone(&self.node), Arc::clone(&self.open));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // Without a runtime nothing can be sent: the server closes the file after the lease.
            return;
        };
        let closing = async move {
            if let Err(e) = close(&node, &open).await {
                tracing::warn!("a dropped file was not closed cleanly: {e}");
            }
        };
        let mut tasks = self.client.0.closing.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(closing, &runtime);
    }
}

async fn close(node: &Arc<Node>, open: &Arc<Open>) -> Result<(), Error> {
    let flushed = if open.can_write() {
        node.flush().await
    } else {
        Ok(())
    };
    let unlocked = unlock_all(node, open).await;
    let _one = node.flushing.lock().await;
    let last = node.is_only_open(open);
    let _alone = match last {
        true => Some(node.gate.write().await),
        false => None,
    };
    let layout = match last {
        true => {
            let mut layout = node.layout.lock();
            let stateid = layout.stateid;
            layout.forget();
            stateid
        }
        false => None,
    };
    let closed = if open.is_lost() {
        Ok(())
    } else {
        send_close(node, open, layout).await
    };
    if node.forget_open(open) {
        // Nobody is left to write again what a flush could not make durable; its error says so.
        node.dirty.lock().cut(0, u64::MAX);
    }
    flushed.and(unlocked).and(closed)
}

/// LAYOUTRETURN and CLOSE in one request. A server that refuses the return gets the CLOSE alone.
async fn send_close(
    node: &Arc<Node>,
    open: &Arc<Open>,
    layout: Option<nfs4::Stateid>,
) -> Result<(), Error> {
    let mut layout = layout;
    loop {
        let open_stateid = open.stateid();
        let outcome = node
            .client
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&node.fh.0),
                });
                if let Some(stateid) = layout {
                    b.push(&layoutreturn_args(stateid));
                }
                b.push(&CloseArgs {
                    seqid: 0,
                    open_stateid,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        if layout.take().is_some()
            && let Err(e) = reply.take::<LayoutReturnRes>()
        {
            tracing::debug!("a layout was not taken back: {e}");
            continue;
        }
        return match reply.take::<CloseRes>() {
            // A recovery in between brought a new one, which is to be closed.
            Err(e) if is_stateid_gone(&e) && open.stateid() != open_stateid => continue,
            // The server has no such open: closed is what it should be.
            Err(e) if is_stateid_gone(&e) => Ok(()),
            other => Ok(other.map(drop)?),
        };
    }
}
