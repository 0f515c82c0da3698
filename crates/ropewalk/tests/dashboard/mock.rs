//! A metadata server as far as a browser sees it: the files of the dashboard, and the API with answers made up of
//! `testdata`. It takes orders, remembers every request, grows its counters, and can be stopped and started again.

use crate::dashboard::find;
use ::admin::CONTENT_POLICY;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Token of an operator.
pub const OPERATOR: &str = "token-of-an-operator";
/// Token of a viewer.
pub const VIEWER: &str = "token-of-a-viewer";
/// Longest request.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Clients that there are.
pub const CLIENTS: usize = 60;
/// How long a slow answer takes.
pub const SLOW: Duration = Duration::from_secs(1);
/// Pause between two samples.
const SAMPLE: Duration = Duration::from_millis(500);

/// A request that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Method and path with its query.
    pub line: String,
    /// Its body, null without one.
    pub body: Value,
}

/// What the server is like.
pub struct World {
    /// Number of its start.
    pub boot: u64,
    /// All orders and questions.
    pub asked: Vec<Asked>,
    /// Tokens that are good no more.
    pub revoked: BTreeSet<&'static str>,
    /// Data servers that are drained.
    pub draining: BTreeSet<u64>,
    /// Whether places are moved.
    pub is_rebalancing: bool,
    /// Health that is told instead of that in `testdata`.
    pub health: Option<Value>,
    /// Why a drain is refused, if it is.
    pub no_drain: Option<&'static str>,
    /// The data server that can take no places of others, if there is one. A dry run that names none is slow then.
    pub cannot_take: Option<u64>,
    /// When tokens end, in seconds since 1970.
    pub expires_at: u64,
    /// Whether it tells of the busiest.
    pub has_top: bool,
    /// Events.
    pub events: Vec<Value>,
    /// Samples of the past that a stream begins with, for pictures.
    pub past: u64,
    /// How far its clock has run ahead, as when time is let pass: see [`Mock::pass`].
    pub ahead_s: u64,
    /// Samples that are due at once, a second of its clock from one to the next, each with an event.
    pub hurried: u64,
    /// An event that happens just after events were listed to the last.
    pub after_events: Option<Value>,
}

/// The server.
pub struct Mock {
    /// Where it listens.
    pub address: SocketAddr,
    world: Arc<Mutex<World>>,
    began: Instant,
    stop: Option<watch::Sender<bool>>,
}

impl Mock {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let world = World {
            boot: 7,
            asked: Vec::new(),
            revoked: BTreeSet::new(),
            draining: BTreeSet::new(),
            is_rebalancing: false,
            health: None,
            no_drain: None,
            cannot_take: None,
            expires_at: now_ms() / 1000 + 7200,
            has_top: false,
            events: (1..=130).map(event).collect(),
            past: 0,
            ahead_s: 0,
            hurried: 0,
            after_events: None,
        };
        let mut mock = Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            world: Arc::new(Mutex::new(world)),
            began: Instant::now(),
            stop: None,
        };
        mock.resume().await;
        mock
    }

    /// Listens, at the address where it did before.
    pub async fn resume(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        self.stop = Some(stop);
        tokio::spawn(serve(
            listener,
            Arc::clone(&self.world),
            self.began,
            stopped,
        ));
    }

    /// Ends as a process does: nobody listens, and all connections are cut.
    pub fn go_away(&mut self) {
        self.stop.take().unwrap().send(true).unwrap();
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Lets so many seconds pass as fast as the page takes their samples and events. Returns how the last event begins.
    pub fn pass(&self, seconds: u64) -> String {
        let mut world = self.world();
        world.hurried += seconds;
        format!("event {}:", newest(&world) + seconds)
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Requests whose first line begins so.
    pub fn asked(&self, line: &str) -> Vec<Asked> {
        let world = self.world();
        let found = world.asked.iter().filter(|a| a.line.starts_with(line));
        found.cloned().collect()
    }
}

/// The id of the newest event.
fn newest(world: &World) -> u64 {
    let last = world.events.last();
    last.map_or(0, |event| event["id"].as_u64().unwrap())
}

pub fn event(id: u64) -> Value {
    let (level, text) = match id % 10 {
        3 => ("warn", "data server 4 is away: its lease has ended"),
        7 => (
            "error",
            "data server 4: 192.0.2.14:2049 refuses connections",
        ),
        _ => (
            "info",
            "placement group 1: place 5 is filled on data server 4",
        ),
    };
    json!({"id": id, "at_ms": now_ms() - 60_000 * (131 - id.min(130)), "level": level, "text": text})
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

async fn serve(
    listener: TcpListener,
    world: Arc<Mutex<World>>,
    began: Instant,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = stopped.changed() => return,
        };
        let (world, mut stopped) = (Arc::clone(&world), stopped.clone());
        tokio::spawn(async move {
            tokio::select! {
                // A browser may leave at any time.
                _ = exchange(stream, &world, began) => {}
                _ = stopped.changed() => {}
            }
        });
    }
}

