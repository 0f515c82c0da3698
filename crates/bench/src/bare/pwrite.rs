//! The bare unstable WRITE: bytes from the socket into a buffer, and by pwrite into the page cache.
//!
//! A request is offset, length and the bytes, a reply is the length. Nothing is synced: that is what
//! UNSTABLE means (RFC 8881 §18.32). One blocking thread serves each connection.

use super::{PAYLOAD_BYTES_MAX, Range, Ranges, Walk, connect, read_status, serve_ranges};
use crate::load::{Load, Requester};
use crate::process::{Launcher, ServerProcess};
use crate::{BenchError, Sample, Subject, pattern};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Serves writes into the file at `path`, which must exist, for ever. Writes never extend it.
///
/// # Errors
/// When the file cannot be opened or the listener fails.
pub fn serve(listener: &TcpListener, path: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    serve_ranges(listener, file, |stream, file, range, data| {
        // At most PAYLOAD_BYTES_MAX, which decoding the range checked.
        data.resize(range.len as usize, 0);
        stream.read_exact(data)?;
        file.write_all_at(data, range.offset)?;
        stream.write_all(&range.len.to_be_bytes())
    })
}

/// The recv+pwrite server as a subject.
#[derive(Debug, Clone)]
pub struct PWrite {
    /// How to start the server.
    pub launcher: Launcher,
    /// The file that it writes.
    pub path: PathBuf,
    /// The file's size.
    pub size_bytes: u64,
    /// Bytes of each write.
    pub write_bytes: u32,
}

impl Subject for PWrite {
    fn name(&self) -> String {
        "recv+pwrite".to_owned()
    }

    fn settings(&self) -> Value {
        json!({ "write_bytes": self.write_bytes, "file_bytes": self.size_bytes })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let ranges = Ranges {
            launcher: &self.launcher,
            server: "pwrite",
            path: &self.path,
            size_bytes: self.size_bytes,
            payload_bytes: self.write_bytes,
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
    pub(crate) fn connect(server: SocketAddr, walk: Walk) -> Result<Self, BenchError> {
        let mut data = vec![0; walk.len.min(PAYLOAD_BYTES_MAX) as usize];
        // Every write of this connection sends these bytes: making others would cost more than the write.
        pattern::fill(walk.next, &mut data);
        Ok(Self {
            stream: connect(server)?,
            data,
            walk,
        })
    }

    fn write(&mut self, range: Range) -> Result<(), BenchError> {
        let doing = BenchError::io("send a request");
        let header = range.encode();
        let both = [IoSlice::new(&header), IoSlice::new(&self.data)];
        let sent = self.stream.write_vectored(&both).map_err(&doing)?;
        if let Some(header_left) = header.get(sent..) {
            self.stream.write_all(header_left).map_err(&doing)?;
        }
        let data_left = &self.data[sent.saturating_sub(header.len())..];
        self.stream.write_all(data_left).map_err(&doing)?;
        read_status(&mut self.stream, range.len)
    }
}

impl Requester for Client {
    fn request(&mut self) -> Result<u64, BenchError> {
        let range = self.walk.next();
        self.write(range)?;
        Ok(u64::from(range.len))
    }
}

/// One write of the [`pattern`] to a running server.
///
/// # Errors
/// [`BenchError::Refused`] for a range outside of the file, or the connection's own.
pub fn write_pattern(server: &ServerProcess, offset: u64, len: u32) -> Result<(), BenchError> {
    let mut walk = Walk::new(u64::from(len), len, 0, 1)?;
    walk.next = offset;
    Client::connect(server.address(), walk)?.write(Range { offset, len })
}
