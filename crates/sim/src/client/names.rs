//! A worker: one thread of a client, which works on a few names that all clients share.

use super::shared::{Client, Gone, HeldOpen, MODE, OpenKey, mode, owner, taken};
use crate::check::linear::{Moment, Timed};
use crate::check::names::{Do, End, ModeOp, Place};
use crate::rng::Rng;
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    CloseArgs, CloseRes, CreateArgs, CreateHow, CreateRes, CreateType, GetAttrArgs, GetAttrRes,
    GetFhArgs, GetFhRes, LinkArgs, LinkRes, LookupArgs, LookupRes, OpenArgs, OpenClaim, OpenHow,
    OpenRes, PutFhArgs, PutFhRes, RemoveArgs, RemoveRes, RenameArgs, RenameRes, SHARE_ACCESS_BOTH,
    SaveFhArgs, SaveFhRes, SetAttrArgs, SetAttrRes,
};
use nfs4::{Bitmap, CompoundReply, FileHandle, NfsStatus, OpError, Stateid};
use session_client::Outcome;
use std::sync::Arc;
use std::time::Duration;
use xdr::Opaque;

/// Names of files in each directory, and of directories.
const FILES: [&str; 3] = ["a", "b", "c"];
const DIRS: [&str; 1] = ["x"];
/// Places in one directory.
pub(crate) const PLACES_PER_DIR: usize = FILES.len() + DIRS.len();
/// Opens that a worker keeps.
const OPENS_MAX: usize = 3;
/// Longest rest between two operations in milliseconds, and the longest of the rare long ones.
const REST_MS_MAX: u64 = 60;
const LONG_REST_MS_MAX: u64 = 4_000;
const LONG_PER_MILLE: u32 = 50;
/// Rounds of closing at the end.
const CLOSES_MAX: u32 = 10;
/// Operations before which the client reboots.
const REBOOT_PER_MILLE: u32 = 4;

pub(super) const fn is_dir(place: Place) -> bool {
    place % PLACES_PER_DIR >= FILES.len()
}

pub(super) fn name(place: Place) -> &'static str {
    let at = place % PLACES_PER_DIR;
    FILES
        .get(at)
        .copied()
        .unwrap_or_else(|| DIRS[at - FILES.len()])
}

fn attributes() -> GetAttrArgs {
    let attrs = [
        attr::CHANGE,
        attr::SIZE,
        attr::FILEID,
        attr::MODE,
        attr::NUMLINKS,
        attr::TIME_METADATA,
        attr::TIME_MODIFY,
    ];
    GetAttrArgs {
        attr_request: Bitmap::of(&attrs),
    }
}

/// The handle and attributes of what GETFH and GETATTR answered.
struct Seen {
    fh: FileHandle,
    attrs: Attrs,
}

impl Seen {
    fn take(reply: &mut CompoundReply<'_>) -> Result<Self, OpError> {
        let fh = FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0);
        let attrs = reply.take::<GetAttrRes<'_>>()?.attributes.attrs();
        let attrs = attrs.unwrap_or_default();
        Ok(Self { fh, attrs })
    }

    fn id(&self) -> u64 {
        self.attrs.fileid.unwrap_or_default()
    }
}

/// One thread of a client.
pub(crate) struct Worker {
    pub(super) client: Arc<Client>,
    pub(super) name: String,
    pub(super) rng: Rng,
    /// The directories that all share.
    dirs: Vec<FileHandle>,
    known: Vec<(u64, FileHandle)>,
}

impl Worker {
    /// A worker of `client`.
    #[must_use]
    pub(crate) fn new(client: Arc<Client>, name: &str, rng: Rng, dirs: Vec<FileHandle>) -> Self {
        Self {
            client,
            name: name.to_owned(),
            rng,
            dirs,
            known: Vec::new(),
        }
    }

