//! `ropewalk status`: what servers say of themselves, and how it is shown.
//!
//! The structs are the answers of the admin socket. `--json` prints them as they came, with the health of the cluster, so
//! their names are an interface: fields are added, never renamed.

mod data_server;
pub(crate) mod foreign;
pub(crate) mod health;
pub(crate) mod lag;
pub(crate) mod latency;
pub(crate) mod redundancy;
pub(crate) mod to_level;

use crate::admin::{MdsPlace, Request, SOCKET_NAME, Server, ask, remote};
use crate::failure::{Outcome, failed};
use crate::out;
use crate::table::{bytes, table};
use crate::times::now_s;
use crate::up::dirs::{UP_DS_MAX, default_dir};
pub(crate) use data_server::{
    DataServerRow, STATE_DRAINING, STATE_EXPELLED, STATE_SERVING, ScrubRow,
};
use foreign::ForeignServerRow;
use health::Health;
use lag::{LagRow, SlowOne};
use latency::LatencyRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use to_level::ToLevel;

/// `ropewalk status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub place: MdsPlace,
    /// Admin socket of one server; the other places do not count then
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A metadata server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MdsStatus {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Identity of the cluster, in hex.
    pub cluster_id: String,
    /// Starts of this metadata server.
    pub boot: u32,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// NFS listeners.
    pub listen: Vec<SocketAddr>,
    /// What RDMA runs on, where it listens for that.
    pub rdma_provider: Option<String>,
    /// Where clients mount from.
    pub advertise: Vec<SocketAddr>,
    /// Listeners for data servers.
    pub control_listen: Vec<SocketAddr>,
    /// The last second in which the certificate of `admin_cert` is valid, since 1970, where there is one.
    pub admin_cert_not_after: Option<i64>,
    /// Whether clients are reclaiming after a restart.
    pub in_grace: bool,
    /// Connections of clients.
    pub connections: u32,
    /// Those over RDMA that have carried most.
    #[serde(default)]
    pub rdma_busiest: Vec<RdmaRow>,
    /// Clients with a lease.
    pub clients: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Open files in their hands.
    pub opens: u64,
    /// Lock states in their hands.
    pub locks: u64,
    /// Layouts in their hands.
    pub layouts: u64,
    /// Bytes read for clients without layouts.
    pub proxy_read_bytes: u64,
    /// Bytes written for them.
    pub proxy_written_bytes: u64,
    /// Bytes of the metadata store.
    pub metadata_bytes: u64,
    /// Files whose bytes lie in the metadata store.
    pub inline_files: u64,
    /// Bytes of those files.
    pub inline_bytes: u64,
    /// Stripe unit of new files in bytes.
    pub stripe_unit: u64,
    /// COMPOUNDs, replays, malformed and refused requests.
    pub counters: BTreeMap<String, u64>,
    /// Operations by name.
    pub operations: BTreeMap<String, u64>,
    /// How long requests take.
    pub latency: Vec<LatencyRow>,
    /// What the transport counted.
    pub transport: BTreeMap<String, u64>,
    /// What that of the control port and of proxied I/O counted.
    #[serde(default)]
    pub control_transport: BTreeMap<String, u64>,
    /// Signing keys, oldest first.
    pub keys: Vec<KeyRow>,
    /// Removed files that some data server has not removed yet; counted up to `removals_counted_max`.
    pub removals_waiting: u64,
    /// Where that count ends.
    pub removals_counted_max: u64,
    /// Fences that some data server has not acknowledged.
    pub fences_pending: u64,
    /// Machines of one client name, of the last ten minutes.
    #[serde(default)]
    pub name_clashes: Vec<NameClashRow>,
    /// Data servers that ever joined.
    pub data_servers: Vec<DataServerRow>,
    /// NFSv3 servers of others that ever were added.
    pub foreign_servers: Vec<ForeignServerRow>,
    /// Files whose fences wait for such servers.
    pub foreign_fences_waiting: u64,
    /// Servers of others that are up and have room, as many as a file needs that waits for its mirrors; 0 where none waits for that.
    pub bad_mirror_servers_needed: u32,
    /// Files with mirrors that do not count; counted up to `bad_mirror_files_counted_max`.
    pub bad_mirror_files: u64,
    /// Where that count ends.
    pub bad_mirror_files_counted_max: u64,
    /// Placement groups.
    pub groups: Vec<GroupRow>,
    /// Copies of new files.
    #[serde(default)]
    pub copies: u32,
    /// Failure domains of the data servers.
    #[serde(default)]
    pub failure_domains: u64,
    /// Seconds until each place has its copies; none while that is unknown.
    #[serde(default)]
    pub full_redundancy_seconds: Option<u64>,
    /// Members of places that are being filled.
    #[serde(default)]
    pub fillings: Vec<FillingRow>,
    /// How far data servers are behind in what others pass on to them.
    pub lags: Vec<LagRow>,
    /// Whether data servers are being made level.
    #[serde(default)]
    pub rebalancing: bool,
    /// What that moves, about.
    pub to_level: ToLevel,
    /// Bytes per second that the fillings of each data server may send; 0 for no limit.
    #[serde(default)]
    pub fill_bytes_per_s: u64,
}

