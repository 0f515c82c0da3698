//! A worker on names by NFSv3: it makes, looks up, removes, renames and links what the workers of NFSv4 do.
//!
//! # What the history allows
//! While a server lives a repeated call is answered from its kept replies. It forgets them with its power, and a call that is sent again
//! then is done again (RFC 1813 §4.5). So a call may have been done once before each power cut that fell into its time. It is
//! entered so: once with its answer, and once for each such cut as one whose outcome nobody knows.

use super::names::{PLACES_PER_DIR, is_dir, name};
use crate::check::Findings;
use crate::check::linear::{Moment, Timed};
use crate::check::names::{Do, End, ModeOp, Place};
use crate::connector::Wires;
use crate::history::History;
use crate::rng::Rng;
use crate::trace::MDS_NAME;
use nfs3::procs::CreateHow;
use nfs3::{Fattr3, FileType3, Nfs3Status, Sattr3};
use nfs3_client::{CallerAuth, Fh, MadeObject, Nfs3Client, Nfs3Error, RpcPeer, RpcPeerConfig};
use nfs4::FileHandle;
use std::time::Duration;
use transport::Address;

/// Longest rest between two operations in milliseconds, and the longest of the rare long ones.
const REST_MS_MAX: u64 = 60;
const LONG_REST_MS_MAX: u64 = 4_000;
const LONG_PER_MILLE: u32 = 50;
/// How long one try waits for its reply.
const TRY_TIME: Duration = Duration::from_millis(1_500);
/// How long a call is tried: longer than all trouble of a run.
const GIVE_UP: Duration = Duration::from_secs(1_000);

/// What a client is made of.
pub(crate) struct OlderParts {
    pub(crate) name: String,
    pub(crate) wires: Wires,
    pub(crate) rng: Rng,
    pub(crate) history: History,
    pub(crate) findings: Findings,
    /// The directories that all share.
    pub(crate) dirs: Vec<FileHandle>,
}

/// A client of NFSv3, as each of its workers has it.
#[derive(Clone)]
pub(crate) struct OlderClient {
    name: String,
    history: History,
    findings: Findings,
    nfs: Nfs3Client,
    caller: CallerAuth,
    dirs: Vec<Fh>,
}

impl OlderClient {
    /// A client that connects when it calls.
    pub(crate) fn new(mut parts: OlderParts) -> Self {
        let is_rdma = parts.rng.chance(500);
        let connector = parts.wires.one_way(&parts.name, is_rdma);
        let config = RpcPeerConfig {
            addresses: vec![Address::Memory(MDS_NAME.into())],
            connections: 1,
            calls_max: 8,
            try_timeout: TRY_TIME,
            give_up: GIVE_UP,
            first_xid: u32::try_from(parts.rng.bits() >> 32).unwrap_or(1),
        };
        let machine = parts.name.as_bytes().to_vec();
        Self {
            caller: CallerAuth::auth_sys(&rpc::AuthSys {
                stamp: 0,
                machine,
                uid: 0,
                gid: 0,
                gids: Vec::new(),
            }),
            nfs: Nfs3Client::new(RpcPeer::new(connector, config)),
            dirs: parts
                .dirs
                .into_iter()
                .map(|fh| xdr::OpaqueBuf(fh.0))
                .collect(),
            name: parts.name,
            history: parts.history,
            findings: parts.findings,
        }
    }

    /// A worker of this client.
    pub(crate) fn worker(&self, number: usize, rng: Rng) -> OlderWorker {
        OlderWorker {
            who: format!("{}/w{number}", self.name),
            client: self.clone(),
            rng,
            known: Vec::new(),
        }
    }
}

/// One thread of a client.
pub(crate) struct OlderWorker {
    who: String,
    client: OlderClient,
    rng: Rng,
    known: Vec<(u64, Fh)>,
}

fn new_attrs(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    }
}

