//! Messages on their way into the engine. Payloads in files are read into memory first, under the send budget, unless
//! the provider sends them from where they lie.
//!
//! What a reply holds in memory is counted as long as anybody has a part of it, so until the provider has sent it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use fabric::{Buffer, FileRange};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::io::{Errno, ReadWriteFlags};
use xdr::PayloadSpan;

use super::memory::Memory;
use crate::end::End;
use crate::message::ReplyRoom;
use crate::{BoxFuture, Charge, CloseReason, ConnHandle, Counters, FilePayload, Message, Payload};

/// A message for the engine.
pub(super) enum Filled {
    Reply(rpcrdma::Message),
    Call(rpcrdma::Message, Option<ReplyRoom>),
}

/// Messages of one connection that are not with the engine yet, and what those that are hold.
pub(super) struct Replies {
    memory: Memory,
    conn: ConnHandle,
    /// Those of which files are being read, if there are any.
    filling: Option<FuturesUnordered<BoxFuture<'static, Result<Filled, End>>>>,
    held: Arc<Held>,
}

/// What replies hold in memory.
#[derive(Debug, Default)]
struct Held {
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Those that no charge stands for.
    uncharged_bytes: AtomicUsize,
    /// Replies with a charge.
    charged: AtomicUsize,
}

/// The head of a reply, which lives until it was sent, and what the reply is counted with.
struct Head {
    bytes: Vec<u8>,
    reply_bytes: usize,
    charge: Option<Charge>,
    held: Arc<Held>,
}

impl Head {
    fn new(bytes: Vec<u8>, reply_bytes: usize, charge: Option<Charge>, held: &Arc<Held>) -> Self {
        held.count.fetch_add(1, Relaxed);
        held.bytes.fetch_add(reply_bytes, Relaxed);
        match &charge {
            Some(_) => held.charged.fetch_add(1, Relaxed),
            None => held.uncharged_bytes.fetch_add(reply_bytes, Relaxed),
        };
        Self {
            bytes,
            reply_bytes,
            charge,
            held: Arc::clone(held),
        }
    }
}

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        let held = &self.held;
        held.count.fetch_sub(1, Relaxed);
        held.bytes.fetch_sub(self.reply_bytes, Relaxed);
        match self.charge {
            Some(_) => held.charged.fetch_sub(1, Relaxed),
            None => held.uncharged_bytes.fetch_sub(self.reply_bytes, Relaxed),
        };
    }
}

/// What becomes of a message.
enum Kind {
    Reply(Arc<Held>),
    Call(Option<ReplyRoom>),
}

impl Kind {
    fn filled(
        self,
        head: Vec<u8>,
        spans: Vec<PayloadSpan>,
        payloads: Vec<Vec<Bytes>>,
        charge: Option<Charge>,
    ) -> Filled {
        match self {
            Self::Reply(held) => {
                let bytes = head.len() + payloads.iter().flatten().map(Bytes::len).sum::<usize>();
                let head = Bytes::from_owner(Head::new(head, bytes, charge, &held));
                Filled::Reply(rpcrdma::Message::gathered(head, spans, payloads))
            }
            Self::Call(room) => {
                Filled::Call(rpcrdma::Message::gathered(head, spans, payloads), room)
            }
        }
    }
}

impl Replies {
    pub(super) fn new(memory: Memory, conn: &ConnHandle) -> Self {
        Self {
            memory,
            conn: conn.clone(),
            filling: None,
            held: Arc::default(),
        }
    }

    /// A reply; `None` when it is not ready for the engine yet. A file of at most `files_max` bytes is left to the
    /// provider.
    pub(super) fn reply(&mut self, mut message: Message, files_max: u64) -> Option<Filled> {
        let is_left = matches!(message.payloads(), [Payload::File(file)]
            if file.len > 0 && u64::from(file.len) <= files_max);
        if !is_left {
            return self.fill(message, Kind::Reply(Arc::clone(&self.held)));
        }
        let charge = message.take_charge();
        let (head, spans, mut payloads) = message.into_parts();
        let Some(Payload::File(file)) = payloads.pop() else {
            unreachable!("it is one file");
        };
        let counters = self.conn.context().counters();
        Counters::add(&counters.rdma_sent_file_bytes, file.len as usize);
        let reply_bytes = head.len();
        let head = Bytes::from_owner(Head::new(head, reply_bytes, charge, &self.held));
        let held = rpcrdma::HostBytes(Arc::new(file));
        let message = rpcrdma::Message::with_held(head, spans[0], held);
        Some(Filled::Reply(message))
    }

