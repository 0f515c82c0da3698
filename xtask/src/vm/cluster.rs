//! A Ropewalk cluster as the host sees it: what its servers say on their admin sockets, and signals to them.
//!
//! Knows the directory of `ropewalk up` and the admin interface of docs/operate, nothing of the program. The
//! directory is looked at through the server's own root, since a server command may mount file systems that only
//! it sees. Entry points: [`Cluster::new`], then [`Cluster::status`], [`Cluster::ask`], [`Cluster::traffic`].

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::error::{Context, Failure, Result};
use super::process::{parent, signal};

/// How long a server may take to answer on its admin socket.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How long the host waits for the cluster to come to a state; it ends a hang and measures nothing.
pub(crate) const STATE_LIMIT: Duration = Duration::from_secs(240);

/// How often it looks.
const STATE_POLL: Duration = Duration::from_millis(200);

/// Bytes that clients moved, as the servers count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    /// Bytes that data servers took from clients.
    pub(crate) ds_written: u64,
    /// Bytes that data servers gave to clients.
    pub(crate) ds_read: u64,
    /// Bytes that the MDS wrote or read for clients, by its own count and by that of the data servers.
    pub(crate) proxied: u64,
    /// COMMITs that data servers were asked for.
    pub(crate) commits: u64,
    /// Bytes that lie in the metadata store.
    pub(crate) inline: u64,
}

/// A cluster that `ropewalk up` runs.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    dir: PathBuf,
}

impl Cluster {
    /// The cluster in `dir`, of the server process `pid`.
    pub(crate) fn new(pid: u32, dir: &Path) -> Self {
        let inside = dir.strip_prefix("/").unwrap_or(dir);
        Self {
            dir: Path::new(&format!("/proc/{pid}/root")).join(inside),
        }
    }

    /// Where its state lies.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the MDS says.
    pub(crate) fn mds(&self) -> Result<Value> {
        self.status("mds")
    }

    /// What one server says: `mds`, `ds-1`, ...
    pub(crate) fn status(&self, name: &str) -> Result<Value> {
        self.ask(name, "GET /status", None)
    }

