//! The servers of this machine: by a file, by a directory, or where they are as a rule.
//!
//! Owns what is known of a server from its files, also when its configuration cannot be read, or its disk gives no answer. Asks no
//! server and changes nothing.

use super::limit::{Limit, begin};
use crate::config::{self, CONFIG_BYTES_MAX, ConfigError, Connections, DsConfig, MdsConfig};
use crate::config_cmd::{ServerRole, role_of};
use crate::rdma_provider::ProviderChoice;
use crate::setup::{CONFIG_DIR, packaged_file};
use crate::up::dirs::{UP_DS_MAX, default_dir};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The configuration of either server.
#[derive(Debug)]
pub(super) enum Config {
    Mds(Box<MdsConfig>),
    Ds(Box<DsConfig>),
}

/// Why a configuration cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// What is wrong with it.
    Wrong(ConfigError),
    /// The file, or a directory that it names, gave no answer within the limit.
    Late(Limit),
}

/// What is to be said, and what to do, where no server can be found.
type NotFound = (String, String);

/// A server as its files show it.
#[derive(Debug)]
pub(super) struct Installed {
    /// `mds`, `ds`, or the name of its directory under that of `ropewalk up`.
    pub(super) name: String,
    pub(super) role: ServerRole,
    /// Its configuration file, if one was found.
    pub(super) file: Option<PathBuf>,
    /// What the file says, or why it cannot be used. None without a file.
    pub(super) config: Option<Result<Config, Unusable>>,
    /// Where its state lies, as far as that can be told.
    pub(super) state_dir: Option<PathBuf>,
    /// The directory of the `ropewalk up` that it belongs to.
    pub(super) up: Option<PathBuf>,
}

impl Installed {
    /// The server of a configuration file. Blocks for two limits of a disk at most.
    pub(super) fn of_file(file: &Path) -> Self {
        let limit = Limit::disk(file);
        let path = file.to_owned();
        let look = begin(&limit, move || {
            (role_of(&path, None), said_state_dir(&path))
        });
        let is_ds = file.file_name().is_some_and(|name| name == "ds.toml");
        let by_name = if is_ds {
            ServerRole::Ds
        } else {
            ServerRole::Mds
        };
        let (role, said_dir) = look.answer().unwrap_or((by_name, None));
        // The check of a configuration looks at its state directory too.
        let limit = Limit::disk(said_dir.as_deref().unwrap_or(file));
        let path = file.to_owned();
        let load = begin(&limit, move || load(role, &path).map_err(Unusable::Wrong));
        let config = load.answer().unwrap_or(Err(Unusable::Late(limit)));
        let state_dir = match &config {
            Ok(Config::Mds(mds)) => Some(mds.state_dir.clone()),
            Ok(Config::Ds(ds)) => Some(ds.state_dir.clone()),
            Err(_) => said_dir,
        };
        Self {
            name: role.word().to_owned(),
            role,
            file: Some(file.to_owned()),
            config: Some(config),
            state_dir,
            up: None,
        }
    }

    /// The server of a state directory, without a file.
    fn of_dir(dir: &Path, role: ServerRole) -> Self {
        Self {
            name: role.word().to_owned(),
            role,
            file: None,
            config: None,
            state_dir: Some(dir.to_owned()),
            up: None,
        }
    }

    /// Its configuration, if that can be used.
    pub(super) fn usable(&self) -> Option<&Config> {
        self.config.as_ref()?.as_ref().ok()
    }

    /// That of a metadata server.
    pub(super) fn mds(&self) -> Option<&MdsConfig> {
        match self.usable()? {
            Config::Mds(mds) => Some(mds),
            Config::Ds(_) => None,
        }
    }

    /// That of a data server.
    pub(super) fn ds(&self) -> Option<&DsConfig> {
        match self.usable()? {
            Config::Ds(ds) => Some(ds),
            Config::Mds(_) => None,
        }
    }

    /// Its listeners by TCP, and the settings that they are in.
    pub(super) fn listeners(&self) -> Vec<(&'static str, SocketAddr)> {
        let lists: Vec<(&'static str, &[SocketAddr])> = match self.usable() {
            Some(Config::Mds(mds)) => vec![
                ("listen", mds.listen.as_slice()),
                ("control_listen", mds.control_listen.as_slice()),
                ("metrics_listen", mds.metrics_listen.as_slice()),
                ("admin_listen", mds.admin_listen.as_slice()),
            ],
            Some(Config::Ds(ds)) => vec![
                ("listen", ds.listen.as_slice()),
                ("metrics_listen", ds.metrics_listen.as_slice()),
            ],
            None => Vec::new(),
        };
        let each = lists.into_iter();
        each.flat_map(|(key, list)| list.iter().map(move |address| (key, *address)))
            .filter(|(_, address)| address.port() != 0)
            .collect()
    }

    /// What it says of connections.
    pub(super) fn connections(&self) -> Option<Connections> {
        self.usable().map(|config| match config {
            Config::Mds(mds) => mds.connections(),
            Config::Ds(ds) => ds.connections(),
        })
    }