impl OlderWorker {
    /// Does `steps` operations.
    pub(crate) async fn work(mut self, steps: u32) {
        for _ in 0..steps {
            self.step().await;
            let most = match self.rng.chance(LONG_PER_MILLE) {
                true => LONG_REST_MS_MAX,
                false => REST_MS_MAX,
            };
            let ms = self.rng.within(0, most);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    async fn step(&mut self) {
        let at = self.rng.index(self.client.dirs.len() * PLACES_PER_DIR);
        match self.rng.below(100) {
            0..26 => self.create(at).await,
            26..50 => self.lookup(at).await,
            50..68 => self.remove(at).await,
            68..80 => self.rename(at).await,
            80..90 => self.link(at).await,
            _ => self.set_mode().await,
        }
    }

    fn now(&self) -> Moment {
        self.client.history.now()
    }

    fn dir(&self, at: Place) -> Fh {
        self.client.dirs[at / PLACES_PER_DIR].clone()
    }

    fn odd(&self, what: &str, error: &Nfs3Error) {
        let text = format!("{}: {what} failed: {error}", self.who);
        self.client.findings.add(text);
    }

    fn timed<O>(&self, (start, end): (Moment, Moment), is_maybe: bool, op: O) -> Timed<O> {
        Timed {
            who: self.who.clone(),
            start,
            end,
            is_maybe,
            op,
        }
    }

    /// Notes how an operation on names ended, and how often it may have been done before.
    fn note(&self, start: Moment, what: Do, end: End) {
        let now = self.now();
        let history = &self.client.history;
        if !matches!(what, Do::Lookup(_)) {
            for cut in history.cuts_within(start, now) {
                history.name(self.timed((start, cut), true, (what, End::Unknown)));
            }
        }
        history.name(self.timed((start, now), false, (what, end)));
    }

    fn learn(&mut self, start: Moment, fh: &Fh, attrs: &Fattr3) {
        let seen = self.timed((start, self.now()), false, ModeOp::Seen(attrs.mode));
        self.client.history.mode(attrs.fileid, seen);
        if attrs.file_type != FileType3::Reg {
            return;
        }
        self.known.retain(|(id, _)| *id != attrs.fileid);
        self.known.push((attrs.fileid, fh.clone()));
        if self.known.len() > PLACES_PER_DIR {
            self.known.remove(0);
        }
    }

    async fn create(&mut self, at: Place) {
        let (start, dir, name) = (self.now(), self.dir(at), name(at).as_bytes());
        let is_guarded = is_dir(at) || self.rng.chance(700);
        let (nfs, caller) = (&self.client.nfs, &self.client.caller);
        let attrs = new_attrs(super::first_mode());
        let made = match (is_dir(at), is_guarded) {
            (true, _) => nfs.mkdir(caller, &dir, name, attrs).await,
            (_, true) => {
                nfs.create(caller, &dir, name, CreateHow::Guarded(attrs))
                    .await
            }
            _ => {
                nfs.create(caller, &dir, name, CreateHow::Unchecked(attrs))
                    .await
            }
        };
        let what = Do::Create { at, is_guarded };
        match made {
            Ok(MadeObject {
                fh: Some(fh),
                attributes: Some(attrs),
                ..
            }) => {
                let end = match is_guarded {
                    true => End::Made(attrs.fileid),
                    // It does not say which.
                    false => End::MadeOrId(attrs.fileid),
                };
                self.note(start, what, end);
                self.learn(start, &fh, &attrs);
            }
            // Somebody has removed it before its attributes were read.
            Ok(_) => self.note(start, what, End::Unknown),
            Err(Nfs3Error::Status(Nfs3Status::Exist)) if is_guarded => {
                self.note(start, what, End::Exist);
            }
            Err(e) => self.odd("CREATE", &e),
        }
    }

    async fn lookup(&mut self, at: Place) {
        let (start, dir) = (self.now(), self.dir(at));
        let (nfs, caller) = (&self.client.nfs, &self.client.caller);
        match nfs.lookup(caller, &dir, name(at).as_bytes()).await {
            Ok(found) => {
                if let Some(attrs) = found.attributes {
                    self.note(start, Do::Lookup(at), End::Id(attrs.fileid));
                    self.learn(start, &found.fh, &attrs);
                }
            }
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => {
                self.note(start, Do::Lookup(at), End::NoEnt);
            }
            Err(e) => self.odd("LOOKUP", &e),
        }
    }

    async fn remove(&mut self, at: Place) {
        let (start, dir, name) = (self.now(), self.dir(at), name(at).as_bytes());
        let (nfs, caller) = (&self.client.nfs, &self.client.caller);
        let removed = match is_dir(at) {
            true => nfs.rmdir(caller, &dir, name).await,
            false => nfs.remove(caller, &dir, name).await,
        };
        match removed {
            Ok(_) => self.note(start, Do::Remove(at), End::Done),
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => {
                self.note(start, Do::Remove(at), End::NoEnt);
            }
            Err(e) => self.odd("REMOVE", &e),
        }
    }

    async fn rename(&mut self, from: Place) {
        let places = self.client.dirs.len() * PLACES_PER_DIR;
        let mut tries = (0..8).map(|_| self.rng.index(places));
        let Some(to) = tries.find(|to| is_dir(*to) == is_dir(from)) else {
            return;
        };
        let start = self.now();
        let (source, target) = (self.dir(from), self.dir(to));
        let names = (name(from).as_bytes(), name(to).as_bytes());
        let (nfs, caller) = (&self.client.nfs, &self.client.caller);
        let renamed = nfs.rename(caller, (&source, names.0), (&target, names.1));
        match renamed.await {
            Ok(_) => self.note(start, Do::Rename(from, to), End::Done),
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => {
                self.note(start, Do::Rename(from, to), End::NoEnt);
            }
            Err(e) => self.odd("RENAME", &e),
        }
    }

    async fn link(&mut self, at: Place) {
        if is_dir(at) || self.known.is_empty() {
            return;
        }
        let (id, fh) = self.known[self.rng.index(self.known.len())].clone();
        let (start, dir) = (self.now(), self.dir(at));
        let (nfs, caller) = (&self.client.nfs, &self.client.caller);
        let end = match nfs.link(caller, &fh, &dir, name(at).as_bytes()).await {
            Ok(_) => End::Done,
            Err(Nfs3Error::Status(Nfs3Status::Exist)) => End::Exist,
            Err(Nfs3Error::Status(Nfs3Status::Stale | Nfs3Status::NoEnt)) => End::Gone,
            Err(e) => return self.odd("LINK", &e),
        };
        self.note(start, Do::Link(id, at), end);
    }

    async fn set_mode(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let (id, fh) = self.known[self.rng.index(self.known.len())].clone();
        let mode = 0o600 | u32::try_from(self.rng.below(64)).unwrap_or(0);
        let start = self.now();
        let (nfs, caller) = (&self.client.nfs, &self.client.caller);
        let set = nfs.setattr(caller, &fh, &new_attrs(mode), None).await;
        let now = self.now();
        let history = &self.client.history;
        // Done before a cut, and answered after it that the file is gone.
        for cut in history.cuts_within(start, now) {
            history.mode(id, self.timed((start, cut), true, ModeOp::Set(mode)));
        }
        match set {
            Ok(wcc) => {
                history.mode(id, self.timed((start, now), false, ModeOp::Set(mode)));
                if let Some(seen) = wcc.after {
                    let seen = ModeOp::Seen(seen.mode);
                    history.mode(id, self.timed((start, self.now()), false, seen));
                }
            }
            Err(Nfs3Error::Status(Nfs3Status::Stale)) => {}
            Err(e) => self.odd("SETATTR", &e),
        }
    }
}
