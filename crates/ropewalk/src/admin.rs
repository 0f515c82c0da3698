//! The admin socket of a server: one JSON request line, one JSON response line, over a Unix socket that only
//! the server's user can open.
//!
//! The response is `{"ok": VALUE}` or `{"error": "one sentence"}`. The socket lies in the server's state directory,
//! which is locked by the server. A socket file that is there at start is therefore a left-over.
//!
//! Entry points: [`serve`], [`ask`], [`find_socket`].

use crate::failure::{Outcome, cannot, failed};
use crate::up::dirs::default_dir;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Name of the socket in a state directory.
pub(crate) const SOCKET_NAME: &str = "admin.sock";
/// Longest request line in bytes.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Longest response line in bytes.
const RESPONSE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Connections served at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long the server may take for one request, and how long its peer may take to send it and to take the response.
const EXCHANGE_MAX: Duration = Duration::from_secs(20);
/// How long it may take to add a server of others, which it tries first.
const ADDING_MAX: Duration = Duration::from_secs(100);
/// How long [`ask`] waits for an answer that needs no other server.
const STATUS_MAX: Duration = Duration::from_secs(3);
/// How long it waits for any other.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What can be asked of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// How it is.
    Status,
    /// Make a join token (metadata server).
    TokenCreate {
        /// How long it is good.
        ttl_seconds: u64,
    },
    /// Tokens that wait (metadata server).
    TokenList,
    /// Remove a data server from the cluster for good (metadata server).
    Expel {
        /// Its id.
        ds_id: u32,
        /// Also when it has the last copy of places.
        #[serde(default)]
        yes_lose_data: bool,
    },
    /// What would be lost with a data server (metadata server).
    DsLoss {
        /// Its id.
        ds_id: u32,
    },
    /// Paths of files that data servers name by numbers (metadata server).
    FilePaths {
        /// The numbers.
        files: Vec<u64>,
    },
    /// Give the places of a data server to others (metadata server).
    DsDrain {
        /// Its id.
        ds_id: u32,
        /// The data server that gets them, where it can.
        substitute: Option<u32>,
        /// Only say whether it can be done.
        dry_run: bool,
    },
    /// A data server keeps what it has (metadata server).
    DsUndrain {
        /// Its id.
        ds_id: u32,
    },
    /// Remove a data server that has no places (metadata server).
    DsRemove {
        /// Its id.
        ds_id: u32,
        /// Also one that has places, whatever is lost.
        #[serde(default)]
        yes_lose_data: bool,
    },
    /// Make the data servers level (metadata server).
    DsRebalance {
        /// Whether it begins, or ends.
        wanted: bool,
    },
    /// Limit what fillings send (metadata server).
    FillRate {
        /// Bytes per second for each data server; 0 for no limit.
        bytes_per_s: u64,
    },
    /// Open the placement groups that are closed as the state went back (metadata server).
    AcceptState,
    /// Have all data servers compare their disks with sums at once (metadata server).
    Scrub,
    /// Make a new signing key now (metadata server).
    KeyRotate,
    /// Read its configuration again (metadata server).
    Reload,
    /// Its configuration (metadata server).
    Config,
    /// Clients of every protocol, a page (metadata server).
    ClientList {
        /// Those with ids after this one.
        #[serde(default)]
        after: Option<String>,
    },
    /// What a client holds, and the clients that wait for it (metadata server).
    ClientShow {
        /// Its id.
        id: String,
    },
    /// End a client's lease (metadata server).
    ClientEvict {
        /// Its id.
        id: String,
    },
    /// What is held of a file (metadata server).
    LockList {
        /// Its path from the root of the file system.
        path: String,
    },
    /// Hosts with locks by NFSv3 (metadata server).
    NlmHosts,
    /// End the locks of one (metadata server).
    NlmFree {
        /// Its address or its name.
        host: String,
    },
    /// Try an NFSv3 server of others and add it (metadata server).
    AddNfs3 {
        /// HOST:/PATH
        target: String,
        /// Port of NFS, where it is not to be asked.
        port: Option<u16>,
        /// Port of MOUNT.
        mount_port: Option<u16>,
        /// HOST:PORT each, told to clients; none for where it is found.
        client_addresses: Vec<String>,
    },
    /// Give an NFSv3 server of others no new files (metadata server).
    DrainNfs3 {
        /// Its id.
        server_id: u32,
    },
    /// Give one that was drained new files again (metadata server).
    UndrainNfs3 {
        /// Its id.
        server_id: u32,
    },
    /// Use an NFSv3 server of others no more (metadata server).
    RemoveNfs3 {
        /// Its id.
        server_id: u32,
        /// Also when files may lie there.
        force: bool,
    },
}

impl Request {
    /// How long the server may work on it.
    fn work_max(&self) -> Duration {
        match self {
            Self::AddNfs3 { .. } | Self::RemoveNfs3 { .. } => ADDING_MAX,
            _ => EXCHANGE_MAX,
        }
    }

    /// How long [`ask`] waits for its answer.
    fn patience(&self) -> Duration {
        match self {
            Self::Status => STATUS_MAX,
            Self::AddNfs3 { .. } | Self::RemoveNfs3 { .. } => ADDING_MAX + ANSWER_MAX,
            _ => ANSWER_MAX,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Response {
    Ok(serde_json::Value),
    Error(String),
}

/// Answer of a handler.
pub(crate) type Answer =
    Pin<Box<dyn Future<Output = Result<serde_json::Value, String>> + Send + 'static>>;
/// Answers requests.
pub(crate) type Handler = Arc<dyn Fn(Request) -> Answer + Send + Sync>;

/// A bound admin socket.
pub(crate) struct AdminSocket {
    listener: UnixListener,
}

impl AdminSocket {
    /// Binds the socket of a state directory that the caller has locked. Needs a runtime.
    pub(crate) fn bind(state_dir: &Path) -> Outcome<Self> {
        let path = state_dir.join(SOCKET_NAME);
        let make = cannot(format!("make the admin socket {}", path.display()));
        let bind = || {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        bind().map(|listener| Self { listener }).map_err(make)
    }
}

/// Serves the socket until the task is dropped.
pub(crate) async fn serve(socket: AdminSocket, handler: Handler) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let stream = match socket.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "admin socket");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            let _place = place;
            let _ = exchange(stream, handler).await;
        });
    }
}

