//! The redo log of a data server: records of small stable writes, in their XDR form.

use crate::{LogError, RingLog};
use meta::BoxFuture;
use redo::{Fill, RECORD_HEAD_BYTES, RedoError, RedoLog, RedoRecord};
use std::path::Path;
use xdr::{Encode, Encoder};

/// The redo log.
#[derive(Debug)]
pub struct FileRedo(RingLog);

fn redo_error(error: LogError) -> RedoError {
    match error {
        LogError::Io(e) => RedoError::Io(e),
        LogError::Corrupt(what) => RedoError::Corrupt(what),
    }
}

impl FileRedo {
    /// As [`RingLog::open`].
    ///
    /// # Errors
    /// As [`RingLog::open`].
    pub fn open(path: &Path, capacity_bytes: u64) -> Result<Self, RedoError> {
        let log = RingLog::open(path, capacity_bytes);
        log.map(Self).map_err(redo_error)
    }
}

impl RedoLog for FileRedo {
    fn replay(&self, visit: &mut dyn FnMut(u64, RedoRecord<'_>) -> bool) -> Result<(), RedoError> {
        let mut unknown = None;
        let replayed = self.0.replay(&mut |number, payload| {
            match xdr::decode_all(payload) {
                Ok(record) => return visit(number, record),
                Err(e) => unknown = Some((number, e)),
            }
            false
        });
        replayed.map_err(redo_error)?;
        match unknown {
            None => Ok(()),
            Some((number, e)) => Err(RedoError::Corrupt(format!(
                "record {number} is of a form that this version does not know: {e}"
            ))),
        }
    }

    fn append(&self, record: &RedoRecord<'_>) -> Option<u64> {
        let bytes = RECORD_HEAD_BYTES + record.data.len().next_multiple_of(4);
        let mut e = Encoder::with_buffer(Vec::with_capacity(bytes));
        record.encode(&mut e);
        self.0.append(&e.into_bytes())
    }

    fn durable(&self, number: u64) -> BoxFuture<'_, Result<(), RedoError>> {
        Box::pin(async move { self.0.durable(number).await.map_err(redo_error) })
    }

    fn durable_through(&self) -> u64 {
        self.0.durable_through()
    }

    fn retire(&self, number: u64) -> Result<u64, RedoError> {
        self.0.retire(number).map_err(redo_error)
    }

    fn fill(&self) -> Fill {
        let (used_bytes, capacity_bytes) = self.0.fill();
        Fill {
            used_bytes,
            capacity_bytes,
        }
    }

    fn tie(&self, index_id: u64, is_known: bool) -> Result<(), RedoError> {
        self.0.tie(index_id, is_known).map_err(redo_error)
    }
}
