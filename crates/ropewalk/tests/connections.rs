//! Goal: ten thousand idle connections cost a server little memory, the limit of connections refuses what comes
//! beyond it without disturbing the others, and floods of MOUNT do neither. Method: the real metadata server, and clients that are bare sockets.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{LoneMds, connections_allowed, run, status, wait_for};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Idle connections, where the hard limit of open files allows them.
const IDLE: usize = 10_000;
/// Connections beyond the limit that are tried.
const EXCESS: usize = 200;
/// The documented bound of resident memory for each idle connection (docs/operate/limits.md).
const IDLE_BYTES_MAX: usize = 8 * 1024;
/// Descriptors of the test, and what the server keeps for its files.
const FILES_RESERVED: u64 = 4096 + 64;
/// RPC NULL of NFSv4 (RFC 5531 §9, RFC 8881 §16.1) with its record mark, and the reply.
const NULL_CALL: [u32; 11] = [0x8000_0028, 7, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];
const NULL_REPLY: [u32; 7] = [0x8000_0018, 7, 1, 0, 0, 0, 0];

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// A metadata server, and where it listens.
struct Mds {
    server: LoneMds,
    address: SocketAddr,
}

impl Mds {
    fn start(connections_max: usize) -> Self {
        let (address, control) = (rig::address(), rig::address());
        let listen = format!("listen = ['{address}']\ncontrol_listen = ['{control}']");
        Self {
            server: LoneMds::start(connections_max, &listen),
            address,
        }
    }

    /// A connection of which the server has answered a call; an error when it is refused.
    fn connect(&self) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        null(&mut stream)?;
        Ok(stream)
    }

    fn count(&self, name: &str) -> u64 {
        status(self.server.dir.path()).unwrap()["mds"]["transport"][name]
            .as_u64()
            .unwrap()
    }

    fn log_lines(&self, with: &str) -> usize {
        let path: &Path = &self.server.dir.path().join("log");
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| line.contains(with)).count()
    }
}

fn null(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(&bytes(&NULL_CALL))?;
    let mut reply = [0; NULL_REPLY.len() * 4];
    stream.read_exact(&mut reply)?;
    assert_eq!(reply[..], bytes(&NULL_REPLY));
    Ok(())
}

#[test]
fn ten_thousand_idle_connections_cost_little_and_the_limit_refuses_more() {
    let idle_count = IDLE.min(connections_allowed(FILES_RESERVED + EXCESS as u64));
    let mds = Mds::start(idle_count);
    // What the first connections bring with them, such as pages of the allocator, is no cost of each.
    drop((0..64).map(|_| mds.connect().unwrap()).collect::<Vec<_>>());
    wait_for("end of the first", || {
        (mds.server.connections() == 0).then_some(())
    });
    let before = mds.server.resident_bytes();
    let mut idle: Vec<TcpStream> = (1..idle_count).map(|_| mds.connect().unwrap()).collect();
    let each = mds.server.resident_bytes().saturating_sub(before) / idle.len();
    println!(
        "{} idle connections, {each} resident bytes for each",
        idle.len()
    );
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes");

    // The last place is for one who still wants something.
    let mut last = mds.connect().unwrap();
    null(&mut last).unwrap();
    assert_eq!(mds.server.connections(), idle_count);

    // Then nobody gets in, and everybody who is in notices nothing.
    let accepted = mds.count("connections_accepted");
    for _ in 0..EXCESS {
        assert!(mds.connect().is_err());
    }
    assert_eq!(mds.count("connections_refused"), EXCESS as u64);
    assert_eq!(mds.count("connections_accepted"), accepted);
    let lines = mds.log_lines("connections refused");
    // One in 10 s: a machine on which this takes a minute may see some more.
    assert!((1..=6).contains(&lines), "{lines} lines");
    null(&mut last).unwrap();
    for stream in idle.iter_mut().step_by(97) {
        null(stream).unwrap();
    }

    // Who leaves makes room.
    drop(last);
    wait_for("free place", || mds.connect().ok());
}

/// Connections that flood, and those that there may be.
const FLOODS: usize = 32;
/// Calls of MNT on each of them that nobody reads an answer of: their answers are more than the kernel and the server keep.
const FLOOD_CALLS: usize = 300_000;
/// Most resident memory for them: unread replies of each (docs/operate/limits.md), as much of records that arrived, and what the
/// allocator keeps.
const FLOOD_BYTES_MAX: usize = FLOODS * (2 * (256 << 10)) + (8 << 20);

/// MNT of the root by version 3 (RFC 1813 §5.2.1) with its record mark.
const MNT_CALL: [u32; 13] = [
    0x8000_0030,
    7,
    0,
    2,
    100_005,
    3,
    1,
    0,
    0,
    0,
    0,
    1,
    u32::from_be_bytes(*b"/\0\0\0"),
];
/// The result is a handle of 24 bytes and one flavor, which is AUTH_SYS.
const MNT_REPLY_BYTES: usize = 4 + 24 + 4 + 4 + 24 + 8;
/// SUCCESS, MNT3_OK, and the length of the handle.
const MOUNTED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24];
/// Bytes of answers that the kernel keeps for one of them.
const FLOOD_BUFFER_BYTES: usize = 16 << 10;

