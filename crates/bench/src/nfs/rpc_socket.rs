//! One blocking socket for RPC: a call at a time, buffers that are used again.
//!
//! It knows record marks, calls and replies of ONC RPC (RFC 5531), and nothing of the programs that are called. It neither
//! reconnects nor sends again: an error ends the run.

use crate::BenchError;
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use xdr::{Decode, Decoder, Encoder};

/// Bytes of a record mark (RFC 5531 §11).
const MARK_BYTES: usize = 4;
/// The bit of a record mark that says that its fragment is the last.
const LAST_FRAGMENT: u32 = 1 << 31;

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) number: u32,
}

/// A connection, and who calls over it.
#[derive(Debug)]
pub(crate) struct RpcSocket {
    stream: TcpStream,
    credential: Vec<u8>,
    xid: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
    reply_bytes: usize,
}

impl RpcSocket {
    /// Calls over `stream` with a body of AUTH_SYS, for replies of at most so many bytes.
    pub(crate) fn over(stream: TcpStream, credential: Vec<u8>, reply_bytes_max: u32) -> Self {
        Self {
            stream,
            credential,
            xid: 0,
            request: Vec::new(),
            reply: vec![0; MARK_BYTES + reply_bytes_max as usize],
            reply_bytes: 0,
        }
    }

    /// Bytes of the last request and its reply on the connection, record marks included.
    pub(crate) fn last_sizes(&self) -> (usize, usize) {
        (self.request.len(), self.reply_bytes)
    }

    /// Sends a call whose arguments `encode` appends, with the payload announced in them, which is not copied on its way to the
    /// socket. Returns what stands behind the header of its reply.
    ///
    /// # Errors
    /// [`BenchError::Io`] when the server does not answer, and [`BenchError::Nfs`] when it refuses. Also for a payload that is
    /// not the one announced, or no multiple of four bytes long.
    pub(crate) fn call(
        &mut self,
        procedure: Procedure,
        encode: impl FnOnce(Encoder) -> Encoder,
        payload: &[u8],
    ) -> Result<Decoder<'_>, BenchError> {
        self.xid = self.xid.wrapping_add(1);
        self.request.clear();
        let mut e = Encoder::with_buffer(std::mem::take(&mut self.request));
        let mark = e.reserve_u32();
        let start = CallStart {
            xid: self.xid,
            program: procedure.program,
            version: procedure.version,
            procedure: procedure.number,
            credential: OpaqueAuth {
                flavor: rpc::flavor::AUTH_SYS,
                body: &self.credential,
            },
            verifier: OpaqueAuth::NONE,
        };
        xdr::Encode::encode(&start, &mut e);
        let mut e = encode(e);
        let len = e.wire_len() - MARK_BYTES;
        if e.wire_len() != e.len() + payload.len() {
            return Err(malformed(
                "a payload of another length, or one that needs padding",
            ));
        }
        let len = u32::try_from(len).expect("a request is at most a payload and its head");
        e.patch_u32(mark, len | LAST_FRAGMENT);
        self.request = e.into_parts().0;
        self.send(payload)
            .map_err(BenchError::io("send a request"))?;
        self.receive()?;
        self.accepted()
    }

    /// The request and then the payload, in one piece where the socket takes it.
    fn send(&mut self, payload: &[u8]) -> std::io::Result<()> {
        if payload.is_empty() {
            return self.stream.write_all(&self.request);
        }
        let both = [IoSlice::new(&self.request), IoSlice::new(payload)];
        let sent = self.stream.write_vectored(&both)?;
        if let Some(left) = self.request.get(sent..) {
            self.stream.write_all(left)?;
        }
        self.stream
            .write_all(&payload[sent.saturating_sub(self.request.len())..])
    }

    fn receive(&mut self) -> Result<(), BenchError> {
        let mut have = 0;
        have = self.fill(have, MARK_BYTES)?;
        let mark = self
            .reply
            .first_chunk()
            .copied()
            .map_or(0, u32::from_be_bytes);
        let end = MARK_BYTES + (mark & !LAST_FRAGMENT) as usize;
        if mark & LAST_FRAGMENT == 0 || end > self.reply.len() {
            return Err(malformed("a reply in fragments, or too long"));
        }
        have = self.fill(have, end)?;
        if have != end {
            return Err(malformed("bytes behind the only reply"));
        }
        self.reply_bytes = end;
        Ok(())
    }

    /// Reads until `want` bytes are there; there may be more.
    fn fill(&mut self, mut have: usize, want: usize) -> Result<usize, BenchError> {
        let doing = BenchError::io("read a reply");
        while have < want {
            // Nothing but this reply is on its way, so there is no harm in room for more.
            match self.stream.read(&mut self.reply[have..]) {
                Ok(0) => return Err(doing(ErrorKind::UnexpectedEof.into())),
                Ok(count) => have += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(doing(e)),
            }
        }
        Ok(have)
    }

    fn accepted(&self) -> Result<Decoder<'_>, BenchError> {
        let mut d = Decoder::new(&self.reply[MARK_BYTES..self.reply_bytes]);
        let header = ReplyHeader::decode(&mut d).map_err(BenchError::nfs("read a reply"))?;
        if let ReplyVerdict::Error(verdict) = header.verdict {
            return Err(malformed(&format!("the call was refused: {verdict:?}")));
        }
        if header.xid != self.xid {
            return Err(malformed("the reply of another call"));
        }
        Ok(d)
    }
}

pub(crate) fn malformed(why: &str) -> BenchError {
    BenchError::nfs("read a reply")(why)
}
