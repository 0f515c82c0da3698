//! A locker by NFSv4.1. With its session it loses everything, and begins again as another incarnation.

use super::locker::{
    Again, FILES, Held, HeldOpen, HeldRange, Locker, Locking, Place, RANGE_BYTES, RANGES, Share,
    name,
};
use super::shared::{lock_type, owner, root_caller, session_of, taken};
use crate::check::Findings;
use crate::connector::Wires;
use crate::history::History;
use crate::injected_bug::InjectedBug;
use crate::rng::Rng;
use nfs4::attr::{Attrs, FILEID};
use nfs4::ops::{
    CloseArgs, CloseRes, CreateHow, ExistLockOwner, GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes,
    LockArgs, LockRes, LockTArgs, LockTRes, LockUArgs, LockURes, Locker as LockerArgs, OpenArgs,
    OpenClaim, OpenHow, OpenRes, OpenToLockOwner, PutFhArgs, PutRootFhArgs, PutRootFhRes, ReadArgs,
    ReadRes, ReclaimCompleteArgs, SEQ_STATUS_ADMIN_STATE_REVOKED,
    SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED, SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED, SHARE_ACCESS_BOTH,
    SHARE_WANT_NO_DELEG, SetAttrArgs, SetAttrRes, WriteArgs, WriteRes,
};
use nfs4::{Bitmap, CompoundBuilder, Fattr, FileHandle, NfsStatus, OpError, StableHow, Stateid};
use session_client::{Caller, Outcome, Session};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use xdr::Opaque;

/// How often the answer may be DELAY or GRACE, and the pause after it in milliseconds.
const PAUSES_MAX: u32 = 4_000;
const PAUSE_MS: u64 = 200;
/// Flags that say that state was revoked.
const REVOKED: u32 = SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED
    | SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED
    | SEQ_STATUS_ADMIN_STATE_REVOKED;

/// What a locker is made of, whatever its version.
pub(crate) struct LockerParts {
    pub(crate) name: String,
    pub(crate) wires: Wires,
    pub(crate) rng: Rng,
    pub(crate) history: History,
    pub(crate) findings: Findings,
    pub(crate) bug: Option<InjectedBug>,
    pub(crate) places: Vec<Place>,
}

/// See the module.
pub(crate) struct Locker1 {
    wires: Wires,
    findings: Findings,
    held: Held,
    caller: Caller,
    session: Arc<Session>,
    incarnation: u64,
    has_begun: bool,
}

impl Locker1 {
    pub(crate) fn worker(mut parts: LockerParts) -> Locker<Self> {
        let rng = parts.rng.split();
        Locker::with(Self::new(parts), rng)
    }

    fn new(parts: LockerParts) -> Self {
        let caller = root_caller(&parts.name);
        Self {
            session: session_of(&parts.name, &parts.wires, &caller, 0, None),
            held: Held::new(&parts.name, &parts.history, parts.bug, parts.places),
            caller,
            wires: parts.wires,
            findings: parts.findings,
            incarnation: 0,
            has_begun: false,
        }
    }

    /// Makes the files that lockers share, before any fault.
    pub(crate) async fn furnish(parts: LockerParts) -> Option<Vec<Place>> {
        let mut first = Self::new(parts);
        let mut places = Vec::new();
        for file in 0..FILES {
            places.push(first.make(&name(file)).await.ok()?);
        }
        Some(places)
    }