    /// What its RDMA is to run on, if it listens for that.
    pub(super) fn rdma(&self) -> Option<(ProviderChoice, &[SocketAddr])> {
        let (choice, listen) = match self.usable()? {
            Config::Mds(mds) => (mds.rdma_provider, mds.rdma_listen.as_slice()),
            Config::Ds(ds) => (ds.rdma_provider, ds.rdma_listen.as_slice()),
        };
        (!listen.is_empty()).then_some((choice, listen))
    }

    /// Whether systemd runs it from the packaged unit.
    pub(super) fn is_packaged(&self) -> bool {
        self.file.as_deref() == Some(packaged_file(self.role).as_path())
    }

    /// How it is started, and where it says why it ended.
    pub(super) fn start(&self) -> String {
        let word = self.role.word();
        match (&self.up, &self.file) {
            (Some(up), _) => format!(
                "start `ropewalk up --dir {up}`; the log is {up}/{name}/log",
                up = up.display(),
                name = self.name
            ),
            (None, Some(_)) if self.is_packaged() => {
                format!(
                    "systemctl start ropewalk-{word}; journalctl -u ropewalk-{word} says why it ended"
                )
            }
            (None, Some(file)) => format!("start `ropewalk {word} --config {}`", file.display()),
            (None, None) => {
                format!("start it with its configuration: `ropewalk {word} --config FILE`")
            }
        }
    }

    /// How it is stopped and started.
    pub(super) fn restart(&self) -> String {
        match self.is_packaged() {
            true => format!("systemctl restart ropewalk-{}", self.role.word()),
            false => "stop it and start it again".to_owned(),
        }
    }
}

/// `state_dir` of a file that is no configuration: as TOML, or else by the line that looks like it.
fn said_state_dir(file: &Path) -> Option<PathBuf> {
    let is_small = file.metadata().is_ok_and(|m| m.len() <= CONFIG_BYTES_MAX);
    let text = is_small
        .then(|| std::fs::read_to_string(file).ok())
        .flatten()?;
    if let Ok(table) = toml::from_str::<toml::Table>(&text) {
        return table.get("state_dir")?.as_str().map(PathBuf::from);
    }
    let line = text
        .lines()
        .map(str::trim)
        .find(|l| l.starts_with("state_dir"))?;
    let table: toml::Table = toml::from_str(line).ok()?;
    table.get("state_dir")?.as_str().map(PathBuf::from)
}

fn load(role: ServerRole, file: &Path) -> Result<Config, ConfigError> {
    match role {
        ServerRole::Mds => config::load(file).map(|c| Config::Mds(Box::new(c))),
        ServerRole::Ds => config::load(file).map(|c| Config::Ds(Box::new(c))),
    }
}

/// What is at a directory.
enum Found {
    /// Servers of a `ropewalk up`: names and files.
    Up(Vec<(String, PathBuf)>),
    /// A server's own file.
    File(PathBuf),
    /// The state of a server, and the files of the package.
    State(ServerRole, Vec<PathBuf>),
}

/// Servers at `dir`: one whose state lies there, or those of a `ropewalk up`.
///
/// # Errors
/// A sentence and what to do: the disk gives no answer.
pub(super) fn at_dir(dir: &Path) -> Result<Vec<Installed>, NotFound> {
    let path = dir.to_owned();
    let found = within_limit(dir, move || {
        let up = files_of_up(&path);
        if !up.is_empty() {
            return Found::Up(up);
        }
        let roles = [ServerRole::Mds, ServerRole::Ds];
        let mut own = roles
            .map(|role| path.join(format!("{}.toml", role.word())))
            .into_iter();
        if let Some(file) = own.find(|file| file.exists()) {
            return Found::File(file);
        }
        // Only a data server has redo.log; only a metadata server has the cluster's CA.
        let is_ds = path.join("redo.log").exists() && !path.join("ca.pem").exists();
        let role = if is_ds {
            ServerRole::Ds
        } else {
            ServerRole::Mds
        };
        let packaged = roles.map(packaged_file).into_iter();
        Found::State(role, packaged.filter(|file| file.exists()).collect())
    })?;
    Ok(match found {
        Found::Up(files) => of_up(dir, files),
        Found::File(file) => vec![Installed::of_file(&file)],
        Found::State(role, packaged) => {
            let mut packaged = packaged.iter().map(|file| Installed::of_file(file));
            let is_it = |i: &Installed| i.state_dir.as_deref() == Some(dir);
            let server = packaged.find(is_it);
            vec![server.unwrap_or_else(|| Installed::of_dir(dir, role))]
        }
    })
}

fn within_limit<T: Send + 'static>(
    path: &Path,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotFound> {
    let limit = Limit::disk(path);
    let answer = begin(&limit, look).answer();
    answer.ok_or_else(|| (limit.late(), limit.action().to_owned()))
}