    /// A call of ours; `None` when it is not ready for the engine yet.
    pub(super) fn call(&mut self, message: Message) -> Option<Filled> {
        let room = message.reply_room();
        self.fill(message, Kind::Call(room))
    }

    fn fill(&mut self, mut message: Message, kind: Kind) -> Option<Filled> {
        let charge = message.take_charge();
        let (head, spans, payloads) = message.into_parts();
        let counters = self.conn.context().counters();
        let file_bytes = payloads.iter().map(Payload::file_bytes).sum::<u32>();
        let mut filling = Filling {
            read: Vec::with_capacity(payloads.len()),
            payloads,
            memory: self.memory.clone(),
        };
        if file_bytes == 0 && filling.try_read() {
            return Some(kind.filled(head, spans, filling.read, charge));
        }
        let charge = charge.or_else(|| self.conn.try_charge_reply(file_bytes));
        if charge.is_some() && filling.try_read() {
            Counters::add(&counters.rdma_file_bytes, file_bytes as usize);
            return Some(kind.filled(head, spans, filling.read, charge));
        }
        let conn = self.conn.clone();
        let filling_up = self.filling.get_or_insert_default();
        filling_up.push(Box::pin(async move {
            let charge = match charge {
                Some(charge) => charge,
                None => conn.charge_reply(file_bytes).await,
            };
            let read = filling.read().await?;
            let counters = conn.context().counters();
            Counters::add(&counters.rdma_file_bytes, file_bytes as usize);
            Ok(kind.filled(head, spans, read, Some(charge)))
        }));
        None
    }

    /// The next message whose files were read.
    pub(super) fn poll_filled(
        &mut self,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Filled, End>>> {
        match &mut self.filling {
            Some(filling) => filling.poll_next_unpin(cx),
            None => Poll::Ready(None),
        }
    }

    /// Whether any message is not with the engine yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.filling
            .as_ref()
            .is_some_and(|filling| !filling.is_empty())
    }

    /// Keeps no room for what may come.
    pub(super) fn rest(&mut self) {
        self.filling.take_if(|filling| filling.is_empty());
    }

    /// Replies that are not sent.
    pub(super) fn count(&self) -> usize {
        self.held.count.load(Relaxed) + self.filling.as_ref().map_or(0, FuturesUnordered::len)
    }

    /// Bytes that they hold in memory.
    pub(super) fn bytes(&self) -> usize {
        self.held.bytes.load(Relaxed)
    }

    /// Bytes of replies that no charge stands for, and replies with one.
    pub(super) fn held(&self) -> (usize, usize) {
        let held = &self.held;
        (
            held.uncharged_bytes.load(Relaxed),
            held.charged.load(Relaxed),
        )
    }
}

/// A part of the file that a reply holds ([`Replies::reply`]).
pub(super) fn range_of(held: rpcrdma::HostBytes, offset: u32, len: u32) -> FileRange {
    let payload = held.0.downcast::<FilePayload>();
    let payload = payload.expect("nothing else is held");
    FileRange {
        file: Arc::clone(&payload.file),
        offset: payload.offset + u64::from(offset),
        len,
        hold: payload,
    }
}

/// A message whose files are being read, payload by payload.
struct Filling {
    payloads: Vec<Payload>,
    /// Those that are in memory, from the first on.
    read: Vec<Vec<Bytes>>,
    memory: Memory,
}