    async fn make(&mut self, name: &str) -> Result<Place, Again> {
        let attrs = Fattr::new(&Attrs {
            mode: Some(0o644),
            ..Attrs::default()
        });
        // It never changes, so that nobody has to ask a holder for it.
        let size = Fattr::new(&Attrs {
            size: Some(RANGES * u64::from(RANGE_BYTES)),
            ..Attrs::default()
        });
        let done = self
            .ask(&|b| {
                b.push(&PutRootFhArgs {});
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
                    share_deny: 0,
                    owner: owner("o"),
                    how: OpenHow::Create(CreateHow::Unchecked(attrs.clone())),
                    claim: OpenClaim::Null(Opaque(name.as_bytes())),
                });
                b.push(&GetFhArgs {});
                b.push(&GetAttrArgs {
                    attr_request: Bitmap::of(&[FILEID]),
                });
                b.push(&SetAttrArgs {
                    stateid: Stateid::ANONYMOUS,
                    attrs: size.clone(),
                });
            })
            .await?;
        let (place, stateid) = made(&done).map_err(|e| self.odd("OPEN", &e))?;
        let open = HeldOpen::new(Share { access: 3, deny: 0 }, stateid, (0, 0));
        self.close_at(&place.fh, &open).await?;
        Ok(place)
    }

    fn odd(&self, what: &str, error: &dyn std::fmt::Display) -> Again {
        let text = format!("{}: {what}: {error}", self.held.who);
        self.findings.add(text);
        Again
    }

    /// Everything is lost since the last renewal.
    fn lose(&mut self) -> Again {
        let renewed = self.held.renewed;
        self.held.drop_all(renewed);
        self.incarnation += 1;
        self.has_begun = false;
        let (name, wires) = (&self.held.who, &self.wires);
        self.session = session_of(name, wires, &self.caller, self.incarnation, None);
        Again
    }

    async fn begin(&mut self) -> Result<(), Again> {
        if self.has_begun {
            return Ok(());
        }
        if self.session.establish().await.is_err() {
            return Err(self.lose());
        }
        self.has_begun = true;
        let build = |b: &mut CompoundBuilder| {
            b.push(&ReclaimCompleteArgs { one_fs: false });
        };
        self.send(&build).await.map(drop)
    }

    async fn send(
        &mut self,
        build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Outcome, Again> {
        let sent = self.held.history.now();
        let build = |b: &mut CompoundBuilder| {
            build(b);
            Vec::new()
        };
        let done = self.session.compound_once(&self.caller, &build).await;
        match done {
            Ok(done) if done.status_flags & REVOKED == 0 => {
                self.held.renewed = sent;
                Ok(done)
            }
            _ => Err(self.lose()),
        }
    }

    async fn ask(
        &mut self,
        build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Outcome, Again> {
        self.begin().await?;
        for _ in 0..PAUSES_MAX {
            let done = self.send(build).await?;
            let status = done.results().map_or(NfsStatus::Ok, |reply| reply.status);
            if !matches!(status, NfsStatus::Delay | NfsStatus::Grace) {
                return Ok(done);
            }
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        }
        Err(self.odd("a request", &"told to wait for ever"))
    }

    async fn on(
        &mut self,
        fh: &FileHandle,
        build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Outcome, Again> {
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            build(b);
        };
        self.ask(&build).await
    }

    /// Who loses state hears of it by a flag, so a failure is a finding.
    fn failed(&mut self, what: &str, error: &OpError) -> Again {
        self.odd(what, error);
        self.lose()
    }

    async fn close_at(&mut self, fh: &FileHandle, open: &HeldOpen) -> Result<(), Again> {
        let args = CloseArgs {
            seqid: 0,
            open_stateid: open.stateid,
        };
        let done = self
            .on(fh, &|b| {
                b.push(&args);
            })
            .await?;
        let closed = taken::<CloseRes>(&done).map(drop);
        closed.map_err(|e| self.failed("CLOSE", &e))
    }

    fn fh(&self, file: usize) -> FileHandle {
        self.held.files[file].place.fh.clone()
    }

    fn set_lock_stateid(&mut self, file: usize, stateid: Stateid) {
        if let Some(open) = &mut self.held.files[file].open {
            open.lock_stateid = Some(stateid);
        }
    }
}

fn made(done: &Outcome) -> Result<(Place, Stateid), OpError> {
    let mut reply = done.results()?;
    reply.take::<PutRootFhRes>()?;
    let stateid = reply.take::<OpenRes>()?.stateid;
    let fh = FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0);
    let got = reply.take::<GetAttrRes<'_>>()?;
    let id = got.attributes.attrs().ok().and_then(|a| a.fileid);
    reply.take::<SetAttrRes>()?;
    let id = id.unwrap_or(0);
    Ok((Place { fh, id }, stateid))
}