/// Names and files of the servers of a `ropewalk up`.
fn files_of_up(dir: &Path) -> Vec<(String, PathBuf)> {
    let mds = [("mds".to_owned(), "mds.toml")];
    let ds = (1..=UP_DS_MAX).map(|n| (format!("ds-{n}"), "ds.toml"));
    let files = mds.into_iter().chain(ds).map(|(name, file)| {
        let file = dir.join(&name).join(file);
        (name, file)
    });
    files.filter(|(_, file)| file.exists()).collect()
}

/// Reads them all at once, so that disks that hang hold up one patience.
fn of_up(dir: &Path, files: Vec<(String, PathBuf)>) -> Vec<Installed> {
    let server = |(name, file): (String, PathBuf)| Installed {
        name,
        up: Some(dir.to_owned()),
        ..Installed::of_file(&file)
    };
    std::thread::scope(|scope| {
        let read = files.into_iter().map(|it| scope.spawn(move || server(it)));
        let reading: Vec<_> = read.collect();
        let servers = reading.into_iter().filter_map(|server| server.join().ok());
        servers.collect()
    })
}

/// Servers where they are as a rule: those of the package, else those of a `ropewalk up`.
///
/// # Errors
/// A sentence and what to do, if there are none or they cannot be seen.
pub(super) fn usual() -> Result<Vec<Installed>, NotFound> {
    let there = within_limit(Path::new(CONFIG_DIR), || {
        let files = [ServerRole::Mds, ServerRole::Ds].map(packaged_file);
        let there = files.map(|file| file.try_exists().map(|is| is.then_some(file)));
        there.into_iter().collect::<Result<Vec<_>, _>>()
    })?;
    let there = there.map_err(|e| {
        let says = format!("cannot look into {CONFIG_DIR}: {e}");
        let action = "run this as root, or name a server with --dir DIR";
        (says, action.to_owned())
    })?;
    let there = there.into_iter().flatten();
    let packaged: Vec<Installed> = there.map(|file| Installed::of_file(&file)).collect();
    if !packaged.is_empty() {
        return Ok(packaged);
    }
    let dir = default_dir().map_err(|e| (e.to_string(), "say where with --dir DIR".to_owned()))?;
    let path = dir.clone();
    let up = within_limit(&dir, move || files_of_up(&path))?;
    if !up.is_empty() {
        return Ok(of_up(&dir, up));
    }
    let says = format!(
        "no server is set up: {CONFIG_DIR} has neither mds.toml nor ds.toml, and no `ropewalk up` has its state in {}",
        dir.display()
    );
    Err((
        says,
        "`ropewalk setup mds` or `ropewalk setup ds`, or say where with --dir DIR".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    //! Goal: a server is found by what is left of it.
    use super::*;

    #[test]
    fn the_state_directory_is_found_in_a_broken_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mds.toml");
        for (text, state) in [
            ("state_dir = '/s'\n", Some("/s")),
            ("state_dir = '/s'\nlisetn = 1\n", Some("/s")),
            ("listen = [\n  state_dir = \"/s\"  # here\n", Some("/s")),
            ("listen = [\n", None),
            ("state_dir = [\n", None),
            ("state_dir = 7\n", None),
        ] {
            std::fs::write(&file, text).unwrap();
            let found = Installed::of_file(&file);
            assert_eq!(found.state_dir.as_deref(), state.map(Path::new), "{text:?}");
            assert_eq!(found.role, ServerRole::Mds);
        }
        let gone = Installed::of_file(&dir.path().join("ds.toml"));
        assert!(gone.usable().is_none() && gone.role == ServerRole::Ds);
        assert!(gone.listeners().is_empty() && gone.connections().is_none());
    }

    #[test]
    fn servers_are_found_by_directory() {
        let dir = tempfile::tempdir().unwrap();
        let names = |dir: &Path| -> Vec<String> {
            at_dir(dir).unwrap().into_iter().map(|i| i.name).collect()
        };
        assert_eq!(names(dir.path()), ["mds"]);
        std::fs::write(dir.path().join("redo.log"), "").unwrap();
        assert_eq!(names(dir.path()), ["ds"]);
        for (name, file) in [
            ("mds", "mds.toml"),
            ("ds-2", "ds.toml"),
            ("ds-1", "ds.toml"),
        ] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join(file), "state_dir = '/s'").unwrap();
        }
        assert_eq!(names(dir.path()), ["mds", "ds-1", "ds-2"]);
        assert!(
            at_dir(dir.path()).unwrap()[1]
                .start()
                .contains("ropewalk up --dir")
        );
        assert_eq!(names(&dir.path().join("ds-2")), ["ds"]);
    }

    #[test]
    fn listeners_are_named_by_their_settings() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ds.toml");
        std::fs::write(
            &file,
            "state_dir = '/s'\nlisten = ['127.0.0.1:7']\nmetrics_listen = ['127.0.0.1:0']\n",
        )
        .unwrap();
        let listeners = Installed::of_file(&file).listeners();
        assert_eq!(listeners, [("listen", "127.0.0.1:7".parse().unwrap())]);
    }
}
