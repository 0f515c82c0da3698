//! The bare servers and their clients: the least work that answers such a request at all.
//!
//! Each is honest in what it leaves out: no RPC, no session, no permission, no reply cache. What they keep
//! is the same payload by the same system calls, so a ratio to them is the price of the protocol.
//! Messages have fixed sizes; numbers are big-endian.

pub mod ping_pong;
pub mod pwrite;
pub mod rpc_echo;
pub mod sendfile;
pub mod store;

use crate::load::{self, CONNECTIONS_MAX, Load, REQUEST_TIMEOUT, Requester};
use crate::process::{Launcher, ServerProcess};
use crate::{BenchError, Sample};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longest payload of one request: the largest rsize and wsize that Linux asks for is 1 MiB.
pub const PAYLOAD_BYTES_MAX: u32 = 4 * 1024 * 1024;
/// Offset and length of a request.
const RANGE_BYTES: usize = 16;
/// The length that a reply confirms, or [`REFUSED`].
const STATUS_BYTES: usize = 4;
/// The status of a request that is out of bounds; the connection is closed after it.
const REFUSED: u32 = u32::MAX;

/// A range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Range {
    fn encode(self) -> [u8; RANGE_BYTES] {
        let mut out = [0; RANGE_BYTES];
        out[..8].copy_from_slice(&self.offset.to_be_bytes());
        out[8..].copy_from_slice(&u64::from(self.len).to_be_bytes());
        out
    }

    /// The range, when it lies inside `size_bytes` and its length is allowed.
    fn decode(bytes: &[u8; RANGE_BYTES], size_bytes: u64) -> Option<Self> {
        let (offset, len) = bytes.split_first_chunk::<8>()?;
        let offset = u64::from_be_bytes(*offset);
        let len = u32::try_from(u64::from_be_bytes(len.try_into().ok()?)).ok()?;
        let end = offset.checked_add(u64::from(len))?;
        (len <= PAYLOAD_BYTES_MAX && end <= size_bytes).then_some(Self { offset, len })
    }
}

/// The ranges that one connection asks for: its own stripe of the file, again and again.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    next: u64,
    step_bytes: u64,
    size_bytes: u64,
    len: u32,
}

impl Walk {
    /// Connection `index` of `count` starts at its own place and strides over the others'.
    pub(crate) fn new(
        size_bytes: u64,
        len: u32,
        index: usize,
        count: usize,
    ) -> Result<Self, BenchError> {
        if len == 0 || len > PAYLOAD_BYTES_MAX || u64::from(len) > size_bytes {
            return Err(BenchError::Setting {
                name: "the payload",
                must_be: "from 1 byte to 4 MiB, and not above the file's size",
            });
        }
        let len_bytes = u64::from(len);
        let places = size_bytes / len_bytes;
        Ok(Self {
            next: index as u64 % places * len_bytes,
            step_bytes: count as u64 % places * len_bytes,
            size_bytes: places * len_bytes,
            len,
        })
    }

    pub(crate) fn next(&mut self) -> Range {
        let offset = self.next;
        self.next = (offset + self.step_bytes) % self.size_bytes;
        Range {
            offset,
            len: self.len,
        }
    }
}

/// A listener on a free port of one of this machine's addresses.
pub(crate) fn listen(at: Ipv4Addr) -> io::Result<TcpListener> {
    TcpListener::bind((at, 0))
}

