//! The send side of a connection: work in the order posted, cut into the requests that a device takes.
//!
//! A piece of work may be many requests: the parts of a read, or a write of more pieces than a request holds. A request moves
//! at most as much as the port takes. There may be more requests than places in the queue.
//!
//! Work waits in [`Sends::waiting`]. The first of it is being cut ([`Cursor`]). What was cut waits in [`Sends::started`] for
//! the completion of its last request. Some work needs no request and completes in its turn.
//!
//! # Ownership
//! What a request reads or writes belongs to its [`Started`] until the completion, or until the queue pair is gone.
//!
//! # Ordering
//! A device completes requests in order; the last request of each piece of work is signalled. The kernel's siw has two orders, one
//! for reads and one for all else. So on iWARP a completion speaks for requests of its own kind only. Work is handed back in the
//! order posted in any case.

use crate::copies::Copies;
use crate::device::Caps;
use crate::memory::{Access, Domain, Registered, local_key};
use crate::queue::{Queue, Sizes};
use crate::sys::{self, SendWr, Sge};
use bytes::Bytes;
use fabric::{Buffer, Completion, Done, Fault, Memory, Part, Work, WorkStatus};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Work that was accepted.
struct Request {
    id: u64,
    work: Work,
    signalled: bool,
}

/// Work of which at least one request was cut, or that needs none.
struct Started {
    request: Request,
    /// Number of its last request, or of the last one before it when it has none; `None` while it is being cut.
    last: Option<u64>,
    /// Number up to which nothing of it is under way any more: of its requests, or that before them.
    progress: u64,
    is_done: bool,
    /// Payload.
    bytes: u64,
    /// Taken back by an invalidation.
    memory: Option<Memory>,
    /// What a peer may write into while it answers a read, on fabrics that want that.
    sink: Option<Registered>,
    copies: Copies,
}

/// How far the youngest work is cut.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    /// Of the data, or of the parts.
    piece: usize,
    /// Bytes of it that are cut.
    offset: usize,
    /// Bytes of all of it.
    bytes: u64,
}