async fn exchange(stream: UnixStream, handler: Handler) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut read = tokio::io::BufReader::new(read.take(REQUEST_BYTES_MAX));
    tokio::time::timeout(EXCHANGE_MAX, read.read_until(b'\n', &mut line)).await??;
    let response = match serde_json::from_slice::<Request>(&line) {
        Err(_) if line.last() != Some(&b'\n') => Response::Error(format!(
            "a request is one line of at most {REQUEST_BYTES_MAX} bytes"
        )),
        Err(e) => Response::Error(format!("not a request: {e}")),
        Ok(request) => {
            let work_max = request.work_max();
            match tokio::time::timeout(work_max, handler(request)).await? {
                Ok(value) => Response::Ok(value),
                Err(text) => Response::Error(text),
            }
        }
    };
    let mut bytes = serde_json::to_vec(&response)?;
    bytes.push(b'\n');
    tokio::time::timeout(EXCHANGE_MAX, write.write_all(&bytes)).await??;
    write.shutdown().await
}

/// Asks a server (blocking). The outer error is that nobody answers, the inner one is the server's.
pub(crate) fn ask<T: DeserializeOwned>(socket: &Path, request: &Request) -> Outcome<T> {
    let patience = request.patience();
    let exchange = || {
        let mut stream = StdUnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(RESPONSE_BYTES_MAX)).read_until(b'\n', &mut answer)?;
        Ok(answer)
    };
    let answer = exchange().map_err(|e: std::io::Error| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => failed(format!(
            "no server is running at {} (its admin socket does not answer)",
            socket.display()
        )),
        ErrorKind::PermissionDenied => failed(format!(
            "permission denied at {}: only the user that runs the server may ask it",
            socket.display()
        )),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => failed(format!(
            "the server at {} does not answer within {} s",
            socket.display(),
            patience.as_secs()
        )),
        _ => failed(format!(
            "cannot ask the server at {}: {e}",
            socket.display()
        )),
    })?;
    let strange = format!("understand the server at {}", socket.display());
    match serde_json::from_slice(&answer).map_err(cannot(&strange))? {
        Response::Error(text) => Err(failed(text)),
        Response::Ok(value) => serde_json::from_value(value).map_err(cannot(&strange)),
    }
}

/// The admin socket of the metadata server that keeps its state in `dir`, or of the `ropewalk up` there.
pub(crate) fn find_socket(dir: &Path) -> Outcome<PathBuf> {
    let places = [dir.join(SOCKET_NAME), dir.join("mds").join(SOCKET_NAME)];
    places.iter().find(|p| p.exists()).cloned().ok_or_else(|| {
        failed(format!(
            "no server runs in {} (there is no {SOCKET_NAME} in it or in its directory mds)",
            dir.display()
        ))
    })
}

/// Where the metadata server's admin socket is.
#[derive(Debug, clap::Args)]
pub(crate) struct MdsPlace {
    /// state_dir of the metadata server, or the directory of `ropewalk up` [default: that of `ropewalk up`]
    #[arg(long = "dir", alias = "state-dir", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// The admin socket of the metadata server at `place`.
pub(crate) fn mds_socket(place: &MdsPlace) -> Outcome<PathBuf> {
    match &place.state_dir {
        Some(dir) => find_socket(dir),
        None => find_socket(&default_dir()?),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: whatever comes over the socket is answered in bounded memory; nobody else can open it.
    use super::*;

    fn echo() -> Handler {
        Arc::new(|request| {
            Box::pin(async move {
                match request {
                    Request::Status => Ok(serde_json::json!({"state": "fine"})),
                    other => Err(format!("{other:?} is not for me")),
                }
            })
        })
    }

    #[tokio::test]
    async fn one_line_in_one_line_out() {
        let dir = tempfile::tempdir().unwrap();
        let socket = AdminSocket::bind(dir.path()).unwrap();
        let path = find_socket(dir.path()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let server = tokio::spawn(serve(socket, echo()));
        tokio::task::spawn_blocking(move || {
            let status: serde_json::Value = ask(&path, &Request::Status).unwrap();
            assert_eq!(status["state"], "fine");
            let refused = ask::<serde_json::Value>(&path, &Request::TokenList).unwrap_err();
            assert!(refused.to_string().contains("not for me"), "{refused}");
            for wrong in ["{}\n", "\n", "{\"command\":\"stop\"}\n", "[1"] {
                let mut stream = StdUnixStream::connect(&path).unwrap();
                stream.write_all(wrong.as_bytes()).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                assert!(text.starts_with("{\"error\":"), "{wrong}: {text}");
            }
        })
        .await
        .unwrap();
        server.abort();
    }

    #[test]
    fn nobody_there_is_said_plainly() {
        let dir = tempfile::tempdir().unwrap();
        let none = find_socket(dir.path()).unwrap_err();
        assert!(none.to_string().contains("no server runs in"), "{none}");
        let gone = ask::<()>(&dir.path().join(SOCKET_NAME), &Request::Status).unwrap_err();
        assert!(gone.to_string().contains("no server is running"), "{gone}");
    }
}
