//! `ropewalk ds` as two processes: one that watches, and its child that serves (P23).
//!
//! A Linux client gives a data server up for two minutes when its port refuses (L1 of the Linux client). It waits for ever when
//! the server hangs (L2). It goes on at once when connections break while the port accepts (L4). So the watcher keeps the ports
//! open over the death of the server, starts it again, and makes a hanging server a dead one.
//!
//! `ports` are the listening sockets, `line` is the socket between both processes, `pulse` gives the server's signs, `cut` ends
//! the connections of a process that hangs, `service` is what systemd hears. The loop of the watcher is here.
//!
//! # Ownership
//! The watcher owns the listening sockets and the child. It is small, has one thread but those of its log and of a start,
//! and touches no store. The child owns all else, the lock of its directory included.
//!
//! # Ordering
//! Ports are bound before the first start, so that a busy one is found before anything is joined. The child asks for the sockets
//! once its stores are open, and is watched from then on. A stop gives up the sockets, then sends SIGTERM, then SIGKILL after
//! [`STOP_GRACE`].
//!
//! # Failure
//! - The child dies: it is started again, at once, or after a pause when it dies often ([`Backoff`]).
//! - The child gives no sign for [`SILENT_MAX`]: its connections are cut, and it is killed.
//! - No child serves for [`PORTS_KEPT_MAX`]: the ports refuse until one asks for the sockets. Nothing here waits for a disk, the log neither.
//! - The child leaves in order, or ends before it has served once: this process ends as it did.
//! - The store was in memory: what it held is lost, and this process ends.
//! - This process dies: the child's line ends, and the child stops in order.

mod cut;
pub(crate) mod line;
mod news;
pub(crate) mod ports;
pub(crate) mod pulse;
mod service;

use crate::backoff::Backoff;
use crate::cli::DaemonArgs;
use crate::config::{self, DsConfig, StoreKind};
use crate::daemon::{STOP_MAX, Signals, parent_gone};
use crate::failure::{Failure, Outcome, cannot, failed};
use crate::logging;
use crate::reload;
use line::Sign;
use news::News;
use ports::HeldPorts;
use rustix::process::{Pid, Signal, kill_process};
use service::Service;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use systemd::PassedFd;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the clocks below are looked at.
const TICK: Duration = Duration::from_millis(250);
/// A server that gives no sign for so long hangs: half of the usual lease of a data server.
const SILENT_MAX: Duration = Duration::from_millis(2500);
/// The same in ticks. Ticks are counted, not time: when this process stood still, so did the server perhaps.
const SILENT_TICKS_MAX: u128 = SILENT_MAX.as_millis() / TICK.as_millis();
/// How long the ports stay open while nobody serves.
const PORTS_KEPT_MAX: Duration = Duration::from_secs(3);
/// A child that was asked to stop and runs on after this is killed.
const STOP_GRACE: Duration = STOP_MAX.saturating_add(Duration::from_secs(1));
/// A killed child that is still there after this waits for a disk; a stop waits no longer.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Bytes of signs that are read at once.
const SIGNS_MAX: usize = 64;

