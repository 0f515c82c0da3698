//! A running cluster of one machine: its servers as child processes, from the plan to the last exit.
//!
//! # Ordering
//! The metadata server starts first; each new data server gets a join token of its own. The cluster is ready when every
//! data server is online and a placement group holds all that have room. The metadata server stops first, while the
//! data servers still take what it proxies.
//!
//! # Failure
//! A server that ends before the cluster is ready ends the start, with the last line of its log. Later it is started
//! again (see `child`), except in a cluster in memory, where what it held is lost.

use crate::access::NewAccess;
use crate::admin::{Request, SOCKET_NAME, ask_at};
use crate::config::is_loopback;
use crate::config::{DsConfig, StoreKind};
use crate::daemon::StateDir;
use crate::failure::{Failure, Outcome, cannot, failed};
use crate::status::{DataServerRow, MdsStatus, STATE_EXPELLED, ServerStatus};
use crate::token::Token;
use crate::up::child::{ChildSpec, Event, Supervised};
use crate::up::plan::{Member, Plan};
use ::admin::CallerRole;
use rustix::process::Pid;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A cluster that is not ready after this does not become so.
const READY_MAX: Duration = Duration::from_secs(120);
/// How often the metadata server is asked whether it is ready.
const POLL: Duration = Duration::from_millis(50);
/// After how long without progress we say what we wait for, and how often.
const SAY_AFTER: Duration = Duration::from_secs(5);
/// Events that wait to be read; children wait beyond it.
const EVENTS_MAX: usize = 64;
/// Life of the tokens that `up` makes for its own data servers.
const TOKEN_TTL_S: u64 = 600;
/// How long the token in the address of the page is good, in seconds.
const PAGE_TOKEN_TTL_S: u64 = 24 * 3600;

/// Name of a server's identity in its state directory.
pub(crate) const IDENTITY_NAME: &str = "identity.pem";

/// A cluster whose servers run.
pub(crate) struct Cluster {
    plan: Plan,
    mds: Option<Supervised>,
    ds: Vec<Supervised>,
    events: mpsc::Receiver<Event>,
    tell: mpsc::Sender<Event>,
    _lock: StateDir,
}

impl Cluster {
    /// Checks the ports, writes the configuration and starts everything; returns when the cluster is ready.
    /// `say` gets a line when something takes long.
    pub(crate) async fn start(mut plan: Plan, say: impl Fn(&str)) -> Outcome<Self> {
        let lock = StateDir::take(&plan.dir)?;
        plan.need_free_ports()?;
        plan.write()?;
        let (tell, events) = mpsc::channel(EVENTS_MAX);
        let mut cluster = Self {
            plan,
            mds: None,
            ds: Vec::new(),
            events,
            tell,
            _lock: lock,
        };
        match cluster.bring_up(&say).await {
            Ok(()) => Ok(cluster),
            Err(e) => {
                cluster.stop().await;
                Err(e)
            }
        }
    }

    async fn bring_up(&mut self, say: &impl Fn(&str)) -> Outcome {
        self.mds = Some(self.child("mds", &self.plan.mds)?);
        self.wait_until(say, |_| Ok(())).await?;
        let status: ServerStatus = ask_async(self.socket(), Request::Status).await?;
        let ServerStatus::Mds(mds) = status else {
            return Err(failed("the metadata server's socket is a data server's"));
        };
        let mut known = mds.data_servers.len();
        self.heed_missing(&mds, say)?;
        for index in 0..self.plan.ds.len() {
            let is_new = self.give_token(index).await?;
            let child = self.child("ds", &self.plan.ds[index])?;
            self.ds.push(child);
            if is_new {
                // One after the other, so that ds-3 gets id 3 in a cluster that only grew here.
                let name = self.plan.ds[index].name.clone();
                let joined = known.saturating_add(1);
                self.wait_until(say, move |status| {
                    let there = status.data_servers.len() >= joined;
                    if there {
                        Ok(())
                    } else {
                        Err(format!("{name} to join"))
                    }
                })
                .await?;
                known = joined;
            }
        }
        let wanted = self.plan.ds.len();
        let status = self
            .wait_until(say, move |status| is_ready(status, wanted))
            .await?;
        for ds in status.data_servers.iter().filter(|ds| ds.full) {
            say(&ds.full_text());
        }
        for ds in &self.plan.ds {
            // Used up; a later token comes with a later join.
            let _ = std::fs::remove_file(token_path(ds));
        }
        Ok(())
    }

