//! Goal: what we say is what others understand. Method: a wire tap writes down everything that two endpoints say to
//! each other on loopback. tshark decodes every frame of the capture: each CRC good, nothing malformed.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use bytes::Bytes;
use fabric::{
    Completion, Connected, Ended, Endpoint, EndpointConfig, Fabric, Memory, Part, Pool, PoolConfig,
    Receive, Remote, Work,
};
use ropewalk_fabric_iwarp::{Framing, Iwarp};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A capture of one TCP connection: packets of IPv4 without a link layer (LINKTYPE_RAW).
struct Capture {
    file: Vec<u8>,
    /// Sequence numbers of both directions.
    next: [u32; 2],
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

impl Capture {
    fn new() -> Self {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 101] {
            file.extend(word.to_le_bytes());
        }
        let mut capture = Self { file, next: [0; 2] };
        for (from, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            capture.packet(from, flags, &[]);
        }
        capture
    }

    /// Bytes that one end has sent.
    fn bytes(&mut self, from: usize, bytes: &[u8]) {
        for part in bytes.chunks(32_000) {
            self.packet(from, ACK, part);
        }
    }

    fn packet(&mut self, from: usize, flags: u8, payload: &[u8]) {
        let len = 40 + u16::try_from(payload.len()).unwrap();
        let time = u32::try_from(self.file.len()).unwrap();
        for word in [time / 1_000_000, time % 1_000_000, len.into(), len.into()] {
            self.file.extend(word.to_le_bytes());
        }
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports = [40_000_u16, 20_049];
        self.file.extend([0x45, 0]);
        self.file.extend(len.to_be_bytes());
        self.file.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        self.file.extend(addresses[from]);
        self.file.extend(addresses[1 - from]);
        self.file.extend(ports[from].to_be_bytes());
        self.file.extend(ports[1 - from].to_be_bytes());
        self.file.extend(self.next[from].to_be_bytes());
        self.file.extend(self.next[1 - from].to_be_bytes());
        self.file.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        self.file.extend(payload);
        let counts = u32::from(flags & (SYN | FIN) != 0);
        self.next[from] += counts + u32::from(len - 40);
    }
}

/// Passes one connection on to `to`, and returns what passed.
async fn tap(listener: TcpListener, to: SocketAddr) -> Capture {
    let (left, _) = listener.accept().await.unwrap();
    let right = TcpStream::connect(to).await.unwrap();
    let mut capture = Capture::new();
    let (mut left_in, mut left_out) = left.into_split();
    let (mut right_in, mut right_out) = right.into_split();
    let (mut from_left, mut from_right) = (vec![0; 60_000], vec![0; 60_000]);
    let (mut left_open, mut right_open) = (true, true);
    while left_open || right_open {
        tokio::select! {
            read = left_in.read(&mut from_left), if left_open => match read.unwrap_or(0) {
                0 => {
                    left_open = false;
                    capture.packet(0, FIN | ACK, &[]);
                    let _ = right_out.shutdown().await;
                }
                count => {
                    capture.bytes(0, &from_left[..count]);
                    let _ = right_out.write_all(&from_left[..count]).await;
                }
            },
            read = right_in.read(&mut from_right), if right_open => match read.unwrap_or(0) {
                0 => {
                    right_open = false;
                    capture.packet(1, FIN | ACK, &[]);
                    let _ = left_out.shutdown().await;
                }
                count => {
                    capture.bytes(1, &from_right[..count]);
                    let _ = left_out.write_all(&from_right[..count]).await;
                }
            },
        }
    }
    capture
}

struct Side {
    endpoint: Box<dyn Endpoint>,
    done: Vec<Completion>,
    ended: Option<Ended>,
}

impl Side {
    fn step(&mut self, cx: &mut Context<'_>) {
        while self.ended.is_none() {
            match self.endpoint.poll_completions(cx, &mut self.done) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(ended)) => self.ended = Some(ended),
                Poll::Pending => return,
            }
        }
    }

    fn post(&mut self, work: Work) {
        assert!(self.endpoint.post(0, work, true).is_ok());
    }
}

async fn until(a: &mut Side, b: &mut Side, mut holds: impl FnMut(&Side, &Side) -> bool) {
    poll_fn(|cx| {
        a.step(cx);
        b.step(cx);
        if holds(a, b) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn pool() -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes: 256 * 1024,
        slab_bytes: 1 << 20,
        bytes_max: 64 << 20,
        free_bytes_max: usize::MAX,
    })
}

fn side(connected: Connected) -> Side {
    Side {
        endpoint: connected.endpoint,
        done: Vec::new(),
        ended: None,
    }
}

