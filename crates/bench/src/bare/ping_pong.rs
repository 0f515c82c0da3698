//! TCP ping-pong: a request of one fixed size, a reply of another; the floor under every small operation.
//!
//! Two servers answer it. One is a blocking thread for each connection: the least that the system can do. The other is a tokio
//! current-thread runtime: the least that a server built like ours can do. The reply begins with the first eight bytes of its
//! request, so a client knows that it belongs to it.

use super::{accept_with_threads, connect, read_message};
use crate::load::{self, CONNECTIONS_MAX, Load, Requester};
use crate::process::{Launcher, ServerProcess};
use crate::{BenchError, Sample, Subject};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// Bytes that a reply repeats of its request.
const TAG_BYTES: usize = 8;
/// Largest message.
const MESSAGE_BYTES_MAX: u32 = 1024 * 1024;

/// How the server waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A blocking thread per connection.
    Thread,
    /// Tasks on one tokio current-thread runtime.
    Tokio,
}

/// Sizes of the two messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Sizes {
    /// Bytes of a request; the default is about a SEQUENCE, PUTFH, GETATTR over TCP
    #[arg(long = "request-bytes", default_value_t = 180, value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    pub request_bytes: u32,
    /// Bytes of a reply; the default is about the attributes that Linux asks for
    #[arg(long = "reply-bytes", default_value_t = 240, value_parser = clap::value_parser!(u32).range(8..=1_048_576))]
    pub reply_bytes: u32,
}

impl Sizes {
    fn buffers(self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let allowed = 8..=MESSAGE_BYTES_MAX;
        if !allowed.contains(&self.request_bytes) || !allowed.contains(&self.reply_bytes) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let bytes = |n: u32| vec![0; n as usize];
        Ok((bytes(self.request_bytes), bytes(self.reply_bytes)))
    }
}

/// Serves for ever.
///
/// # Errors
/// When sizes are out of bounds or the listener fails.
pub fn serve(listener: TcpListener, form: Form, sizes: Sizes) -> io::Result<()> {
    sizes.buffers()?;
    match form {
        Form::Thread => accept_with_threads(&listener, move |stream| serve_thread(stream, sizes)),
        Form::Tokio => serve_tokio(listener, sizes),
    }
}

fn serve_thread(mut stream: TcpStream, sizes: Sizes) -> io::Result<()> {
    let (mut request, mut reply) = sizes.buffers()?;
    while read_message(&mut stream, &mut request)? {
        reply[..TAG_BYTES].copy_from_slice(&request[..TAG_BYTES]);
        stream.write_all(&reply)?;
    }
    Ok(())
}

fn serve_tokio(listener: TcpListener, sizes: Sizes) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let (stream, _) = listener.accept().await?;
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                continue;
            };
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(async move {
                // A client that goes away ends its connection and nothing else.
                let _ = serve_task(stream, sizes).await;
                drop(place);
            });
        }
    })
}

async fn serve_task(mut stream: tokio::net::TcpStream, sizes: Sizes) -> io::Result<()> {
    let (mut request, mut reply) = sizes.buffers()?;
    loop {
        match stream.read_exact(&mut request).await {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e),
        }
        reply[..TAG_BYTES].copy_from_slice(&request[..TAG_BYTES]);
        stream.write_all(&reply).await?;
    }
}

/// The ping-pong as a subject.
#[derive(Debug, Clone)]
pub struct PingPong {
    /// How to start the server.
    pub launcher: Launcher,
    /// Which server.
    pub form: Form,
    /// Its messages.
    pub sizes: Sizes,
}

impl PingPong {
    fn form_name(&self) -> &'static str {
        match self.form {
            Form::Thread => "thread",
            Form::Tokio => "tokio",
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        let Sizes {
            request_bytes,
            reply_bytes,
        } = self.sizes;
        [
            "ping-pong".to_owned(),
            format!("--form={}", self.form_name()),
            format!("--request-bytes={request_bytes}"),
            format!("--reply-bytes={reply_bytes}"),
        ]
        .map(OsString::from)
        .into()
    }
}

impl Subject for PingPong {
    fn name(&self) -> String {
        format!("ping-pong {}", self.form_name())
    }

    fn settings(&self) -> Value {
        json!({
            "request_bytes": self.sizes.request_bytes,
            "reply_bytes": self.sizes.reply_bytes,
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let server = ServerProcess::start(&self.launcher, &self.arguments())?;
        let connect = |index| {
            let client = Client::connect(&server, self.sizes, index)?;
            Ok(Box::new(client) as Box<dyn Requester>)
        };
        load::drive(load, connect, &|| server.cpu())
    }
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
    tag: u64,
}

impl Client {
    fn connect(server: &ServerProcess, sizes: Sizes, index: usize) -> Result<Self, BenchError> {
        let (request, reply) = sizes
            .buffers()
            .map_err(BenchError::io("make messages of these sizes"))?;
        Ok(Self {
            stream: connect(server.address())?,
            request,
            reply,
            tag: (index as u64) << 32,
        })
    }
}

impl Requester for Client {
    fn request(&mut self) -> Result<u64, BenchError> {
        self.tag += 1;
        let tag = self.tag.to_be_bytes();
        self.request[..TAG_BYTES].copy_from_slice(&tag);
        self.stream
            .write_all(&self.request)
            .map_err(BenchError::io("send a request"))?;
        self.stream
            .read_exact(&mut self.reply)
            .map_err(BenchError::io("read a reply"))?;
        if self.reply[..TAG_BYTES] != tag {
            return Err(BenchError::WrongBytes { offset: 0 });
        }
        Ok((self.request.len() + self.reply.len()) as u64)
    }
}
