//! The client that its workers share.

use crate::check::Findings;
use crate::check::linear::Moment;
use crate::check::locks::Hold;
use crate::connector::Wires;
use crate::history::History;
use crate::mds_node::LEASE_MS;
use crate::rng::Rng;
use crate::trace::Trace;
use nfs4::attr::Attrs;
use nfs4::ops::{
    CloseArgs, CreateArgs, CreateRes, CreateType, DelegationType, GetFhArgs, GetFhRes, LockArgs,
    LockRes, Locker, OpenArgs, OpenClaim, OpenHow, OpenRes, OpenToLockOwner, PutFhArgs, PutFhRes,
    PutRootFhArgs, PutRootFhRes, ReclaimCompleteArgs, ReclaimCompleteRes, SHARE_ACCESS_BOTH,
};
use nfs4::{
    ClientId, CompoundBuilder, Fattr, FileHandle, LockType, NfsStatus, OpError, StateOwner,
    Stateid, Verifier,
};
use parking_lot::Mutex;
use rpc::AuthSys;
use session_client::{CallbackHandler, Caller, Outcome, Session, SessionConfig, SessionError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{Address, Connector};
use xdr::Opaque;

/// How long one try of a request waits, in milliseconds.
const TRY_MS: u64 = 1_500;
/// How long a request is tried, in milliseconds: longer than any fault of the network lasts.
const GIVE_UP_MS: u64 = 120_000;
/// How long a request of a session that the server may still know can arrive after its client gave the session up.
const STRAY_MS: u64 = 10_000;
/// Longest pause after DELAY or GRACE in milliseconds, and how often that may be the answer.
const PAUSE_MS_MAX: u64 = 400;
const PAUSES_MAX: u32 = 2_000;

/// Mode of new files.
pub(super) const MODE: u32 = 0o644;

/// A lock that a client believes to hold.
#[derive(Debug, Clone)]
pub(crate) struct HeldLock {
    pub(crate) range: (u64, u64),
    pub(crate) is_exclusive: bool,
    pub(crate) from: Moment,
}

/// An open file.
#[derive(Debug, Clone)]
pub(crate) struct HeldOpen {
    pub(crate) file: u64,
    pub(crate) fh: FileHandle,
    pub(crate) stateid: Stateid,
    pub(crate) lock_stateid: Option<Stateid>,
    pub(crate) locks: Vec<HeldLock>,
    /// CLOSE was sent: the server may hold nothing of it any more.
    pub(crate) may_be_closed: bool,
}

/// Which open: worker and file. A worker opens a file at most once.
pub(crate) type OpenKey = (String, u64);

#[derive(Debug, Default)]
pub(super) struct State {
    opens: BTreeMap<OpenKey, HeldOpen>,
    /// Counts the sessions.
    generation: u64,
    /// When the client knew of this one.
    since: Moment,
    /// The server has forgotten all sessions before this one: none of their requests takes effect any more.
    forgotten_before: u64,
    needs_reclaim: bool,
    /// Who the client was when it last had reclaimed.
    client: Option<ClientId>,
    /// When the last request that was answered had been sent.
    renewed: Moment,
    /// When RECLAIM_COMPLETE was last begun.
    completing: Moment,
    incarnation: u64,
}

/// The request was sent, and nobody will ever say what came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gone {
    /// From here on it cannot take effect any more.
    pub(crate) until: Moment,
}

/// An answer, and the session in which it was given: state of an older one is worth nothing.
pub(crate) struct Done {
    outcome: Outcome,
    pub(crate) generation: u64,
}

impl std::ops::Deref for Done {
    type Target = Outcome;

    fn deref(&self) -> &Outcome {
        &self.outcome
    }
}

/// What a client is made of.
pub(crate) struct Parts {
    /// Name of its host.
    pub name: String,
    /// Where it lives.
    pub wires: Wires,
    /// Its choices.
    pub rng: Rng,
    /// What it was promised.
    pub history: History,
    /// The story.
    pub trace: Trace,
    /// Answers that must not be.
    pub findings: Findings,
}

