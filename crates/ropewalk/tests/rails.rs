//! Goal: data servers with several addresses are used by all of them. The loss of one address in the middle of the work
//! is nobody's failure, whichever it is, and no copy is left out for it. Method: the real program, whose data servers
//! are reached by two relays each at addresses of loopback. One relay of each ends while our client writes. What each
//! relay carries is counted.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use bytes::Bytes;
use client::{Client, ClientConfig, OpenOptions, UserIdentity, Verifier};
use fabric_iwarp::Iwarp;
use rig::{Up, status};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transport::rdma::{Config, Rdma};
use transport::{Address, AnyConnector, Context, Preference, TransportLimits};

const DS_COUNT: usize = 2;
const PIECE: usize = 128 << 10;
/// Most pieces: many times what is needed.
const PIECES_MAX: usize = 4096;
/// Bytes that go over each relay before one of them ends, and over the other one after that.
const ENOUGH: u64 = 4 << 20;

/// A way to a server: what a network interface of it is to its clients.
struct Relay {
    address: SocketAddr,
    way: Arc<Way>,
}

#[derive(Default)]
struct Way {
    is_closed: AtomicBool,
    carried: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    fn open(ip: [u8; 4], server: SocketAddr) -> Self {
        let listener = TcpListener::bind((std::net::IpAddr::from(ip), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let way = Arc::new(Way::default());
        let relay = Self {
            address,
            way: way.clone(),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if way.is_closed.load(SeqCst) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else {
                    continue;
                };
                way.carry(&client, &server);
                way.carry(&server, &client);
            }
        });
        relay
    }

    fn carried(&self) -> u64 {
        self.way.carried.load(SeqCst)
    }

    fn close(&self) {
        self.way.is_closed.store(true, SeqCst);
        for stream in self.way.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // So that it looks, and listens no more.
        let _ = TcpStream::connect(self.address);
    }
}