/// Accepts for ever; each connection has a thread until it ends. Connections above
/// [`CONNECTIONS_MAX`] are closed at once.
fn accept_with_threads<F>(listener: &TcpListener, serve: F) -> io::Result<()>
where
    F: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    let serve = Arc::new(serve);
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, _) = listener.accept()?;
        if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        stream.set_nodelay(true)?;
        let (serve, open) = (Arc::clone(&serve), Arc::clone(&open));
        std::thread::spawn(move || {
            // A client that goes away ends its connection and nothing else.
            let _ = serve(stream);
            open.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

/// Serves ranges of `file` for ever. `serve_range` is called for each request whose range lies inside the file, with
/// the connection's own buffer. The file's size must not change meanwhile.
fn serve_ranges<F>(listener: &TcpListener, file: File, serve_range: F) -> io::Result<()>
where
    F: Fn(&mut TcpStream, &File, Range, &mut Vec<u8>) -> io::Result<()> + Send + Sync + 'static,
{
    let size_bytes = file.metadata()?.len();
    accept_with_threads(listener, move |mut stream| {
        let mut request = [0; RANGE_BYTES];
        let mut buffer = Vec::new();
        while read_message(&mut stream, &mut request)? {
            let Some(range) = Range::decode(&request, size_bytes) else {
                return stream.write_all(&REFUSED.to_be_bytes());
            };
            serve_range(&mut stream, &file, range, &mut buffer)?;
        }
        Ok(())
    })
}

/// A file that a server process serves by ranges, and the requests made to it.
struct Ranges<'a> {
    launcher: &'a Launcher,
    /// The word for the server on the command line of [`crate::serve::Serve`].
    server: &'static str,
    path: &'a Path,
    size_bytes: u64,
    payload_bytes: u32,
}

impl Ranges<'_> {
    /// Starts the server and drives a client, made by `connect`, on each connection.
    fn run<C: Requester + 'static>(
        &self,
        load: &Load,
        connect: impl Fn(SocketAddr, Walk) -> Result<C, BenchError>,
    ) -> Result<Sample, BenchError> {
        let arguments = [self.server.into(), OsString::from(self.path)];
        let server = ServerProcess::start(self.launcher, &arguments)?;
        let count = load.connections_count;
        let connect = |index| {
            let walk = Walk::new(self.size_bytes, self.payload_bytes, index, count)?;
            Ok(Box::new(connect(server.address(), walk)?) as Box<dyn Requester>)
        };
        load::drive(load, connect, &|| server.cpu())
    }
}

/// Fills `buffer`, or says that the peer closed between two messages.
fn read_message(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
    match stream.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream, BenchError> {
    let doing = BenchError::io("connect to a server");
    let stream = TcpStream::connect(address).map_err(&doing)?;
    stream.set_nodelay(true).map_err(&doing)?;
    stream
        .set_read_timeout(Some(REQUEST_TIMEOUT))
        .map_err(&doing)?;
    stream
        .set_write_timeout(Some(REQUEST_TIMEOUT))
        .map_err(&doing)?;
    Ok(stream)
}

fn read_status(stream: &mut TcpStream, expected: u32) -> Result<(), BenchError> {
    let mut status = [0; STATUS_BYTES];
    stream
        .read_exact(&mut status)
        .map_err(BenchError::io("read a reply"))?;
    if u32::from_be_bytes(status) == expected {
        Ok(())
    } else {
        Err(BenchError::Refused)
    }
}

#[cfg(test)]
mod tests {
    //! Ranges: what is inside the file, and that walks cover it.
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_outside_of_the_file_are_refused() {
        let decode = |offset, len| Range::decode(&Range { offset, len }.encode(), 100);
        assert_eq!(
            decode(60, 40),
            Some(Range {
                offset: 60,
                len: 40
            })
        );
        assert_eq!(decode(61, 40), None);
        assert_eq!(decode(u64::MAX, 1), None);
        let long = Range {
            offset: 0,
            len: PAYLOAD_BYTES_MAX + 1,
        };
        assert_eq!(Range::decode(&long.encode(), u64::MAX), None);
        assert_eq!(Range::decode(&[0xff; RANGE_BYTES], u64::MAX), None);
    }

    #[test]
    fn walks_of_all_connections_cover_the_file_once() {
        let mut seen = BTreeSet::new();
        for index in 0..4 {
            let mut walk = Walk::new(1000, 50, index, 4).unwrap();
            for _ in 0..5 {
                let range = walk.next();
                assert!(range.offset + u64::from(range.len) <= 1000);
                assert!(seen.insert(range.offset));
            }
        }
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn a_payload_must_fit_the_file() {
        assert!(Walk::new(100, 0, 0, 1).is_err());
        assert!(Walk::new(100, 101, 0, 1).is_err());
        assert!(Walk::new(100, 100, 5, 7).is_ok());
    }
}