/// Two machines that end each other's sessions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct NameClashRow {
    /// Their client owner.
    pub owner: String,
    /// Where they are: one address twice when they share it.
    pub addresses: Vec<String>,
}

/// Most RDMA connections of one server that a status tells of one by one.
pub(crate) const RDMA_ROWS_MAX: usize = 16;

/// An RDMA connection.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RdmaRow {
    /// The other end.
    pub peer: String,
    /// This end: which of the server's addresses.
    pub local: String,
    /// What it has carried ([`transport::rdma::Carried`]).
    #[serde(flatten)]
    pub carried: BTreeMap<String, u64>,
}

impl From<&transport::rdma::Traffic> for RdmaRow {
    fn from(traffic: &transport::rdma::Traffic) -> Self {
        let named = traffic.carried.named();
        Self {
            peer: traffic.peer.to_string(),
            local: traffic.local.to_string(),
            carried: named.map(|(name, n)| (name.to_owned(), n)).into(),
        }
    }
}

/// A signing key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct KeyRow {
    /// Its id.
    pub id: u32,
    /// `next` (handed out), `active` (signs) or `valid` (verifies).
    pub state: String,
    /// Seconds since it was made.
    pub age_seconds: u64,
    /// Layouts that need this key, and maybe newer ones.
    pub layouts: u64,
}

/// A placement group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct GroupRow {
    /// Its id.
    pub id: u32,
    /// Its data servers, in order.
    pub ds_ids: Vec<u32>,
    /// Its places that are to have copies, or whose primary does not serve.
    pub places: Vec<PlaceRow>,
}

/// A place of a placement group, and the data servers that hold its parts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PlaceRow {
    /// The place in it.
    pub place: u32,
    /// Copies that it is to have.
    pub copies: u32,
    /// The data server that orders writes.
    pub primary: u32,
    /// Whether two of its data servers have one failure domain.
    pub shares_domain: bool,
    /// Parts with fewer copies than that; none while that is not known.
    pub lacking_parts: Option<u64>,
    /// Whether that serves.
    pub served: bool,
    /// Other data servers that have every byte that was promised.
    pub sync: Vec<u32>,
    /// Those that are being given what they lack.
    pub filling: Vec<u32>,
    /// Those that were left out.
    pub stale: Vec<u32>,
    /// Those that have left, and remove what they had.
    pub leaving: Vec<u32>,
}

/// How far a member of a place is filled.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct FillingRow {
    /// The placement group.
    pub group: u32,
    /// The place in it.
    pub place: u32,
    /// The data server that is filled.
    pub ds: u32,
    /// Parts of the place when it was begun.
    pub parts: u64,
    /// Parts that were compared.
    pub parts_done: u64,
    /// Bytes that it lacked and was sent.
    pub bytes_sent: u64,
}