/// What completed, and how much of it was moved.
pub(crate) struct Completed {
    pub(crate) completion: Option<Completion>,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// The send queue.
pub(crate) struct Sends {
    domain: Arc<Domain>,
    sizes: Sizes,
    waiting: VecDeque<Request>,
    started: VecDeque<Started>,
    cursor: Option<Cursor>,
    /// Number of the last request that was cut; the first is 1.
    cut: u64,
    /// Number up to which all requests are complete.
    completed: u64,
    /// Requests since the last signalled one.
    unsignalled: u32,
    copied_bytes: u64,
    /// Sinks of reads that were registered for themselves.
    sinks: u64,
    /// Requests that are cut and not posted, where the pieces of each begin, and the pieces.
    requests: Vec<SendWr>,
    starts: Vec<usize>,
    pieces: Vec<Sge>,
}

// SAFETY: the pointers of requests are set when they are posted, and are not used after.
unsafe impl Send for Sends {}

impl Sends {
    pub(crate) fn new(domain: Arc<Domain>, sizes: Sizes) -> Self {
        Self {
            domain,
            sizes,
            waiting: VecDeque::new(),
            started: VecDeque::new(),
            cursor: None,
            cut: 0,
            completed: 0,
            unsignalled: 0,
            copied_bytes: 0,
            sinks: 0,
            requests: Vec::new(),
            starts: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Work that is not complete.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.started.len()
    }

    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    pub(crate) fn sinks(&self) -> u64 {
        self.sinks
    }

    /// Slabs that were registered in the domain since one of its connections last asked.
    pub(crate) fn take_registrations(&self) -> u64 {
        self.domain.take_uncounted()
    }

    pub(crate) fn push(&mut self, id: u64, work: Work, signalled: bool) {
        self.waiting.push_back(Request {
            id,
            work,
            signalled,
        });
    }

    /// Cuts and posts what there is room for. `take` takes back exposed memory. Afterwards work that needs no request may be
    /// complete: see [`Sends::complete`].
    pub(crate) fn start(
        &mut self,
        queue: &mut Queue,
        mut take: impl FnMut(u32) -> Option<Memory>,
    ) -> io::Result<()> {
        while self.cut - self.completed < u64::from(self.sizes.sends) {
            match self.cursor {
                Some(cursor) => self.cut_one(cursor)?,
                None => match self.waiting.pop_front() {
                    Some(request) => self.begin(request, &mut take)?,
                    None => break,
                },
            }
        }
        // SAFETY: the pieces are of work in `started`, which keeps them until their completion; those of requests that go
        // inline are read before this returns.
        unsafe { queue.post_sends(&mut self.requests, &self.starts, &mut self.pieces)? };
        self.requests.clear();
        self.starts.clear();
        self.pieces.clear();
        Ok(())
    }

    fn begin(
        &mut self,
        mut request: Request,
        take: &mut impl FnMut(u32) -> Option<Memory>,
    ) -> io::Result<()> {
        let caps = self.domain.device().caps;
        let (mut memory, mut sink_of_peer) = (None, None);
        let (bytes, is_cut) = match &mut request.work {
            Work::Send { data, .. } => (total(data), false),
            Work::Write { data, .. } => (total(data), total(data) == 0),
            Work::Read { sink, parts } => {
                let bytes = parts.iter().map(|part| u64::from(part.remote.len)).sum();
                if caps.is_iwarp && bytes > 0 {
                    // The answer to a read is a write by the peer (RFC 5040 §5.1): it needs the right to.
                    let start = sink.as_mut_ptr().expose_provenance();
                    let registered = self.domain.register(start, sink.len(), Access::RemoteWrite);
                    sink_of_peer = Some(registered?);
                    self.sinks += 1;
                }
                (bytes, bytes == 0)
            }
            Work::Invalidate { key } => {
                memory = take(*key);
                (0, true)
            }
            Work::WriteFile { .. } => unreachable!("it is refused"),
        };
        self.cursor = (!is_cut).then(Cursor::default);
        self.started.push_back(Started {
            request,
            last: is_cut.then_some(self.cut),
            progress: self.cut,
            is_done: is_cut,
            bytes,
            memory,
            sink: sink_of_peer,
            copies: Copies::default(),
        });
        Ok(())
    }

    /// Cuts the next request off the youngest work.
    fn cut_one(&mut self, mut cursor: Cursor) -> io::Result<()> {
        let caps = self.domain.device().caps;
        let youngest = self.started.back_mut().expect("it is being cut");
        let start = self.pieces.len();
        let mut cutting = Cutting {
            domain: &self.domain,
            caps,
            sizes: self.sizes,
            pieces: &mut self.pieces,
            start,
            copies: &mut youngest.copies,
            copied_bytes: &mut self.copied_bytes,
        };
        let mut request = SendWr::EMPTY;
        let is_done = match &mut youngest.request.work {
            Work::Send { data, invalidate } => {
                request.opcode = sys::WR_SEND;
                if let Some(key) = invalidate.filter(|_| caps.invalidates) {
                    request.opcode = sys::WR_SEND_WITH_INV;
                    request.invalidate_rkey = key;
                    // Where siw's library of rdma-core looks for it. Nobody else does: a Send reaches for no memory.
                    request.rkey = key;
                }
                request.send_flags = cutting.message(data)?;
                true
            }
            Work::Write { data, remote } => {
                request.opcode = sys::WR_RDMA_WRITE;
                request.rkey = remote.key;
                request.remote_addr = remote.offset.wrapping_add(cursor.bytes);
                cutting.gather(data, &mut cursor)?;
                cursor.bytes == youngest.bytes
            }
            Work::Read { sink, parts } => {
                request.opcode = sys::WR_RDMA_READ;
                let key = youngest.sink.as_ref().map(Registered::local_key);
                let (rkey, at) = cutting.part(sink, parts, &mut cursor, key)?;
                (request.rkey, request.remote_addr) = (rkey, at);
                cursor.bytes == youngest.bytes
            }
            Work::Invalidate { .. } | Work::WriteFile { .. } => unreachable!("it needs no request"),
        };
        self.cut += 1;
        request.wr_id = self.cut;
        request.num_sge = i32::try_from(self.pieces.len() - start).expect("a few pieces");
        self.unsignalled += 1;
        // Places are freed by signalled requests only, so a quarter of them at most waits for the next one.
        if is_done || self.unsignalled >= self.sizes.sends / 4 {
            request.send_flags |= sys::SEND_SIGNALED;
            self.unsignalled = 0;
        }
        self.requests.push(request);
        self.starts.push(start);
        if is_done {
            youngest.last = Some(self.cut);
        }
        self.cursor = (!is_done).then_some(cursor);
        Ok(())
    }

    /// This request is complete, and those before it that complete in one order with it.
    pub(crate) fn completed(&mut self, number: u64) {
        let has_two_orders = self.domain.device().caps.is_iwarp;
        let reaches = |started: &&mut Started| started.last.is_none_or(|last| number <= last);
        let its = self.started.iter_mut().find(reaches);
        let is_read = its.is_some_and(|started| started.is_read());
        for started in &mut self.started {
            if started.progress >= number {
                break;
            }
            if !has_two_orders || started.is_read() == is_read {
                started.progress = number.min(started.last.unwrap_or(number));
                started.is_done |= started.last.is_some_and(|last| last <= number);
            }
        }
        self.advance();
    }

    fn advance(&mut self) {
        let oldest = self.started.iter().find(|started| !started.is_done);
        self.completed = oldest.map_or(self.cut, |started| started.progress);
    }

    /// The next work that is complete.
    pub(crate) fn complete(&mut self) -> Option<Completed> {
        if !self.started.front()?.is_done {
            return None;
        }
        let started = self.started.pop_front()?;
        let (mut sent_bytes, mut received_bytes) = (0, 0);
        match started.request.work {
            Work::Read { .. } => received_bytes = started.bytes,
            _ => sent_bytes = started.bytes,
        }
        let is_told = started.request.signalled
            || matches!(
                started.request.work,
                Work::Read { .. } | Work::Invalidate { .. }
            );
        let completion = started.end(WorkStatus::Ok);
        Some(Completed {
            completion: is_told.then_some(completion),
            sent_bytes,
            received_bytes,
        })
    }

    /// Everything comes back, in order, once the queue pair is gone. `failed` is the request that ended the connection,
    /// and why.
    pub(crate) fn flush(
        &mut self,
        failed: Option<(u64, Fault)>,
        mut take: impl FnMut(u32) -> Option<Memory>,
        done: &mut Vec<Completion>,
    ) {
        let mut blamed = failed;
        for started in self.started.drain(..) {
            let is_it =
                blamed.filter(|(number, _)| started.last.is_none_or(|last| *number <= last));
            let status = match is_it {
                Some((_, fault)) => WorkStatus::Failed(fault),
                None => WorkStatus::Flushed,
            };
            if is_it.is_some() {
                blamed = None;
            }
            done.push(started.end(status));
        }
        for request in self.waiting.drain(..) {
            let memory = match request.work {
                Work::Invalidate { key } => take(key),
                _ => None,
            };
            done.push(request.end(WorkStatus::Flushed, memory));
        }
        self.cursor = None;
    }
}

impl Started {
    fn is_read(&self) -> bool {
        matches!(self.request.work, Work::Read { .. })
    }