struct Call {
    method: String,
    target: String,
    token: Option<String>,
    /// The event that a stream is to go on after.
    seen: Option<u64>,
    body: Value,
}

async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Call>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let field = |name: &str| {
        let line = head
            .lines()
            .find(|l| l.to_ascii_lowercase().starts_with(name));
        line.map(|l| l[name.len()..].trim().to_owned())
    };
    let length = field("content-length:").map_or(0, |text| text.parse().unwrap());
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let mut words = head.split(' ');
    Ok(Some(Call {
        method: words.next().unwrap_or_default().to_owned(),
        target: words.next().unwrap_or_default().to_owned(),
        token: field("authorization:").map(|a| a.replace("Bearer ", "")),
        seen: field("last-event-id:").map(|id| id.parse().unwrap()),
        body: serde_json::from_slice(&bytes[head_end..]).unwrap_or(Value::Null),
    }))
}

async fn write(
    stream: &mut TcpStream,
    status: u16,
    media_type: &str,
    body: &[u8],
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
         Content-Security-Policy: {CONTENT_POLICY}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}

async fn exchange(
    mut stream: TcpStream,
    world: &Mutex<World>,
    began: Instant,
) -> std::io::Result<()> {
    let Some(call) = read(&mut stream).await? else {
        return Ok(());
    };
    let path = call.target.split('?').next().unwrap_or_default();
    if let Some(asset) = find(path) {
        return write(&mut stream, 200, asset.media_type, asset.bytes).await;
    }
    let role = match call.token.as_deref() {
        Some(token) if world.lock().unwrap().revoked.contains(token) => {
            Err("The token is revoked.")
        }
        Some(OPERATOR) => Ok("operator"),
        Some(VIEWER) => Ok("viewer"),
        _ => Err("No such token."),
    };
    let is_slow = path.ends_with("/drain") && call.body["substitute"].is_null();
    if is_slow && world.lock().unwrap().cannot_take.is_some() {
        tokio::time::sleep(SLOW).await;
    }
    let answer = match role {
        Err(why) => Err((401, why.to_owned())),
        Ok(_) if path == "/api/v1/stream" => {
            return samples(&mut stream, world, began, call.seen).await;
        }
        Ok(role) => answer(&call, path, role, world, began),
    };
    let (status, media_type, body) = match answer {
        Ok(body) => (200, "application/json", body),
        Err((status, detail)) => {
            let body = json!({"type": "about:blank", "title": "Refused", "status": status, "detail": detail});
            (status, "application/problem+json", body)
        }
    };
    write(&mut stream, status, media_type, body.to_string().as_bytes()).await
}

type Answer = Result<Value, (u16, String)>;