/// A client.
pub(crate) struct Client {
    pub(crate) parts: Parts,
    caller: Caller,
    session: Mutex<Arc<Session>>,
    state: Mutex<State>,
    recovering: tokio::sync::Mutex<()>,
    rng: Mutex<Rng>,
}

impl Client {
    /// A client without a session yet.
    #[must_use]
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let caller = root_caller(&parts.name);
        let session = session_of(&parts.name, &parts.wires, &caller, 0, None);
        let state = State {
            needs_reclaim: true,
            ..State::default()
        };
        Arc::new(Self {
            rng: Mutex::new(parts.rng.clone()),
            caller,
            session: Mutex::new(session),
            state: Mutex::new(state),
            recovering: tokio::sync::Mutex::new(()),
            parts,
        })
    }

    pub(crate) fn now(&self) -> Moment {
        self.parts.history.now()
    }

    /// Waits a while, as a client does after DELAY or GRACE.
    pub(crate) async fn pause(&self) {
        let ms = self.rng.lock().within(20, PAUSE_MS_MAX);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Sends operations after PUTFH until the answer is neither DELAY nor GRACE.
    pub(crate) async fn on(
        &self,
        fh: &FileHandle,
        build: impl Fn(&mut CompoundBuilder) + Send + Sync,
    ) -> Result<Done, Gone> {
        let with_fh = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            build(b);
        };
        for _ in 0..PAUSES_MAX {
            let done = self.run(&with_fh).await?;
            let status = done.results().map_or(NfsStatus::Ok, |reply| reply.status);
            if !matches!(status, NfsStatus::Delay | NfsStatus::Grace) {
                return Ok(done);
            }
            self.pause().await;
        }
        let text = format!("{}: answered DELAY or GRACE for ever", self.parts.name);
        self.parts.findings.add(text);
        Err(Gone { until: self.now() })
    }

    /// Sends one COMPOUND.
    pub(crate) async fn run(
        &self,
        build: &(impl Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Done, Gone> {
        let (generation, since, session) = {
            // Not before RECLAIM_COMPLETE is answered. State that was granted earlier in the new session would be taken
            // for state of the old one, and forgotten here alone.
            let _recovered = self.recovering.lock().await;
            let state = self.state.lock();
            (state.generation, state.since, self.session())
        };
        let (sent, asked) = (self.now(), Instant::now());
        let done = session
            .compound_once(&self.caller, &|b| {
                build(b);
                Vec::new()
            })
            .await;
        match done {
            Ok(outcome) => {
                self.parts.wires.answered(&self.parts.name, asked);
                let mut state = self.state.lock();
                if state.generation == generation {
                    state.renewed = state.renewed.max(sent);
                }
                Ok(Done {
                    outcome,
                    generation,
                })
            }
            Err(error) => {
                self.complain(&error);
                self.recover(generation).await;
                Err(Gone {
                    until: self.end_of(generation, since),
                })
            }
        }
    }

    /// Whether an answer was given in an earlier session.
    pub(super) fn is_past(&self, done: &Done) -> bool {
        done.generation < self.state.lock().generation
    }

    /// When requests of the session `generation`, known since `since`, have ceased to take effect. A session does not
    /// outlive its server.
    fn end_of(&self, generation: u64, since: Moment) -> Moment {
        let mut end = self.now();
        if generation >= self.state.lock().forgotten_before {
            end.0 += STRAY_MS;
        }
        let cut = self.parts.history.next_cut(since);
        cut.map_or(end, |cut| cut.min(end))
    }

    fn complain(&self, error: &SessionError) {
        self.parts
            .trace
            .tell(&self.parts.name, format_args!("= session: {error}"));
        if !matches!(error, SessionError::Lost) {
            let text = format!("{}: unexpected end of a request: {error}", self.parts.name);
            self.parts.findings.add(text);
        }
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.lock())
    }

    /// Makes the first session.
    pub(crate) async fn start(&self) {
        self.recover(0).await;
    }

    /// Makes a directory in the root, without faults.
    pub(crate) async fn make_dir(&self, name: &str) -> Option<FileHandle> {
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutRootFhArgs {});
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name.as_bytes()),
                attrs: mode(first_mode()),
            });
            b.push(&GetFhArgs {});
        };
        let done = self.run(&build).await.ok()?;
        let mut reply = done.results().ok()?;
        reply.take::<PutRootFhRes>().ok()?;
        reply.take::<CreateRes>().ok()?;
        let fh = reply.take::<GetFhRes<'_>>().ok()?;
        Some(FileHandle::from(fh.object.0))
    }

    /// Makes a session in place of the one of `generation`, unless that was done already, and reclaims.
    async fn recover(&self, generation: u64) {
        let _one = self.recovering.lock().await;
        if self.state.lock().generation == generation {
            self.establish().await;
        }
    }

    /// Makes a session and reclaims. The caller sees to it that one task does.
    async fn establish(&self) {
        let mut was_forgotten = false;
        loop {
            let session = self.session();
            let established = match session.establish().await {
                Ok(established) => established,
                Err(error) => {
                    self.parts
                        .trace
                        .tell(&self.parts.name, format_args!("= no session: {error}"));
                    self.pause().await;
                    continue;
                }
            };
            // By its id: a client that asks again after a lost answer is confirmed already, and has reclaimed nothing.
            if self.state.lock().client != Some(established.client) {
                self.state.lock().needs_reclaim = true;
                was_forgotten = true;
            }
            if !self.state.lock().needs_reclaim || self.reclaim(&session).await.is_ok() {
                let now = self.now();
                let mut state = self.state.lock();
                state.needs_reclaim = false;
                state.client = Some(established.client);
                state.generation += 1;
                state.since = now;
                if was_forgotten {
                    state.forgotten_before = state.generation;
                }
                return;
            }
        }
    }

    /// One request of the recovery itself; DELAY is waited out.
    async fn ask(
        &self,
        session: &Session,
        build: impl Fn(&mut CompoundBuilder) + Send + Sync,
    ) -> Result<Outcome, SessionError> {
        loop {
            let done = session
                .compound_once(&self.caller, &|b| {
                    build(b);
                    Vec::new()
                })
                .await?;
            let status = done.results().map_or(NfsStatus::Ok, |reply| reply.status);
            if status != NfsStatus::Delay {
                return Ok(done);
            }
            self.pause().await;
        }
    }

    async fn reclaim(&self, session: &Session) -> Result<(), SessionError> {
        let opens: Vec<(OpenKey, HeldOpen)> = {
            let state = self.state.lock();
            let all = state.opens.iter();
            all.map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        for (key, held) in opens {
            match self.reclaim_open(session, &key, held.clone()).await? {
                Ok(again) => {
                    self.state.lock().opens.insert(key, again);
                }
                Err(status) => {
                    self.parts.trace.tell(
                        &self.parts.name,
                        format_args!("= open of #{} not reclaimed: {status}", held.file),
                    );
                    self.drop_open(&key);
                }
            }
        }
        let now = self.now();
        self.state.lock().completing = now;
        let done = self
            .ask(session, |b| {
                b.push(&ReclaimCompleteArgs { one_fs: false });
            })
            .await?;
        let mut reply = done
            .results()
            .map_err(|_| SessionError::Malformed("reply"))?;
        match reply.take::<ReclaimCompleteRes>() {
            Ok(_) => {}
            Err(e) if e.status() == Some(NfsStatus::CompleteAlready) => {}
            Err(e) => {
                let text = format!("{}: RECLAIM_COMPLETE: {e}", self.parts.name);
                self.parts.findings.add(text);
            }
        }
        Ok(())
    }

    async fn reclaim_open(
        &self,
        session: &Session,
        key: &OpenKey,
        mut held: HeldOpen,
    ) -> Result<Result<HeldOpen, OpError>, SessionError> {
        let done = self
            .ask(session, |b| {
                b.push(&PutFhArgs {
                    object: Opaque(&held.fh.0),
                });
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access: SHARE_ACCESS_BOTH,
                    share_deny: 0,
                    owner: owner(&key.0),
                    how: OpenHow::NoCreate,
                    claim: OpenClaim::Previous(DelegationType::None),
                });
            })
            .await?;
        match taken::<OpenRes>(&done) {
            Ok(open) => held.stateid = open.stateid,
            Err(e) => {
                self.judge_refusal(&held, &e);
                return Ok(Err(e));
            }
        }
        let locked = self.reclaim_locks(session, key, &held).await?;
        match locked {
            Ok(lock_stateid) => held.lock_stateid = lock_stateid,
            Err(e) => {
                // The grace period ended between the two. An open that nobody remembers would keep its file for ever.
                self.ask(session, |b| {
                    b.push(&PutFhArgs {
                        object: Opaque(&held.fh.0),
                    });
                    b.push(&CloseArgs {
                        seqid: 0,
                        open_stateid: held.stateid,
                    });
                })
                .await?;
                return Ok(Err(e));
            }
        }
        Ok(Ok(held))
    }

    /// Who held something and comes back within a lease of the restart may reclaim it (RFC 8881 §8.4.2.1).
    fn judge_refusal(&self, held: &HeldOpen, refused: &OpError) {
        let Some(cut) = self.parts.history.last_cut() else {
            return;
        };
        let (renewed, completing) = {
            let state = self.state.lock();
            (state.renewed, state.completing)
        };
        // It lived through the whole of the run before, with its lease, and has not said that it reclaims no more.
        let was_there = self.parts.history.next_cut(renewed) == Some(cut)
            && renewed.0 + LEASE_MS >= cut.0
            && completing < cut;
        let in_time = self.now().0 <= cut.0 + LEASE_MS;
        // A client that has closed all it held is not waited for, whether it has heard of that or not.
        let was_held = was_there && !held.may_be_closed;
        if refused.status() == Some(NfsStatus::NoGrace) && was_held && in_time {
            let text = format!(
                "{}: the open of #{} was not to be reclaimed",
                self.parts.name, held.file
            );
            self.parts.findings.add(text);
        }
    }

    /// The locks of an open that is reclaimed: their stateid.
    async fn reclaim_locks(
        &self,
        session: &Session,
        key: &OpenKey,
        held: &HeldOpen,
    ) -> Result<Result<Option<Stateid>, OpError>, SessionError> {
        let mut stateid = None;
        for lock in &held.locks {
            let args = LockArgs {
                lock_type: lock_type(lock.is_exclusive),
                reclaim: true,
                offset: lock.range.0,
                length: lock.range.1 - lock.range.0,
                locker: Locker::New(OpenToLockOwner {
                    open_seqid: 0,
                    open_stateid: held.stateid,
                    lock_seqid: 0,
                    lock_owner: owner(&key.0),
                }),
            };
            let done = self
                .ask(session, |b| {
                    b.push(&PutFhArgs {
                        object: Opaque(&held.fh.0),
                    });
                    b.push(&args);
                })
                .await?;
            match taken::<LockRes<'_>>(&done) {
                Ok(LockRes::Ok(granted)) => stateid = Some(granted.lock_stateid),
                Ok(LockRes::Denied(_)) => {
                    let text = format!("{}: a reclaimed lock was denied", self.parts.name);
                    self.parts.findings.add(text);
                }
                Err(e) => return Ok(Err(e)),
            }
        }
        Ok(Ok(stateid))
    }

    pub(crate) fn open_of(&self, key: &OpenKey) -> Option<HeldOpen> {
        self.state.lock().opens.get(key).cloned()
    }

    pub(crate) fn opens_of(&self, worker: &str) -> Vec<OpenKey> {
        let state = self.state.lock();
        let keys = state.opens.keys();
        keys.filter(|(who, _)| who == worker).cloned().collect()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Enters an open that was granted in the session of `generation`. One of an older session is worth nothing.
    pub(crate) fn add_open(
        &self,
        key: OpenKey,
        fh: &FileHandle,
        stateid: Stateid,
        generation: u64,
    ) {
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        let file = key.1;
        state
            .opens
            .entry(key)
            .and_modify(|o| o.stateid = stateid)
            .or_insert(HeldOpen {
                file,
                fh: fh.clone(),
                stateid,
                lock_stateid: None,
                locks: Vec::new(),
                may_be_closed: false,
            });
    }

    /// Changes an open that is still the one of `generation`.
    pub(crate) fn with_open(
        &self,
        key: &OpenKey,
        generation: u64,
        change: impl FnOnce(&mut HeldOpen),
    ) {
        let mut state = self.state.lock();
        if state.generation == generation
            && let Some(open) = state.opens.get_mut(key)
        {
            change(open);
        }
    }

    /// The open is lost, and its locks with it: nobody could rely on them after the last renewal.
    pub(crate) fn drop_open(&self, key: &OpenKey) {
        let (held, renewed) = {
            let mut state = self.state.lock();
            (state.opens.remove(key), state.renewed)
        };
        let Some(held) = held else { return };
        for lock in held.locks {
            self.released(key, &lock, renewed.max(lock.from));
        }
    }

    /// Notes how long a lock was held.
    pub(crate) fn released(&self, key: &OpenKey, lock: &HeldLock, to: Moment) {
        self.parts.history.hold(Hold {
            who: format!("{}/{}", self.parts.name, key.0),
            file: key.1,
            range: lock.range,
            is_exclusive: lock.is_exclusive,
            from: lock.from,
            to,
        });
    }

    /// Forgets everything and begins again as another incarnation, as a machine that was switched off does.
    pub(crate) async fn reboot(&self) {
        let _one = self.recovering.lock().await;
        self.parts
            .trace
            .tell(&self.parts.name, format_args!("! reboots"));
        let keys: Vec<OpenKey> = self.state.lock().opens.keys().cloned().collect();
        for key in keys {
            self.drop_open(&key);
        }
        let incarnation = {
            let mut state = self.state.lock();
            state.incarnation += 1;
            state.generation += 1;
            state.needs_reclaim = true;
            state.incarnation
        };
        let (name, wires) = (&self.parts.name, &self.parts.wires);
        *self.session.lock() = session_of(name, wires, &self.caller, incarnation, None);
        self.establish().await;
    }
}

