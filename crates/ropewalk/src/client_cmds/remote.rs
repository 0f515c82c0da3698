//! From arguments to places on servers: URLs, ROPEWALK_URL, name resolution, one client for each server.

use super::CliError;
use super::admin_place::{self, TunnelConnector};
use client::{Client, ClientConfig, NfsUrl, UrlVersion, UserIdentity, Verifier};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::Instant;
use transport::{AnyConnector, Context, Preference, TransportLimits};

/// Prefix of arguments that are no URLs.
pub(crate) const URL_VARIABLE: &str = "ROPEWALK_URL";
/// Addresses of one host name that are tried.
const ADDRESSES_MAX: usize = 8;
/// How long to try to reach a server before the command fails.
const CONNECT: Duration = Duration::from_secs(10);
/// Written bytes of one file that wait for their COMMIT; copies run several files at once.
const UNCOMMITTED_BYTES_MAX: u64 = 32 << 20;

/// Most files that an interrupted command names as incomplete.
const UNFINISHED_NAMED_MAX: usize = 8;

/// A path on a server.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) url: NfsUrl,
}

impl Place {
    /// The path on the server.
    pub(crate) fn path(&self) -> &[u8] {
        &self.url.path
    }

    /// A name below.
    pub(crate) fn child(&self, name: &[u8]) -> Self {
        Self {
            client: self.client.clone(),
            url: self.url.child(name),
        }
    }

    /// The last name of the path; empty for the root.
    pub(crate) fn name(&self) -> &[u8] {
        let path = self.path();
        let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        let start = path[..end]
            .iter()
            .rposition(|b| *b == b'/')
            .map_or(0, |i| i + 1);
        &path[start..end]
    }
}

/// A server's host, ports and version.
type Server = (String, Vec<(bool, u16)>, Option<UrlVersion>);

/// A client and what its transport counts.
#[derive(Debug)]
struct Connected {
    client: Client,
    context: Context,
}

/// Clients by server, made when they are first used.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    clients: tokio::sync::Mutex<HashMap<Server, Connected>>,
    /// The server that is being connected to, and since when.
    connecting: Mutex<Option<(Instant, String)>>,
    /// Files that a copy has begun to write.
    pub(crate) unfinished: Unfinished,
    /// Whether the command is to end.
    pub(crate) stop: Stop,
}

/// A signal that a command sees to by itself, once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    ends_itself: AtomicBool,
    is_asked: AtomicBool,
}

impl Stop {
    /// The command looks at [`Stop::is_asked`] from now on, or no longer.
    pub(crate) fn end_itself(&self, ends_itself: bool) {
        self.ends_itself.store(ends_itself, SeqCst);
    }

    /// Asks the command to end. False if it does not do so by itself, or was asked before.
    pub(crate) fn ask(&self) -> bool {
        self.ends_itself.load(SeqCst) && !self.is_asked.swap(true, SeqCst)
    }

    /// Whether it is to end.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(SeqCst)
    }
}

/// Something that a command waits for.
#[derive(Debug)]
pub(crate) struct Waited {
    /// Words that follow "waiting for".
    pub(crate) what: String,
    /// For how long.
    pub(crate) so_far: Duration,
}

/// Files that are written and not complete, by name.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Mutex<BTreeSet<String>>);

impl Unfinished {
    /// A file is written from now on.
    pub(crate) fn begin(&self, name: &str) {
        self.0.lock().insert(name.to_owned());
    }

    /// It is complete, or somebody was told that it is not.
    pub(crate) fn end(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Names on standard error what an interrupted command leaves.
    pub(crate) fn tell(&self) {
        let left = self.0.lock();
        for name in left.iter().take(UNFINISHED_NAMED_MAX) {
            crate::out::say(format_args!("{name} is not complete"));
        }
        if let Some(more) = left
            .len()
            .checked_sub(UNFINISHED_NAMED_MAX)
            .filter(|n| *n > 0)
        {
            crate::out::say(format_args!("nor are {more} other files"));
        }
    }
}

impl Servers {
    /// The place that an argument of a command on remote files means.
    pub(crate) async fn place(&self, argument: &OsStr) -> Result<Place, CliError> {
        let url = url_of(argument, std::env::var(URL_VARIABLE).ok().as_deref())?;
        self.connect(url).await
    }