impl Locking for Locker1 {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    async fn open(&mut self, file: usize, share: Share) -> Result<Option<Stateid>, Again> {
        let name = name(file);
        let done = self
            .ask(&|b| {
                b.push(&PutRootFhArgs {});
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access: share.access | SHARE_WANT_NO_DELEG,
                    share_deny: share.deny,
                    owner: owner("o"),
                    how: OpenHow::NoCreate,
                    claim: OpenClaim::Null(Opaque(name.as_bytes())),
                });
            })
            .await?;
        let opened = done.results().and_then(|mut reply| {
            reply.take::<PutRootFhRes>()?;
            reply.take::<OpenRes>()
        });
        match opened {
            Ok(opened) => Ok(Some(opened.stateid)),
            Err(e) if e.status() == Some(NfsStatus::ShareDenied) => Ok(None),
            Err(e) => Err(self.failed("OPEN", &e)),
        }
    }

    async fn close(&mut self, file: usize, open: HeldOpen) -> Result<(), Again> {
        let fh = self.fh(file);
        self.close_at(&fh, &open).await
    }

    async fn lock(&mut self, file: usize, range: u64, is_exclusive: bool) -> Result<bool, Again> {
        let Some(open) = self.held.open(file).cloned() else {
            return Ok(false);
        };
        let locker = match open.lock_stateid {
            Some(lock_stateid) => LockerArgs::Exist(ExistLockOwner {
                lock_stateid,
                lock_seqid: 0,
            }),
            None => LockerArgs::New(OpenToLockOwner {
                open_seqid: 0,
                open_stateid: open.stateid,
                lock_seqid: 0,
                lock_owner: owner("l"),
            }),
        };
        let args = LockArgs {
            lock_type: lock_type(is_exclusive),
            reclaim: false,
            offset: range * u64::from(RANGE_BYTES),
            length: u64::from(RANGE_BYTES),
            locker,
        };
        let fh = self.fh(file);
        let done = self
            .on(&fh, &|b| {
                b.push(&args);
            })
            .await?;
        match taken::<LockRes<'_>>(&done) {
            Ok(LockRes::Ok(granted)) => {
                self.set_lock_stateid(file, granted.lock_stateid);
                Ok(true)
            }
            Ok(LockRes::Denied(_)) => Ok(false),
            Err(e) => Err(self.failed("LOCK", &e)),
        }
    }

    async fn unlock(&mut self, file: usize, lock: HeldRange) -> Result<(), Again> {
        let Some(lock_stateid) = self.held.open(file).and_then(|o| o.lock_stateid) else {
            return Ok(());
        };
        let args = LockUArgs {
            lock_type: lock_type(lock.is_exclusive),
            seqid: 0,
            lock_stateid,
            offset: lock.offset(),
            length: u64::from(RANGE_BYTES),
        };
        let fh = self.fh(file);
        let done = self
            .on(&fh, &|b| {
                b.push(&args);
            })
            .await?;
        match taken::<LockURes>(&done) {
            Ok(unlocked) => {
                self.set_lock_stateid(file, unlocked.lock_stateid);
                Ok(())
            }
            Err(e) => Err(self.failed("LOCKU", &e)),
        }
    }

    async fn test(&mut self, file: usize, range: u64) -> Result<(), Again> {
        let args = LockTArgs {
            lock_type: lock_type(true),
            offset: range * u64::from(RANGE_BYTES),
            length: u64::from(RANGE_BYTES),
            owner: owner("l"),
        };
        let fh = self.fh(file);
        let done = self
            .on(&fh, &|b| {
                b.push(&args);
            })
            .await?;
        let tested = taken::<LockTRes<'_>>(&done).map(drop);
        tested.map_err(|e| self.failed("LOCKT", &e))
    }

    async fn read(&mut self, file: usize, range: u64) -> Result<Vec<u8>, Again> {
        let since = Instant::now();
        let Some(stateid) = self.held.open(file).map(HeldOpen::io_stateid) else {
            return Err(Again);
        };
        let args = ReadArgs {
            stateid,
            offset: range * u64::from(RANGE_BYTES),
            count: RANGE_BYTES,
        };
        let fh = self.fh(file);
        let done = self
            .on(&fh, &|b| {
                b.push(&args);
            })
            .await?;
        match taken::<ReadRes<'_>>(&done) {
            Ok(read) => Ok(read.data.0.to_vec()),
            Err(e) if self.held.is_explained(e.status(), since) => Err(Again),
            Err(e) => Err(self.failed("READ", &e)),
        }
    }

    async fn write(&mut self, file: usize, range: u64, data: Vec<u8>) -> Result<(), Again> {
        let since = Instant::now();
        let Some(stateid) = self.held.open(file).map(HeldOpen::io_stateid) else {
            return Err(Again);
        };
        let fh = self.fh(file);
        let done = self
            .on(&fh, &|b| {
                b.push(&WriteArgs {
                    stateid,
                    offset: range * u64::from(RANGE_BYTES),
                    stable: StableHow::FileSync,
                    data: Opaque(&data),
                });
            })
            .await?;
        match taken::<WriteRes>(&done) {
            Ok(_) => Ok(()),
            Err(e) if self.held.is_explained(e.status(), since) => Err(Again),
            Err(e) => Err(self.failed("WRITE", &e)),
        }
    }

    async fn renew(&mut self) -> Result<(), Again> {
        self.ask(&|_| {}).await.map(drop)
    }

    async fn extra(&mut self, _bits: u64) -> Result<(), Again> {
        Ok(())
    }
}