    /// Does `steps` operations, and then closes its files.
    pub(crate) async fn work(mut self, steps: u32) {
        for _ in 0..steps {
            self.step().await;
            let is_long = self.rng.chance(LONG_PER_MILLE);
            let most = if is_long {
                LONG_REST_MS_MAX
            } else {
                REST_MS_MAX
            };
            let ms = self.rng.within(0, most);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        // A close whose outcome is not known leaves the open in the table.
        for _ in 0..CLOSES_MAX {
            for key in self.client.opens_of(&self.name) {
                self.close(&key).await;
            }
        }
    }

    /// Looks every place up, for the end of the history.
    pub(crate) async fn look_everywhere(mut self) {
        for place in 0..self.dirs.len() * PLACES_PER_DIR {
            // A lookup whose outcome is not known is asked again: this must see the end.
            while self.lookup(place).await.is_err() {}
        }
    }

    async fn step(&mut self) {
        let places = self.dirs.len() * PLACES_PER_DIR;
        let place = self.rng.index(places);
        if self.rng.chance(REBOOT_PER_MILLE) {
            self.client.reboot().await;
        }
        match self.rng.below(100) {
            0..20 => self.create(place).await,
            20..40 => drop(self.lookup(place).await),
            40..54 => self.remove(place).await,
            54..64 => self.rename(place).await,
            64..72 => self.link(place).await,
            72..80 => self.set_mode().await,
            other => self.on_an_open(other).await,
        }
    }

    async fn on_an_open(&mut self, roll: u64) {
        let keys = self.client.opens_of(&self.name);
        if keys.is_empty() {
            return;
        }
        let at = self.rng.index(keys.len());
        let key = keys[at].clone();
        match roll {
            80..89 => self.lock(&key).await,
            89..95 => self.unlock(&key).await,
            _ => self.close(&key).await,
        }
    }

    pub(super) fn who(&self) -> String {
        format!("{}/{}", self.client.parts.name, self.name)
    }

    fn dir(&self, place: Place) -> FileHandle {
        self.dirs[place / PLACES_PER_DIR].clone()
    }

    /// Notes how an operation on names ended.
    fn note(&self, start: Moment, what: Do, end: Result<End, Gone>) {
        let (end, until, is_maybe) = match end {
            Ok(end) => (end, self.client.now(), false),
            // It never left, or reached nobody.
            Err(gone) if gone.until < start => return,
            Err(gone) => (End::Unknown, gone.until, true),
        };
        self.client.parts.history.name(Timed {
            who: self.who(),
            start,
            end: until,
            is_maybe,
            op: (what, end),
        });
    }

    fn note_mode(&self, file: u64, start: Moment, op: ModeOp, gone: Option<Gone>) {
        if gone.is_some_and(|g| g.until < start) {
            return;
        }
        let timed = Timed {
            who: self.who(),
            start,
            end: gone.map_or_else(|| self.client.now(), |g| g.until),
            is_maybe: gone.is_some(),
            op,
        };
        self.client.parts.history.mode(file, timed);
    }

    /// An answer that no server should give.
    pub(super) fn odd(&self, what: &str, error: &OpError) {
        let text = format!("{}: {what} failed: {error}", self.who());
        self.client.parts.findings.add(text);
    }

    /// An operation on an open failed. State may be lost with a lease; anything else is a finding. `sent` is the open that the
    /// request went by: one that was recovered while the request waited is another one, and stays.
    pub(super) fn state_lost(&self, what: &str, key: &OpenKey, sent: &HeldOpen, error: &OpError) {
        let is_lost = matches!(
            error.status(),
            Some(
                NfsStatus::BadStateid
                    | NfsStatus::StaleStateid
                    | NfsStatus::OldStateid
                    | NfsStatus::Expired
                    | NfsStatus::AdminRevoked
                    | NfsStatus::Stale
            )
        );
        if is_lost {
            let now = self.client.open_of(key);
            if now.is_some_and(|open| open.stateid.other == sent.stateid.other) {
                self.client.drop_open(key);
            }
        } else {
            self.odd(what, error);
        }
    }

    fn learn(&mut self, start: Moment, seen: &Seen) {
        if let Some(mode) = seen.attrs.mode {
            self.note_mode(seen.id(), start, ModeOp::Seen(mode), None);
        }
        self.known.retain(|(id, _)| *id != seen.id());
        self.known.push((seen.id(), seen.fh.clone()));
        if self.known.len() > PLACES_PER_DIR {
            self.known.remove(0);
        }
    }

    async fn create(&mut self, at: Place) {
        if is_dir(at) {
            return self.mkdir(at).await;
        }
        if self.client.opens_of(&self.name).len() >= OPENS_MAX {
            return;
        }
        let is_guarded = self.rng.chance(700);
        let what = Do::Create { at, is_guarded };
        let start = self.client.now();
        let how = if is_guarded {
            CreateHow::Guarded(mode(MODE))
        } else {
            CreateHow::Unchecked(mode(MODE))
        };
        let how = OpenHow::Create(how);
        let dir = self.dir(at);
        let done = self.client.on(&dir, |b| {
            b.push(&OpenArgs {
                seqid: 0,
                share_access: SHARE_ACCESS_BOTH,
                share_deny: 0,
                owner: owner(&self.name),
                how: how.clone(),
                claim: OpenClaim::Null(Opaque(name(at).as_bytes())),
            });
            b.push(&GetFhArgs {});
            b.push(&attributes());
        });
        let done = match done.await {
            Ok(done) => done,
            Err(gone) => return self.note(start, what, Err(gone)),
        };
        match behind::<OpenRes>(&done) {
            Ok((open, seen)) => {
                let stateid = open.stateid;
                let end = if open.cinfo.after == open.cinfo.before {
                    End::Id(seen.id())
                } else {
                    End::Made(seen.id())
                };
                self.note(start, what, Ok(end));
                let key = (self.name.clone(), seen.id());
                self.client
                    .add_open(key, &seen.fh, stateid, done.generation);
                self.learn(start, &seen);
            }
            Err(e) if e.status() == Some(NfsStatus::Exist) && is_guarded => {
                self.note(start, what, Ok(End::Exist));
            }
            // The machine has begun again meanwhile, and with its opens went a file that another had removed. The
            // answer is to a life of the client that is over.
            Err(e) if e.status() == Some(NfsStatus::Stale) && self.client.is_past(&done) => {
                let until = self.client.now();
                self.note(start, what, Err(Gone { until }));
            }
            Err(e) => {
                self.odd("OPEN", &e);
            }
        }
    }

    async fn mkdir(&mut self, at: Place) {
        let what = Do::Create {
            at,
            is_guarded: true,
        };
        let start = self.client.now();
        let dir = self.dir(at);
        let done = self.client.on(&dir, |b| {
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name(at).as_bytes()),
                attrs: mode(MODE),
            });
            b.push(&GetFhArgs {});
            b.push(&attributes());
        });
        let done = match done.await {
            Ok(done) => done,
            Err(gone) => return self.note(start, what, Err(gone)),
        };
        match behind::<CreateRes>(&done) {
            Ok((_, seen)) => {
                self.note(start, what, Ok(End::Made(seen.id())));
                self.learn(start, &seen);
            }
            Err(e) if e.status() == Some(NfsStatus::Exist) => {
                self.note(start, what, Ok(End::Exist));
            }
            Err(e) => self.odd("CREATE", &e),
        }
    }

    async fn lookup(&mut self, at: Place) -> Result<(), Gone> {
        let start = self.client.now();
        let dir = self.dir(at);
        let done = self.client.on(&dir, |b| {
            b.push(&LookupArgs {
                name: Opaque(name(at).as_bytes()),
            });
            b.push(&GetFhArgs {});
            b.push(&attributes());
        });
        let done = done.await?;
        match behind::<LookupRes>(&done) {
            Ok((_, seen)) => {
                self.note(start, Do::Lookup(at), Ok(End::Id(seen.id())));
                self.learn(start, &seen);
            }
            Err(e) if e.status() == Some(NfsStatus::NoEnt) => {
                self.note(start, Do::Lookup(at), Ok(End::NoEnt));
            }
            // The file went between LOOKUP and GETATTR.
            Err(e) if e.status() == Some(NfsStatus::Stale) => {}
            Err(e) => self.odd("LOOKUP", &e),
        }
        Ok(())
    }

    async fn remove(&mut self, at: Place) {
        let start = self.client.now();
        let dir = self.dir(at);
        let done = self.client.on(&dir, |b| {
            b.push(&RemoveArgs {
                target: Opaque(name(at).as_bytes()),
            });
        });
        let end = match done.await {
            Err(gone) => Err(gone),
            Ok(done) => match taken::<RemoveRes>(&done) {
                Ok(_) => Ok(End::Done),
                Err(e) if e.status() == Some(NfsStatus::NoEnt) => Ok(End::NoEnt),
                Err(e) => return self.odd("REMOVE", &e),
            },
        };
        self.note(start, Do::Remove(at), end);
    }

    async fn rename(&mut self, from: Place) {
        let places = self.dirs.len() * PLACES_PER_DIR;
        let to = (0..8)
            .map(|_| self.rng.index(places))
            .find(|to| is_dir(*to) == is_dir(from));
        let Some(to) = to else { return };
        let start = self.client.now();
        let target = self.dir(to);
        let source = self.dir(from);
        let done = self.client.on(&source, |b| {
            b.push(&SaveFhArgs {});
            b.push(&PutFhArgs {
                object: Opaque(&target.0),
            });
            b.push(&RenameArgs {
                old_name: Opaque(name(from).as_bytes()),
                new_name: Opaque(name(to).as_bytes()),
            });
        });
        let end = match done.await {
            Err(gone) => Err(gone),
            Ok(done) => match after_save::<RenameRes>(&done) {
                Ok(_) => Ok(End::Done),
                Err(e) if e.status() == Some(NfsStatus::NoEnt) => Ok(End::NoEnt),
                Err(e) => return self.odd("RENAME", &e),
            },
        };
        self.note(start, Do::Rename(from, to), end);
    }

    async fn link(&mut self, at: Place) {
        if is_dir(at) || self.known.is_empty() {
            return;
        }
        let (id, fh) = self.known[self.rng.index(self.known.len())].clone();
        let dir = self.dir(at);
        let start = self.client.now();
        let done = self.client.on(&fh, |b| {
            b.push(&SaveFhArgs {});
            b.push(&PutFhArgs {
                object: Opaque(&dir.0),
            });
            b.push(&LinkArgs {
                new_name: Opaque(name(at).as_bytes()),
            });
        });
        let end = match done.await {
            Err(gone) => Err(gone),
            Ok(done) => match after_save::<LinkRes>(&done) {
                Ok(_) => Ok(End::Done),
                Err(e) => match e.status() {
                    Some(NfsStatus::Exist) => Ok(End::Exist),
                    Some(NfsStatus::Stale | NfsStatus::NoEnt) => Ok(End::Gone),
                    // What is known by its handle may be a directory.
                    Some(NfsStatus::IsDir | NfsStatus::Perm) => return,
                    _ => return self.odd("LINK", &e),
                },
            },
        };
        self.note(start, Do::Link(id, at), end);
    }

    async fn set_mode(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let (id, fh) = self.known[self.rng.index(self.known.len())].clone();
        let value = 0o600 | u32::try_from(self.rng.below(64)).unwrap_or(0);
        let start = self.client.now();
        let done = self.client.on(&fh, |b| {
            b.push(&SetAttrArgs {
                stateid: Stateid::ANONYMOUS,
                attrs: mode(value),
            });
            b.push(&attributes());
        });
        let done = match done.await {
            Ok(done) => done,
            Err(gone) => return self.note_mode(id, start, ModeOp::Set(value), Some(gone)),
        };
        let mut reply = match done.results() {
            Ok(reply) => reply,
            Err(e) => return self.odd("SETATTR", &e),
        };
        let set = reply
            .take::<PutFhRes>()
            .and_then(|_| reply.take::<SetAttrRes>());
        match set {
            Ok(set) if set.status.is_ok() => {
                self.note_mode(id, start, ModeOp::Set(value), None);
                let attrs = reply.take::<GetAttrRes<'_>>().ok();
                let attrs = attrs.and_then(|got| got.attributes.attrs().ok());
                if let Some(seen) = attrs.and_then(|a| a.mode) {
                    self.note_mode(id, start, ModeOp::Seen(seen), None);
                }
            }
            Ok(set) if set.status == NfsStatus::Stale => {}
            Err(e) if e.status() == Some(NfsStatus::Stale) => {}
            Ok(set) => {
                let text = format!("{}: SETATTR failed: {}", self.who(), set.status);
                self.client.parts.findings.add(text);
            }
            Err(e) => self.odd("SETATTR", &e),
        }
    }

    async fn close(&mut self, key: &OpenKey) {
        let Some(open) = self.client.open_of(key) else {
            return;
        };
        let now = self.client.now();
        let generation = self.client.generation();
        for lock in &open.locks {
            self.client.released(key, lock, now);
        }
        self.client.with_open(key, generation, |open| {
            open.locks.clear();
            open.may_be_closed = true;
        });
        let done = self.client.on(&open.fh, |b| {
            b.push(&CloseArgs {
                seqid: 0,
                open_stateid: open.stateid,
            });
        });
        match done.await {
            // It may be closed or not. Reclaimed, it would stay open for ever: it is closed again.
            Err(_) => {}
            Ok(done) => match taken::<CloseRes>(&done) {
                Ok(_) => self.client.drop_open(key),
                Err(e) => self.state_lost("CLOSE", key, &open, &e),
            },
        }
    }
}

/// The result after PUTFH, and what GETFH and GETATTR say after that.
fn behind<'a, T: nfs4::OpRes<'a, Num = nfs4::OpNum>>(
    done: &'a Outcome,
) -> Result<(T, Seen), OpError> {
    let mut reply = done.results()?;
    reply.take::<PutFhRes>()?;
    let result = reply.take::<T>()?;
    let seen = Seen::take(&mut reply)?;
    Ok((result, seen))
}

/// The result after PUTFH, SAVEFH, PUTFH.
fn after_save<'a, T: nfs4::OpRes<'a, Num = nfs4::OpNum>>(done: &'a Outcome) -> Result<T, OpError> {
    let mut reply = done.results()?;
    reply.take::<PutFhRes>()?;
    reply.take::<SaveFhRes>()?;
    reply.take::<PutFhRes>()?;
    reply.take::<T>()
}
