//! The metadata server under test, with the stub servers and sessions attached to it.

use super::ScaleWork;
use super::load_process::{LoadProcess, Peers};
use super::loads::{Client, Kind, Load as Asks};
use super::mds::Mds;
use super::recorder::{Place, Recorder, counted, gauge};
use crate::load::{self, Load, Requester, Tally};
use crate::process::Launcher;
use crate::suite::plan::X;
use crate::{BenchError, Sample, interrupt};
use nfs4::DeviceId;
use std::time::{Duration, Instant};

/// How often a signal is looked for while it is.
const WINDOW_POLL: Duration = Duration::from_millis(100);
/// How long it may take until files have the width that they should, and how often that is tried.
const WIDTH_MAX: Duration = Duration::from_secs(60);
const WIDTH_POLL: Duration = Duration::from_millis(100);
/// LAYOUTGETs of each width.
const LAYOUTS_COUNT: u32 = 200;
/// The number of the first client that asks for something.
const CLIENTS_FIRST: usize = 1_000_000;
/// Leases of clients are 60 s; a client renews when two thirds are over, as Linux does.
pub(super) const RENEW_EVERY_MS: u64 = 40_000;

/// A count, and what it took.
pub(super) type Took = (f64, f64);

/// How long it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Groups are made, floors acknowledged, memory given back: then it is quiet.
    pub(super) settle: Duration,
    /// How long those are watched who only live.
    pub(super) window: Duration,
}

/// The metadata server under test, and the stub servers and sessions attached to it.
pub(super) struct ScaleRig<'a> {
    // Processes end before the server does.
    servers: Vec<LoadProcess>,
    sessions: Vec<LoadProcess>,
    mds: Mds,
    times: Times,
    launcher: &'a Launcher,
    /// Memory and CPU (cores) before anybody came.
    pub(super) idle: Took,
    /// Who is there.
    pub(super) now: ScaleWork,
    /// CPU for a heartbeat and for a renewal, as last seen, in seconds.
    each_s: (f64, f64),
    /// Memory that all data servers, and all sessions, have taken, in bytes.
    taken: (u64, u64),
    clients_count: usize,
}

/// What was seen at a size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Data servers, and the memory that they have taken.
    pub(super) ds: Took,
    /// Sessions, and the memory that they have taken.
    pub(super) sessions: Took,
    /// Heartbeats, and their CPU.
    pub(super) heartbeats: Took,
    /// Renewals, and their CPU.
    pub(super) renewals: Took,
    /// All memory.
    pub(super) memory_bytes: f64,
    /// CPU (cores) with everybody there.
    pub(super) cores: f64,
}

/// A time in which everybody only lives.
struct Window {
    elapsed: Duration,
    cpu: Duration,
    heartbeats: Tally,
    renewals: Tally,
}

#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

impl Window {
    /// The CPU that is not explained by so many cores and by requests of another kind.
    fn beyond(&self, cores: f64, others: &Tally, each_s: f64) -> Duration {
        let known = cores * self.elapsed.as_secs_f64() + float(others.requests_count) * each_s;
        let known = Duration::try_from_secs_f64(known).unwrap_or_default();
        self.cpu.saturating_sub(known)
    }
}

fn took(sample: &Sample) -> Took {
    let count = float(sample.requests_count);
    (count, sample.server_cpu.as_secs_f64())
}

fn each_s((count, sum): Took) -> f64 {
    if count > 0.0 { sum / count } else { 0.0 }
}

impl<'a> ScaleRig<'a> {
    /// A metadata server with nobody.
    pub(super) fn start(
        mds: Mds,
        times: Times,
        launcher: &'a Launcher,
    ) -> Result<Self, BenchError> {
        let mut rig = Self {
            servers: Vec::new(),
            sessions: Vec::new(),
            mds,
            times,
            launcher,
            idle: (0.0, 0.0),
            now: ScaleWork::default(),
            each_s: (0.0, 0.0),
            taken: (0, 0),
            clients_count: 0,
        };
        std::thread::sleep(times.settle);
        let alone = rig.watch()?;
        let cores = alone.cpu.as_secs_f64() / alone.elapsed.as_secs_f64();
        rig.idle = (float(rig.mds.memory_bytes()?), cores);
        Ok(rig)
    }

    fn watch(&mut self) -> Result<Window, BenchError> {
        self.report()?;
        let (start, before) = (Instant::now(), self.mds.cpu()?);
        while start.elapsed() < self.times.window {
            interrupt::check()?;
            std::thread::sleep(WINDOW_POLL);
        }
        let (elapsed, cpu) = (start.elapsed(), self.mds.cpu()?.saturating_sub(before));
        let (heartbeats, renewals) = self.report()?;
        Ok(Window {
            elapsed,
            cpu,
            heartbeats,
            renewals,
        })
    }

    /// What was done since the last time.
    fn report(&mut self) -> Result<(Tally, Tally), BenchError> {
        let sum = |all: &mut Vec<LoadProcess>| {
            let mut sum = Tally::new();
            for one in all {
                sum.merge(&one.report()?);
            }
            Ok::<_, BenchError>(sum)
        };
        Ok((sum(&mut self.servers)?, sum(&mut self.sessions)?))
    }

    /// Lets somebody come, and says how much memory they took and how long they needed.
    fn come(&mut self, peers: &Peers) -> Result<(LoadProcess, u64, Duration), BenchError> {
        interrupt::check()?;
        let (before, start) = (self.mds.memory_bytes()?, Instant::now());
        let process = LoadProcess::start(self.launcher, peers)?;
        let elapsed = start.elapsed();
        std::thread::sleep(self.times.settle);
        let bytes = self.mds.memory_bytes()?.saturating_sub(before);
        Ok((process, bytes, elapsed))
    }

