//! How a command reaches a server: by its admin socket, or by the network with a token.
//!
//! Owns where the socket lies and how a failure is said. The API itself is in the crate `admin`. The socket lies in the
//! server's state directory, which is locked by the server. A socket file that is there at start is therefore a left-over.

pub(crate) use ::admin::{Answering, Desk, Refusal, Request, Server};

use crate::failure::{Outcome, cannot, failed};
use crate::up::dirs::default_dir;
use ::admin::{AskError, Caller, Denied, Door, Events, Listener, Samples};
use bytes::Bytes;
use cluster_tls::AccessToken;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixListener;

/// Name of the socket in a state directory.
pub(crate) const SOCKET_NAME: &str = "admin.sock";

/// A bound admin socket.
pub(crate) struct AdminSocket {
    listener: std::os::unix::net::UnixListener,
}

impl AdminSocket {
    /// Binds the socket of a state directory that the caller has locked.
    pub(crate) fn bind(state_dir: &Path) -> Outcome<Self> {
        let path = state_dir.join(SOCKET_NAME);
        let make = cannot(format!("make the admin socket {}", path.display()));
        let bind = || {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let listener = std::os::unix::net::UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        bind().map(|listener| Self { listener }).map_err(make)
    }

    /// Serves it until the task is dropped.
    pub(crate) async fn serve(self, desk: Arc<dyn Desk>) {
        match UnixListener::from_std(self.listener) {
            Ok(listener) => ::admin::serve(Listener::Unix(listener), Door::Socket, desk).await,
            Err(error) => tracing::error!(%error, "the admin socket is not served"),
        }
    }
}

/// Answers requests.
pub(crate) type Handler = Arc<dyn Fn(Request) -> Answering + Send + Sync>;

/// A server that is asked by its socket alone.
pub(crate) struct LocalDesk {
    handler: Handler,
    samples: Samples,
}

impl LocalDesk {
    /// One that this answers for.
    pub(crate) fn new(handler: Handler) -> Arc<Self> {
        let samples = Samples::default();
        Arc::new(Self { handler, samples })
    }
}

impl Desk for LocalDesk {
    fn answer(&self, request: Request) -> Answering {
        (self.handler)(request)
    }

    fn caller(&self, _token: &str) -> Result<Caller, Denied> {
        Err(Denied::Unknown)
    }

    fn events(&self) -> &Events {
        crate::logging::events()
    }

    fn has_streams(&self) -> Result<(), Refusal> {
        let why = "a data server has no stream and no tunnel: ask the metadata server";
        Err(Refusal::NotFound(why.to_owned()))
    }

    fn sample(&self) -> Result<Value, Refusal> {
        self.has_streams().map(|()| Value::Null)
    }

    fn samples(&self) -> &Samples {
        &self.samples
    }

    fn openapi(&self) -> Option<&Bytes> {
        None
    }

    fn serve_nfs(
        &self,
        _stream: Box<dyn ::admin::Stream>,
        _peer: Arc<str>,
        _until: ::admin::BoxFuture,
    ) -> ::admin::BoxFuture {
        Box::pin(std::future::ready(()))
    }

    fn has_room(&self) -> bool {
        false
    }

    fn metrics(&self) -> Result<String, Refusal> {
        let why = "a data server has `metrics_listen`".to_owned();
        Err(Refusal::NotFound(why))
    }

    fn assets(&self) -> &'static [::admin::Asset] {
        &[]
    }
}

/// Asks a server (blocking).
///
/// # Errors
/// Why nobody answers, or the server's own sentence.
pub(crate) fn ask<T: DeserializeOwned + Send>(server: &Server, request: &Request) -> Outcome<T> {
    ::admin::ask(server, request).map_err(|error| match (error, server) {
        (AskError::Told(problem), _) => failed(problem.detail),
        (AskError::Late(patience), _) => failed(format!(
            "the server at {server} does not answer within {} s",
            patience.as_secs()
        )),
        (AskError::Strange(why), _) => failed(format!("cannot understand the server at {server}: {why}")),
        (AskError::Io(e), Server::Socket(_)) => match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => failed(format!(
                "no server is running at {server} (its admin socket does not answer)"
            )),
            ErrorKind::PermissionDenied => failed(format!(
                "permission denied at {server}: only the user that runs the server may ask it"
            )),
            _ => failed(format!("cannot ask the server at {server}: {e}")),
        },
        (AskError::Io(e), Server::Network { .. }) => failed(format!(
            "cannot ask the server at {server}: {e}; `admin_listen` in mds.toml says where it listens"
        )),
    })
}

/// Asks the server of an admin socket (blocking).
///
/// # Errors
/// As [`ask`].
pub(crate) fn ask_at<T: DeserializeOwned + Send>(socket: &Path, request: &Request) -> Outcome<T> {
    ask(&Server::Socket(socket.to_owned()), request)
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

/// Where the metadata server is asked.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MdsPlace {
    /// state_dir of the metadata server, or the directory of `ropewalk up` [default: ROPEWALK_DIR, or that of `ropewalk up`]
    #[arg(long = "dir", alias = "state-dir", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Ask over the network: HOST:PORT of `admin_listen` in mds.toml [default: ROPEWALK_SERVER]. The token is in
    /// --token-file or ROPEWALK_TOKEN
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "state_dir")]
    pub server: Option<String>,
    /// File with the access token, as `ropewalk access create` prints it [default: ROPEWALK_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// With --server: file with the CAs of its own certificate. Its name is that of --server. Without it, the CA of the
    /// cluster that the token names [default: ROPEWALK_CA]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Environment variable with an access token.