impl Filling {
    /// Reads what needs no disk; `true` if that is everything.
    fn try_read(&mut self) -> bool {
        while let Some(payload) = self.payloads.get_mut(self.read.len()) {
            let pieces = match payload {
                Payload::Bytes(bytes) => vec![std::mem::take(bytes)],
                Payload::Pieces(pieces) => std::mem::take(pieces),
                Payload::File(file) => {
                    let mut buffer = self.memory.take(file.len as usize);
                    if !read_cached(file, &mut buffer) {
                        return false;
                    }
                    let len = buffer.len();
                    vec![buffer.freeze(0..len)]
                }
            };
            self.read.push(pieces);
        }
        true
    }

    /// Reads everything else on the blocking pool.
    async fn read(mut self) -> Result<Vec<Vec<Bytes>>, End> {
        while !self.try_read() {
            let at = self.read.len();
            let file = std::mem::replace(&mut self.payloads[at], Payload::Bytes(Bytes::new()));
            let Payload::File(file) = file else {
                continue;
            };
            let buffer = self.memory.take(file.len as usize);
            let reading = tokio::task::spawn_blocking(move || read_file(&file, buffer));
            let read = reading
                .await
                .map_err(|e| End::with(CloseReason::FileFailed, e))?;
            self.read.push(vec![read?]);
        }
        Ok(self.read)
    }
}

/// Reads what is in the page cache; `false` unless that is all of it.
fn read_cached(payload: &FilePayload, buffer: &mut Buffer) -> bool {
    let mut at = 0;
    while at < buffer.len() {
        match read_now(&payload.file, &mut buffer[at..], payload.offset + at as u64) {
            Ok(0) => return false,
            Ok(read) => at += read,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// A file system that cannot say what it has in memory is asked as sendfile asks all of them. The service hands out
/// files of which it believes that reading them waits for nothing. Of tmpfs that is true.
fn read_now(file: &File, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut slices = [io::IoSliceMut::new(into)];
    match rustix::io::preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) => rustix::io::pread(file, into, offset),
        read => read,
    }
}

fn read_file(payload: &FilePayload, mut buffer: Buffer) -> Result<Bytes, End> {
    let read = payload.file.read_exact_at(&mut buffer, payload.offset);
    read.map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => End::with(CloseReason::FileShort, e),
        _ => End::with(CloseReason::FileFailed, e),
    })?;
    let len = buffer.len();
    Ok(buffer.freeze(0..len))
}

#[cfg(test)]
mod tests {
    //! Goal: a file whose bytes are in memory costs no turn of the blocking pool, also where the file system cannot tell.
    use super::*;
    use crate::handle::ConnInfo;
    use crate::{Context, Endpoint, TransportKind, TransportLimits};
    use rustix::fs::MemfdFlags;
    use std::io::Write;
    use xdr::Encoder;

    fn conn() -> ConnHandle {
        let address = Endpoint::Socket("10.0.0.1:20049".parse().unwrap());
        let info = ConnInfo {
            kind: TransportKind::Rdma,
            peer: address.clone(),
            local: address,
            tls: None,
        };
        ConnHandle::new(info, Context::new(TransportLimits::default()))
    }

    fn reply(file: File, len: u32) -> Message {
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, 1, rpc::OpaqueAuth::NONE);
        e.payload(len);
        let file = FilePayload {
            file: Arc::new(file),
            offset: 0,
            len,
            guard: Box::new(()),
        };
        Message::new(e, vec![Payload::File(file)])
    }

    #[tokio::test]
    async fn files_in_memory_are_read_at_once() {
        const LEN: u32 = 100_000;
        // Like all of tmpfs, this one refuses reads that must not wait.
        let nameless = rustix::fs::memfd_create("", MemfdFlags::CLOEXEC).unwrap();
        for mut file in [File::from(nameless), tempfile::tempfile().unwrap()] {
            file.write_all(&[7; LEN as usize]).unwrap();
            let mut replies = Replies::new(Memory::new(4096), &conn());
            assert!(replies.reply(reply(file, LEN), 0).is_some());
            assert!(!replies.is_waiting());
        }
    }
}