    /// What one server answers at its admin socket to a request of the REST API: its method, a space, and its path. A
    /// refusal is a failure.
    pub(crate) fn ask(&self, name: &str, request: &str, fields: Option<&Value>) -> Result<Value> {
        let socket = self.dir.join(name).join("admin.sock");
        let unable = || format!("cannot ask {}", socket.display());
        let (method, path) = request.split_once(' ').unwrap_or(("GET", request));
        let body = fields.map_or_else(String::new, Value::to_string);
        let length = body.len();
        let mut stream = UnixStream::connect(&socket).context(unable)?;
        stream
            .set_read_timeout(Some(ANSWER_LIMIT))
            .context(unable)?;
        let head = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).context(unable)?;
        let mut text = String::new();
        let mut stream = stream.take(ANSWER_BYTES_MAX);
        stream.read_to_string(&mut text).context(unable)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        if !head.starts_with("HTTP/1.1 200") {
            return Err(Failure::new(format!("{}: {text}", unable())));
        }
        serde_json::from_str(body).map_err(|error| Failure::new(format!("{}: {error}", unable())))
    }

    /// The names of its data servers.
    pub(crate) fn ds_names(&self) -> Vec<String> {
        (1..)
            .map(|number| format!("ds-{number}"))
            .take_while(|name| self.dir.join(name).is_dir())
            .collect()
    }

    /// What went over the wire so far. A data server that was started again counts from 0.
    pub(crate) fn traffic(&self) -> Result<Traffic> {
        let mut sum = self.data_traffic()?;
        sum.proxied += self.proxied()?;
        sum.inline = number(&self.mds()?, "inline_bytes");
        Ok(sum)
    }

    /// Bytes that the MDS wrote or read for clients, by its own count.
    pub(crate) fn proxied(&self) -> Result<u64> {
        let mds = self.mds()?;
        Ok(number(&mds, "proxy_written_bytes") + number(&mds, "proxy_read_bytes"))
    }

    /// As [`Cluster::traffic`], without asking the MDS, which may be stopped.
    pub(crate) fn data_traffic(&self) -> Result<Traffic> {
        let names = self.ds_names();
        self.traffic_of(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What these data servers count.
    pub(crate) fn traffic_of(&self, names: &[&str]) -> Result<Traffic> {
        let mut sum = Traffic::default();
        for name in names {
            let ds = self.status(name)?;
            sum.ds_written += number(&ds, "client_written_bytes");
            sum.ds_read += number(&ds, "client_read_bytes");
            sum.proxied += number(&ds, "proxy_written_bytes") + number(&ds, "proxy_read_bytes");
            sum.commits += number(&ds["counters"], "commits");
        }
        Ok(sum)
    }

    /// The process of a server.
    pub(crate) fn pid(&self, name: &str) -> Result<u32> {
        let status = self.status(name)?;
        u32::try_from(number(&status, "pid"))
            .ok()
            .filter(|pid| *pid > 1)
            .ok_or_else(|| Failure::new(format!("{name} does not say its pid")))
    }

    /// Sends a signal to a server and returns its pid. For KILL: when this returns the process is gone.
    pub(crate) fn signal(&self, name: &str, word: &str) -> Result<u32> {
        let pid = self.pid(name)?;
        signal(&[pid], word);
        Ok(pid)
    }

    /// Stops a data server, and before it the process that watches it and would replace it. Returns both pids, for CONT.
    pub(crate) fn freeze(&self, name: &str) -> Result<[u32; 2]> {
        let [_, watcher, server] = self.processes(name)?;
        let both = [watcher, server];
        for pid in both {
            signal(&[pid], "STOP");
        }
        Ok(both)
    }

    /// The processes of a data server, each the parent of the next: `ropewalk up`, the one that watches, the one that serves.
    pub(crate) fn processes(&self, name: &str) -> Result<[u32; 3]> {
        let server = self.pid(name)?;
        let above = |pid| parent(pid).ok_or_else(|| Failure::new(format!("nobody watches {name}")));
        let watcher = above(server)?;
        Ok([above(watcher)?, watcher, server])
    }

    /// Gives settings of its file, names and TOML values, to a server, which is killed and starts again with them. Returns what
    /// the file said before.
    pub(crate) fn configure(&self, name: &str, settings: &[(&str, &str)]) -> Result<String> {
        let path = self.config(name);
        let before =
            fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
        self.restart_with(name, &with_settings(&before, settings))?;
        Ok(before)
    }

    /// Writes the file of a server, and kills the server, which starts again.
    pub(crate) fn restart_with(&self, name: &str, config: &str) -> Result<()> {
        let path = self.config(name);
        fs::write(&path, config).context(|| format!("cannot write {}", path.display()))?;
        let old = self.signal(name, "KILL")?;
        self.await_restart(name, old)
    }

    fn config(&self, name: &str) -> PathBuf {
        let kind = name.split('-').next().unwrap_or(name);
        self.dir.join(name).join(format!("{kind}.toml"))
    }

    /// The number by which the MDS knows the data server `name`.
    pub(crate) fn ds_id(&self, name: &str) -> Result<u64> {
        let status = self.status(name)?;
        let id = status["ds_id"].as_u64();
        id.ok_or_else(|| Failure::new(format!("{name} does not say its id")))
    }

    /// Waits until the MDS says that a data server is in this state.
    pub(crate) fn await_ds_state(&self, id: u64, state: &str) -> Result<()> {
        await_state(&format!("data server {id} was not {state}"), || {
            let mds = self.mds()?;
            let all = mds["data_servers"].as_array();
            let is = |ds: &Value| ds["id"] == id && ds["state"] == state;
            Ok(all.is_some_and(|all| all.iter().any(is)))
        })
    }

    /// Waits until `name` runs as another process than `old`, and serves as the MDS and itself see it.
    pub(crate) fn await_restart(&self, name: &str, old: u32) -> Result<()> {
        await_state(&format!("{name} did not serve again"), || {
            let serves = |status: &Value| status["state"] == "serving" || name == "mds";
            // It may not listen yet, or be gone: then it is asked again.
            let own = self
                .status(name)
                .is_ok_and(|status| number(&status, "pid") != u64::from(old) && serves(&status));
            Ok(own
                && self.mds().is_ok_and(|mds| {
                    let all = mds["data_servers"].as_array();
                    all.is_some_and(|all| all.iter().all(|ds| ds["state"] == "serving"))
                }))
        })
    }
}

/// Waits until `reached` says so.
pub(crate) fn await_state(
    otherwise: &str,
    mut reached: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + STATE_LIMIT;
    while !reached()? {
        if Instant::now() >= deadline {
            let limit_s = STATE_LIMIT.as_secs();
            return Err(Failure::new(format!("{otherwise} in {limit_s} s")));
        }
        thread::sleep(STATE_POLL);
    }
    Ok(())
}

/// A configuration with these settings at its top, in place of those of the same names.
fn with_settings(config: &str, settings: &[(&str, &str)]) -> String {
    let mut text: String = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}\n"))
        .collect();
    let mut is_top = true;
    for line in config.lines() {
        is_top &= !line.starts_with('[');
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        if !(is_top && settings.iter().any(|(given, _)| *given == name)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// A number of a status, 0 when it is not there.
fn number(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! What the MDS is told.

    use super::*;

    #[test]
    fn settings_take_the_place_of_those_of_their_names() {
        let config = "# words\nlisten = [\"a\"]\nworkers = 0\n\n[root]\nlisten = 1\n";
        let settings = [("listen", "[\"b\"]"), ("domain", "\"c\"")];
        assert_eq!(
            with_settings(config, &settings),
            "listen = [\"b\"]\ndomain = \"c\"\n# words\nworkers = 0\n\n[root]\nlisten = 1\n"
        );
    }
}