/// Root on the machine of this name.
pub(crate) fn root_caller(name: &str) -> Caller {
    Caller::auth_sys(&AuthSys {
        stamp: 0,
        machine: name.as_bytes().to_vec(),
        uid: 0,
        gid: 0,
        gids: vec![],
    })
}

pub(super) fn session_of(
    name: &str,
    wires: &Wires,
    caller: &Caller,
    incarnation: u64,
    callbacks: Option<Arc<dyn CallbackHandler>>,
) -> Arc<Session> {
    session_over(wires.connector(name), name, caller, incarnation, callbacks)
}

/// A session to the metadata server over connections of this connector.
pub(crate) fn session_over(
    connector: Arc<dyn Connector>,
    name: &str,
    caller: &Caller,
    incarnation: u64,
    callbacks: Option<Arc<dyn CallbackHandler>>,
) -> Arc<Session> {
    let config = SessionConfig {
        owner: name.as_bytes().to_vec(),
        verifier: Verifier {
            bytes: (incarnation + 1).to_be_bytes(),
        },
        addresses: vec![Address::Memory("mds".into())],
        role_flag: 0,
        minor_version: 2,
        caller: caller.clone(),
        slots: 8,
        connections: 1,
        callbacks,
        try_timeout: Duration::from_millis(TRY_MS),
        give_up: Duration::from_millis(GIVE_UP_MS),
    };
    Session::new(connector, config)
}

pub(crate) fn owner(worker: &str) -> StateOwner<'_> {
    StateOwner {
        clientid: ClientId::default(),
        owner: Opaque(worker.as_bytes()),
    }
}

pub(crate) fn lock_type(is_exclusive: bool) -> LockType {
    if is_exclusive {
        LockType::Write
    } else {
        LockType::Read
    }
}

/// The result after PUTFH.
pub(crate) fn taken<'a, T: nfs4::OpRes<'a, Num = nfs4::OpNum>>(
    done: &'a Outcome,
) -> Result<T, OpError> {
    let mut reply = done.results()?;
    reply.take::<PutFhRes>()?;
    reply.take::<T>()
}

pub(super) fn mode(mode: u32) -> Fattr<'static> {
    Fattr::new(&Attrs {
        mode: Some(mode),
        ..Attrs::default()
    })
}

/// The mode of every new file and directory.
#[must_use]
pub(crate) const fn first_mode() -> u32 {
    MODE
}