    /// The place of a URL.
    pub(crate) async fn connect(&self, url: NfsUrl) -> Result<Place, CliError> {
        let (host, ports, version) = url.server();
        let key = (host.to_owned(), ports, version);
        let mut clients = self.clients.lock().await;
        if let Some(connected) = clients.get(&key) {
            let client = connected.client.clone();
            return Ok(Place { client, url });
        }
        *self.connecting.lock() = Some((Instant::now(), named(&url)));
        let connected = connect(&url).await;
        *self.connecting.lock() = None;
        let connected = connected?;
        let client = connected.client.clone();
        clients.insert(key, connected);
        Ok(Place { client, url })
    }

    /// What the command has waited for longer than `patience`.
    pub(crate) fn waits(&self, patience: Duration) -> Vec<Waited> {
        let connecting = self.connecting.lock().clone();
        let waited = |so_far, what| Waited { what, so_far };
        let mut waits: Vec<Waited> = connecting
            .filter(|(since, _)| since.elapsed() >= patience)
            .map(|(since, server)| waited(since.elapsed(), format!("{server} to answer")))
            .into_iter()
            .collect();
        // While the table is locked somebody connects.
        if let Ok(clients) = self.clients.try_lock() {
            let longest = clients.values().filter_map(|c| c.client.longest_wait());
            let long = longest.filter(|(waited, _)| *waited >= patience);
            waits.extend(long.map(|(so_far, wait)| waited(so_far, wait.to_string())));
        }
        waits
    }