fn answer(call: &Call, path: &str, role: &str, world: &Mutex<World>, began: Instant) -> Answer {
    let mut world = world.lock().unwrap();
    let line = format!("{} {}", call.method, call.target);
    let body = call.body.clone();
    world.asked.push(Asked { line, body });
    let parts: Vec<&str> = path.trim_start_matches("/api/v1/").split('/').collect();
    let query = |name: &str| {
        let query = call.target.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    match (call.method.as_str(), &parts[..]) {
        ("GET", ["session"]) => {
            Ok(json!({"name": format!("{role}-1"), "role": role, "expires_at": world.expires_at}))
        }
        ("GET", ["status"]) => Ok(status(&world, began.elapsed().as_secs_f64())),
        ("GET", ["health"]) => Ok(health(&world)),
        ("GET", ["events"]) => {
            let listed = events(&world, &query);
            if listed["next"].is_null() {
                let next = world.after_events.take();
                world.events.extend(next);
            }
            Ok(listed)
        }
        ("GET", ["clients"]) => Ok(page(&query)),
        ("GET", ["clients", id]) => Ok(holds(id)),
        ("GET", ["top"]) if world.has_top => Ok(top()),
        ("POST", _) if role == "viewer" => Err((403, "This needs an operator.".to_owned())),
        ("POST", ["clients", _, "evict"]) => {
            Ok(json!({"opens": 3, "locks": 1, "delegations": 0, "layouts": 2, "sessions": 1}))
        }
        ("POST", ["data-servers", id, "drain"]) => {
            if let Some(why) = world.no_drain {
                return Err((409, why.to_owned()));
            }
            let substitute = call.body["substitute"].as_u64();
            if substitute.is_some() && substitute == world.cannot_take {
                return Err((409, "It has no room.".to_owned()));
            }
            if call.body["dry_run"] == false {
                world.draining.insert(id.parse().unwrap());
            }
            Ok(Value::Null)
        }
        ("POST", ["data-servers", id, "undrain"]) => {
            world.draining.remove(&id.parse().unwrap());
            Ok(Value::Null)
        }
        ("POST", ["rebalance"]) => {
            world.is_rebalancing = call.body["wanted"] == true;
            Ok(Value::Null)
        }
        ("POST", ["scrub"]) => Ok(json!(5)),
        _ => Err((404, format!("{path} is not known."))),
    }
}

/// The status that all others are made of.
pub fn canned_status() -> Value {
    serde_json::from_str(include_str!("testdata/status.json")).unwrap()
}

/// The status after so many seconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters for show"
)]
fn status(world: &World, seconds: f64) -> Value {
    let mut status = canned_status();
    status["boot"] = json!(world.boot);
    status["rebalancing"] = json!(world.is_rebalancing);
    let grow = |value: &mut Value, per_s: f64, phase: f64| {
        // Always upwards, with waves.
        let sum = per_s * (seconds + 9.0 * (1.0 - (seconds / 17.0 + phase).cos()));
        *value = json!(value.as_u64().unwrap() + sum.max(0.0) as u64);
    };
    for ds in status["data_servers"].as_array_mut().unwrap() {
        let id = ds["id"].as_u64().unwrap();
        let phase = id as f64 * 0.7;
        ds["scrub"]["scrubbed_at"] = json!(now_ms() / 1000 - 2 * 86_400);
        if world.draining.contains(&id) {
            ds["state"] = json!("draining");
        }
        if ds["state"] != "expelled" {
            grow(&mut ds["client_read_bytes"], 3.1e8 / phase, phase);
            grow(&mut ds["client_written_bytes"], 1.2e8 / phase, phase + 2.0);
        }
    }
    for (at, row) in status["latency"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        for bucket in row["buckets"].as_array_mut().unwrap() {
            let per_s = bucket.as_f64().unwrap() / 700.0;
            grow(bucket, per_s, at as f64 * 0.3);
        }
    }
    status
}

fn health(world: &World) -> Value {
    let canned = || serde_json::from_str(include_str!("testdata/health.json")).unwrap();
    world.health.clone().unwrap_or_else(canned)
}

fn number(text: Option<String>) -> usize {
    text.map_or(0, |text| text.parse().unwrap())
}

fn events(world: &World, query: &dyn Fn(&str) -> Option<String>) -> Value {
    let (after, limit) = (number(query("after")), number(query("limit")));
    let later = world
        .events
        .iter()
        .filter(|e| e["id"].as_u64() > Some(after as u64));
    let rows: Vec<&Value> = later.take(limit).collect();
    let is_cut = rows.len() == limit;
    let next = rows.last().filter(|_| is_cut).map(|row| row["id"].clone());
    json!({"events": rows, "next": next})
}

fn client(n: usize) -> Value {
    json!({
        "id": format!("{:x}", 0x7_0000_0000_u64 + n as u64),
        "protocol": if n.is_multiple_of(7) { "NFSv4.1" } else { "NFSv4.2" },
        "owner": format!("Linux NFSv4.2 node{n:02}.example <img src=x onerror=alert(1)>"),
        "implementation": "Linux 6.12.9 x86_64",
        "addresses": [format!("192.0.2.{}:871", 100 + n)],
        "state": if n == 3 { "lapsed" } else { "active" },
        "unseen_seconds": n % 40, "lease_seconds": 90, "sessions": 1,
        "opens": n * 3, "locks": n % 5, "delegations": n % 9, "layouts": n * 2,
    })
}

fn page(query: &dyn Fn(&str) -> Option<String>) -> Value {
    let after = query("after").map_or(0, |id| {
        u64::from_str_radix(&id, 16).unwrap() - 0x7_0000_0000
    });
    let begin = usize::try_from(after).unwrap() + 1;
    let end = CLIENTS.min(begin + number(query("limit")) - 1);
    let rows: Vec<Value> = (begin..=end).map(client).collect();
    let next = rows
        .last()
        .filter(|_| end < CLIENTS)
        .map(|row| row["id"].clone());
    json!({"clients": rows, "limit": query("limit"), "next": next})
}

