//! Goal: an administrator sees and frees what hosts lock by NFSv3, and a host that restarts is heard over UDP, as Linux says it.
//! Method: the real program, and calls of RFC 1813 by hand over sockets of loopback. Addresses of loopback stand for hosts.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod rig;

use nfs3::mount::{self, MntArgs, MntRes};
use nfs3::procs::{CreateArgs, CreateHow};
use nfs3::{DirOpArgs, ProcArgs, Sattr3};
use nlm::nsm::{self, NsmProc, StatChge};
use nlm::{Nlm4Lock, Nlm4LockArgs, Nlm4Res, Nlm4Stats, NlmProc};
use rig::*;
use rpc::{AuthSys, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use rustix::net::{AddressFamily, SocketType};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;
use xdr::{Decode, Decoder, Encode, Encoder, Opaque, decode_all};

/// Bit of a record mark that says that the record ends with this fragment (RFC 5531 §11).
const LAST_FRAGMENT: u32 = 1 << 31;
/// NSM state of hosts that have not restarted.
const STATE: i32 = 3;
/// Hosts, by their addresses. They run no rpcbind and so no status monitor.
const A: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);
const B: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 12);

/// A metadata server with NFSv3, and a file to lock.
struct Server {
    mds: LoneMds,
    nfs: SocketAddr,
    file: Vec<u8>,
}

impl Server {
    fn start() -> Self {
        let nfs = address();
        let config = format!(
            "listen = ['{nfs}']\ncontrol_listen = ['{}']\nnfs3 = true\n[root]\nmode = '1777'\n\
             [[export]]\nclients = '127.0.0.0/8'\naccess = 'rw'\n",
            address()
        );
        let mut server = Self {
            mds: LoneMds::start(64, &config),
            nfs,
            file: Vec::new(),
        };
        server.file = server.create();
        server
    }

    fn create(&self) -> Vec<u8> {
        let mut host = Host::new(self, A);
        let args = MntArgs {
            dirpath: Opaque(b"/"),
        };
        let mnt = mount::Proc::Mnt as u32;
        let body = host.call((mount::PROGRAM, mount::VERSION, mnt), &args);
        let MntRes::Ok(root) = decode_all(&body).unwrap() else {
            panic!("not mounted");
        };
        let args = CreateArgs {
            place: DirOpArgs {
                dir: Opaque(root.fhandle.0),
                name: Opaque(b"file"),
            },
            how: CreateHow::Guarded(Sattr3::default()),
        };
        let create = CreateArgs::PROC as u32;
        let body = host.call((nfs3::PROGRAM, nfs3::VERSION, create), &args);
        let made = CreateArgs::decode_res(&body).unwrap().into_result();
        made.unwrap().obj.unwrap().0.to_vec()
    }

    /// `ropewalk nlm` with these words.
    fn nlm(&self, words: &[&str]) -> std::process::Output {
        let dir = self.mds.dir.path().join("mds");
        let place = ["--dir", dir.to_str().unwrap()];
        run(&[&["nlm"], words, &place].concat())
    }

    /// Address, name and count of locked ranges of each host.
    fn hosts(&self) -> Vec<(String, String, u64)> {
        let output = self.nlm(&["hosts", "--json"]);
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let row = |row: &Value| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            (
                text("address"),
                text("name"),
                row["ranges"].as_u64().unwrap(),
            )
        };
        rows.iter().map(row).collect()
    }
}

/// A connection from the address of a host.
struct Host<'s> {
    server: &'s Server,
    address: Ipv4Addr,
    stream: TcpStream,
    xid: u32,
}

