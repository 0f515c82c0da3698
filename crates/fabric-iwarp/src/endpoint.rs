//! A stream on a TCP connection.
//!
//! # Failure
//! A stream may end with a last word (a Terminate message) or by our own closing. A task of its own then sees the TCP
//! connection out, for a bounded time. Closing with unread bytes would reset it and lose that word at the peer (RFC
//! 5040 §6.2.1). That task holds no memory of the caller.

use crate::machine::{Machine, Outgoing};
use crate::watch::{Verdict, Watch};
use fabric::{
    Buffer, Close, Completion, Counters, Ended, Endpoint, FileRange, Memory, Negotiated, Refused,
    Remote, Work,
};
use rustix::fs::sendfile;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Pieces of one write.
const WRITE_PIECES_MAX: usize = 64;
/// Bytes moved by one poll before others have their turn.
const POLL_BYTES_MAX: usize = 1 << 20;
/// Completions of one poll before the caller gets them.
const POLL_COMPLETIONS_MAX: usize = 64;
/// How long a connection that has ended is seen out.
const LINGER: Duration = Duration::from_secs(2);

/// One connection.
pub(crate) struct IwarpEndpoint {
    /// `None` once it was handed over to be seen out.
    stream: Option<TcpStream>,
    peer: SocketAddr,
    machine: Machine,
    watch: Watch,
}

impl IwarpEndpoint {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, machine: Machine) -> Self {
        Self {
            stream: Some(stream),
            peer,
            machine,
            watch: Watch::new(),
        }
    }

    /// Moves what can be moved and looks at the clock; whether enough was done.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            if self.machine.ended().is_some() {
                return false;
            }
            // Whoever has bytes in our socket is not late.
            if self.turn(cx) {
                return true;
            }
            let (owed, is_silent) = (self.machine.owed(), self.machine.is_peer_silent());
            match self.watch.poll(cx, owed, is_silent) {
                None => return false,
                Some(Verdict::Nudge) => self.machine.nudge(),
                Some(Verdict::Stalled(stall)) => self.machine.end(Ended::Stalled(stall)),
            }
        }
    }

    /// Writes and reads until neither can go on or enough was done; whether enough was done.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        let mut bytes = 0;
        while bytes < POLL_BYTES_MAX && self.machine.completions_waiting() < POLL_COMPLETIONS_MAX {
            let written = self.write(cx);
            let read = self.read(cx);
            match (written, read) {
                (Poll::Pending, Poll::Pending) => return false,
                (written, read) => {
                    for moved in [written, read] {
                        match moved {
                            Poll::Ready(Ok(count)) => bytes += count,
                            Poll::Ready(Err(e)) => self.machine.end(end_of(&e)),
                            Poll::Pending => {}
                        }
                    }
                    if self.machine.ended().is_some() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        if !self.machine.has_outgoing() {
            return Poll::Pending;
        }
        loop {
            match send(stream, &mut self.machine) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(stream.poll_write_ready(cx))?;
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(stream) = self.stream.as_mut() else {
            return Poll::Pending;
        };
        if self.machine.ended().is_some() || self.machine.is_held_back() {
            return Poll::Pending;
        }
        let mut room = self.machine.room();
        let count = match room.pieces() {
            // Tokio knows by itself that a socket is empty when it gave less than was asked for.
            [inbox] => {
                let mut inbox = ReadBuf::new(inbox);
                let read = Pin::new(stream).poll_read(cx, &mut inbox);
                read.map_ok(|()| inbox.filled().len())
            }
            pieces => poll_read_vectored(stream, cx, pieces),
        };
        match count {
            Poll::Pending => {
                self.machine.rest();
                Poll::Pending
            }
            Poll::Ready(Ok(0)) => {
                self.machine.end_of_stream();
                Poll::Ready(Ok(0))
            }
            Poll::Ready(Ok(count)) => {
                self.machine.read(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
        }
    }

    /// The stream has ended: whatever is left of the connection is not the caller's business.
    fn let_go(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        let is_gone = matches!(
            self.machine.ended(),
            Some(Ended::Lost(_) | Ended::Stalled(_))
        );
        // Taken in any case: they hold memory and files of the caller.
        let words = self.machine.last_words();
        if !is_gone {
            see_out(stream, words);
        }
    }
}

/// Writes some of what is outgoing, if the socket takes it now.
fn send(stream: &TcpStream, machine: &mut Machine) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); WRITE_PIECES_MAX];
    let Outgoing { pieces, file } = machine.outgoing(&mut slices);
    let sent = match file {
        None => stream.try_write_vectored(&slices[..pieces]),
        Some(file) => stream.try_io(Interest::WRITABLE, || {
            if pieces > 0 {
                // It leaves with what is sent of the file.
                let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
                let mut ancillary = SendAncillaryBuffer::default();
                Ok(sendmsg(stream, &slices[..pieces], &mut ancillary, flags)?)
            } else {
                send_file(stream, file)
            }
        }),
    };
    let sent = match sent {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
        sent => sent?,
    };
    machine.wrote(sent);
    Ok(sent)
}

/// The stream's end after this error.
fn end_of(e: &io::Error) -> Ended {
    match e.kind() {
        // Only files have an end for the one who sends them; that of the peer's bytes is no error.
        io::ErrorKind::UnexpectedEof => Ended::FileShort,
        kind => Ended::Lost(kind),
    }
}

fn send_file(stream: &TcpStream, range: &FileRange) -> io::Result<usize> {
    let mut at = range.offset;
    let len = usize::try_from(range.len).expect("usize has 32 bits at least");
    match sendfile(stream, &range.file, Some(&mut at), len)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        sent => Ok(sent),
    }
}