fn holds(id: &str) -> Value {
    let n = usize::try_from(u64::from_str_radix(id, 16).unwrap() - 0x7_0000_0000).unwrap();
    let held = |what: &str, path: &str| {
        json!({
            "what": what, "client": id, "protocol": "NFSv4.2", "inode": 77, "path": path, "owner": "open id:4",
            "mode": "read+write", "deny": "none", "offset": null, "length": null, "since_seconds": null,
        })
    };
    let mut lock = held("lock", "/projects/render/scene-12/frames.db");
    lock["offset"] = json!(4096);
    lock["length"] = json!(8192);
    let mut stuck = held("delegation", "/projects/render/queue");
    stuck["since_seconds"] = json!(12);
    json!({
        "client": client(n), "limit": 100, "cut": false,
        "holds": [held("open", "/projects/render/scene-12/frames.db"), lock, held("layout", "/home/ada/results.h5")],
        "stuck": [stuck], "waits": [],
    })
}

/// As the schema of the answer: `real` compares them.
pub fn top() -> Value {
    json!({
        "seconds": 47.5,
        "sampled_one_in": 16,
        "limit": 10,
        "directories": [
            {"path": "/projects/render/scene-12", "inode": 4711, "operations_per_s": 7999.0},
            {"path": null, "inode": 815, "operations_per_s": 12.5},
        ],
        "clients": [
            {
                "id": "700000003", "protocol": "NFSv4.2", "owner": "node41.example", "addresses": ["192.0.2.41:700"],
                "operations_per_s": 8123.0, "read_bytes_per_s": 512e6, "written_bytes_per_s": 1e6,
            },
            {
                "id": null, "protocol": "NFS", "owner": "192.0.2.7", "addresses": ["192.0.2.7"],
                "operations_per_s": 2100.0, "read_bytes_per_s": 81e6, "written_bytes_per_s": 0.0,
            },
        ],
    })
}

/// The stream: a sample each half second, and each event that is new, or later than the one that was seen.
async fn samples(
    stream: &mut TcpStream,
    world: &Mutex<World>,
    began: Instant,
    seen: Option<u64>,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Security-Policy: {CONTENT_POLICY}\r\n\
         Connection: close\r\n\r\n: hello\n\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let sample = |ago: u64| {
        let world = world.lock().unwrap();
        let ahead = world.past + world.ahead_s - ago;
        let seconds = began.elapsed().as_secs_f64() + ahead as f64;
        let at_ms = now_ms() + world.ahead_s * 1000 - ago * 1000;
        let data = json!({
            "at_ms": at_ms, "status": status(&world, seconds), "health": health(&world),
        });
        format!("event: sample\ndata: {data}\n\n")
    };
    let (past, mut told) = {
        let world = world.lock().unwrap();
        let known = |event: &&Value| seen.is_none_or(|seen| event["id"].as_u64() <= Some(seen));
        (world.past, world.events.iter().filter(known).count())
    };
    for ago in (1..=past).rev() {
        stream.write_all(sample(ago).as_bytes()).await?;
    }
    loop {
        let hurried = std::mem::take(&mut world.lock().unwrap().hurried);
        for _ in 0..hurried {
            let mut text = String::new();
            {
                let mut world = world.lock().unwrap();
                world.ahead_s += 1;
                let id = newest(&world) + 1;
                let mut event = event(id);
                let about =
                    "placement group 1: place 5 is filled on data server 4, and all others of it";
                event["text"] = json!(format!("event {id}: {about}"));
                world.events.push(event);
                text.push_str(&format!("event: log\ndata: {}\n\n", world.events[told]));
                told = world.events.len();
            }
            text.push_str(&sample(0));
            stream.write_all(text.as_bytes()).await?;
        }
        // No two samples are of one time.
        world.lock().unwrap().ahead_s += u64::from(hurried > 0);
        let mut text = sample(0);
        {
            let world = world.lock().unwrap();
            for event in &world.events[told..] {
                text.push_str(&format!("event: log\ndata: {event}\n\n"));
            }
            told = world.events.len();
        }
        // In two pieces: an event may be cut anywhere.
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        stream.write_all(first).await?;
        stream.flush().await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        stream.write_all(second).await?;
        tokio::time::sleep(SAMPLE).await;
    }
}
