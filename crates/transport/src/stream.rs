//! Records over a stream of bytes: what TCP and TLS have in common.
//!
//! Small records are copied out of a read buffer that a connection has only while bytes arrive, so that an
//! idle one holds none. The bulk of a larger record is read straight into its own buffer,
//! under the receive budget. Outgoing messages are gathered into as few writes as possible; files
//! go out by whatever the wire has for them.
//!
//! # Ownership
//! A message stays here until its last byte was taken by the wire. Each payload is dropped, and with it its guard, as
//! soon as its own bytes were.
//!
//! # Failure
//! Every error ends the connection: a stream that lost its place cannot be mended.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use rpc::RecordReader;
use xdr::{PayloadSpan, padding};

use crate::budget::Share;
use crate::busy_poll::BusyPoll;
use crate::end::End;
use crate::link::{Link, Pace, Received, StallTimer, Unread};
use crate::{BoxFuture, Charge, CloseReason, ConnHandle, Counters, FilePayload, Message, Payload};

/// Bytes of the read buffer, and the size up to which a record is copied out of it. A call or reply with 8 KiB of data fits: to read it
/// in two steps would cost more than the copy.
const READ_CHUNK_BYTES: usize = 16 * 1024;
/// Bytes of the first read of a record where the one before it was larger than a chunk. It is less than stands in front
/// of the bulk of a call or reply: all of the bulk is read into its place.
const HEAD_READ_BYTES: usize = 64;
/// Most pieces gathered into one write.
const WRITE_PIECES_MAX: usize = 32;