/// The watcher, until the data server has ended for good.
pub(crate) async fn run(args: &DaemonArgs, config: DsConfig, passed: Vec<PassedFd>) -> Outcome {
    let (mut signals, mut hangup) = (Signals::take()?, reload::hangup()?);
    let mut watch = Watch::new(&args.config, &config, passed)?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let parent = async {
        if args.exit_with_parent {
            parent_gone().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(parent);
    let mut has_parent = true;
    loop {
        let end = tokio::select! {
            name = signals.stop() => watch.stop(name),
            () = &mut parent, if has_parent => {
                has_parent = false;
                watch.stop("the parent is gone")
            }
            _ = hangup.recv() => watch.reload(),
            event = watch.event() => watch.heed(event),
            _ = ticks.tick() => watch.tick(),
        };
        if let Some(end) = end {
            return end;
        }
    }
}

/// A child that runs.
struct Life {
    child: Child,
    pid: Pid,
    started: Instant,
    /// Gone when the child has closed its end.
    line: Option<UnixStream>,
    /// What it was started with.
    config: DsConfig,
    /// It has the sockets.
    serves: bool,
    /// When it was sent SIGKILL.
    killed: Option<Instant>,
    silent_ticks: u128,
}

/// Something that happened to the child.
enum Event {
    Started(Outcome<Box<Life>>),
    Ended(std::io::Result<ExitStatus>),
    /// Bytes of the line; none when it has ended.
    Said(usize, [u8; SIGNS_MAX]),
}

struct Watch {
    file: PathBuf,
    ports: Option<HeldPorts>,
    life: Option<Box<Life>>,
    starting: Option<JoinHandle<Outcome<Box<Life>>>>,
    /// When the next child starts.
    start_at: Option<Instant>,
    /// Since when nobody serves.
    gone_since: Option<Instant>,
    served_once: bool,
    /// A reload was asked for before the child could take one.
    reload_waits: bool,
    /// When a stop was asked for, or the child said that it leaves.
    stopping: Option<Instant>,
    backoff: Backoff,
    news: News,
    service: Service,
}

impl Watch {
    fn new(file: &Path, config: &DsConfig, passed: Vec<PassedFd>) -> Outcome<Self> {
        let service = Service::of_environment()?;
        let ports = HeldPorts::bind(config, file, service.manager(), passed)?;
        Ok(Self {
            file: file.to_owned(),
            ports: Some(ports),
            life: None,
            starting: Some(start(file)),
            start_at: None,
            gone_since: Some(Instant::now()),
            served_once: false,
            reload_waits: false,
            stopping: None,
            backoff: Backoff::new(Duration::ZERO),
            news: News::start()?,
            service,
        })
    }

    /// The next thing that happens to the child; never, while there is none.
    async fn event(&mut self) -> Event {
        if let Some(starting) = &mut self.starting {
            let started = starting.await;
            self.starting = None;
            return Event::Started(started.unwrap_or_else(|e| Err(cannot("start a process")(e))));
        }
        let Some(life) = &mut self.life else {
            return std::future::pending().await;
        };
        let mut bytes = [0; SIGNS_MAX];
        let line = async {
            match &mut life.line {
                Some(line) => line.read(&mut bytes).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What it said last comes before its end.
            biased;
            read = line => Event::Said(read.unwrap_or(0), bytes),
            ended = life.child.wait() => Event::Ended(ended),
        }
    }

    fn heed(&mut self, event: Event) -> Option<Outcome> {
        match event {
            Event::Started(Ok(life)) => {
                self.news.info(format!("process {} starts", life.pid));
                self.life = Some(life);
                // A stop that came meanwhile is for it.
                let stopping = self.stopping.take();
                stopping.and_then(|_| self.stop("told to stop while it started"))
            }
            Event::Started(Err(_)) if self.stopping.is_some() => Some(Ok(())),
            Event::Started(Err(why)) if !self.served_once => Some(Err(why)),
            Event::Started(Err(why)) => {
                self.start_later(Duration::ZERO, &why.to_string());
                None
            }
            Event::Ended(Ok(status)) => self.ended(status),
            Event::Ended(Err(why)) => Some(Err(cannot("wait for the data server's process")(why))),
            Event::Said(0, _) => {
                self.life.as_mut()?.line = None;
                None
            }
            Event::Said(len, bytes) => {
                let signs = bytes[..len].iter().filter_map(|byte| Sign::of(*byte));
                signs.map(|sign| self.told(sign)).find_map(|end| end)
            }
        }
    }

    fn told(&mut self, sign: Sign) -> Option<Outcome> {
        let life = self.life.as_mut()?;
        life.silent_ticks = 0;
        match sign {
            Sign::Alive => None,
            Sign::Serving => {
                self.service.serving(life.pid);
                if std::mem::take(&mut self.reload_waits) {
                    self.service.reloading();
                    let _ = kill_process(life.pid, Signal::HUP);
                }
                None
            }
            Sign::Reloaded => {
                follow_log(&self.file);
                self.service.reloaded();
                None
            }
            Sign::Leaving => {
                self.service.stopping();
                self.ports = None;
                self.stopping.get_or_insert_with(Instant::now);
                None
            }
            Sign::Ready => match self.hand_over() {
                Ok(()) => None,
                Err(why) if !self.served_once => Some(Err(why)),
                Err(why) => {
                    self.news.warn(why.to_string());
                    self.kill();
                    None
                }
            },
        }
    }

    /// Gives the child the sockets; new ones when the old are shut or those of another configuration.
    fn hand_over(&mut self) -> Outcome {
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        if self.stopping.is_some() {
            life.line = None;
        }
        let Some(line) = &life.line else {
            return Ok(());
        };
        let manager = self.service.manager();
        let held = match self.ports.take() {
            Some(held) if held.fit(&life.config) => held,
            others => {
                // systemd would go on listening there.
                if let Some(others) = others {
                    others.shut(manager);
                }
                HeldPorts::bind(&life.config, &self.file, manager, Vec::new())?
            }
        };
        line::hand_over(line, &held.sockets()).map_err(cannot("hand over the sockets"))?;
        life.serves = true;
        self.ports = Some(held);
        self.gone_since = None;
        self.served_once = true;
        Ok(())
    }

    /// Looks at the clocks.
    fn tick(&mut self) -> Option<Outcome> {
        let now = Instant::now();
        let past = |since: Option<Instant>, limit| since.is_some_and(|since| now - since >= limit);
        self.service.tick(self.gone_since);
        if self.stopping.is_some() {
            let killed = self.life.as_ref().and_then(|life| life.killed);
            if past(killed, KILL_GRACE) && past(self.stopping, KILL_GRACE) {
                return Some(Err(failed(
                    "the data server's process does not end, although it was killed: it waits for its disk",
                )));
            }
            if past(self.stopping, STOP_GRACE) {
                self.kill();
            }
            return None;
        }
        if past(self.gone_since, PORTS_KEPT_MAX)
            && let Some(ports) = self.ports.take()
        {
            ports.shut(self.service.manager());
            self.news
                .warn("nobody serves for 3 s: clients are refused until somebody does".to_owned());
        }
        if past(self.start_at, Duration::ZERO) {
            self.start_at = None;
            self.starting = Some(start(&self.file));
        }
        if let Some(life) = &mut self.life
            && life.serves
            && life.killed.is_none()
        {
            life.silent_ticks += 1;
            if life.silent_ticks >= SILENT_TICKS_MAX {
                self.end_silent();
            }
        }
        None
    }

    /// Ends a child that gives no sign.
    fn end_silent(&mut self) {
        let Some(pid) = self.life.as_ref().map(|life| life.pid) else {
            return;
        };
        let kept = self.ports.as_ref().map_or(Vec::new(), HeldPorts::addresses);
        let cut = cut::cut_connections(pid, &kept);
        self.kill();
        let silent_ms = SILENT_MAX.as_millis();
        self.news.warn(match cut {
            Ok(cut) => format!(
                "process {pid} has given no sign for {silent_ms} ms: killed, after {cut} of its sockets were cut"
            ),
            Err(error) => format!(
                "process {pid} has given no sign for {silent_ms} ms: killed; its connections end with it, since they cannot be cut: {error}"
            ),
        });
    }

    fn kill(&mut self) {
        if let Some(life) = &mut self.life {
            life.killed.get_or_insert_with(Instant::now);
            self.gone_since.get_or_insert_with(Instant::now);
            // It may have ended in this moment; wait says so.
            let _ = kill_process(life.pid, Signal::KILL);
        }
    }

    /// Has the child take its configuration again. One that does not serve yet has just read it, or will.
    fn reload(&mut self) -> Option<Outcome> {
        self.service.reloading();
        match &self.life {
            Some(life) if life.serves && life.killed.is_none() => {
                let _ = kill_process(life.pid, Signal::HUP);
            }
            // It has read the file already, and cannot take another one before it serves.
            Some(_) => self.reload_waits = true,
            None => self.service.reloaded(),
        }
        None
    }

    /// Asks the child to stop; a second time, it stops at once.
    fn stop(&mut self, why: &str) -> Option<Outcome> {
        self.news.info(format!("{why}, stopping"));
        self.service.stopping();
        self.ports = None;
        self.start_at = None;
        self.stopping.get_or_insert_with(Instant::now);
        match &mut self.life {
            Some(life) => {
                if !life.serves {
                    // It may wait for the sockets.
                    life.line = None;
                }
                let _ = kill_process(life.pid, Signal::TERM);
                None
            }
            None if self.starting.is_some() => None,
            None => Some(Ok(())),
        }
    }

    fn ended(&mut self, status: ExitStatus) -> Option<Outcome> {
        let life = self.life.take()?;
        let how = |what: &str| failed(format!("the data server's process {what}: {status}"));
        let told = |code: i32| match u8::try_from(code) {
            Ok(0) => Ok(()),
            Ok(code) => Err(Failure::Told(code)),
            Err(_) => Err(how("ended")),
        };
        if self.stopping.is_some() {
            let by_our_signal = status.signal() == Some(Signal::TERM.as_raw());
            return Some(match status.code() {
                Some(code) => told(code),
                None if by_our_signal => Ok(()),
                None => Err(how("did not stop in order")),
            });
        }
        if !self.served_once {
            let end = status.code().map(told);
            return Some(end.unwrap_or_else(|| Err(how("ended"))));
        }
        if life.config.store == StoreKind::Memory {
            return Some(Err(how("ended, and its store was in memory")));
        }
        self.start_later(
            life.started.elapsed(),
            &format!("process {} ended: {status}", life.pid),
        );
        None
    }

    /// Starts the next child, after a pause if that is due.
    fn start_later(&mut self, lived: Duration, why: &str) {
        let now = Instant::now();
        let pause = self.backoff.after(lived);
        self.gone_since.get_or_insert(now);
        let again = if pause.is_zero() {
            self.starting = Some(start(&self.file));
            "started again".to_owned()
        } else {
            self.start_at = Some(now + pause);
            format!("started again in {} ms", pause.as_millis())
        };
        let told = format!("{why}; {again}");
        self.service.unserved(&told);
        self.news.warn(told);
    }
}

/// Starts a child on a thread of its own: reading the configuration and the program may wait for a disk.
fn start(file: &Path) -> JoinHandle<Outcome<Box<Life>>> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || spawn(&file))
}

/// Logs what the configuration says from now on, on a thread of its own as well. A wrong file is told of by the child.
fn follow_log(file: &Path) {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || {
        if let Ok(config) = config::load::<DsConfig>(&file) {
            let _ = logging::set_log(config.log.as_deref());
        }
    });
}

fn spawn(file: &Path) -> Outcome<Box<Life>> {
    let config: DsConfig = config::load(file)?;
    logging::set_log(config.log.as_deref()).map_err(failed)?;
    let what = "start the data server's process";
    let (ours, theirs) = UnixStream::pair().map_err(cannot(what))?;
    let theirs = theirs.into_std().map_err(cannot(what))?;
    // The child waits for its sockets.
    theirs.set_nonblocking(false).map_err(cannot(what))?;
    let mut command = Command::new("/proc/self/exe");
    // What systemd gives is for this process.
    for variable in systemd::ENVIRONMENT {
        command.env_remove(variable);
    }
    let child = command
        .arg0("ropewalk")
        .args(["ds", "--watched", "--config"])
        .arg(file)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        // Ctrl-C in a terminal is for us, who tell the child.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot(what))?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    Ok(Box::new(Life {
        child,
        pid: pid.ok_or_else(|| failed("the data server's process ended at once"))?,
        started: Instant::now(),
        line: Some(ours),
        config,
        serves: false,
        killed: None,
        silent_ticks: 0,
    }))
}