    /// Grows to a size: data servers first, watched before the sessions come.
    pub(super) fn grow(
        &mut self,
        to: ScaleWork,
        recorder: &mut Recorder,
    ) -> Result<Seen, BenchError> {
        let heartbeats = self.grow_servers(to.ds_count, recorder)?;
        self.each_s.0 = each_s(heartbeats);
        let (renewals, cores) = self.grow_sessions(to.sessions_count, recorder)?;
        self.each_s.1 = each_s(renewals);
        Ok(Seen {
            ds: (f64::from(to.ds_count), float(self.taken.0)),
            sessions: (f64::from(to.sessions_count), float(self.taken.1)),
            heartbeats,
            renewals,
            memory_bytes: float(self.mds.memory_bytes()?),
            cores,
        })
    }

    fn grow_servers(&mut self, to: u32, recorder: &mut Recorder) -> Result<Took, BenchError> {
        let more = to.saturating_sub(self.now.ds_count);
        let tokens = self.mds.tokens(more as usize)?;
        let (process, bytes, elapsed) = self.come(&Peers::Servers { tokens })?;
        self.servers.push(process);
        self.now.ds_count = to;
        self.taken.0 += bytes;
        let place = Place::idle("ds", X::count(u64::from(to)), self.now);
        let joined = gauge(u64::from(more), bytes, elapsed);
        recorder.enter(place.clone(), "joined", joined);
        let seen = self.watch()?;
        let cpu = seen.beyond(self.idle.1, &seen.renewals, self.each_s.1);
        let heartbeats = counted(&seen.heartbeats, seen.elapsed, cpu);
        recorder.enter(place, "heartbeats", heartbeats.clone());
        Ok(took(&heartbeats))
    }

    fn grow_sessions(
        &mut self,
        to: u32,
        recorder: &mut Recorder,
    ) -> Result<(Took, f64), BenchError> {
        let more = to.saturating_sub(self.now.sessions_count);
        let (process, bytes, elapsed) = self.come(&Peers::Sessions {
            server: self.mds.server().clone(),
            count: more,
            first: self.now.sessions_count,
            renew_every_ms: RENEW_EVERY_MS,
        })?;
        self.sessions.push(process);
        self.now.sessions_count = to;
        self.taken.1 += bytes;
        let place = Place::idle("sessions", X::count(u64::from(to)), self.now);
        let opened = gauge(u64::from(more), bytes, elapsed);
        recorder.enter(place.clone(), "opened", opened);
        let seen = self.watch()?;
        let cpu = seen.beyond(self.idle.1, &seen.heartbeats, self.each_s.0);
        let renewals = counted(&seen.renewals, seen.elapsed, cpu);
        recorder.enter(place, "renewals", renewals.clone());
        let cores = seen.cpu.as_secs_f64() / seen.elapsed.as_secs_f64();
        Ok((took(&renewals), cores))
    }

    /// LAYOUTGET and GETDEVICEINFO of files on so many data servers, one request at a time.
    pub(super) fn layouts(
        &mut self,
        width: u32,
        recorder: &mut Recorder,
    ) -> Result<(), BenchError> {
        interrupt::check()?;
        let (mut client, device) = self.client_of_width(width)?;
        let mut phase = |name: &str, ask: &mut dyn FnMut(&mut Client) -> Result<(), BenchError>| {
            let (mut tally, cpu, start) = (Tally::new(), self.mds.cpu()?, Instant::now());
            for _ in 0..LAYOUTS_COUNT {
                let asked = Instant::now();
                ask(&mut client)?;
                tally.add(client.last_reply_bytes(), asked.elapsed());
            }
            let cpu = self.mds.cpu()?.saturating_sub(cpu);
            let place = Place::idle("layout", X::count(u64::from(width)), self.now);
            recorder.enter(place, name, counted(&tally, start.elapsed(), cpu));
            Ok::<_, BenchError>(())
        };
        phase("LAYOUTGET", &mut |client| client.layoutget().map(drop))?;
        phase("GETDEVICEINFO", &mut |client| client.device_info(device))
    }

    /// A client with a file of this width. Data servers that have just come take no new files yet.
    fn client_of_width(&mut self, width: u32) -> Result<(Client, DeviceId), BenchError> {
        let number = self.next_client();
        let asks = Asks::Of(Kind::LayoutGet);
        let mut client = Client::new(self.mds.server(), number, asks)?;
        let start = Instant::now();
        while start.elapsed() < WIDTH_MAX {
            interrupt::check()?;
            client.widen(width)?;
            // "Later" while the data servers of a new group are told what they hold.
            match client.try_layoutget()? {
                Some(lies) if lies.width == width => return Ok((client, lies.device)),
                _ => {}
            }
            std::thread::sleep(WIDTH_POLL);
        }
        let why = format!("no file lies on {width} data servers within a minute");
        Err(BenchError::Cluster(why))
    }

    /// Lets so many clients ask at the same time.
    pub(super) fn ask(&mut self, asks: Asks, load: &Load) -> Result<Sample, BenchError> {
        interrupt::check()?;
        let first = CLIENTS_FIRST + self.clients_count;
        self.clients_count += load.connections_count;
        let server = self.mds.server();
        let connect = |index: usize| {
            let client = Client::new(server, first + index, asks)?;
            Ok(Box::new(client) as Box<dyn Requester>)
        };
        load::drive(load, connect, &|| self.mds.cpu())
    }

    fn next_client(&mut self) -> usize {
        self.clients_count += 1;
        CLIENTS_FIRST + self.clients_count - 1
    }
}
