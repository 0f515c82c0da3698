//! Copying the bytes of one file: many chunks in flight, each read and then written by itself.

use super::error::{CliError, CopyError, complain};
use super::output;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::SeekFrom;
use std::fs::File as LocalFile;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::Semaphore;

/// Bytes of one read and write.
pub(crate) const CHUNK_BYTES: u32 = 1 << 20;
/// Chunks of one file in flight.
pub(crate) const DEPTH: usize = 16;
/// Chunks of all files in flight: bounds the memory of a copy.
const CHUNKS_MAX: usize = 64;
/// What is not written into a new file.
static ZEROS: [u8; CHUNK_BYTES as usize] = [0; CHUNK_BYTES as usize];

/// Where bytes come from or go to.
#[derive(Debug)]
pub(crate) enum End {
    Local(Arc<LocalFile>),
    Remote(client::File),
}

/// What all copies of a command share: progress and the bound of memory.
#[derive(Debug)]
pub(crate) struct Shared {
    bar: Option<ProgressBar>,
    chunks: Semaphore,
    copied_bytes: AtomicU64,
}

impl Shared {
    /// With a progress bar when people watch.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let style = "{bytes:>10} of {total_bytes:<10} {wide_bar} {bytes_per_sec:>12} {eta:>5}";
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            chunks: Semaphore::new(CHUNKS_MAX),
            copied_bytes: AtomicU64::new(0),
        }
    }

    /// More bytes are to be copied.
    pub(crate) fn expect(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(bytes);
        }
    }

    /// Bytes copied so far, holes included.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Relaxed)
    }

    fn done(&self, bytes: u64) {
        self.copied_bytes.fetch_add(bytes, Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// Prints to standard error without disturbing the bar.
    pub(crate) fn complain(&self, e: &CliError) {
        output::beside(self.bar.as_ref(), || complain(e));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Shared {
    /// A command that a signal ends leaves no bar.
    fn drop(&mut self) {
        self.finish();
    }
}

impl End {
    /// Up to `len` bytes; fewer only at the end.
    async fn read(&self, offset: u64, len: u32) -> Result<Vec<Bytes>, CopyError> {
        match self {
            Self::Remote(file) => Ok(file.read_at(offset, len).await?.chunks),
            Self::Local(file) => {
                let file = Arc::clone(file);
                let reading = tokio::task::spawn_blocking(move || read_full(&file, offset, len));
                Ok(vec![reading.await.map_err(io::Error::from)??])
            }
        }
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), CopyError> {
        match self {
            Self::Remote(file) => Ok(file.write_at(offset, data).await?),
            Self::Local(file) => {
                let file = Arc::clone(file);
                let writing = tokio::task::spawn_blocking(move || file.write_all_at(&data, offset));
                Ok(writing.await.map_err(io::Error::from)??)
            }
        }
    }

    /// Sets the size.
    async fn set_len(&self, size: u64) -> Result<(), CopyError> {
        match self {
            Self::Remote(file) => Ok(file.set_len(size).await?),
            Self::Local(file) => Ok(file.set_len(size)?),
        }
    }

    /// Ends the use of it. A remote file is flushed.
    pub(crate) async fn close(self) -> Result<(), CopyError> {
        match self {
            Self::Remote(file) => Ok(file.close().await?),
            Self::Local(_) => Ok(()),
        }
    }
}

fn read_full(file: &LocalFile, offset: u64, len: u32) -> io::Result<Bytes> {
    let mut buf = vec![0; len as usize];
    let mut at = 0;
    while at < buf.len() {
        match file.read_at(&mut buf[at..], offset + at as u64) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    buf.truncate(at);
    Ok(buf.into())
}

/// Whether the file is known to have only zeros there, since it is a hole (lseek(2), SEEK_DATA).
fn is_hole(file: &LocalFile, offset: u64, len: u32) -> bool {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data >= offset + u64::from(len),
        // No data up to the end of the file, unless that has become shorter, which the read then tells.
        Err(rustix::io::Errno::NXIO) => file
            .metadata()
            .is_ok_and(|m| m.len() >= offset + u64::from(len)),
        Err(_) => false,
    }
}

/// Copies `size` bytes into a new file, and what was added meanwhile if the size was 0 (files of /proc say so). Zeros
/// become holes. Returns how many bytes there were.
pub(crate) async fn copy(
    from: &End,
    to: &End,
    size: u64,
    shared: &Shared,
) -> Result<u64, CopyError> {
    if size == 0 {
        return copy_to_end(from, to, shared).await;
    }
    let chunks = size.div_ceil(u64::from(CHUNK_BYTES));
    let copied = stream::iter(0..chunks).map(|n| async move {
        let at = n * u64::from(CHUNK_BYTES);
        let len = u32::try_from(size - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        copy_chunk(from, to, at, len, shared).await
    });
    let sum = |(count, end): (u64, u64), part: Part| async move {
        Ok((count + part.bytes, end.max(part.written_end)))
    };
    let (count, written_end) = copied.buffer_unordered(DEPTH).try_fold((0, 0), sum).await?;
    if count == size && written_end < size {
        to.set_len(size).await?;
    }
    Ok(count)
}

async fn copy_to_end(from: &End, to: &End, shared: &Shared) -> Result<u64, CopyError> {
    let mut at = 0;
    loop {
        let _place = shared.chunks.acquire().await;
        let data = from.read(at, CHUNK_BYTES).await?;
        let before = at;
        for data in data {
            let bytes = data.len() as u64;
            to.write(at, data).await?;
            at += bytes;
        }
        shared.done(at - before);
        if at == before {
            return Ok(at);
        }
    }
}

/// What came of a chunk.
struct Part {
    /// Bytes of the source.
    bytes: u64,
    /// Where the last byte was written that is no hole; 0 if none was.
    written_end: u64,
}

async fn copy_chunk(
    from: &End,
    to: &End,
    offset: u64,
    len: u32,
    shared: &Shared,
) -> Result<Part, CopyError> {
    let mut part = Part {
        bytes: 0,
        written_end: 0,
    };
    if matches!(from, End::Local(file) if is_hole(file, offset, len)) {
        part.bytes = len.into();
    } else {
        let _place = shared.chunks.acquire().await;
        for data in from.read(offset, len).await? {
            let bytes = data.len() as u64;
            if data[..] != ZEROS[..data.len().min(ZEROS.len())] {
                to.write(offset + part.bytes, data).await?;
                part.written_end = offset + part.bytes + bytes;
            }
            part.bytes += bytes;
        }
    }
    shared.done(part.bytes);
    Ok(part)
}