/// Has two endpoints say all that there is to say; returns what they said.
async fn conversation(framing: Framing, config: EndpointConfig) -> Capture {
    let iwarp = Iwarp::new(framing);
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = iwarp.listen(loopback).await.unwrap();
    let middle = TcpListener::bind(loopback).await.unwrap();
    let address = middle.local_addr().unwrap();
    let tapping = tokio::spawn(tap(middle, listener.local()));
    let pool = pool();
    let receives = || {
        let receive = |id| Receive {
            id,
            buffer: pool.take().unwrap(),
        };
        (0..8).map(receive).collect::<Vec<_>>()
    };
    let said = Bytes::from_static(b"private data");
    let accepting = async {
        let incoming = listener.accept().await.unwrap();
        incoming.accept(config, said.clone(), receives()).await
    };
    let connecting = iwarp.connect(address, config, said.clone(), receives());
    let (a, b) = tokio::join!(connecting, accepting);
    let (mut a, mut b) = (side(a.unwrap()), side(b.unwrap()));

    let buffer = pool.take().unwrap();
    let target = b.endpoint.expose(Memory::Buffer(buffer)).unwrap();
    let source = Bytes::from(vec![7; 200_000]);
    let source = b.endpoint.expose(Memory::Bytes(source)).unwrap();
    let data = vec![Bytes::from(vec![8; 150_001])];
    a.post(Work::Write {
        data,
        remote: target,
    });
    for _ in 0..2 {
        let (sink, at) = (pool.take().unwrap(), 0);
        let remote = source;
        a.post(Work::Read {
            sink,
            parts: vec![Part { at, remote }],
        });
    }
    for len in [0, 1, 2, 3, 100_000] {
        let data = vec![Bytes::from(vec![9; len])];
        let invalidate = (len == 3).then_some(target.key);
        a.post(Work::Send { data, invalidate });
    }
    until(&mut a, &mut b, |a, b| {
        a.done.len() == 8 && b.done.len() == 5
    })
    .await;
    let remote = Remote {
        key: target.key,
        offset: 0,
        len: 1,
    };
    let (sink, at) = (pool.take().unwrap(), 0);
    a.post(Work::Read {
        sink,
        parts: vec![Part { at, remote }],
    });
    until(&mut a, &mut b, |a, b| {
        a.ended.is_some() && b.ended.is_some()
    })
    .await;
    drop((a, b));
    tapping.await.unwrap()
}

/// tshark's words on a capture. What is above iWARP is left out, since our payload is nothing.
fn decoded(capture: &Capture) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("iwarp.pcap");
    std::fs::write(&file, &capture.file).unwrap();
    tshark(&file)
}

fn tshark(file: &Path) -> String {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-V", "-O", "iwarp_mpa,iwarp_ddp_rdmap"])
        .args(["--disable-protocol", "rpcordma"])
        .args(["--disable-protocol", "smb_direct"])
        .output();
    let output = output.expect("tshark runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn count(text: &str, wanted: &str) -> usize {
    text.lines().filter(|line| line.trim() == wanted).count()
}

async fn assert_understood(framing: Framing, config: EndpointConfig) {
    let capture = conversation(framing, config).await;
    let text = decoded(&capture);
    for bad in [
        "Malformed",
        "Bad CRC",
        "Expert Info (Error",
        "unreassembled",
    ] {
        let found = text.lines().find(|line| line.contains(bad));
        assert_eq!(found, None, "{text}");
    }
    for (line, least) in [
        ("Request frame header", 1),
        ("Reply frame header", 1),
        (".... 0000 = OpCode: Write (0x0)", 3),
        (".... 0001 = OpCode: Read Request (0x1)", 3),
        (".... 0010 = OpCode: Read Response (0x2)", 6),
        (".... 0011 = OpCode: Send (0x3)", 5),
        (".... 0100 = OpCode: Send with Invalidate (0x4)", 1),
        (".... 0111 = OpCode: Terminate (0x7)", 1),
    ] {
        assert!(count(&text, line) >= least, "{line}: {text}");
    }
    let frames = count(&text, "FPDU");
    let sums = text.lines().filter(|line| line.contains("Good CRC32"));
    assert_eq!(sums.count(), if config.crc { frames } else { 0 });
    // Messages end once each: the RTR, a write, three reads of which one is refused, five sends and the Terminate.
    let ends = count(&text, ".1.. .... = Last flag: True");
    assert_eq!(ends, 1 + 1 + 3 + 2 + 5 + 1, "{text}");
}

#[tokio::test]
#[ignore = "needs tshark, which the tests run as root install"]
async fn frames_of_any_size_decode() {
    assert_understood(Framing::Largest, EndpointConfig::default()).await;
}

#[tokio::test]
#[ignore = "needs tshark, which the tests run as root install"]
async fn frames_of_a_segment_decode() {
    assert_understood(Framing::Segment, EndpointConfig::default()).await;
}

#[tokio::test]
#[ignore = "needs tshark, which the tests run as root install"]
async fn frames_without_crc_decode() {
    let config = EndpointConfig {
        crc: false,
        ..EndpointConfig::default()
    };
    assert_understood(Framing::Largest, config).await;
}
