//! Record marking for stream transports (RFC 5531 §11), as a state machine without I/O.
//!
//! [`RecordReader`] owns the record that is arriving. Small input is handed to [`RecordReader::feed`]. For the bulk of
//! a large record the caller reads from its socket straight into [`RecordReader::body_buffer`]: those bytes are never
//! copied.
//!
//! A length from a peer buys no memory. The buffer is never larger than twice what has arrived, or what has arrived plus
//! [`RESERVE_STEP_BYTES`]. An exception is a record for all of which the caller has accounted ([`RecordReader::reserve_whole`]).
//! Sizes, fragments and empty fragments are bounded by [`RecordLimits`].

/// Most bytes that one fragment can announce: its length has 31 bits.
pub const FRAGMENT_BYTES_MAX: u32 = 0x7fff_ffff;
/// Bytes reserved ahead of data that was announced and has not arrived. 128 KiB: a request that is
/// a little above a usual write size is then one allocation.
pub const RESERVE_STEP_BYTES: usize = 128 * 1024;

const LAST_FRAGMENT: u32 = 0x8000_0000;

/// The mark before a fragment of `len` bytes.
///
/// # Panics
/// Above [`FRAGMENT_BYTES_MAX`], which no message of ours reaches.
#[must_use]
pub const fn fragment_header(len: u32, last: bool) -> [u8; 4] {
    assert!(len <= FRAGMENT_BYTES_MAX, "a fragment's length has 31 bits");
    let mark = if last { len | LAST_FRAGMENT } else { len };
    mark.to_be_bytes()
}

/// Bounds of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLimits {
    /// Most bytes of one record, marks not counted.
    pub record_bytes_max: u32,
    /// Most fragments of one record, empty ones included.
    pub fragments_max: u32,
}

/// Why a stream cannot be read further. There is no way to find the next record: close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// The record is longer than allowed.
    TooLong {
        /// Bytes announced so far.
        announced: u64,
        /// [`RecordLimits::record_bytes_max`].
        limit: u32,
    },
    /// The record has more fragments than allowed.
    TooManyFragments {
        /// [`RecordLimits::fragments_max`].
        limit: u32,
    },
    /// The record has no bytes, so it cannot be an RPC message.
    Empty,
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { announced, limit } => {
                write!(f, "record of at least {announced} bytes, above {limit}")
            }
            Self::TooManyFragments { limit } => write!(f, "record of more than {limit} fragments"),
            Self::Empty => write!(f, "empty record"),
        }
    }
}

impl std::error::Error for RecordError {}

/// What [`RecordReader::feed`] did with its input.
#[derive(Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the input that were used. Feed the rest again.
    pub consumed: usize,
    /// A whole record, when the used bytes ended one.
    pub record: Option<Vec<u8>>,
}

/// Reassembles records from a stream of bytes.
///
/// ```text
///   header (0..4 bytes held) --mark complete--> body (remaining > 0) --remaining == 0--+
///        ^                                                                             |
///        +------------- next fragment, or after the last one: next record -------------+
/// ```
#[derive(Debug)]
pub struct RecordReader {
    limits: RecordLimits,
    /// Bytes of the mark that is arriving.
    mark: [u8; 4],
    mark_len: usize,
    /// Bytes of the current fragment that have not arrived.
    remaining: usize,
    last: bool,
    fragments: u32,
    body: Vec<u8>,
}

impl RecordReader {
    /// A reader at the start of a stream. It owns no memory until a record arrives.
    #[must_use]
    pub const fn new(limits: RecordLimits) -> Self {
        Self {
            limits,
            mark: [0; 4],
            mark_len: 0,
            remaining: 0,
            last: false,
            fragments: 0,
            body: Vec::new(),
        }
    }

    /// Whether the stream stands between two records, so that its end here is a clean one.
    #[must_use]
    pub const fn is_between_records(&self) -> bool {
        self.mark_len == 0 && self.remaining == 0 && self.fragments == 0
    }