#[test]
fn floods_of_mount_cost_bounded_memory_and_hold_nobody_up() {
    let (address, control) = (rig::address(), rig::address());
    let more = format!("listen = ['{address}']\ncontrol_listen = ['{control}']\nnfs3 = true");
    let mds = Mds {
        server: LoneMds::start(FLOODS + 1, &more),
        address,
    };
    let before = mds.server.resident_bytes();
    let calls = bytes(&MNT_CALL).repeat(FLOOD_CALLS);
    let mut floods: Vec<TcpStream> = (0..FLOODS).map(|_| mds.connect().unwrap()).collect();
    // As much as each takes: the server stops reading where nobody reads its answers.
    let stopped = floods.iter_mut().map(|stream| {
        stream.set_nonblocking(true).unwrap();
        set_socket_recv_buffer_size(&*stream, FLOOD_BUFFER_BYTES).unwrap();
        let (mut sent, mut refused_in_turn) = (0, 0);
        while sent < calls.len() && refused_in_turn < 20 {
            match stream.write(&calls[sent..]) {
                Ok(more) => (sent, refused_in_turn) = (sent + more, 0),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    refused_in_turn += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(e) => panic!("{e}"),
            }
        }
        usize::from(sent < calls.len())
    });
    assert_eq!(stopped.sum::<usize>(), FLOODS, "each is stopped");
    let grown = mds.server.resident_bytes().saturating_sub(before);
    println!("{grown} resident bytes for {FLOODS} floods of MNT");
    assert!(grown <= FLOOD_BYTES_MAX, "{grown} bytes");

    // Another one is answered, and beyond the limit of connections nobody gets in.
    let mut other = mds.connect().unwrap();
    let asked = Instant::now();
    other.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    other.write_all(&bytes(&MNT_CALL)).unwrap();
    let mut reply = [0; MNT_REPLY_BYTES];
    other.read_exact(&mut reply).unwrap();
    assert_eq!(reply[24..36], MOUNTED, "{reply:?}");
    println!("a mount beside them took {:?}", asked.elapsed());
    assert!(mds.connect().is_err());
    // Those that flood go on once they read.
    let mut first = floods.swap_remove(0);
    first.set_nonblocking(false).unwrap();
    first.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    for _ in 0..1000 {
        first.read_exact(&mut reply).unwrap();
        assert_eq!(reply[24..36], MOUNTED, "{reply:?}");
    }
    drop(floods);
    wait_for("end of the floods", || {
        (mds.server.connections() <= 2).then_some(())
    });
}

/// The least `idle_close` that there is.
const IDLE_CLOSE: Duration = Duration::from_secs(10);

#[test]
fn a_reload_changes_limits_of_connections_and_the_log() {
    const BEFORE: u32 = 8;
    let mds = Mds::start(BEFORE as usize);
    let dir = mds.server.dir.path();
    let file = dir.join("mds.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let reload = |all: u32, of_one: u32, more: &str| {
        let text = text
            .replace(
                &format!("connections_max = {BEFORE}"),
                &format!("connections_max = {all}"),
            )
            .replace(
                &format!("per_address_max = {BEFORE}"),
                &format!("per_address_max = {of_one}"),
            );
        std::fs::write(&file, format!("{more}{text}")).unwrap();
        let output = run(&["reload", "--dir", dir.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
    };
    let mut kept: Vec<TcpStream> = (0..2).map(|_| mds.connect().unwrap()).collect();
    let mut still_answers = || kept.iter_mut().for_each(|stream| null(stream).unwrap());

    reload(BEFORE, 2, "");
    assert!(mds.connect().is_err());
    assert_eq!(mds.count("connections_refused_by_address"), 1);
    still_answers();
    reload(2, 2, "");
    assert!(mds.connect().is_err());
    assert_eq!(mds.count("connections_refused"), 1);
    still_answers();

    assert_eq!(mds.log_lines(" DEBUG "), 0);
    let seconds = IDLE_CLOSE.as_secs();
    let more = format!("log = 'debug'\nidle_close = '{seconds}s'\n");
    reload(BEFORE, BEFORE, &more);
    let began = Instant::now();
    let mut idle = mds.connect().unwrap();
    idle.set_read_timeout(Some(IDLE_CLOSE * 3)).unwrap();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "it is closed");
    assert!(began.elapsed() >= IDLE_CLOSE, "{:?}", began.elapsed());
    wait_for("its end in the log", || {
        (mds.log_lines(" DEBUG ") > 0).then_some(())
    });
    // Those that were there before go by the setting with which they began.
    still_answers();

    reload(BEFORE, BEFORE, "log = 'error'\n");
    let told = mds.log_lines(" DEBUG ");
    drop(mds.connect().unwrap());
    wait_for("its end", || (mds.server.connections() == 2).then_some(()));
    assert_eq!(mds.log_lines(" DEBUG "), told);
}