impl Way {
    fn carry(self: &Arc<Self>, from: &TcpStream, to: &TcpStream) {
        let way = self.clone();
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let mut streams = self.streams.lock().unwrap();
        streams.push(from.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if way.is_closed.load(SeqCst) || to.write_all(&buffer[..count]).is_err() {
                    break;
                }
                way.carried.fetch_add(count as u64, SeqCst);
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

fn addresses(file: &Path, key: &str) -> Vec<SocketAddr> {
    let config: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let list = config[key].as_array().unwrap();
    list.iter()
        .map(|a| a.as_str().unwrap().parse().unwrap())
        .collect()
}

/// Two relays before each data server, which tells of them instead of itself.
fn relays(dir: &Path, (listen, advertise): (&str, &str)) -> Vec<[Relay; 2]> {
    let before = |number: usize| {
        let file = dir.join(format!("ds-{number}/ds.toml"));
        let server = addresses(&file, listen)[0];
        let pair = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| Relay::open(ip, server));
        let text = std::fs::read_to_string(&file).unwrap();
        let [a, b] = pair.each_ref().map(|relay| relay.address);
        std::fs::write(&file, format!("{advertise} = ['{a}', '{b}']\n{text}")).unwrap();
        pair
    };
    (1..=DS_COUNT).map(before).collect()
}

async fn client(mds: Address, data_transport: Preference) -> Client {
    let identity = UserIdentity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        gids: Vec::new(),
        machine: "test".to_owned(),
    };
    let verifier = Verifier { bytes: [7; 8] };
    let config = ClientConfig {
        data_transport,
        // Ways that end are seen at once; a server that is only slow must not be given up.
        ds_give_up: Duration::from_secs(600),
        try_timeout: Duration::from_secs(600),
        ..ClientConfig::new(b"rails".to_vec(), verifier, identity)
    };
    let rdma = Rdma::new(Arc::new(Iwarp::default()), Config::default());
    let connector = AnyConnector::new(&Context::new(TransportLimits::default()), vec![rdma]);
    let connected = Client::connect(vec![mds], Arc::new(connector), config).await;
    connected.unwrap()
}

fn content(number: usize) -> Bytes {
    let byte = |i: usize| u8::try_from((i + number * 31) % 251).unwrap();
    (0..PIECE).map(byte).collect::<Vec<_>>().into()
}

/// Writes until `done`; how many pieces.
async fn write_until(file: &client::File, from: usize, done: impl Fn() -> bool) -> usize {
    let mut number = from;
    while !done() {
        assert!(number < PIECES_MAX, "one of the ways is not used");
        // Several at a time, so that each data server has some under way on each of its ways.
        let pieces = (number..number + 8).map(|n| file.write_at((n * PIECE) as u64, content(n)));
        for written in futures_util::future::join_all(pieces).await {
            written.unwrap();
        }
        number += 8;
    }
    number
}

async fn lose_a_way_of_each(
    mds: Address,
    preference: Preference,
    (relays, lost): (&[[Relay; 2]], usize),
) {
    let kept = 1 - lost;
    let client = client(mds, preference).await;
    let file = client
        .open("/file", OpenOptions::create(0o600))
        .await
        .unwrap();
    let all = || relays.iter().flatten();
    let written = write_until(&file, 0, || all().all(|r| r.carried() >= ENOUGH)).await;
    let before: Vec<u64> = relays.iter().map(|pair| pair[kept].carried()).collect();
    let mut work = Box::pin(write_until(&file, written, || {
        let mut each = relays.iter().zip(&before);
        each.all(|(pair, before)| pair[kept].carried() >= before + ENOUGH)
    }));
    // Some of it is under way when the second ways end.
    let polled = futures_util::future::poll_immediate(&mut work).await;
    assert!(polled.is_none(), "there is enough to do");
    relays.iter().for_each(|pair| pair[lost].close());
    let dead: Vec<u64> = relays.iter().map(|pair| pair[lost].carried()).collect();
    let written = work.await;
    file.flush().await.unwrap();
    for number in 0..written {
        let offset = (number * PIECE) as u64;
        let read = file
            .read_at(offset, PIECE.try_into().unwrap())
            .await
            .unwrap();
        assert!(read.into_bytes() == content(number), "piece {number}");
    }
    for (pair, before) in relays.iter().zip(dead) {
        // What was in a buffer when it ended may still have been counted.
        assert!(pair[lost].carried() <= before + PIECE as u64);
    }
    file.close().await.unwrap();
    client.close().await.unwrap();
}

/// The rows of the places that have copies, once each has them all.
fn rows_of_copies(dir: &Path) -> Option<Vec<serde_json::Value>> {
    let status = status(dir)?;
    let groups = status["mds"]["groups"].as_array()?;
    let places = groups.iter().flat_map(|g| g["places"].as_array().unwrap());
    let whole = |p: &serde_json::Value| p["sync"].as_array().is_some_and(|s| s.len() == 1);
    let copied: Vec<_> = places.filter(|p| p["copies"] == 2).cloned().collect();
    (!copied.is_empty() && copied.iter().all(whole)).then_some(copied)
}

/// The place in the list of the address that is lost, and copies of the file.
type Case = (usize, u32);

fn test(
    (lost, copies): Case,
    transport: &str,
    keys: (&str, &str),
    address: impl Fn(SocketAddr) -> Address,
) {
    let dir = tempfile::tempdir().unwrap();
    let count = DS_COUNT.to_string();
    let copies_text = copies.to_string();
    let options = ["--ds", &count, "--port", "0", "--transport", transport];
    let layout = ["--stripe-unit", "64KiB", "--copies", &copies_text];
    let up = Up::start(dir.path(), &[&options[..], &layout].concat());
    assert!(up.stop().success());
    let relays = relays(dir.path(), keys);
    let up = Up::start(dir.path(), &[]);
    let preference = match transport {
        "rdma" => Preference::Rdma,
        _ => Preference::Tcp,
    };
    let mds = addresses(&dir.path().join("mds/mds.toml"), keys.0)[0];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let rows = (copies == 2).then(|| rig::wait_for("copies", || rows_of_copies(dir.path())));
    let work = lose_a_way_of_each(address(mds), preference, (&relays, lost));
    runtime.unwrap().block_on(work);
    if rows.is_some() {
        assert_eq!(rows_of_copies(dir.path()), rows, "no member was left out");
    }
    let mds = &status(dir.path()).unwrap()["mds"];
    for name in ["proxy_written_bytes", "proxy_read_bytes"] {
        assert_eq!(
            mds[name].as_u64(),
            Some(0),
            "{name}: all went to data servers"
        );
    }
    assert!(up.stop().success());
}

const TCP: (&str, &str) = ("listen", "advertise");
const RDMA: (&str, &str) = ("rdma_listen", "rdma_advertise");

#[test]
fn data_over_tcp_go_on_when_the_second_way_to_each_data_server_ends() {
    test((1, 1), "tcp", TCP, Address::Tcp);
}

#[test]
fn data_over_rdma_go_on_when_the_second_way_to_each_data_server_ends() {
    test((1, 1), "rdma", RDMA, Address::Rdma);
}

#[test]
fn data_and_their_copies_over_tcp_go_on_when_the_preferred_way_to_each_data_server_ends() {
    test((0, 2), "tcp", TCP, Address::Tcp);
}

#[test]
fn data_and_their_copies_over_rdma_go_on_when_the_preferred_way_to_each_data_server_ends() {
    test((0, 2), "rdma", RDMA, Address::Rdma);
}