const TOKEN_VARIABLE: &str = "ROPEWALK_TOKEN";

impl MdsPlace {
    /// The same, with what the environment says where no option does. Of its two places the directory counts.
    pub(crate) fn or_environment(&self) -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_said = self.state_dir.is_some() || self.server.is_some();
        let dir = variable("ROPEWALK_DIR").filter(|_| !is_said);
        let server = variable("ROPEWALK_SERVER").filter(|_| !is_said && dir.is_none());
        let server = server.map(|server| server.to_string_lossy().into_owned());
        let token_file = variable("ROPEWALK_TOKEN_FILE").map(PathBuf::from);
        let ca_file = variable("ROPEWALK_CA").map(PathBuf::from);
        Self {
            state_dir: self.state_dir.clone().or(dir.map(PathBuf::from)),
            server: self.server.clone().or(server),
            token_file: self.token_file.clone().or(token_file),
            ca_file: self.ca_file.clone().or(ca_file),
        }
    }
}

/// The metadata server at `place`.
pub(crate) fn mds_server(place: &MdsPlace) -> Outcome<Server> {
    let place = place.or_environment();
    if let Some(address) = &place.server {
        return remote(address, &place);
    }
    let socket = match &place.state_dir {
        Some(dir) => find_socket(dir)?,
        None => find_socket(&default_dir()?)?,
    };
    Ok(Server::Socket(socket))
}

/// A metadata server by the network. Only the CA that the token names can prove to be it, or those of `--ca-file`.
pub(crate) fn remote(address: &str, place: &MdsPlace) -> Outcome<Server> {
    let text = match &place.token_file {
        Some(path) => {
            let what = format!("read the token in {}", path.display());
            std::fs::read_to_string(path).map_err(cannot(what))?
        }
        None => std::env::var(TOKEN_VARIABLE).map_err(|_| {
            failed(format!(
                "which token? Name its file with --token-file, or put it into {TOKEN_VARIABLE}"
            ))
        })?,
    };
    let token = AccessToken::parse(&text).map_err(|_| {
        failed("the access token is incomplete, mistyped or something else; it begins with rwa1.")
    })?;
    let (config, name) = match &place.ca_file {
        Some(path) => (cluster_tls::trusting_client_config(path), host(address)?),
        None => (
            cluster_tls::admin_client_config(token.ca),
            cluster_tls::admin_name(),
        ),
    };
    Ok(Server::Network {
        address: address.to_owned(),
        token: text.trim().to_owned(),
        tls: (Arc::new(config.map_err(cannot("set up TLS"))?), name),
    })
}

/// The host of HOST:PORT, as a certificate names it.
fn host(address: &str) -> Outcome<ServerName<'static>> {
    let host = address.rsplit_once(':').map(|(host, _)| host);
    let bare = host.map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    let name = bare.and_then(|bare| ServerName::try_from(bare.to_owned()).ok());
    name.ok_or_else(|| failed(format!("`{address}` is no HOST:PORT")))
}

#[cfg(test)]
mod tests {
    //! Goal: only its owner can open the socket, and a missing server is reported.
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn the_socket_is_its_owners_and_found_in_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let socket = AdminSocket::bind(dir.path()).unwrap();
        let path = find_socket(dir.path()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let handler: Handler = Arc::new(|request| {
            Box::pin(async move {
                match request {
                    Request::Status => Ok(serde_json::json!({"state": "fine"})),
                    other => Err(Refusal::Refused(format!("{other:?} is not for me"))),
                }
            })
        });
        let serving = tokio::spawn(socket.serve(LocalDesk::new(handler)));
        tokio::task::spawn_blocking(move || {
            let status: Value = ask_at(&path, &Request::Status).unwrap();
            assert_eq!(status["state"], "fine");
            let refused = ask_at::<Value>(&path, &Request::TokenList).unwrap_err();
            assert!(refused.to_string().contains("not for me"), "{refused}");
        })
        .await
        .unwrap();
        let server = Server::Socket(dir.path().join(SOCKET_NAME));
        let refused = ::admin::open_tunnel(&server).await.err();
        let Some(AskError::Told(problem)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(problem.status, 404);
        assert!(problem.detail.contains("ask the metadata server"));
        let mut stream = UnixStream::connect(dir.path().join(SOCKET_NAME))
            .await
            .unwrap();
        let head = "GET /api/v1/stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        assert!(answer.contains("ask the metadata server"), "{answer}");
        serving.abort();
    }

    #[test]
    fn a_certificate_is_good_for_the_host_without_its_port() {
        for (address, name) in [
            ("mds.example.org:2151", Some("mds.example.org")),
            ("192.0.2.1:2151", Some("192.0.2.1")),
            ("[2001:db8::1]:2151", Some("2001:db8::1")),
            ("mds.example.org", None),
            (":2151", None),
            ("a b:2151", None),
        ] {
            let found = host(address).ok();
            assert_eq!(found.map(|n| n.to_str().into_owned()).as_deref(), name);
        }
    }

    #[test]
    fn nobody_there_is_said_plainly() {
        let dir = tempfile::tempdir().unwrap();
        let none = find_socket(dir.path()).unwrap_err();
        assert!(none.to_string().contains("no server runs in"), "{none}");
        let gone = ask_at::<()>(&dir.path().join(SOCKET_NAME), &Request::Status).unwrap_err();
        assert!(gone.to_string().contains("no server is running"), "{gone}");
    }
}