    /// Ends all sessions. Failures do not matter: servers forget clients after their leases.
    pub(crate) async fn close(&self) {
        for ((host, ..), connected) in self.clients.lock().await.drain() {
            let _ = tokio::time::timeout(CONNECT, connected.client.close()).await;
            let count = connected.context.counters().snapshot().rdma_fallbacks;
            if count > 0 {
                crate::out::say(format_args!(
                    "{host}: {count} connections used TCP because RDMA did not come up (?transport=rdma would have failed)"
                ));
            }
        }
    }
}

/// The URL that an argument means, with `prefix` for one that is none. A colon before the path is allowed everywhere,
/// since `cp` needs it to tell remote paths from local ones.
pub(crate) fn url_of(argument: &OsStr, prefix: Option<&str>) -> Result<NfsUrl, CliError> {
    let text = argument.to_str();
    if let Some(text) = text.filter(|t| NfsUrl::looks_like_one(t)) {
        let wrong = |e| CliError::usage(format!("{text}: {e}"));
        return NfsUrl::parse(text).map_err(wrong);
    }
    let shown = argument.to_string_lossy();
    let Some(prefix) = prefix.filter(|p| !p.is_empty()) else {
        return Err(CliError::usage(format!(
            "{shown:?} is no nfs:// URL; give one, or set {URL_VARIABLE} to the URL that paths begin with"
        )));
    };
    let prefix = NfsUrl::parse(prefix)
        .map_err(|e| CliError::usage(format!("{URL_VARIABLE} is wrong: {e}")))?;
    let path = argument.as_bytes();
    Ok(prefix.join(path.strip_prefix(b":").unwrap_or(path)))
}

/// Host and ports of a server, for people.
fn named(url: &NfsUrl) -> String {
    if url.is_admin() {
        return "the metadata server as its administrator".to_owned();
    }
    let ports = url.ports().into_iter();
    let names = ports.map(|(is_rdma, port)| match is_rdma {
        true => format!("{}:{port} over RDMA", url.host),
        false => format!("{}:{port}", url.host),
    });
    names.collect::<Vec<_>>().join(" or ")
}

async fn connect(url: &NfsUrl) -> Result<Connected, CliError> {
    let server = named(url);
    if url.is_admin() {
        return connect_as_admin(&server).await;
    }
    let found = tokio::net::lookup_host((url.host.as_str(), 0)).await;
    let found: Vec<SocketAddr> = found
        .map_err(|e| CliError::new(format!("cannot find the host {}: {e}", url.host)))?
        .take(ADDRESSES_MAX)
        .collect();
    let context = Context::new(TransportLimits::default());
    let providers = match url.transport {
        Preference::Tcp => Vec::new(),
        Preference::Auto | Preference::Rdma => crate::rdma::any(transport::rdma::Config::default()),
    };
    let connector = Arc::new(AnyConnector::new(&context, providers));
    let mut config = config()?;
    url.configure(&mut config);
    let connecting = Client::connect(url.addresses(&found), connector, config);
    in_time(&server, connecting, context).await
}

async fn connect_as_admin(server: &str) -> Result<Connected, CliError> {
    let context = Context::new(TransportLimits::default());
    let opening = TunnelConnector::open(admin_place::server()?, &context);
    let connector = match tokio::time::timeout(CONNECT, opening).await {
        Ok(connector) => Arc::new(connector?),
        Err(_) => {
            let seconds = CONNECT.as_secs();
            return Err(CliError::new(format!(
                "no tunnel to {server} within {seconds} s"
            )));
        }
    };
    let mut config = config()?;
    admin_place::as_root(&mut config);
    let connecting = Client::connect(vec![admin_place::address()], connector, config);
    in_time(server, connecting, context).await
}

async fn in_time(
    server: &str,
    connecting: impl Future<Output = Result<Client, client::Error>>,
    context: Context,
) -> Result<Connected, CliError> {
    match tokio::time::timeout(CONNECT, connecting).await {
        Ok(Ok(client)) => Ok(Connected { client, context }),
        Ok(Err(e)) => Err(CliError::new(format!("cannot connect to {server}: {e}"))),
        Err(_) => Err(CliError::new(format!(
            "cannot connect to {server} within {} s; is a server running there?",
            CONNECT.as_secs()
        ))),
    }
}

fn config() -> Result<ClientConfig, CliError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| CliError::new(format!("no randomness: {e}")))?;
    let (name, verifier) = random.split_at(8);
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".to_owned(), |s| s.trim().to_owned());
    let hex: String = name.iter().map(|b| format!("{b:02x}")).collect();
    let groups = rustix::process::getgroups().unwrap_or_default();
    let identity = UserIdentity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        gids: groups.into_iter().map(|g| g.as_raw()).collect(),
        machine: machine.clone(),
    };
    let mut bytes = [0; 8];
    bytes.copy_from_slice(verifier);
    let owner = format!("ropewalk client {machine} {} {hex}", std::process::id());
    let mut config = ClientConfig::new(owner.into_bytes(), Verifier { bytes }, identity);
    config.uncommitted_bytes_max = UNCOMMITTED_BYTES_MAX;
    Ok(config)
}

#[cfg(test)]
mod tests {
    //! Goal: arguments become the URLs that people expect.
    use super::*;

    #[test]
    fn arguments_become_urls() {
        let prefix = Some("nfs://server:99/base");
        for (argument, prefix, want) in [
            ("nfs://h/x", None, "nfs://h/x"),
            ("nfs://h/x", prefix, "nfs://h/x"),
            ("x/y", prefix, "nfs://server:99/base/x/y"),
            (":x/y", prefix, "nfs://server:99/base/x/y"),
            ("/x", prefix, "nfs://server:99/x"),
            ("", prefix, "nfs://server:99/base"),
            ("admin:/a%20b", prefix, "admin:/a%20b"),
            ("admin:x", None, "admin:/x"),
        ] {
            let url = url_of(OsStr::new(argument), prefix).unwrap();
            assert_eq!(url.to_string(), want, "{argument}");
        }
        for (argument, prefix) in [
            ("x", None),
            ("x", Some("")),
            ("x", Some("junk")),
            ("nfs://", prefix),
        ] {
            let e = url_of(OsStr::new(argument), prefix).unwrap_err();
            assert_eq!(e.exit_code(), 2, "{argument}");
        }
    }
}
