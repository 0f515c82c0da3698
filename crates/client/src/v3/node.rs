//! A file in use: READ, WRITE and COMMIT of ranges, and the data that the server may still lose.
//!
//! # Failure
//! Data stay in `dirty` until a COMMIT has answered the verifier that their WRITE answered (RFC 1813 §3.3.21). With another one
//! the server may have lost them, and they are written again.

use super::state::{Inner3, Node3};
use crate::backoff::Backoff;
use crate::flush::Gate;
use crate::io::{EMPTY_READS_MAX, Got, cut};
use crate::stats::add;
use crate::{Error, SetAttrs};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use nfs3::StableHow;
use nfs3_client::Fh;
use nfs4::Verifier;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex as AsyncMutex, RwLock};

/// WRITEs in a row that may write nothing.
const EMPTY_WRITES_MAX: u32 = 3;

impl Node3 {
    /// The node of a file, which the table knows from now on.
    pub(super) fn open(client: &Arc<Inner3>, fh: Fh) -> Arc<Self> {
        let mut nodes = client.nodes.lock();
        if let Some(node) = nodes.get(&fh).and_then(Weak::upgrade) {
            return node;
        }
        // Nodes that nobody uses any more go when their number has doubled, so this is cheap on average.
        if nodes.len() == nodes.capacity() {
            nodes.retain(|_, node| node.strong_count() > 0);
        }
        let node = Arc::new(Self {
            client: Arc::clone(client),
            fh: fh.clone(),
            dirty: Mutex::default(),
            flushing: AsyncMutex::default(),
            gate: RwLock::default(),
        });
        nodes.insert(fh, Arc::downgrade(&node));
        node
    }

    /// Reads a range. The answers are in the order of the file; all that follow a short one are empty.
    pub(super) async fn read_range(&self, offset: u64, len: u64) -> Result<Vec<Got>, Error> {
        let mut jobs = Vec::new();
        cut(offset, len, self.client.read_bytes_max(), |at, len| {
            jobs.push((at, len));
        });
        let results: Vec<_> = stream::iter(jobs)
            .map(|(at, len)| self.read_one(at, len))
            .buffered(self.client.config.in_flight_max.max(1))
            .collect()
            .await;
        let (mut parts, mut is_over) = (Vec::new(), false);
        for got in results {
            let mut got = got?;
            if is_over {
                got.chunks.clear();
            }
            let bytes: u64 = got.chunks.iter().map(|c| c.len() as u64).sum();
            // The file was that long. What a later READ brought was appended meanwhile.
            is_over |= bytes < got.len;
            parts.push(got);
        }
        Ok(parts)
    }

    async fn read_one(&self, offset: u64, len: u32) -> Result<Got, Error> {
        let client = &self.client;
        let mut got = Got {
            offset,
            len: u64::from(len),
            chunks: Vec::new(),
            eof: false,
        };
        let (mut at, mut empty) = (0, 0);
        while at < len && !got.eof {
            let from = offset + u64::from(at);
            let read = client.nfs.read(&client.caller, &self.fh, from, len - at);
            let read = client.wait(read).await?;
            let count = u32::try_from(read.data.len()).unwrap_or(u32::MAX);
            empty = if count == 0 { empty + 1 } else { 0 };
            if empty > EMPTY_READS_MAX {
                return Err(Error::Malformed("READ without data"));
            }
            add(&client.stats.mds_read_bytes, u64::from(count));
            if count > 0 {
                got.chunks.push(read.data);
            }
            got.eof = read.eof;
            at += count;
        }
        Ok(got)
    }

    /// Writes ranges, at least as stable as `least`. Bytes that the server may still lose are in the table afterwards.
    pub(super) async fn write_ranges(
        &self,
        ranges: Vec<(u64, Bytes)>,
        least: StableHow,
    ) -> Result<(), Error> {
        let mut jobs = Vec::new();
        for (offset, data) in ranges {
            let most = self.client.write_bytes_max();
            cut(offset, data.len() as u64, most, |at, len| {
                // Within the data, whose length is a usize.
                let from = usize::try_from(at - offset).expect("within the data");
                jobs.push((at, data.slice(from..from + len as usize)));
            });
        }
        // All are waited for: one that was left alone could come after a later write.
        let results: Vec<_> = stream::iter(jobs)
            .map(|(at, data)| self.write_one(at, data, least))
            .buffer_unordered(self.client.config.in_flight_max.max(1))
            .collect()
            .await;
        results.into_iter().collect()
    }

    async fn write_one(&self, offset: u64, data: Bytes, least: StableHow) -> Result<(), Error> {
        let client = &self.client;
        let (mut offset, mut data, mut empty) = (offset, data, 0);
        while !data.is_empty() {
            let written = client
                .nfs
                .write(&client.caller, &self.fh, offset, least, &data);
            let written = client.wait(written).await?;
            empty = if written.count == 0 { empty + 1 } else { 0 };
            if empty > EMPTY_WRITES_MAX {
                return Err(Error::Malformed("WRITE of nothing"));
            }
            let done = data.split_to(written.count as usize);
            let bytes = done.len() as u64;
            add(&client.stats.mds_written_bytes, bytes);
            let is_stable = match least {
                StableHow::FileSync => written.committed == StableHow::FileSync,
                _ => written.committed != StableHow::Unstable,
            };
            let mut dirty = self.dirty.lock();
            match is_stable {
                true => dirty.cut(offset, bytes),
                false => {
                    let bytes = written.verf;
                    dirty.insert(offset, done, (), Verifier { bytes });
                }
            }
            offset += bytes;
        }
        Ok(())
    }

    /// Makes everything durable that was written before.
    pub(super) async fn flush(&self) -> Result<(), Error> {
        let _one = self.flushing.lock().await;
        self.flush_alone(Gate::Open).await
    }

    /// As [`Node3::flush`], for a caller that holds `flushing`.
    pub(super) async fn flush_alone(&self, gate: Gate) -> Result<(), Error> {
        let client = &self.client;
        let mut backoff = Backoff::new(client.config.give_up);
        loop {
            let seq = self.dirty.lock().seq();
            if self.dirty.lock().up_to(seq).next().is_none() {
                return Ok(());
            }
            let committed = client.nfs.commit(&client.caller, &self.fh, 0, 0);
            let committed = client.wait(committed).await?;
            let lost = {
                let mut dirty = self.dirty.lock();
                dirty.lose(seq, |piece| piece.verifier.bytes != committed.verf);
                dirty.settle(seq);
                dirty.lost()
            };
            if lost.is_empty() {
                return Ok(());
            }
            if !backoff.wait().await {
                return Err(Error::NotCommitted);
            }
            let _alone = match gate {
                Gate::Open => Some(self.gate.write().await),
                Gate::Held => None,
            };
            // Again: others may have written some of it meanwhile.
            let lost = self.dirty.lock().lost();
            let bytes = lost.iter().map(|(_, d)| d.len() as u64).sum();
            add(&client.stats.resent_bytes, bytes);
            self.write_ranges(lost, StableHow::Unstable).await?;
        }
    }

    /// Sets attributes after what was written before, and before what is written later.
    pub(super) async fn set_attrs(&self, attrs: &SetAttrs) -> Result<(), Error> {
        let _one = self.flushing.lock().await;
        let _alone = self.gate.write().await;
        self.flush_alone(Gate::Held).await?;
        self.client.set_attrs_of(&self.fh, attrs).await
    }
}