/// A socket that gave less than was asked for is empty; tokio hears of that as if it had been asked once more.
fn poll_read_vectored(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    slices: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    let room: usize = slices.iter().map(|slice| slice.len()).sum();
    loop {
        ready!(stream.poll_read_ready(cx))?;
        let mut some = None;
        let read = stream.try_io(Interest::READABLE, || {
            match rustix::io::readv(stream, slices)? {
                count if (1..room).contains(&count) => {
                    some = Some(count);
                    Err(io::ErrorKind::WouldBlock.into())
                }
                count => Ok(count),
            }
        });
        match read {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if let Some(count) = some {
                    return Poll::Ready(Ok(count));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => return Poll::Ready(read),
        }
    }
}

/// Sends the last words, says that there will be no more, and waits for the peer to agree.
pub(crate) fn see_out(mut stream: TcpStream, words: Vec<u8>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    runtime.spawn(tokio::time::timeout(LINGER, async move {
        stream.write_all(&words).await?;
        stream.shutdown().await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    }));
}

impl Endpoint for IwarpEndpoint {
    fn post(&mut self, id: u64, work: Work, signalled: bool) -> Result<(), Refused<Work>> {
        self.machine.post(id, work, signalled)
    }

    fn post_receive(&mut self, id: u64, buffer: Buffer) -> Result<(), Refused<Buffer>> {
        self.machine.post_receive(id, buffer)
    }

    fn admit(&mut self, messages: u32) -> u32 {
        self.machine.admit(messages)
    }

    fn expose(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        self.machine.expose(memory)
    }

    fn ring(&mut self) {
        let Some(stream) = &self.stream else {
            return;
        };
        while self.machine.has_outgoing() {
            match send(stream, &mut self.machine) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) => return self.machine.end(end_of(&e)),
            }
        }
    }

    fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Ended>> {
        let enough = self.advance(cx);
        let ended = self.machine.ended();
        if ended.is_some() {
            self.let_go();
        }
        let any = self.machine.completions_waiting() > 0;
        self.machine.take_completions(completions);
        match ended {
            Some(ended) if !any => Poll::Ready(Err(ended)),
            None if !enough => Poll::Pending,
            _ if any => Poll::Ready(Ok(())),
            _ => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn close(&mut self, how: Close) {
        match how {
            Close::Drain => self.machine.close_after_work(),
            Close::Now => self.machine.end(Ended::Closed),
        }
    }

    fn send_room(&self) -> usize {
        self.machine.send_room()
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn negotiated(&self) -> Negotiated {
        self.machine.negotiated()
    }

    fn counters(&self) -> Counters {
        self.machine.counters()
    }

    fn is_receiving(&self) -> bool {
        self.machine.owed().frame.is_some()
    }
}
