//! The encoder: appends to one buffer and notes where bulk payloads belong.
//!
//! A payload is not copied into the buffer. [`Encoder::payload`] writes its length and records a [`PayloadSpan`]. The
//! transport sends `buf[..span.at]`, then the payload from where it lies (memory, a file for sendfile, a registered
//! buffer for an RDMA Write). Its padding and the rest follow.
//!
//! What writes a word or two is `#[inline]`: without it each field of each message is a call into this crate.

use crate::padding;

/// A value that can be written as XDR.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, e: &mut Encoder);
}

/// A place in the encoder that is filled in or cut back to later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    at: usize,
    spans: usize,
}

/// Where a payload of `len` bytes belongs: before byte `at` of the encoder's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadSpan {
    /// Offset in the buffer at which the payload (and then its padding) is inserted.
    pub at: usize,
    /// Bytes of payload, without padding.
    pub len: u32,
}

/// Bytes that a new encoder has room for: most records and results, so that they do not grow by doubling.
const FIRST_BYTES: usize = 256;

/// An append-only buffer of XDR items.
#[derive(Debug)]
pub struct Encoder {
    buf: Vec<u8>,
    spans: Vec<PayloadSpan>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An empty encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::with_buffer(Vec::with_capacity(FIRST_BYTES))
    }

    /// An encoder that appends to `buf`; its capacity is reused.
    #[must_use]
    pub fn with_buffer(buf: Vec<u8>) -> Self {
        Self {
            buf,
            spans: Vec::new(),
        }
    }

    /// Bytes written, payload spans and their padding not included.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty() && self.spans.is_empty()
    }

    /// Bytes on the wire: what was written, plus payloads and their padding.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        let payload = |s: &PayloadSpan| s.len as usize + padding(s.len as usize);
        self.buf.len() + self.spans.iter().map(payload).sum::<usize>()
    }

    /// The bytes written so far, without payloads.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf
    }

    /// The buffer of a message without payload spans.
    ///
    /// # Panics
    /// When a payload span was recorded: use [`Encoder::into_parts`] then.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        assert!(
            self.spans.is_empty(),
            "a message with payload spans is not one buffer"
        );
        self.buf
    }

    /// The buffer and the payload spans, in order.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<PayloadSpan>) {
        (self.buf, self.spans)
    }

    /// Payload spans recorded so far.
    #[must_use]
    pub fn spans(&self) -> &[PayloadSpan] {
        &self.spans
    }

    /// The current place, to come back to with [`Encoder::truncate`].
    #[must_use]
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            at: self.buf.len(),
            spans: self.spans.len(),
        }
    }

    /// Drops everything written after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.buf.truncate(mark.at);
        self.spans.truncate(mark.spans);
    }

    /// Writes a placeholder for a 32-bit value that is known later.
    #[must_use]
    #[inline]
    pub fn reserve_u32(&mut self) -> Mark {
        let mark = self.mark();
        self.u32(0);
        mark
    }

    /// Fills in a value reserved by [`Encoder::reserve_u32`].
    ///
    /// # Panics
    /// When the reserved place was cut off in between.
    #[inline]
    pub fn patch_u32(&mut self, mark: Mark, value: u32) {
        self.buf[mark.at..mark.at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Raw bytes, neither counted nor padded.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// An unsigned 32-bit integer.
    #[inline]
    pub fn u32(&mut self, v: u32) {
        self.raw(&v.to_be_bytes());
    }

    /// A signed 32-bit integer.
    #[inline]
    pub fn i32(&mut self, v: i32) {
        self.raw(&v.to_be_bytes());
    }

    /// An unsigned 64-bit integer.
    #[inline]
    pub fn u64(&mut self, v: u64) {
        self.raw(&v.to_be_bytes());
    }

    /// A signed 64-bit integer.
    #[inline]
    pub fn i64(&mut self, v: i64) {
        self.raw(&v.to_be_bytes());
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, v: bool) {
        self.u32(u32::from(v));
    }

    /// A count of items or bytes.
    ///
    /// # Panics
    /// Above 2^32 - 1, which no message of ours reaches: their limits are far below.
    #[inline]
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("counts on the wire are below 2^32"));
    }

    /// Fixed-length opaque: the bytes and their padding.
    #[inline]
    pub fn opaque_fixed(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        self.raw(&[0; 3][..padding(bytes.len())]);
    }

    /// Variable-length opaque: count, bytes, padding. Strings are encoded alike.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.opaque_fixed(bytes);
    }

    /// A counted array.
    pub fn list<T: Encode>(&mut self, items: &[T]) {
        self.count(items.len());
        for item in items {
            item.encode(self);
        }
    }

    /// An optional item.
    pub fn option<T: Encode>(&mut self, item: Option<&T>) {
        self.bool(item.is_some());
        if let Some(item) = item {
            item.encode(self);
        }
    }

    /// A variable-length opaque whose `len` bytes the transport inserts. Returns its index among
    /// this encoder's spans.
    pub fn payload(&mut self, len: u32) -> usize {
        self.u32(len);
        self.spans.push(PayloadSpan {
            at: self.buf.len(),
            len,
        });
        self.spans.len() - 1
    }
}

macro_rules! encode_scalar {
    ($($ty:ident),*) => {$(
        impl Encode for $ty {
            #[inline]
            fn encode(&self, e: &mut Encoder) {
                e.$ty(*self);
            }
        }
    )*};
}
encode_scalar!(u32, i32, u64, i64, bool);

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, e: &mut Encoder) {
        e.opaque_fixed(self);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, e: &mut Encoder) {
        e.option(self.as_ref());
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder) {}
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, e: &mut Encoder) {
        (**self).encode(e);
    }
}
