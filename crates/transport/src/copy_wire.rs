//! A wire over any stream of bytes: a TLS session, or a tunnel that somebody else has opened. Files are copied through it.

use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll, ready};

use bytes::BufMut;
use rustix::buffer::spare_capacity;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::stream::Wire;

/// Bytes of a file that are read at once: four TLS records.
const FILE_CHUNK_BYTES: usize = 64 * 1024;

/// A stream of bytes that files are copied through.
pub(crate) struct CopyWire<S> {
    stream: S,
    /// Bytes of the current range of a file that were read and not written. A range never ends
    /// inside it, so what is left here belongs to the range that is being written.
    file_chunk: Vec<u8>,
    file_chunk_at: usize,
}

impl<S> CopyWire<S> {
    pub(crate) const fn new(stream: S) -> Self {
        Self {
            stream,
            file_chunk: Vec::new(),
            file_chunk_at: 0,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Wire for CopyWire<S> {
    const SENDS_FILES: bool = false;

    fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        let mut limited = buffer.limit(room);
        pin!(self.stream.read_buf(&mut limited)).poll(cx)
    }

    fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        pieces: &[IoSlice<'_>],
        _more: bool,
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn poll_write_file(
        &mut self,
        cx: &mut TaskContext<'_>,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        if self.file_chunk_at == self.file_chunk.len() {
            self.file_chunk.clear();
            self.file_chunk_at = 0;
            self.file_chunk.reserve_exact(FILE_CHUNK_BYTES);
            let read = rustix::io::pread(file, spare_capacity(&mut self.file_chunk), offset)?;
            self.file_chunk.truncate(len);
            if read == 0 {
                return Poll::Ready(Ok(0));
            }
        }
        let bytes = &self.file_chunk[self.file_chunk_at..];
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.file_chunk_at += written;
        if written == len {
            self.file_chunk = Vec::new();
            self.file_chunk_at = 0;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
