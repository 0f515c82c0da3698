//! `ropewalk setup ds`: the join token, where the state lies, and where clients reach the server.
//!
//! Owns the text of a new `ds.toml`. Uses no token: the server joins when it starts. A metadata server on the same machine is asked for
//! one when nobody names another.

use super::networks::source_for;
use super::plan::{
    NFS_PORT, Plan, WriteArgs, absolute, addresses, parse_nfs_address, path_value, setting,
};
use super::questions::{Question, Questions};
use super::user::ServerUser;
use crate::account::{Account, Wanted};
use crate::admin::{Request, Server, ask, find_socket};
use crate::config_cmd::ServerRole;
use crate::failure::{Outcome, failed, usage};
use crate::up::ports::need_free;
use cluster_tls::JoinToken;
use serde::Deserialize;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the state lies when nobody says.
const DIR_DEFAULT: &str = "/var/lib/ropewalk/ds";
/// How a token begins.
const TOKEN_PREFIX: &str = "rwj1.";
/// Most bytes of a file with a token.
const TOKEN_BYTES_MAX: u64 = 8192;
/// Where a metadata server of the packages has its state.
const MDS_DIR: &str = "/var/lib/ropewalk/mds";
/// How long a token is good that is asked of a metadata server here.
const TTL: Duration = Duration::from_secs(3600);
/// Ports that are tried where other servers run.
const PORTS_TRIED: u16 = 16;
/// How long a metadata server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// `ropewalk setup ds`.
#[derive(Debug, clap::Args)]
pub(crate) struct DsSetup {
    /// Join token, as `ropewalk token create` on the metadata server prints it
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// File with the join token; the server's user must be able to read it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// State directory of a metadata server on this machine, which then makes the token [default: /var/lib/ropewalk/mds, if it is there]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["token", "token_file"])]
    mds_dir: Option<PathBuf>,
    /// Directory of the state and the data, on the disk that they are to fill [default: /var/lib/ropewalk/ds]
    #[arg(long, alias = "state-dir", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Addresses that clients reach it at, one for each network [default: that from which it reaches the metadata server, port 2049]
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',', value_parser = parse_nfs_address)]
    address: Vec<SocketAddr>,
    #[command(flatten)]
    pub(super) write: WriteArgs,
}

/// Answer to [`Request::TokenCreate`].
#[derive(Deserialize)]
struct MadeToken {
    token: String,
}

/// A token and where it is.
struct Token {
    token: JoinToken,
    /// Its text, if that goes into the configuration.
    text: Option<String>,
    /// Its file, if not.
    file: Option<PathBuf>,
}

impl Token {
    /// A token, or a file with one.
    fn read(said: &str) -> Result<Self, String> {
        match said.starts_with(TOKEN_PREFIX) {
            true => Ok(Self {
                token: JoinToken::parse(said).map_err(|e| e.to_string())?,
                text: Some(said.to_owned()),
                file: None,
            }),
            false => Self::of_file(Path::new(said)),
        }
    }

    /// A new one of the metadata server whose state is there.
    fn made_by(mds_dir: &Path) -> Outcome<Self> {
        let server = Server::Socket(find_socket(mds_dir)?);
        let request = Request::TokenCreate {
            ttl_seconds: TTL.as_secs(),
        };
        let made: MadeToken = ask(&server, &request)?;
        Self::read(&made.token).map_err(failed)
    }

    fn of_file(path: &Path) -> Result<Self, String> {
        let at = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(|e| at(&e))?;
        let read = file.take(TOKEN_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|e| at(&e))?;
        let token = JoinToken::parse(&text).map_err(|e| at(&e))?;
        let file = std::path::absolute(path).map_err(|e| at(&e))?;
        Ok(Self {
            token,
            text: None,
            file: Some(file),
        })
    }

    /// Where the metadata server is.
    fn targets(&self) -> Vec<SocketAddr> {
        let addresses = self.token.addresses.0.iter();
        let found = addresses.filter_map(|a| a.as_str().to_socket_addrs().ok());
        found.flatten().collect()
    }
}

/// The state of the metadata server on this machine that makes the token. A trial run asks for none.
fn mds_here(args: &DsSetup) -> Option<PathBuf> {
    let is_there = || !args.write.dry_run && find_socket(Path::new(MDS_DIR)).is_ok();
    let packaged = || is_there().then(|| PathBuf::from(MDS_DIR));
    args.mds_dir.clone().or_else(packaged)
}

/// The port of NFS at an address of this machine, or the next one that no server beside it has.
fn free_address(ip: IpAddr) -> SocketAddr {
    let mut ports = NFS_PORT..NFS_PORT + PORTS_TRIED;
    let at = |port| SocketAddr::new(ip, port);
    let free = ports.find(|port| need_free(at(*port), "").is_ok());
    at(free.unwrap_or(NFS_PORT))
}

/// Where clients reach the server.
fn listen(
    args: &DsSetup,
    targets: &[SocketAddr],
    questions: &mut Questions,
) -> Outcome<Vec<SocketAddr>> {
    match &args.address[..] {
        [] => {
            let near = targets.iter().find_map(|target| source_for(*target));
            let question = Question {
                option: "--address",
                text: "Address that clients reach this server at",
                default: near.map(|ip| free_address(ip).to_string()),
            };
            let read = |text: &str| text.split(',').map(parse_nfs_address).collect();
            questions.ask(&question, read)
        }
        said => Ok(said.to_vec()),
    }
}

