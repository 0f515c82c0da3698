//! A connection whose peer may be slow, but not for ever.
//!
//! # Failure
//! When the peer takes no byte for [`WRITE_STALL_MAX`] while some wait for it, writing fails with `TimedOut`. Whoever serves the
//! connection drops it then.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a peer may take nothing of what is written to it.
pub(crate) const WRITE_STALL_MAX: Duration = Duration::from_secs(60);

/// A stream with that limit. It lies below TLS, so that what counts is what the peer takes.
pub(crate) struct Patient<S> {
    inner: S,
    /// When patience ends, while `is_waiting`.
    end: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Patient<S> {
    /// Over a stream. Needs a runtime.
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            end: Box::pin(sleep(WRITE_STALL_MAX)),
            is_waiting: false,
        }
    }

    /// The outcome of writing, or the end of patience.
    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_waiting = false;
            return polled;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.end.as_mut().reset(Instant::now() + WRITE_STALL_MAX);
        }
        let over = self.end.as_mut().poll(cx);
        over.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let polled = Pin::new(&mut own.inner).poll_write(cx, bytes);
        own.bounded(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let polled = Pin::new(&mut own.inner).poll_write_vectored(cx, pieces);
        own.bounded(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let polled = Pin::new(&mut own.inner).poll_flush(cx);
        own.bounded(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let polled = Pin::new(&mut own.inner).poll_shutdown(cx);
        own.bounded(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a peer that takes a little now and then is served, and one that takes nothing is not.
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn patience_begins_anew_with_each_piece_that_is_taken() {
        let (near, mut far) = duplex(16);
        let mut near = Patient::new(near);
        let writing = tokio::spawn(async move {
            let written = near.write_all(&[7; 64]).await;
            (written.map_err(|e| e.kind()), Instant::now())
        });
        let mut piece = [0; 16];
        for _ in 0..2 {
            sleep(WRITE_STALL_MAX - Duration::from_secs(1)).await;
            far.read_exact(&mut piece).await.unwrap();
        }
        let last = Instant::now();
        let (written, ended) = writing.await.unwrap();
        assert_eq!(written, Err(io::ErrorKind::TimedOut));
        assert_eq!((ended - last).as_secs(), WRITE_STALL_MAX.as_secs());
    }
}