impl<'s> Host<'s> {
    fn new(server: &'s Server, address: Ipv4Addr) -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
        rustix::net::connect(&socket, &server.nfs).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            server,
            address,
            stream,
            xid: 0,
        }
    }

    fn call(&mut self, id: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
        self.xid += 1;
        let record = record(self.xid, id, args);
        let mark = u32::try_from(record.len()).unwrap() | LAST_FRAGMENT;
        self.stream.write_all(&mark.to_be_bytes()).unwrap();
        self.stream.write_all(&record).unwrap();
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let len = u32::from_be_bytes(mark) & !LAST_FRAGMENT;
        let mut answer = vec![0; usize::try_from(len).unwrap()];
        self.stream.read_exact(&mut answer).unwrap();
        body_of(&answer)
    }

    /// Locks one byte, under the name `client`.
    fn lock(&mut self, offset: u64) -> Nlm4Stats {
        let file = self.server.file.clone();
        let args = Nlm4LockArgs {
            cookie: Opaque(b"cookie"),
            block: false,
            exclusive: true,
            alock: Nlm4Lock {
                caller_name: Opaque(b"client"),
                fh: Opaque(&file),
                oh: Opaque(b"7@client"),
                svid: 7,
                l_offset: offset,
                l_len: 1,
            },
            reclaim: false,
            state: STATE,
        };
        let id = (nlm::PROGRAM, nlm::VERSION, NlmProc::Lock as u32);
        decode_all::<Nlm4Res<'_>>(&self.call(id, &args))
            .unwrap()
            .stat
    }

    /// Says in datagrams that it has restarted, until it is answered. Returns the answer.
    fn restarts(&self, state: i32) -> Vec<u8> {
        let socket = UdpSocket::bind((self.address, 0)).unwrap();
        let pause = Duration::from_millis(500);
        socket.set_read_timeout(Some(pause)).unwrap();
        socket.connect(self.server.nfs).unwrap();
        let args = StatChge {
            mon_name: Opaque(b"client"),
            state,
        };
        let id = (nsm::PROGRAM, nsm::VERSION, NsmProc::Notify as u32);
        let datagram = record(77, id, &args);
        let mut answer = [0; 512];
        let len = wait_for("answer to a datagram", || {
            socket.send(&datagram).unwrap();
            socket.recv(&mut answer).ok()
        });
        body_of(&answer[..len])
    }
}

/// A call by the user who runs the test.
fn record(xid: u32, (program, version, procedure): (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
    let user = AuthSys {
        stamp: 0,
        machine: b"client".to_vec(),
        uid: 1000,
        gid: 1000,
        gids: vec![],
    };
    let mut e = Encoder::new();
    CallStart {
        xid,
        program,
        version,
        procedure,
        credential: OpaqueAuth {
            flavor: rpc::flavor::AUTH_SYS,
            body: &user.to_body(),
        },
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    args.encode(&mut e);
    e.into_bytes()
}

fn body_of(answer: &[u8]) -> Vec<u8> {
    let mut d = Decoder::new(answer);
    let header = ReplyHeader::decode(&mut d).unwrap();
    assert!(matches!(header.verdict, ReplyVerdict::Success { .. }));
    d.rest().to_vec()
}

fn row(address: Ipv4Addr, ranges: u64) -> (String, String, u64) {
    (
        IpAddr::from(address).to_string(),
        "client".to_owned(),
        ranges,
    )
}

#[test]
fn hosts_are_listed_and_one_is_freed_by_its_address() {
    let server = Server::start();
    assert_eq!(server.hosts(), []);
    let none = server.nlm(&["hosts"]);
    assert_eq!(none.stdout, b"no host has asked for locks by NFSv3\n");
    let (mut a, mut b) = (Host::new(&server, A), Host::new(&server, B));
    assert_eq!(a.lock(0), Nlm4Stats::Granted);
    assert_eq!(a.lock(9), Nlm4Stats::Granted);
    assert_eq!(b.lock(0), Nlm4Stats::Denied);
    assert_eq!(server.hosts(), [row(A, 2), row(B, 0)]);
    let shown = server.nlm(&["hosts"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let words: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words, ["127.0.0.11", "client", "2", "0"]);

    let of_two = server.nlm(&["free", "client"]);
    assert!(
        sentence(&of_two).contains("client is 2 hosts"),
        "{of_two:?}"
    );
    let of_none = server.nlm(&["free", "127.0.0.13"]);
    assert_eq!(of_none.status.code(), Some(1));
    assert!(sentence(&of_none).contains("no host 127.0.0.13"));
    let freed = server.nlm(&["free", "127.0.0.11"]);
    assert!(freed.status.success());
    let said = String::from_utf8(freed.stdout).unwrap();
    assert_eq!(
        said,
        "client (127.0.0.11) has lost 2 locked ranges and 0 shares\n"
    );
    assert_eq!(b.lock(0), Nlm4Stats::Granted);
}

#[test]
fn a_datagram_says_that_its_own_host_has_restarted_and_no_other_one() {
    let server = Server::start();
    let (mut a, mut b) = (Host::new(&server, A), Host::new(&server, B));
    assert_eq!(a.lock(0), Nlm4Stats::Granted);
    assert_eq!(b.lock(9), Nlm4Stats::Granted);
    assert!(a.restarts(STATE).is_empty());
    assert_eq!(server.hosts(), [row(A, 1), row(B, 1)], "a repetition");
    assert!(a.restarts(STATE + 2).is_empty());
    assert_eq!(server.hosts(), [row(A, 0), row(B, 1)]);
    assert_eq!(b.lock(0), Nlm4Stats::Granted);
}