/// A data server, as itself sees it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DsStatus {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Its id in the cluster, once it has joined.
    pub ds_id: Option<u32>,
    /// Identity of its store, in hex.
    pub store_id: String,
    /// `serving`, `catching up`, `away` or `expelled`.
    pub state: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// NFS listeners.
    pub listen: Vec<SocketAddr>,
    /// What RDMA runs on, where it listens for that.
    pub rdma_provider: Option<String>,
    /// Connections.
    pub connections: u32,
    /// Those over RDMA that have carried most.
    pub rdma_busiest: Vec<RdmaRow>,
    /// Size of its store.
    pub total_bytes: u64,
    /// What is left of it.
    pub free_bytes: u64,
    /// Bytes of its index.
    pub index_bytes: u64,
    /// Bytes of the redo log that records take, and its size; 0 without one.
    pub redo_used_bytes: u64,
    pub redo_capacity_bytes: u64,
    /// Objects in its index.
    pub objects: u64,
    /// Bytes that clients read since it started.
    pub client_read_bytes: u64,
    /// Bytes that clients wrote.
    pub client_written_bytes: u64,
    /// Bytes that the metadata server read for others.
    pub proxy_read_bytes: u64,
    /// Bytes that the metadata server wrote for others.
    pub proxy_written_bytes: u64,
    /// Everything else that it counts, by name.
    pub counters: BTreeMap<String, u64>,
    /// Operations by name.
    pub operations: BTreeMap<String, u64>,
    /// How long requests take.
    pub latency: Vec<LatencyRow>,
    /// What the transport counted.
    pub transport: BTreeMap<String, u64>,
}

/// An answer of either kind of server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(crate) enum ServerStatus {
    /// A metadata server.
    Mds(Box<MdsStatus>),
    /// A data server.
    Ds(Box<DsStatus>),
}

/// `ropewalk status`.
pub(crate) fn run(args: &StatusArgs) -> Outcome {
    let servers = match &args.socket {
        Some(socket) => vec![Server::Socket(socket.clone())],
        None => servers_of(&args.place)?,
    };
    let answers = ask_all(&servers);
    let silent = answers.values().filter(|a| a.is_err()).count();
    if args.json {
        let text = serde_json::to_string_pretty(&json(&answers));
        out::line(&text.map_err(|e| failed(e.to_string()))?)?;
    } else {
        out::print(&show(&answers))?;
    }
    match silent {
        0 => Ok(()),
        1 => Err(failed("1 server does not answer")),
        n => Err(failed(format!("{n} servers do not answer"))),
    }
}

/// What each server answers, by name; all are asked at once, so that one that hangs holds up nobody.
pub(crate) fn ask_all(servers: &[Server]) -> BTreeMap<String, Outcome<ServerStatus>> {
    std::thread::scope(|scope| {
        let ask_one = |server| scope.spawn(move || ask::<ServerStatus>(server, &Request::Status));
        let asked: Vec<_> = servers.iter().map(|s| (name_of(s), ask_one(s))).collect();
        let answered = asked.into_iter().map(|(name, asking)| {
            let answer = asking.join();
            (
                name,
                answer.unwrap_or_else(|_| Err(failed("it could not be asked"))),
            )
        });
        answered.collect()
    })
}

/// How the cluster is now.
fn health(mds: &MdsStatus) -> Health {
    Health::of(mds, None, now_s())
}

/// How a metadata server is. `role` is what it does for a command: a data server's directory may have been named.
///
/// # Errors
/// It does not answer, or it is a data server.
pub(crate) fn of_mds(server: &Server, role: &str) -> Outcome<MdsStatus> {
    match ask(server, &Request::Status)? {
        ServerStatus::Mds(mds) => Ok(*mds),
        ServerStatus::Ds(_) => Err(failed(format!(
            "this is the directory of a data server: the metadata server {role}"
        ))),
    }
}

/// The answers as they came, with the health of the cluster; of a server that did not answer, why.
fn json(answers: &BTreeMap<String, Outcome<ServerStatus>>) -> serde_json::Value {
    let value = |answer: &Outcome<ServerStatus>| match answer {
        Ok(status) => {
            let mut value = serde_json::to_value(status).unwrap_or_default();
            if let ServerStatus::Mds(mds) = status {
                value["health"] = serde_json::to_value(health(mds)).unwrap_or_default();
            }
            value
        }
        Err(e) => serde_json::json!({ "error": e.to_string() }),
    };
    let items = answers.iter().map(|(name, a)| (name.clone(), value(a)));
    serde_json::Value::Object(items.collect())
}

/// The servers at a place: all of a directory, or the metadata server that is asked over the network.
pub(crate) fn servers_of(place: &MdsPlace) -> Outcome<Vec<Server>> {
    let place = place.or_environment();
    if let Some(address) = &place.server {
        return Ok(vec![remote(address, &place)?]);
    }
    let sockets = match &place.state_dir {
        Some(dir) => sockets_in(dir)?,
        None => sockets_in(&default_dir()?)?,
    };
    Ok(sockets.into_iter().map(Server::Socket).collect())
}

