//! The bare READ: a range of one file from the page cache to the socket by sendfile.
//!
//! A request is offset and length, a reply is the length and the bytes. The length goes out with MSG_MORE, so it shares
//! a segment with the first bytes of the file. One blocking thread serves each connection. With replies of this size
//! the copy in the kernel is the cost, and a thread needs no readiness calls.

use super::{PAYLOAD_BYTES_MAX, Range, Ranges, Walk, connect, read_status, serve_ranges};
use crate::load::{Load, Requester};
use crate::process::{Launcher, ServerProcess};
use crate::{BenchError, Sample, Subject, pattern};
use rustix::net::SendFlags;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// Serves the file at `path` for ever. Its size must not change meanwhile.
///
/// # Errors
/// When the file cannot be opened or the listener fails.
pub fn serve(listener: &TcpListener, path: &Path) -> io::Result<()> {
    serve_ranges(listener, File::open(path)?, |stream, file, range, _| {
        send(stream, file, range)
    })
}

fn send(stream: &TcpStream, file: &File, range: Range) -> io::Result<()> {
    let mut status: &[u8] = &range.len.to_be_bytes();
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    while !status.is_empty() {
        match rustix::net::send(stream, status, flags) {
            Ok(sent) => status = &status[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let mut offset = range.offset;
    let end = offset + u64::from(range.len);
    while offset < end {
        let left = usize::try_from(end - offset).expect("at most PAYLOAD_BYTES_MAX");
        match rustix::fs::sendfile(stream, file, Some(&mut offset), left) {
            // The file was cut under us: the promised bytes cannot come.
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// The sendfile server as a subject. The file must hold the [`pattern`].
#[derive(Debug, Clone)]
pub struct SendFile {
    /// How to start the server.
    pub launcher: Launcher,
    /// The file that it serves.
    pub path: PathBuf,
    /// The file's size.
    pub size_bytes: u64,
    /// Bytes of each read.
    pub read_bytes: u32,
}

impl Subject for SendFile {
    fn name(&self) -> String {
        "sendfile".to_owned()
    }

    fn settings(&self) -> Value {
        json!({ "read_bytes": self.read_bytes, "file_bytes": self.size_bytes })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let ranges = Ranges {
            launcher: &self.launcher,
            server: "sendfile",
            path: &self.path,
            size_bytes: self.size_bytes,
            payload_bytes: self.read_bytes,
        };
        ranges.run(load, Client::connect)
    }
}

/// A connection and where it is in the file.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    walk: Walk,
    data: Vec<u8>,
}

impl Client {
    /// Connects and checks the bytes of one first read. The measured ones are not looked at, as
    /// comparing them would cost more than serving them.
    pub(crate) fn connect(server: SocketAddr, walk: Walk) -> Result<Self, BenchError> {
        let mut client = Self {
            stream: connect(server)?,
            data: vec![0; walk.len.min(PAYLOAD_BYTES_MAX) as usize],
            walk,
        };
        let first = client.walk.clone().next();
        client.read(first)?;
        pattern::check(first.offset, &client.data)?;
        Ok(client)
    }

    fn read(&mut self, range: Range) -> Result<(), BenchError> {
        self.stream
            .write_all(&range.encode())
            .map_err(BenchError::io("send a request"))?;
        read_status(&mut self.stream, range.len)?;
        self.stream
            .read_exact(&mut self.data)
            .map_err(BenchError::io("read the data"))
    }
}

impl Requester for Client {
    fn request(&mut self) -> Result<u64, BenchError> {
        let range = self.walk.next();
        self.read(range)?;
        Ok(u64::from(range.len))
    }
}

/// One read of a running server, with every byte checked against the [`pattern`].
///
/// # Errors
/// [`BenchError::WrongBytes`], [`BenchError::Refused`] for a range outside of the file, or the connection's own.
pub fn read_checked(server: &ServerProcess, offset: u64, len: u32) -> Result<(), BenchError> {
    let mut client = Client {
        stream: connect(server.address())?,
        walk: Walk::new(u64::from(len), len, 0, 1)?,
        data: vec![0; len as usize],
    };
    client.read(Range { offset, len })?;
    pattern::check(offset, &client.data)
}