    /// Tells of data servers that the cluster had on this machine and that are not planned: their directories are gone.
    /// An error when others would be made in their place, under their names.
    fn heed_missing(&self, mds: &MdsStatus, say: &impl Fn(&str)) -> Outcome {
        let missing = missing(mds, &self.plan);
        for (id, address) in &missing {
            say(&format!(
                "data server {id} ({address}) has no directory here any more; what it holds cannot be read. Bring its directory \
                 back, or put it out for good: ropewalk expel {id}"
            ));
        }
        let new = self.plan.ds.iter().find(|ds| is_new_on_disk(ds));
        match (missing.first(), new) {
            (Some((id, _)), Some(new)) => Err(failed(format!(
                "{} would be made in the place of data server {id}, whose directory is gone: bring that back, or start \
                 without a larger --ds and put it out with `ropewalk expel {id}`",
                new.name
            ))),
            _ => Ok(()),
        }
    }

    fn child<C>(&self, role: &'static str, member: &Member<C>) -> Outcome<Supervised> {
        let spec = ChildSpec {
            name: member.name.clone(),
            role,
            config: member.file.clone(),
            log: member.dir.join("log"),
        };
        Supervised::start(spec, self.tell.clone())
    }

    /// The address of the page, where it is served; with a new token in it, if that is wanted. The fragment stays in the
    /// browser.
    pub(crate) async fn dashboard(&self, with_token: bool) -> Outcome<Option<String>> {
        let Some(address) = self.plan.mds.config.admin_listen.first() else {
            return Ok(None);
        };
        let scheme = match is_loopback(address.ip()) {
            true => "http",
            false => "https",
        };
        if !with_token {
            return Ok(Some(format!("{scheme}://{address}/")));
        }
        let request = Request::AccessCreate {
            name: "ropewalk up".to_owned(),
            role: CallerRole::Operator,
            ttl_seconds: Some(PAGE_TOKEN_TTL_S),
        };
        let made: NewAccess = ask_async(self.socket(), request).await?;
        Ok(Some(format!("{scheme}://{address}/#token={}", made.token)))
    }