thread_local! {
    /// A read buffer that no connection of this thread uses.
    static SPARE_CHUNK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A stream of bytes, as the operating system or TLS offers it.
pub(crate) trait Wire: Send + Unpin + 'static {
    /// Whether files go out without passing through this process.
    const SENDS_FILES: bool;

    /// Appends at most `room` bytes to `buffer`, which has the capacity for them.
    fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>>;

    /// Whether bytes are there, asked without waiting; a wire that cannot tell says no.
    fn has_bytes(&mut self) -> bool {
        false
    }

    /// Writes some bytes; `more` says that others follow at once.
    fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        pieces: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>>;

    /// Writes some of `len` bytes of a file; 0 means that the file ends before `offset`. Once bytes
    /// of a range were written the rest of the same range is written next.
    fn poll_write_file(
        &mut self,
        cx: &mut TaskContext<'_>,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>>;

    /// Pushes out what the wire itself has buffered.
    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>>;

    /// Says goodbye.
    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>>;
}

/// Records over a [`Wire`].
pub(crate) struct StreamLink<W> {
    wire: W,
    reader: RecordReader,
    chunk: Vec<u8>,
    /// Bytes of `chunk` that were used.
    chunk_at: usize,
    /// The last record was larger than a chunk.
    expects_bulk: bool,
    /// Bytes that were read.
    arrived_bytes: u64,
    conn: ConnHandle,
    receive_share: Arc<Share>,
    /// For the record that is arriving.
    charge: Option<Charge>,
    charging: Option<BoxFuture<'static, Charge>>,
    out: Outbox,
    unread: Unread,
    unflushed: bool,
    read_stall: StallTimer,
    read_pace: Pace,
    write_stall: StallTimer,
    busy_poll: BusyPoll,
}

impl<W: Wire> StreamLink<W> {
    pub(crate) fn new(wire: W, conn: &ConnHandle) -> Self {
        let limits = conn.context().limits();
        Self {
            wire,
            reader: RecordReader::new(limits.record()),
            chunk: Vec::new(),
            chunk_at: 0,
            expects_bulk: false,
            arrived_bytes: 0,
            receive_share: conn.context().receive_budget().share(conn.peer()),
            charge: None,
            charging: None,
            out: Outbox::default(),
            unread: Unread::new(limits),
            unflushed: false,
            read_stall: StallTimer::new(limits.read_stall),
            read_pace: Pace::new(limits.read_pace, limits.pace_bytes_per_second),
            write_stall: StallTimer::new(limits.write_stall),
            busy_poll: BusyPoll::new(conn.id(), limits.busy_poll),
            conn: conn.clone(),
        }
    }

    /// Uses bytes of the chunk; a record if they end one.
    fn feed(&mut self) -> Result<Option<Received>, End> {
        let fed = self
            .reader
            .feed(&self.chunk[self.chunk_at..])
            .map_err(|e| End::with(CloseReason::MalformedRecord, e))?;
        self.chunk_at += fed.consumed;
        if self.reader.announced() > READ_CHUNK_BYTES {
            let copied = fed.consumed.saturating_sub(HEAD_READ_BYTES);
            Counters::add_some(&self.conn.context().counters().stream_copied_bytes, copied);
        }
        if self.chunk_at == self.chunk.len() {
            self.chunk.clear();
            self.chunk_at = 0;
        }
        Ok(fed.record.map(|record| self.received(record)))
    }

    fn received(&mut self, record: Vec<u8>) -> Received {
        Counters::add(&self.conn.context().counters().records_in, 1);
        self.busy_poll.arrived(Instant::now);
        self.expects_bulk = record.len() > READ_CHUNK_BYTES;
        Received {
            bytes: Bytes::from(record),
            charge: self.charge.take(),
        }
    }

    /// Gets the share of the receive budget for the record that is arriving, if it is a large one.
    /// The whole record is charged at once: records that held parts would wait for each other.
    fn poll_charge(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let announced = self.reader.announced();
        if announced <= READ_CHUNK_BYTES || self.charge.is_some() {
            return Poll::Ready(());
        }
        let bytes = u32::try_from(announced).unwrap_or(u32::MAX);
        if self.charging.is_none() {
            self.read_pace.restart();
            if let Some(charge) = self.receive_share.try_charge(bytes) {
                self.charge = Some(charge);
                self.reader.reserve_whole();
                return Poll::Ready(());
            }
            self.charging = Some(Box::pin(Arc::clone(&self.receive_share).charge(bytes)));
        }
        if let Some(charging) = &mut self.charging {
            self.charge = Some(ready!(charging.as_mut().poll(cx)));
            self.charging = None;
            self.reader.reserve_whole();
        }
        Poll::Ready(())
    }

    /// Reads once, into the record's own buffer or into the chunk.
    fn poll_read(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Option<Received>, End>> {
        ready!(self.poll_charge(cx));
        let direct = self.reader.remaining() > 0;
        let read = if let Some((buffer, room)) = self.reader.body_buffer() {
            self.wire.poll_read(cx, buffer, room)
        } else {
            let room = if self.expects_bulk {
                HEAD_READ_BYTES
            } else {
                READ_CHUNK_BYTES
            };
            if self.chunk.capacity() == 0 {
                self.chunk = SPARE_CHUNK.take();
                self.chunk.reserve_exact(READ_CHUNK_BYTES);
            }
            self.wire.poll_read(cx, &mut self.chunk, room)
        };
        let between = self.reader.is_between_records();
        let len = match read {
            Poll::Ready(Ok(0)) if between => {
                return Poll::Ready(Err(CloseReason::PeerClosed.into()));
            }
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(CloseReason::PeerTruncated.into())),
            Poll::Ready(Ok(len)) => len,
            Poll::Ready(Err(e)) => return Poll::Ready(Err(End::with(CloseReason::Io, e))),
            Poll::Pending if between => {
                SPARE_CHUNK.set(std::mem::take(&mut self.chunk));
                self.read_stall.disarm();
                self.read_pace.disarm();
                return Poll::Pending;
            }
            Poll::Pending if self.read_stall.poll_stalled(cx) => {
                return Poll::Ready(Err(CloseReason::ReadStalled.into()));
            }
            Poll::Pending if self.charge.is_some() && self.read_pace.poll_slow(cx) => {
                if self.receive_share.is_wanted() {
                    return Poll::Ready(Err(CloseReason::ReadSlow.into()));
                }
                return Poll::Pending;
            }
            Poll::Pending => return Poll::Pending,
        };
        self.arrived_bytes += len as u64;
        self.read_stall.progress();
        self.read_pace.moved(len);
        Counters::add(&self.conn.context().counters().bytes_in, len);
        let record = if direct {
            self.reader.body_appended(len)
        } else {
            None
        };
        Poll::Ready(Ok(record.map(|record| self.received(record))))
    }

    /// Writes once. `true` while there is more.
    fn poll_write(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<bool, End>> {
        let Some(front) = self.out.queue.front() else {
            return Poll::Ready(Ok(false));
        };
        if let Some((file, done)) = front.file() {
            let rest = file.len as usize - done;
            let offset = file.offset + done as u64;
            let written = ready!(self.wire.poll_write_file(cx, &file.file, offset, rest));
            let written = written.map_err(|e| End::with(file_end(&e), e))?;
            if written == 0 {
                let detail = format!("file ends before byte {}", offset + rest as u64);
                return Poll::Ready(Err(End::with(CloseReason::FileShort, detail)));
            }
            let counters = self.conn.context().counters();
            let counter = if W::SENDS_FILES {
                &counters.payload_sendfile_bytes
            } else {
                &counters.payload_copy_bytes
            };
            Counters::add(counter, written);
            self.advance(written);
        } else {
            let mut pieces = [IoSlice::new(&[]); WRITE_PIECES_MAX];
            let (count, more) = gather(&self.out.queue, &mut pieces);
            let written = ready!(self.wire.poll_write(cx, &pieces[..count], more));
            match written {
                Ok(0) => return Poll::Ready(Err(CloseReason::Io.into())),
                Ok(written) => self.advance(written),
                Err(e) => return Poll::Ready(Err(End::with(CloseReason::Io, e))),
            }
        }
        Poll::Ready(Ok(!self.out.queue.is_empty()))
    }

    fn advance(&mut self, written: usize) {
        self.unflushed = true;
        self.write_stall.progress();
        self.unread.moved(written);
        let counters = self.conn.context().counters();
        Counters::add(&counters.bytes_out, written);
        let mut left = written;
        while let Some(front) = self.out.queue.front_mut() {
            let (used, memory_bytes) = front.advance(left);
            Counters::add_some(&counters.payload_memory_bytes, memory_bytes);
            left -= used;
            if !front.is_done() {
                break;
            }
            Counters::add(&counters.records_out, 1);
            self.out.pop();
            if left == 0 {
                break;
            }
        }
    }
}

/// Messages on their way out, and what the replies among them hold.
#[derive(Default)]
struct Outbox {
    queue: VecDeque<Sending>,
    /// Bytes of replies in memory.
    reply_bytes: usize,
    /// Those that no charge stands for.
    uncharged_bytes: usize,
    /// Messages with a charge.
    charged: usize,
}

impl Outbox {
    fn push(&mut self, sending: Sending) {
        self.reply_bytes += sending.reply_bytes;
        self.uncharged_bytes += sending.uncharged_bytes();
        self.charged += usize::from(sending.charge.is_some());
        self.queue.push_back(sending);
    }

    fn pop(&mut self) {
        let Some(sent) = self.queue.pop_front() else {
            return;
        };
        self.reply_bytes -= sent.reply_bytes;
        self.uncharged_bytes -= sent.uncharged_bytes();
        self.charged -= usize::from(sent.charge.is_some());
    }
}

/// Whether a failed write of a file is the peer's doing or the file's.
fn file_end(e: &io::Error) -> CloseReason {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    match e.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut => {
            CloseReason::Io
        }
        _ => CloseReason::FileFailed,
    }
}

impl<W: Wire> Link for StreamLink<W> {
    fn poll_recv(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Received, End>> {
        loop {
            if self.has_buffered() {
                if let Some(received) = self.feed()? {
                    return Poll::Ready(Ok(received));
                }
            } else if let Some(received) = ready!(self.poll_read(cx))? {
                return Poll::Ready(Ok(received));
            }
        }
    }

    fn has_buffered(&self) -> bool {
        self.chunk_at < self.chunk.len()
    }

    fn is_busy(&self) -> bool {
        !self.reader.is_between_records() || self.has_buffered()
    }

    fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    fn busy_poll(&mut self) -> bool {
        if !self.reader.is_between_records() || self.has_buffered() {
            return false;
        }
        self.busy_poll.answered(Instant::now);
        let wire = &mut self.wire;
        let Some(came) = self.busy_poll.wait(Instant::now, || wire.has_bytes()) else {
            return false;
        };
        let counters = self.conn.context().counters();
        let counter = if came {
            &counters.busy_polls
        } else {
            &counters.busy_polls_vain
        };
        Counters::add(counter, 1);
        came
    }

    fn queue(&mut self, message: Message) {
        self.out.push(Sending::new(message, false));
    }

    fn queue_reply(&mut self, message: Message) {
        self.out.push(Sending::new(message, true));
    }

    fn unanswered(&mut self, _xid: u32) {}

    fn queued_reply_bytes(&self) -> usize {
        self.out.reply_bytes
    }

    fn queued(&self) -> usize {
        self.out.queue.len()
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>> {
        loop {
            let step = match self.poll_write(cx) {
                Poll::Ready(Ok(false)) if self.unflushed => match self.wire.poll_flush(cx) {
                    Poll::Ready(Ok(())) => {
                        self.unflushed = false;
                        Poll::Ready(Ok(false))
                    }
                    Poll::Ready(Err(e)) => Poll::Ready(Err(End::with(CloseReason::Io, e))),
                    Poll::Pending => Poll::Pending,
                },
                step => step,
            };
            match step {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    self.write_stall.disarm();
                    self.unread.none();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
                Poll::Pending if self.write_stall.poll_stalled(cx) => {
                    return Poll::Ready(Err(CloseReason::WriteStalled.into()));
                }
                Poll::Pending => {
                    let out = &self.out;
                    let judged = self
                        .unread
                        .poll(cx, &self.conn, out.uncharged_bytes, out.charged);
                    return judged.map(Err);
                }
            }
        }
    }

    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.wire.poll_shutdown(cx).map(|_| ())
    }
}

/// Collects the pieces from the front of the queue up to the first file. Returns their number and
/// whether more bytes follow them.
fn gather<'a>(
    out: &'a VecDeque<Sending>,
    pieces: &mut [IoSlice<'a>; WRITE_PIECES_MAX],
) -> (usize, bool) {
    let mut count = 0;
    for sending in out {
        for part in sending.part..sending.parts() {
            let slice = match sending.part_at(part) {
                Part::Slice(slice) => slice,
                Part::File(_) => return (count, true),
            };
            let slice = if part == sending.part {
                &slice[sending.done..]
            } else {
                slice
            };
            if slice.is_empty() {
                continue;
            }
            if count == pieces.len() {
                return (count, true);
            }
            pieces[count] = IoSlice::new(slice);
            count += 1;
        }
    }
    (count, false)
}

/// A message on its way out, and how far it got.
///
/// Its parts are the record mark, then for each item the bytes of the head before it, its payload and the padding. The
/// rest of the head comes last.
struct Sending {
    mark: [u8; 4],
    head: Vec<u8>,
    items: Vec<Item>,
    /// Bytes in memory, of a reply.
    reply_bytes: usize,
    charge: Option<Charge>,
    part: usize,
    /// Bytes of the current part that have left.
    done: usize,
}

/// A payload, or one piece of it.
struct Item {
    /// Where it stands in the head.
    at: usize,
    payload: Payload,
    padding: usize,
}

/// One item for each payload, and for each piece of those that are in pieces.
fn items(spans: Vec<PayloadSpan>, payloads: Vec<Payload>) -> Vec<Item> {
    let mut items = Vec::with_capacity(payloads.len());
    for (PayloadSpan { at, len }, payload) in spans.into_iter().zip(payloads) {
        let mut push = |payload| {
            let padding = 0;
            items.push(Item {
                at,
                payload,
                padding,
            });
        };
        match payload {
            Payload::Pieces(pieces) => pieces.into_iter().map(Payload::Bytes).for_each(push),
            payload => push(payload),
        }
        if let Some(last) = items.last_mut().filter(|_| len > 0) {
            last.padding = padding(len as usize);
        }
    }
    items
}

enum Part<'a> {
    Slice(&'a [u8]),
    File(&'a FilePayload),
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Slice(s) => s.len(),
            Self::File(f) => f.len as usize,
        }
    }
}

impl Sending {
    fn new(mut message: Message, is_reply: bool) -> Self {
        let charge = message.take_charge();
        let reply_bytes = if is_reply { message.memory_bytes() } else { 0 };
        let len = u32::try_from(message.wire_len()).expect("messages are below 2 GiB");
        let mark = rpc::fragment_header(len, true);
        let (head, spans, payloads) = message.into_parts();
        Self {
            mark,
            head,
            items: items(spans, payloads),
            reply_bytes,
            charge,
            part: 0,
            done: 0,
        }
    }

    fn uncharged_bytes(&self) -> usize {
        match self.charge {
            Some(_) => 0,
            None => self.reply_bytes,
        }
    }

    fn parts(&self) -> usize {
        2 + 3 * self.items.len()
    }

    fn is_done(&self) -> bool {
        self.part == self.parts()
    }

    fn part_at(&self, part: usize) -> Part<'_> {
        let Some(after_mark) = part.checked_sub(1) else {
            return Part::Slice(&self.mark);
        };
        let i = after_mark / 3;
        match after_mark % 3 {
            0 => {
                let start = if i == 0 { 0 } else { self.items[i - 1].at };
                let end = self.items.get(i).map_or(self.head.len(), |item| item.at);
                Part::Slice(&self.head[start..end])
            }
            1 => match &self.items[i].payload {
                Payload::Bytes(bytes) => Part::Slice(bytes),
                Payload::Pieces(_) => unreachable!("each piece is an item"),
                Payload::File(file) if file.len == 0 => Part::Slice(&[]),
                Payload::File(file) => Part::File(file),
            },
            _ => Part::Slice(&[0; 3][..self.items[i].padding]),
        }
    }

    /// The file that is to be sent next, and how much of it has left.
    fn file(&self) -> Option<(&FilePayload, usize)> {
        match self.part_at(self.part) {
            Part::File(file) => Some((file, self.done)),
            Part::Slice(_) => None,
        }
    }

    /// Moves on by at most `len` bytes and past empty parts. Returns the bytes used, and how many
    /// of them ended a payload in memory.
    fn advance(&mut self, len: usize) -> (usize, usize) {
        let (mut used, mut memory_bytes) = (0, 0);
        while !self.is_done() {
            let rest = self.part_at(self.part).len() - self.done;
            let step = rest.min(len - used);
            used += step;
            self.done += step;
            if step < rest {
                break;
            }
            if self.part % 3 == 2 {
                let payload = &mut self.items[self.part / 3].payload;
                if let Payload::Bytes(bytes) = payload {
                    memory_bytes += bytes.len();
                }
                *payload = Payload::Bytes(Bytes::new());
            }
            self.part += 1;
            self.done = 0;
        }
        (used, memory_bytes)
    }
}