/// Asks for what was not said, and makes the text.
pub(super) fn plan(args: &DsSetup, questions: &mut Questions) -> Outcome<Plan> {
    let token = match (&args.token, &args.token_file) {
        (Some(token), _) => Token::read(token).map_err(|e| usage(format!("--token: {e}")))?,
        (_, Some(file)) => Token::of_file(file).map_err(|e| usage(format!("--token-file: {e}")))?,
        (None, None) => match mds_here(args) {
            Some(dir) => Token::made_by(&dir)?,
            None => questions.ask(
                &Question {
                    option: "--token",
                    text: "Join token, or a file with it (the metadata server's `ropewalk token create` prints one)",
                    default: None,
                },
                Token::read,
            )?,
        },
    };
    if let Some(file) = &token.file {
        need_readable(file, &ServerUser::find()?)?;
    }
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => questions.ask(
            &Question {
                option: "--dir",
                text: "Directory of the state and the data, on the disk that they are to fill",
                default: Some(DIR_DEFAULT.to_owned()),
            },
            |text| Ok(PathBuf::from(text)),
        )?,
    };
    let targets = token.targets();
    let listen = listen(args, &targets, questions)?;
    let state_dir = path_value(&absolute(&dir)?)?;
    let answers = targets
        .iter()
        .any(|t| TcpStream::connect_timeout(t, CONNECT_MAX).is_ok());
    let note = || {
        let at: Vec<&str> = token.token.addresses.0.iter().map(|a| a.as_str()).collect();
        format!(
            "the metadata server does not answer at {} now",
            at.join(" ")
        )
    };
    let notes = (!answers).then(note).into_iter().collect();
    let show = format!("ropewalk status --dir {state_dir}");
    Ok(Plan {
        role: ServerRole::Ds,
        text: text(&state_dir, &token, &listen)?,
        secret: token.text,
        reads: token.file.map(|file| (file, "--token-file")),
        listen: listen
            .iter()
            .map(|address| (*address, "--address"))
            .collect(),
        notes,
        then: vec![show],
        state_dir: state_dir.into(),
    })
}

fn text(state_dir: &str, token: &Token, listen: &[SocketAddr]) -> Outcome<String> {
    let mut text =
        "# Written by `ropewalk setup ds`. docs/operate/configuration.md has all settings.\n\n"
            .to_owned();
    text += &setting(
        "Directory of all durable state and of the data.",
        "state_dir",
        state_dir,
    );
    text += &setting(
        "Addresses that clients are told.",
        "listen",
        addresses(listen),
    );
    let comment = "By this the server joins once; it may go afterwards.";
    let last = match (&token.text, &token.file) {
        (Some(token), _) => setting(comment, "join_token", token.as_str()),
        (None, Some(file)) => setting(comment, "join_token_file", path_value(file)?),
        (None, None) => String::new(),
    };
    text += last.trim_end();
    text.push('\n');
    Ok(text)
}

/// Refuses a file that the server's user may not read, by owner, group and mode of it and of the directories above.
fn need_readable(file: &Path, server: &ServerUser) -> Outcome {
    let user = Account::of_uid(server.uid, server.gid);
    let Some(closed) = user.refused_at(file, Wanted::Read) else {
        return Ok(());
    };
    let (name, file, at) = (&server.name, file.display(), closed.path.display());
    Err(failed(match closed.wanted {
        Wanted::Pass => format!(
            "the server runs as {name}, which cannot come through {at} to {file}: put the file elsewhere, or chmod o+x {at}"
        ),
        Wanted::Read | Wanted::All => format!(
            "the server runs as {name}, which cannot read {file}: chown root:{name} {file}, chmod 0640 {file}"
        ),
    }))
}

#[cfg(test)]
mod tests {
    //! Goal: the text is a configuration with the token or its file, and a token that the server cannot read is refused.
    use super::*;
    use crate::config::{self, DsConfig};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn token_text() -> String {
        let ca = cluster_tls::Fingerprint([7; 32]);
        let secret = control::JoinSecret([9; control::JOIN_SECRET_BYTES]);
        let addresses = ["127.0.0.1:2149".to_owned()];
        JoinToken::new(&addresses, ca, secret).unwrap().to_text()
    }

    #[test]
    fn the_text_has_the_token_or_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let token = token_text();
        std::fs::write(&file, format!("{token}\n")).unwrap();
        let listen: [SocketAddr; 1] = ["10.0.0.1:2049".parse().unwrap()];
        for (said, has_text) in [(token.as_str(), true), (file.to_str().unwrap(), false)] {
            let read = Token::read(said).unwrap();
            assert_eq!(
                read.targets(),
                ["127.0.0.1:2149".parse::<SocketAddr>().unwrap()]
            );
            let text = text("/s", &read, &listen).unwrap();
            let config: DsConfig = config::parse(&text).unwrap();
            assert_eq!(config.token().unwrap().as_deref(), Some(token.as_str()));
            assert_eq!(text.contains(&token), has_text, "{text}");
            assert_eq!(config.listen, listen);
        }
        for wrong in ["rwj1.x", "/no/such/file", ""] {
            assert!(Token::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_the_server_cannot_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "").unwrap();
        let found = file.metadata().unwrap();
        let (mine, other) = ((found.uid(), found.gid()), 3_999_999_999);
        for (mode, uid, gid, readable) in [
            (0o600, mine.0, mine.1, true),
            (0o040, other, mine.1, true),
            (0o600, other, mine.1, false),
            (0o640, other, other, false),
            (0o644, other, other, true),
        ] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let name = "other".to_owned();
            let told = need_readable(&file, &ServerUser { uid, gid, name });
            assert_eq!(told.is_ok(), readable, "{mode:o} {uid} {gid}");
        }
    }
}