    /// A data server without an identity gets a token, in the file that its configuration names. Says whether.
    async fn give_token(&self, index: usize) -> Outcome<bool> {
        let ds = &self.plan.ds[index];
        if ds.config.store == StoreKind::Disk && !is_new_on_disk(ds) {
            return Ok(false);
        }
        let request = Request::TokenCreate {
            ttl_seconds: TOKEN_TTL_S,
        };
        let token: Token = ask_async(self.socket(), request).await?;
        let path = token_path(ds);
        let write = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(token.token.as_bytes())
        };
        write().map_err(cannot(format_args!("write {}", path.display())))?;
        Ok(true)
    }

    /// Asks the metadata server until `done` is content, and returns what it said then; `Err` of `done` says what is missing.
    async fn wait_until(
        &mut self,
        say: &impl Fn(&str),
        done: impl Fn(&MdsStatus) -> Result<(), String>,
    ) -> Outcome<MdsStatus> {
        let started = Instant::now();
        let mut say_at = started + SAY_AFTER;
        loop {
            let missing = match ask_async::<MdsStatus>(self.socket(), Request::Status).await {
                Ok(status) => match done(&status) {
                    Ok(()) => return Ok(status),
                    Err(missing) => missing,
                },
                Err(_) => "the metadata server".to_owned(),
            };
            match self.events.try_recv() {
                Ok(Event::Expelled { name }) => say(&expelled_text(&name)),
                Ok(event) => return Err(self.start_failure(event)),
                Err(_) => {}
            }
            if Instant::now() >= say_at {
                say(&format!("waiting for {missing}"));
                say_at += SAY_AFTER;
            }
            if started.elapsed() >= READY_MAX {
                let logs = self.plan.dir.display();
                return Err(failed(format!(
                    "the cluster is not ready after {} s: it waits for {missing}; the logs are {logs}/*/log",
                    READY_MAX.as_secs()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn start_failure(&self, event: Event) -> Failure {
        match event {
            Event::Died {
                name,
                how,
                last_words,
                ..
            } => {
                let log = self.plan.dir.join(&name).join("log");
                failed(format!(
                    "{name} does not start ({how}){} (log: {})",
                    said(last_words.as_deref()),
                    log.display()
                ))
            }
            Event::NotStarted { name, why } => failed(format!("{name} does not start: {why}")),
            Event::Expelled { name } => failed(expelled_text(&name)),
        }
    }

    /// The next thing that happens to a server. An error when the cluster cannot go on.
    pub(crate) async fn event(&mut self) -> Outcome<String> {
        let event = self.events.recv().await.expect("we hold a sender");
        let memory = self.plan.mds.config.store == StoreKind::Memory;
        match event {
            Event::Died {
                name,
                how,
                last_words,
                ..
            } if memory => Err(failed(format!(
                "{name} ended ({how}), and what it held in memory is lost{}",
                said(last_words.as_deref())
            ))),
            Event::Died {
                name,
                how,
                last_words,
                pause,
            } => Ok(format!(
                "{name} ended ({how}) and is started again in {:.1} s{}",
                pause.as_secs_f32(),
                said(last_words.as_deref())
            )),
            Event::NotStarted { name, why } => Ok(format!("{name} cannot be started: {why}")),
            Event::Expelled { name } => Ok(expelled_text(&name)),
        }
    }

    /// Kills data server `index` of the plan and its watcher, as a machine is lost. It is not started again.
    /// Must be called once at most: later indexes would be off.
    pub(crate) async fn lose_ds(&mut self, index: usize) -> Outcome {
        let member = &self.plan.ds[index];
        let what = format!("kill {}", member.name);
        let status = ask_async(member.dir.join(SOCKET_NAME), Request::Status).await?;
        let ServerStatus::Ds(ds) = status else {
            return Err(failed(format!("{} is not a data server", member.name)));
        };
        let pid = Pid::from_raw(ds.pid.cast_signed());
        let pid = pid.ok_or_else(|| cannot(what)("it tells no process id"))?;
        self.ds.remove(index).lose(pid).await;
        Ok(())
    }

    /// The plan that it runs.
    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The metadata server's admin socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.plan.mds.dir.join(SOCKET_NAME)
    }

    /// Stops every server, the metadata server first.
    pub(crate) async fn stop(mut self) {
        // Children that report an end now must not wait for a reader.
        self.events.close();
        if let Some(mds) = self.mds.take() {
            mds.stop().await;
        }
        let tasks: Vec<_> = self
            .ds
            .drain(..)
            .map(|ds| tokio::spawn(ds.stop()))
            .collect();
        for task in tasks {
            let _ = task.await;
        }
    }
}

/// [`ask_at`] without blocking the runtime.
pub(crate) async fn ask_async<T>(socket: PathBuf, request: Request) -> Outcome<T>
where
    T: serde::de::DeserializeOwned + Send + 'static,
{
    tokio::task::spawn_blocking(move || ask_at(&socket, &request))
        .await
        .map_err(cannot("ask the metadata server"))?
}

/// Whether it has yet to join. One in memory joins at each start, in its own place.
fn is_new_on_disk(ds: &Member<DsConfig>) -> bool {
    ds.config.store == StoreKind::Disk && !ds.dir.join(IDENTITY_NAME).exists()
}

/// Ids and addresses of data servers of this machine that are not planned.
fn missing(mds: &MdsStatus, plan: &Plan) -> Vec<(u32, SocketAddr)> {
    let advertised = plan.ds.iter().flat_map(|ds| ds.config.advertised());
    let hosts: Vec<IpAddr> = advertised.map(SocketAddr::ip).collect();
    // A new one may have been given the port of the one that is gone.
    let old = plan.ds.iter().filter(|ds| !is_new_on_disk(ds));
    let planned: Vec<SocketAddr> = old.flat_map(|ds| ds.config.advertised().to_vec()).collect();
    let members = mds
        .data_servers
        .iter()
        .filter(|ds| ds.state != STATE_EXPELLED);
    let address = |ds: &DataServerRow| Some((ds.id, ds.addresses.first()?.parse().ok()?));
    members
        .filter_map(address)
        .filter(|(_, a): &(u32, SocketAddr)| hosts.contains(&a.ip()) && !planned.contains(a))
        .collect()
}

fn token_path(ds: &Member<DsConfig>) -> PathBuf {
    let named = ds.config.join_token_file.as_deref();
    named.map_or_else(|| ds.dir.join("join.token"), Path::to_path_buf)
}

fn expelled_text(name: &str) -> String {
    format!("{name} was expelled from the cluster and stays down")
}

/// The end of a sentence about a process that ended.
fn said(last_words: Option<&str>) -> String {
    last_words.map_or_else(String::new, |words| format!("; its last words: {words}"))
}

/// Whether files can be striped over all `planned` data servers that are not expelled and not full, or what is missing.
/// A cluster whose data servers are all full serves reads and removals, and is ready.
fn is_ready(status: &MdsStatus, planned: usize) -> Result<(), String> {
    let expelled = status
        .data_servers
        .iter()
        .filter(|ds| ds.state == STATE_EXPELLED)
        .count();
    let wanted = planned.saturating_sub(expelled);
    if wanted == 0 {
        return Err("a data server that was not expelled: start with a larger --ds".to_owned());
    }
    let online = status
        .data_servers
        .iter()
        .filter(|ds| ds.is_online())
        .count();
    if online < wanted {
        return Err(format!("{} of {wanted} data servers", wanted - online));
    }
    let full = status.data_servers.iter().filter(|ds| ds.full).count();
    let with_room = wanted.saturating_sub(full);
    let widest = status.groups.iter().map(|group| group.ds_ids.len()).max();
    if widest.unwrap_or(0) < with_room {
        return Err(format!(
            "a placement group over {with_room} data servers with room"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{DataServerRow, GroupRow, STATE_SERVING};

    /// A status of data servers in the states given, full where `true`, and of one group over `in_group` of them.
    fn status(servers: &[(&str, bool)], in_group: u32) -> MdsStatus {
        let row = |(id, &(state, full)): (u32, &(&str, bool))| DataServerRow {
            id,
            state: state.to_owned(),
            full,
            ..Default::default()
        };
        MdsStatus {
            data_servers: (1..).zip(servers).map(row).collect(),
            groups: vec![GroupRow {
                id: 1,
                ds_ids: (1..=in_group).collect(),
                places: Vec::new(),
            }],
            ..Default::default()
        }
    }

    #[test]
    fn full_and_expelled_data_servers_hold_up_no_start() {
        let serves = (STATE_SERVING, false);
        let full = (STATE_SERVING, true);
        let expelled = (STATE_EXPELLED, false);
        type Case<'a> = (&'a [(&'a str, bool)], u32, Result<(), &'a str>);
        let cases: [Case<'_>; 7] = [
            (&[serves, serves], 2, Ok(())),
            (
                &[serves, serves],
                1,
                Err("a placement group over 2 data servers with room"),
            ),
            (&[serves, full], 1, Ok(())),
            (&[full, full], 0, Ok(())),
            (&[serves, expelled], 1, Ok(())),
            (&[serves, ("away", false)], 2, Err("1 of 2 data servers")),
            (
                &[expelled, expelled],
                0,
                Err("a data server that was not expelled: start with a larger --ds"),
            ),
        ];
        for (servers, in_group, ready) in cases {
            let said = is_ready(&status(servers, in_group), servers.len());
            assert_eq!(said, ready.map_err(str::to_owned), "{servers:?} {in_group}");
        }
    }
}