    /// Bytes of the current fragment that have not arrived; 0 while a mark is expected.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.remaining
    }

    /// Bytes that the whole record may take: exact once its last fragment has begun, else the
    /// limit. 0 between records and before the first mark.
    #[must_use]
    pub fn announced(&self) -> usize {
        match (self.fragments, self.last) {
            (0, _) => 0,
            (_, true) => self.body.len() + self.remaining,
            (_, false) => self.limits.record_bytes_max as usize,
        }
    }

    /// Takes bytes up to the end of the first record, copying the body.
    ///
    /// # Errors
    /// [`RecordError`]; the reader must not be used again.
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, RecordError> {
        let mut at = 0;
        loop {
            if self.remaining == 0 {
                let take = (4 - self.mark_len).min(input.len() - at);
                self.mark[self.mark_len..self.mark_len + take]
                    .copy_from_slice(&input[at..at + take]);
                self.mark_len += take;
                at += take;
                if self.mark_len < 4 {
                    return Ok(Fed {
                        consumed: at,
                        record: None,
                    });
                }
                self.begin_fragment()?;
            }
            let take = self.remaining.min(input.len() - at);
            if take > 0 && self.body.capacity() == 0 {
                self.body.reserve_exact(take);
            }
            self.body.extend_from_slice(&input[at..at + take]);
            at += take;
            self.remaining -= take;
            if self.remaining > 0 {
                return Ok(Fed {
                    consumed: at,
                    record: None,
                });
            }
            if self.last {
                return Ok(Fed {
                    consumed: at,
                    record: Some(self.finish()),
                });
            }
        }
    }

    /// The record's buffer and how many bytes may be appended to it now, when a fragment's body is
    /// arriving. Spare capacity for them is reserved. Call [`RecordReader::body_appended`] next.
    pub fn body_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        if self.remaining == 0 {
            return None;
        }
        if self.body.capacity() == self.body.len() {
            let ahead = self.remaining.min(self.body.len().max(RESERVE_STEP_BYTES));
            self.body.reserve_exact(ahead);
        }
        let room = (self.body.capacity() - self.body.len()).min(self.remaining);
        Some((&mut self.body, room))
    }

    /// Takes the memory for all of a record whose last fragment has begun, so that it does not move as it grows. For callers
    /// that have accounted for what is [announced](RecordReader::announced).
    pub fn reserve_whole(&mut self) {
        if self.last {
            self.body.reserve_exact(self.remaining);
        }
    }

    /// Accounts for `len` bytes that were appended to the buffer; returns the record if they ended
    /// it.
    ///
    /// # Panics
    /// When more was appended than [`RecordReader::body_buffer`] allowed.
    pub fn body_appended(&mut self, len: usize) -> Option<Vec<u8>> {
        assert!(
            len <= self.remaining,
            "more was appended than the fragment has"
        );
        self.remaining -= len;
        (self.remaining == 0 && self.last && self.fragments > 0).then(|| self.finish())
    }

    fn begin_fragment(&mut self) -> Result<(), RecordError> {
        let mark = u32::from_be_bytes(self.mark);
        self.mark_len = 0;
        self.last = mark & LAST_FRAGMENT != 0;
        let len = mark & FRAGMENT_BYTES_MAX;
        self.fragments += 1;
        if self.fragments > self.limits.fragments_max {
            return Err(RecordError::TooManyFragments {
                limit: self.limits.fragments_max,
            });
        }
        let announced = self.body.len() as u64 + u64::from(len);
        if announced > u64::from(self.limits.record_bytes_max) {
            return Err(RecordError::TooLong {
                announced,
                limit: self.limits.record_bytes_max,
            });
        }
        if announced == 0 && self.last {
            return Err(RecordError::Empty);
        }
        self.remaining = len as usize;
        Ok(())
    }

    fn finish(&mut self) -> Vec<u8> {
        self.fragments = 0;
        self.last = false;
        std::mem::take(&mut self.body)
    }
}