/// Admin sockets of one server, or of all servers of an `up` directory.
fn sockets_in(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let own = dir.join(SOCKET_NAME);
    if own.exists() {
        return Ok(vec![own]);
    }
    let mut sockets = vec![dir.join("mds").join(SOCKET_NAME)];
    let numbers = 1..=UP_DS_MAX;
    sockets.extend(numbers.map(|n| dir.join(format!("ds-{n}")).join(SOCKET_NAME)));
    let mut denied = None;
    sockets.retain(|socket| {
        let there = socket.try_exists();
        denied = denied
            .take()
            .or(there.as_ref().err().map(ToString::to_string));
        there.unwrap_or(false)
    });
    if let (Some(why), true) = (denied, sockets.is_empty()) {
        return Err(failed(format!("cannot look into {}: {why}", dir.display())));
    }
    if sockets.is_empty() {
        return Err(failed(format!(
            "no server runs in {} (there is no {SOCKET_NAME}); say where with --dir DIR",
            dir.display()
        )));
    }
    Ok(sockets)
}

/// The name of the directory that a socket is in: `mds`, `ds-1`, ...; the address of one that is far.
pub(crate) fn name_of(server: &Server) -> String {
    let Server::Socket(socket) = server else {
        return server.to_string();
    };
    let dir = socket.parent().and_then(Path::file_name);
    dir.map_or_else(
        || socket.display().to_string(),
        |n| n.to_string_lossy().into_owned(),
    )
}

fn show(servers: &BTreeMap<String, Outcome<ServerStatus>>) -> String {
    let mut text = String::new();
    let mut ds_rows = Vec::new();
    let mut silent = String::new();
    // Numbers after names: ds-10 comes after ds-9.
    let mut names: Vec<&String> = servers.keys().collect();
    names.sort_by_key(|name| (name.len(), name.as_str()));
    for name in names {
        match &servers[name] {
            Ok(ServerStatus::Mds(mds)) => show_mds(&mut text, mds),
            Ok(ServerStatus::Ds(ds)) => ds_rows.push(ds_row(name, ds)),
            Err(e) => {
                let _ = writeln!(silent, "{name}: {e}");
            }
        }
    }
    if !ds_rows.is_empty() {
        let head = [
            "PROCESS",
            ">PID",
            ">DS",
            "STATE",
            "LISTEN",
            ">CONNECTIONS",
            ">READ",
            ">WRITTEN",
            ">REFUSED",
        ];
        let _ = write!(text, "\n{}", table(&head, &ds_rows));
    }
    if !silent.is_empty() {
        let _ = write!(text, "\n{silent}");
    }
    text.trim_start_matches('\n').to_owned()
}

fn show_mds(text: &mut String, mds: &MdsStatus) {
    health(mds).show(text, redundancy::is_coloured());
    // A server of another version may not say where to mount from.
    let mount = if mds.advertise.is_empty() {
        &mds.listen
    } else {
        &mds.advertise
    };
    let mount: Vec<String> = mount.iter().map(ToString::to_string).collect();
    let grace = if mds.in_grace {
        ", clients reclaim (grace)"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "cluster {}: metadata server {} (pid {}), up {}, start {}{grace}",
        mds.cluster_id,
        mount.join(" "),
        mds.pid,
        duration(mds.uptime_seconds),
        mds.boot,
    );
    let _ = writeln!(
        text,
        "{} clients, {} sessions, {} connections; {} opens, {} locks, {} layouts; metadata {}, {} inline files {}; \
         proxied {} read, {} written\n",
        mds.clients,
        mds.sessions,
        mds.connections,
        mds.opens,
        mds.locks,
        mds.layouts,
        bytes(mds.metadata_bytes),
        mds.inline_files,
        bytes(mds.inline_bytes),
        bytes(mds.proxy_read_bytes),
        bytes(mds.proxy_written_bytes),
    );
    show_rdma(text, mds);
    let row = |ds: &DataServerRow| {
        vec![
            ds.id.to_string(),
            ds.state.clone(),
            ds.addresses.join(" "),
            bytes(ds.total_bytes),
            bytes(ds.free_bytes),
            ds.objects.to_string(),
            bytes(ds.client_read_bytes),
            bytes(ds.client_written_bytes),
            ds.errors.to_string(),
        ]
    };
    let head = [
        ">DS", "STATE", "ADDRESS", ">SIZE", ">FREE", ">OBJECTS", ">READ", ">WRITTEN", ">ERRORS",
    ];
    let rows: Vec<_> = mds.data_servers.iter().map(row).collect();
    text.push_str(&table(&head, &rows));
    show_troubles(text, mds);
    for group in &mds.groups {
        let ids: Vec<String> = group.ds_ids.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "placement group {}: data servers {}",
            group.id,
            ids.join(" ")
        );
    }
    show_work(text, mds);
}

