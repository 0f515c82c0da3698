//! An open file of NFSv3.

use super::attrs::private;
use super::state::{Inner3, Node3};
use crate::flush::Gate;
use crate::read_data::{READ_BYTES_MAX, ReadData, assemble};
use crate::{Error, Metadata, OpenOptions, SetAttrs};
use bytes::Bytes;
use nfs3::StableHow;
use nfs4::FileHandle;
use std::sync::Arc;

/// An open file. The server does not know of it.
#[derive(Debug)]
pub(crate) struct File3 {
    node: Arc<Node3>,
    fh: FileHandle,
    can_read: bool,
    can_write: bool,
    closed: bool,
}

impl File3 {
    pub(super) fn new(
        client: &Arc<Inner3>,
        fh: FileHandle,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        Ok(Self {
            node: Node3::open(client, private(&fh)?),
            fh,
            can_read: options.read,
            can_write: options.write,
            closed: false,
        })
    }

    pub(crate) fn handle(&self) -> &FileHandle {
        &self.fh
    }

    pub(crate) async fn read_at(&self, offset: u64, len: u32) -> Result<ReadData, Error> {
        if !self.can_read {
            return Err(Error::NotOpenFor("reading"));
        }
        let len = u64::from(len.min(READ_BYTES_MAX)).min(u64::MAX - offset);
        if len == 0 {
            return Ok(ReadData::default());
        }
        let _gate = self.node.gate.read().await;
        let parts = self.node.read_range(offset, len).await?;
        Ok(assemble(parts, offset, len, &self.node.dirty.lock()))
    }

    pub(crate) async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_as(offset, data, StableHow::Unstable).await?;
        self.limit_uncommitted().await
    }

    pub(crate) async fn write_sync_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        let end = offset.saturating_add(data.len() as u64);
        self.write_as(offset, data, StableHow::FileSync).await?;
        // A server must do what it was asked for; one that does not is asked to commit.
        match self.node.dirty.lock().overlaps(offset, end) {
            true => {}
            false => return Ok(()),
        }
        self.flush().await
    }

    async fn write_as(&self, offset: u64, data: Bytes, stable: StableHow) -> Result<(), Error> {
        if !self.can_write {
            return Err(Error::NotOpenFor("writing"));
        }
        if offset.checked_add(data.len() as u64).is_none() {
            return Err(Error::Status(nfs4::NfsStatus::FBig));
        }
        let _gate = self.node.gate.read().await;
        self.node.write_ranges(vec![(offset, data)], stable).await
    }

    /// Commits when too much is kept for it. One writer does; others go on until there is twice as much.
    async fn limit_uncommitted(&self) -> Result<(), Error> {
        let max = self.node.client.config.uncommitted_bytes_max;
        let kept = self.uncommitted_bytes();
        if kept < max {
            return Ok(());
        }
        if kept < max.saturating_mul(2) {
            let Ok(_one) = self.node.flushing.try_lock() else {
                return Ok(());
            };
            return self.node.flush_alone(Gate::Open).await;
        }
        self.node.flush().await
    }

    pub(crate) async fn flush(&self) -> Result<(), Error> {
        self.node.flush().await
    }

    pub(crate) fn uncommitted_bytes(&self) -> u64 {
        self.node.dirty.lock().bytes()
    }

    pub(crate) async fn set_len(&self, size: u64) -> Result<(), Error> {
        if !self.can_write {
            return Err(Error::NotOpenFor("writing"));
        }
        let attrs = SetAttrs {
            size: Some(size),
            ..SetAttrs::default()
        };
        self.node.set_attrs(&attrs).await
    }

    pub(crate) async fn metadata(&self) -> Result<Metadata, Error> {
        self.flush().await?;
        self.node.client.metadata_of(&self.node.fh).await
    }

    pub(crate) async fn close(mut self) -> Result<(), Error> {
        self.closed = true;
        self.node.flush().await
    }
}

impl Drop for File3 {
    fn drop(&mut self) {
        if self.closed || self.uncommitted_bytes() == 0 {
            return;
        }
        let node = Arc::clone(&self.node);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // Without a runtime nothing can be sent: the server keeps what it has.
            return;
        };
        let mut tasks = self.node.client.closing.lock();
        while tasks.try_join_next().is_some() {}
        let closing = async move {
            if let Err(e) = node.flush().await {
                tracing::warn!("a dropped file was not closed cleanly: {e}");
            }
        };
        tasks.spawn_on(closing, &runtime);
    }
}