    fn end(self, status: WorkStatus) -> Completion {
        // Before the buffer is handed back.
        drop(self.sink);
        self.request.end(status, self.memory)
    }
}

impl Request {
    fn end(self, status: WorkStatus, memory: Option<Memory>) -> Completion {
        let done = match self.work {
            Work::Send { .. } => Done::Send,
            Work::Write { .. } | Work::WriteFile { .. } => Done::Write,
            Work::Read { sink, .. } => Done::Read { sink },
            Work::Invalidate { .. } => Done::Invalidate { memory },
        };
        let id = self.id;
        Completion { id, status, done }
    }
}

/// One request in the making.
struct Cutting<'a> {
    domain: &'a Arc<Domain>,
    caps: Caps,
    sizes: Sizes,
    pieces: &'a mut Vec<Sge>,
    /// Where its pieces begin.
    start: usize,
    copies: &'a mut Copies,
    copied_bytes: &'a mut u64,
}

impl Cutting<'_> {
    /// All of a message; returns the flags of the request.
    fn message(&mut self, data: &[Bytes]) -> io::Result<u32> {
        let filled = data.iter().filter(|piece| !piece.is_empty());
        let count = filled.clone().count();
        let has_room = count <= self.most_pieces();
        if has_room && total(data) <= u64::from(self.sizes.inline_bytes) {
            let inline = filled.map(|piece| Sge {
                addr: piece.as_ptr().expose_provenance() as u64,
                length: small(piece.len()),
                lkey: 0,
            });
            self.pieces.extend(inline);
            return Ok(sys::SEND_INLINE);
        }
        let mut cursor = Cursor::default();
        self.gather(data, &mut cursor)?;
        if cursor.bytes < total(data) {
            // A message cannot be parted, its pieces can be put together.
            self.pieces.truncate(self.start);
            *self.copied_bytes += total(data);
            let piece = self.copies.join(data, self.domain)?;
            self.pieces.push(piece);
        }
        Ok(0)
    }