/// What people should see to.
fn show_troubles(text: &mut String, mds: &MdsStatus) {
    redundancy::show(text, mds, redundancy::is_coloured());
    foreign::show(text, mds, redundancy::is_coloured());
    let slow = mds.data_servers.iter().filter_map(|ds| {
        let (id, left_out) = (ds.id, ds.left_out);
        let why = ds.slow.as_deref()?;
        Some(SlowOne { id, why, left_out })
    });
    lag::show_slow(text, slow);
    lag::show(text, &mds.lags);
    for ds in &mds.data_servers {
        if let Some(why) = &ds.refused {
            let _ = writeln!(text, "data server {} was refused: {why}", ds.id);
        }
        if let Some(closed) = ds.closed_text() {
            let _ = writeln!(text, "{closed}");
        }
        if ds.full {
            let _ = writeln!(text, "{}", ds.full_text());
        }
    }
    for clash in &mds.name_clashes {
        let _ = writeln!(
            text,
            "two clients have one name and end each other's sessions: \"{}\" at {}; give each machine a host name of its own, or set nfs4_unique_id",
            clash.owner,
            clash.addresses.join(" and "),
        );
    }
}

/// What RDMA runs on. Paths that are not what was wished for are never silent.
fn show_rdma(text: &mut String, mds: &MdsStatus) {
    if let Some(provider) = &mds.rdma_provider {
        let _ = writeln!(text, "NFS over RDMA: {provider}{}\n", credits(mds));
    }
    let count = mds.control_transport.get("rdma_fallbacks");
    if let Some(count) = count.filter(|count| **count > 0) {
        let _ = writeln!(
            text,
            "{count} connections to data servers were made over TCP because RDMA did not come up\n"
        );
    }
}

/// What of the credits that RDMA clients share is lent, and whether somebody lacked some.
fn credits(mds: &MdsStatus) -> String {
    let count = |name| mds.transport.get(name).copied().unwrap_or_default();
    let (lent, stock) = (count("rdma_credits_lent"), count("rdma_credits_stock"));
    if stock == 0 {
        return String::new();
    }
    match count("rdma_credits_short") {
        0 => format!("; {lent} of {stock} credits lent"),
        short => format!("; {lent} of {stock} credits lent, {short} replies gave too few"),
    }
}

/// Signing keys, and what data servers have yet to do.
fn show_work(text: &mut String, mds: &MdsStatus) {
    let key = |k: &KeyRow| {
        let (id, state, age) = (k.id, &k.state, duration(k.age_seconds));
        match k.layouts {
            0 => format!("{id} {state} {age}"),
            n => format!("{id} {state} {age} ({n} layouts)"),
        }
    };
    let keys: Vec<String> = mds.keys.iter().map(key).collect();
    if !keys.is_empty() {
        let _ = writeln!(text, "signing keys: {}", keys.join(", "));
    }
    let more = mds.removals_waiting > 0 && mds.removals_waiting == mds.removals_counted_max;
    let _ = write!(
        text,
        "removal queue: {}{}",
        mds.removals_waiting,
        if more { " or more" } else { "" }
    );
    if mds.fences_pending > 0 {
        let _ = write!(text, "; fences not acknowledged: {}", mds.fences_pending);
    }
    text.push('\n');
}

fn ds_row(name: &str, ds: &DsStatus) -> Vec<String> {
    let listen: Vec<String> = ds.listen.iter().map(ToString::to_string).collect();
    let refused = ds
        .counters
        .iter()
        .filter(|(name, _)| name.starts_with("refused_"));
    vec![
        name.to_owned(),
        ds.pid.to_string(),
        ds.ds_id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        ds.state.clone(),
        listen.join(" "),
        ds.connections.to_string(),
        bytes(ds.client_read_bytes),
        bytes(ds.client_written_bytes),
        refused.map(|(_, n)| n).sum::<u64>().to_string(),
    ]
}

pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is shown is readable and complete; answers of other versions are understood.
    use super::*;

    #[test]
    fn two_clients_of_one_name_are_shown_with_both_addresses() {
        let mds = MdsStatus {
            name_clashes: vec![NameClashRow {
                owner: "Linux NFSv4.1 clone".to_owned(),
                addresses: vec!["192.0.2.1".to_owned(), "192.0.2.2".to_owned()],
            }],
            ..Default::default()
        };
        let servers = BTreeMap::from([("mds".to_owned(), Ok(ServerStatus::Mds(Box::new(mds))))]);
        let text = show(&servers);
        let told =
            "sessions: \"Linux NFSv4.1 clone\" at 192.0.2.1 and 192.0.2.2; give each machine";
        assert!(text.contains(told), "{text}");
    }

    /// Two data servers, one of them away, full and refused.
    fn troubled() -> MdsStatus {
        let row = |id, state: &str| DataServerRow {
            id,
            state: state.to_owned(),
            ..Default::default()
        };
        MdsStatus {
            cluster_id: "00ff".to_owned(),
            data_servers: vec![
                row(1, STATE_SERVING),
                DataServerRow {
                    refused: Some("too old".to_owned()),
                    full: true,
                    ..row(2, "away")
                },
            ],
            groups: vec![GroupRow {
                id: 1,
                ds_ids: vec![1, 2],
                places: Vec::new(),
            }],
            rdma_provider: Some("software iWARP".to_owned()),
            transport: BTreeMap::from([
                ("rdma_credits_lent".to_owned(), 7),
                ("rdma_credits_stock".to_owned(), 4096),
                ("rdma_credits_short".to_owned(), 3),
            ]),
            advertise: vec!["[2001:db8::1]:2049".parse().unwrap()],
            keys: vec![
                KeyRow {
                    id: 3,
                    state: "valid".to_owned(),
                    age_seconds: 90_000,
                    layouts: 2,
                },
                KeyRow {
                    id: 4,
                    state: "active".to_owned(),
                    age_seconds: 61,
                    layouts: 0,
                },
            ],
            removals_waiting: 100,
            removals_counted_max: 100,
            fences_pending: 7,
            ..Default::default()
        }
    }

    #[test]
    fn servers_are_shown_in_order() {
        let ds = || Ok(ServerStatus::Ds(Box::default()));
        let servers = BTreeMap::from([
            ("ds-10".to_owned(), ds()),
            ("ds-2".to_owned(), ds()),
            ("ds-3".to_owned(), Err(failed("it hangs"))),
            (
                "mds".to_owned(),
                Ok(ServerStatus::Mds(Box::new(troubled()))),
            ),
        ]);
        assert_eq!(json(&servers)["ds-3"]["error"], "it hangs");
        assert_eq!(json(&servers)["ds-2"]["role"], "ds");
        assert_eq!(json(&servers)["mds"]["health"]["state"], "red");
        let text = show(&servers);
        let (health, text) = text.split_once("\n\n").unwrap();
        assert!(
            health.starts_with("health: red\n  red: data server 2 is full"),
            "{health}"
        );
        let at = |what: &str| {
            text.find(what)
                .unwrap_or_else(|| panic!("{what} in {text}"))
        };
        assert!(at("cluster 00ff") < at("serving") && at("serving") < at("away"));
        assert!(at("metadata server [2001:db8::1]:2049 (pid") < at("serving"));
        at("NFS over RDMA: software iWARP; 7 of 4096 credits lent, 3 replies gave too few\n");
        at("data server 2 was refused: too old\n");
        at("signing keys: 3 valid 25 h (2 layouts), 4 active 1 min\n");
        at("removal queue: 100 or more; fences not acknowledged: 7\n");
        assert!(at("placement group 1: data servers 1 2") < at("ds-2") && at("ds-2") < at("ds-10"));
        assert!(at("ds-10") < at("ds-3: it hangs"));
    }

    #[test]
    fn an_answer_may_know_more_or_less_than_we() {
        let text = r#"{"role":"mds","pid":7,"something_new":[1]}"#;
        let ServerStatus::Mds(mds) = serde_json::from_str(text).unwrap() else {
            panic!("role")
        };
        assert_eq!((mds.pid, mds.boot), (7, 0));
    }
}