    fn most_pieces(&self) -> usize {
        usize::try_from(self.sizes.pieces).unwrap_or(usize::MAX)
    }

    /// As much of the data as one request takes. What lies in slabs is taken from there, the rest is copied into one.
    fn gather(&mut self, data: &[Bytes], cursor: &mut Cursor) -> io::Result<()> {
        let mut room = usize::try_from(self.caps.request_bytes_max).unwrap_or(usize::MAX);
        while let Some(piece) = data.get(cursor.piece) {
            let rest = &piece[cursor.offset..];
            if rest.is_empty() {
                (cursor.piece, cursor.offset) = (cursor.piece + 1, 0);
                continue;
            }
            if room == 0 {
                break;
            }
            let wish = &rest[..rest.len().min(room)];
            let start = wish.as_ptr().expose_provenance();
            let next = match self.domain.local_key(start, wish.len())? {
                Some(lkey) => Sge {
                    addr: start as u64,
                    length: small(wish.len()),
                    lkey,
                },
                None => {
                    if self.is_full() {
                        break;
                    }
                    let copy = self.copies.copy(wish, self.domain)?;
                    *self.copied_bytes += u64::from(copy.length);
                    copy
                }
            };
            if !self.push(next) {
                break;
            }
            let taken = usize::try_from(next.length).expect("it was a length");
            cursor.offset += taken;
            cursor.bytes += u64::from(next.length);
            room -= taken;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.pieces.len() - self.start >= self.most_pieces()
    }

    /// Adds a piece, to the last one where it goes on; `false` without room.
    fn push(&mut self, next: Sge) -> bool {
        if let Some(last) = self.pieces[self.start..].last_mut()
            && last.lkey == next.lkey
            && last.addr + u64::from(last.length) == next.addr
        {
            last.length += next.length;
            return true;
        }
        if self.is_full() {
            return false;
        }
        self.pieces.push(next);
        true
    }

    /// The next bytes of a read: the key and the address to read from.
    fn part(
        &mut self,
        sink: &mut Buffer,
        parts: &[Part],
        cursor: &mut Cursor,
        key: Option<u32>,
    ) -> io::Result<(u32, u64)> {
        while small(cursor.offset) == parts[cursor.piece].remote.len {
            (cursor.piece, cursor.offset) = (cursor.piece + 1, 0);
        }
        let Part { at, remote } = parts[cursor.piece];
        let done = small(cursor.offset);
        let length = (remote.len - done).min(self.caps.request_bytes_max);
        let start = sink.as_mut_ptr().expose_provenance() + at + cursor.offset;
        let lkey = match key {
            Some(key) => key,
            None => local_key(self.domain, start, length)?,
        };
        self.pieces.push(Sge {
            addr: start as u64,
            length,
            lkey,
        });
        cursor.offset += usize::try_from(length).expect("it is inside the sink");
        cursor.bytes += u64::from(length);
        Ok((remote.key, remote.offset.wrapping_add(u64::from(done))))
    }
}

fn total(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

fn small(len: usize) -> u32 {
    u32::try_from(len).expect("what was accepted has a length of 32 bits")
}
