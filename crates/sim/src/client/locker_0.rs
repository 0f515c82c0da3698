//! A locker by NFSv4.0: sequence ids of owners, a callback program of its own, and reclaim after a restart of the server.
//!
//! Its calls are sent again until they are answered ([`Calls`]). So it knows what became of each, but for those that a restart of the
//! server cut short: nothing of such a call is held, since nothing of it is reclaimed.

use super::callbacks_0::Callbacks0;
use super::calls::{Calls, Procedure};
use super::locker::{
    Again, FILES, Held, HeldDelegation, HeldOpen, HeldRange, Locker, Locking, RANGE_BYTES, Share,
    name,
};
use super::locker_1::LockerParts;
use super::shared::lock_type;
use crate::check::Findings;
use crate::check::delegations::How;
use crate::check::linear::Moment;
use bytes::Bytes;
use nfs4::ops::{
    CloseArgs, CreateArgs, CreateType, DelegReturnArgs, Delegation, ExistLockOwner, LockArgs,
    LockRes, LockTArgs, LockTRes, LockUArgs, LockURes, Locker as LockerArgs, OPEN_RESULT_CONFIRM,
    OpenArgs, OpenClaim, OpenConfirmArgs, OpenConfirmRes, OpenHow, OpenRes, OpenToLockOwner,
    PutFhArgs, PutFhRes, PutRootFhArgs, PutRootFhRes, ReadArgs, ReadRes, RemoveArgs, RenewArgs,
    WriteArgs,
};
use nfs4::{
    ClientId, CompoundBuilder, CompoundReply, Fattr, FileHandle, NfsStatus, OpError, OpNum, OpRes,
    StableHow, StateOwner, Stateid,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use xdr::{Decoder, Encoder, Opaque};

const COMPOUND: Procedure = Procedure {
    program: nfs4::PROGRAM,
    version: nfs4::VERSION,
    procedure: 1,
};
/// How often the answer may be DELAY or GRACE, and the pause after it in milliseconds.
pub(super) const PAUSES_MAX: u32 = 4_000;
pub(super) const PAUSE_MS: u64 = 200;
/// The client restarts in so many of its other steps, in 8.
const REBOOTS: u64 = 1;

/// A reply.
pub(super) struct Answer(Bytes);

impl Answer {
    pub(super) fn reply(&self) -> Result<CompoundReply<'_>, OpError> {
        Ok(CompoundReply::new(Decoder::new(&self.0))?)
    }

    pub(super) fn status(&self) -> NfsStatus {
        self.reply().map_or(NfsStatus::BadXdr, |reply| reply.status)
    }

    /// The result after PUTFH.
    pub(super) fn taken<'a, T: OpRes<'a, Num = OpNum>>(&'a self) -> Result<T, OpError> {
        let mut reply = self.reply()?;
        reply.take::<PutFhRes>()?;
        reply.take::<T>()
    }
}

/// Whether a request with this end has used its sequence id (RFC 7530 §9.1.7).
fn counts(status: NfsStatus) -> bool {
    !matches!(
        status,
        NfsStatus::StaleClientId
            | NfsStatus::StaleStateid
            | NfsStatus::BadStateid
            | NfsStatus::BadSeqid
            | NfsStatus::BadXdr
            | NfsStatus::Resource
            | NfsStatus::NoFileHandle
    )
}

/// The sequence ids that a request takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seqs {
    Open,
    Lock(usize),
    /// The first lock of an owner.
    Both(usize),
}

pub(super) type Build<'a> = &'a (dyn Fn(&mut CompoundBuilder) + Send + Sync);
/// The sequence ids are those of the open-owner and of the lock-owner.
pub(super) type BuildSeq<'a> = &'a (dyn Fn(&mut CompoundBuilder, u32, u32) + Send + Sync);

/// See the module.
pub(crate) struct Locker0 {
    pub(super) calls: Calls,
    pub(super) findings: Findings,
    pub(super) held: Held,
    pub(super) back: Arc<Callbacks0>,
    _serving: JoinSet<()>,
    pub(super) uaddr: String,
    pub(super) client: Option<ClientId>,
    pub(super) incarnation: u64,
    open_seqid: u32,
    lock_seqids: [u32; FILES],
    /// When the last request for something new was sent that was granted: the server has a record of this client from then on.
    pub(super) recorded: Moment,
    /// Whether the directory of its own is there.
    has_scratch: bool,
}

impl Locker0 {
    /// A locker that can be called back.
    pub(crate) fn worker(mut parts: LockerParts) -> Result<Locker<Self>, String> {
        let rng = parts.rng.split();
        let back = Arc::new(Callbacks0::default());
        let (uaddr, serving) = parts.wires.takes_calls(&parts.name, back.clone())?;
        let how = Self {
            calls: Calls::new(&parts.name, &parts.wires, &mut parts.rng),
            held: Held::new(&parts.name, &parts.history, parts.bug, parts.places),
            findings: parts.findings,
            back,
            _serving: serving,
            uaddr,
            client: None,
            incarnation: 0,
            open_seqid: 1,
            lock_seqids: [1; FILES],
            recorded: (0, 0),
            has_scratch: false,
        };
        Ok(Locker::with(how, rng))
    }

    pub(super) fn odd(&self, what: &str, error: &dyn std::fmt::Display) -> Again {
        let text = format!("{}: {what}: {error}", self.held.who);
        self.findings.add(text);
        Again
    }

    /// What is held is lost since the last renewal. A client that begins again as another one leaves nothing behind.
    fn lose(&mut self) -> Again {
        let renewed = self.held.renewed;
        self.held.drop_all(renewed);
        self.client = None;
        self.incarnation += 1;
        Again
    }

    pub(super) async fn raw(&mut self, build: Build<'_>) -> Result<Answer, Again> {
        let mut b = CompoundBuilder::new(Encoder::new(), b"", 0);
        build(&mut b);
        let args = b.finish().into_bytes();
        let done = self.calls.call(COMPOUND, &args).await;
        done.map(Answer).map_err(|e| self.odd("a call", &e))
    }

    /// Sends a COMPOUND. Recovers if the server has lost this client, or has ended what it held.
    async fn send(&mut self, build: Build<'_>) -> Result<Answer, Again> {
        if self.client.is_none() {
            self.recover().await?;
        }
        let sent = self.held.history.now();
        let answer = self.raw(build).await?;
        let status = answer.status();
        match status {
            NfsStatus::StaleClientId | NfsStatus::StaleStateid => {
                self.recover().await?;
                Err(Again)
            }
            NfsStatus::Expired => Err(self.lose()),
            NfsStatus::BadStateid | NfsStatus::OldStateid | NfsStatus::BadSeqid => {
                // A lease that may be over explains that state is gone.
                if self.held.has_lease() {
                    self.odd("a request", &status);
                }
                Err(self.lose())
            }
            _ => {
                self.held.renewed = sent;
                Ok(answer)
            }
        }
    }

    /// Waits as a client does after DELAY or GRACE; recalls are obeyed meanwhile.
    async fn pause(&mut self) -> Result<(), Again> {
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        self.obey().await
    }

    async fn patiently(&mut self, build: Build<'_>) -> Result<Answer, Again> {
        for _ in 0..PAUSES_MAX {
            let answer = self.send(build).await?;
            if !matches!(answer.status(), NfsStatus::Delay | NfsStatus::Grace) {
                return Ok(answer);
            }
            self.pause().await?;
        }
        Err(self.odd("a request", &"told to wait for ever"))
    }

    /// The same for a request that names no client, so that it says nothing of what is held.
    async fn unnamed(&mut self, build: Build<'_>) -> Result<Answer, Again> {
        for _ in 0..PAUSES_MAX {
            let answer = self.raw(build).await?;
            if !matches!(answer.status(), NfsStatus::Delay | NfsStatus::Grace) {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
            self.renew().await?;
        }
        Err(self.odd("a request", &"told to wait for ever"))
    }

    /// The same with sequence ids of owners, which the request uses up.
    async fn in_turn(&mut self, seqs: Seqs, build: BuildSeq<'_>) -> Result<Answer, Again> {
        for _ in 0..PAUSES_MAX {
            let answer = self.once_in_turn(seqs, build).await?;
            if !matches!(answer.status(), NfsStatus::Delay | NfsStatus::Grace) {
                return Ok(answer);
            }
            self.pause().await?;
        }
        Err(self.odd("a request", &"told to wait for ever"))
    }

    pub(super) fn seqids(&self, seqs: Seqs) -> (u32, u32) {
        match seqs {
            Seqs::Open => (self.open_seqid, 0),
            Seqs::Lock(file) | Seqs::Both(file) => (self.open_seqid, self.lock_seqids[file]),
        }
    }

    async fn once_in_turn(&mut self, seqs: Seqs, build: BuildSeq<'_>) -> Result<Answer, Again> {
        let (open, lock) = self.seqids(seqs);
        let answer = self.send(&|b| build(b, open, lock)).await?;
        self.used(seqs, answer.status());
        Ok(answer)
    }

    pub(super) fn used(&mut self, seqs: Seqs, status: NfsStatus) {
        if !counts(status) {
            return;
        }
        if let Seqs::Open | Seqs::Both(_) = seqs {
            self.open_seqid += 1;
        }
        if let Seqs::Lock(file) | Seqs::Both(file) = seqs {
            self.lock_seqids[file] += 1;
        }
    }

    /// Delegations that are recalled go back.
    async fn obey(&mut self) -> Result<(), Again> {
        while let Some(recalled) = self.back.next_recalled() {
            let is_it = |d: &HeldDelegation| d.stateid.other == recalled.other;
            let mut files = self.held.files.iter();
            if let Some(file) = files.position(|f| f.delegation.as_ref().is_some_and(is_it)) {
                self.give_back(file).await?;
            }
        }
        Ok(())
    }

    async fn give_back(&mut self, file: usize) -> Result<(), Again> {
        let until = self.held.until();
        let Some(held) = self.held.drop_delegation(file, until) else {
            return Ok(());
        };
        let (fh, stateid) = (self.fh(file), held.stateid);
        self.back.forget(&fh);
        for _ in 0..PAUSES_MAX {
            let answer = self
                .send(&|b| {
                    put(b, &fh);
                    b.push(&DelegReturnArgs { stateid });
                })
                .await?;
            match answer.status() {
                NfsStatus::Ok => return Ok(()),
                NfsStatus::Delay => tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await,
                status => return Err(self.odd("DELEGRETURN", &status)),
            }
        }
        Err(self.odd("DELEGRETURN", &"told to wait for ever"))
    }

    fn take_delegation(&mut self, file: usize, delegation: &Delegation) {
        let (stateid, how) = match delegation {
            Delegation::Read(d) => (d.stateid, How::ReadDelegation),
            Delegation::Write(d) => (d.stateid, How::WriteDelegation),
            _ => return,
        };
        let from = self.held.history.now();
        self.held.files[file].delegation = Some(HeldDelegation { stateid, how, from });
        let fh = self.fh(file);
        self.back.remember(&fh);
    }

    pub(super) fn fh(&self, file: usize) -> FileHandle {
        self.held.files[file].place.fh.clone()
    }

    fn failed(&mut self, what: &str, error: &OpError) -> Again {
        self.odd(what, error);
        self.lose()
    }

    async fn confirm(&mut self, file: usize, open_stateid: Stateid) -> Result<Stateid, Again> {
        let fh = self.fh(file);
        let answer = self
            .in_turn(Seqs::Open, &|b, seqid, _| {
                put(b, &fh);
                b.push(&OpenConfirmArgs {
                    open_stateid,
                    seqid,
                });
            })
            .await?;
        let confirmed = answer.taken::<OpenConfirmRes>();
        let confirmed = confirmed.map(|confirmed| confirmed.open_stateid);
        confirmed.map_err(|e| self.failed("OPEN_CONFIRM", &e))
    }

    /// Makes or removes the directory of its own. Nobody else does, so each is done exactly once.
    async fn scratch(&mut self) -> Result<(), Again> {
        let (who, had) = (self.held.who.clone(), self.has_scratch);
        let start = self.held.history.now();
        let answer = self
            .unnamed(&|b| {
                b.push(&PutRootFhArgs {});
                match had {
                    true => b.push(&RemoveArgs {
                        target: Opaque(who.as_bytes()),
                    }),
                    false => b.push(&CreateArgs {
                        object_type: CreateType::Dir,
                        name: Opaque(who.as_bytes()),
                        attrs: Fattr::default(),
                    }),
                };
            })
            .await?;
        let status = answer.status();
        // A restart forgets what was answered.
        let is_cut = !self
            .held
            .history
            .cuts_within(start, self.held.history.now())
            .is_empty();
        let is_done = match (had, status) {
            (_, NfsStatus::Ok) => true,
            (true, NfsStatus::NoEnt) | (false, NfsStatus::Exist) => is_cut,
            _ => false,
        };
        if !is_done {
            let what = if had { "REMOVE" } else { "CREATE" };
            return Err(self.odd(what, &format!("was done twice, or never: {status}")));
        }
        self.has_scratch = !had;
        Ok(())
    }
}

pub(super) fn put(b: &mut CompoundBuilder, fh: &FileHandle) {
    b.push(&PutFhArgs {
        object: Opaque(&fh.0),
    });
}

pub(super) fn open_owner(clientid: ClientId) -> StateOwner<'static> {
    StateOwner {
        clientid,
        owner: Opaque(b"o"),
    }
}

pub(super) fn lock_args<'a>(
    lock: &HeldRange,
    reclaim: bool,
    locker: LockerArgs<'a>,
) -> LockArgs<'a> {
    LockArgs {
        lock_type: lock_type(lock.is_exclusive),
        reclaim,
        offset: lock.offset(),
        length: u64::from(RANGE_BYTES),
        locker,
    }
}

/// The owner of a lock: one that has locks on this open, or one that has none yet.
pub(super) fn first_or_next<'a>(
    file: usize,
    (clientid, owner): (ClientId, &'a str),
    open_stateid: Stateid,
    lock_stateid: Option<Stateid>,
) -> (Seqs, impl Fn(u32, u32) -> LockerArgs<'a> + Send + Sync) {
    let seqs = match lock_stateid {
        Some(_) => Seqs::Lock(file),
        None => Seqs::Both(file),
    };
    let locker = move |open_seqid, lock_seqid| match lock_stateid {
        Some(lock_stateid) => LockerArgs::Exist(ExistLockOwner {
            lock_stateid,
            lock_seqid,
        }),
        None => LockerArgs::New(OpenToLockOwner {
            open_seqid,
            open_stateid,
            lock_seqid,
            lock_owner: StateOwner {
                clientid,
                owner: Opaque(owner.as_bytes()),
            },
        }),
    };
    (seqs, locker)
}

impl Locking for Locker0 {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    async fn open(&mut self, file: usize, share: Share) -> Result<Option<Stateid>, Again> {
        if self.client.is_none() {
            self.recover().await?;
        }
        let (name, clientid) = (name(file), self.client.unwrap_or_default());
        let answer = self
            .in_turn(Seqs::Open, &|b, seqid, _| {
                b.push(&PutRootFhArgs {});
                b.push(&OpenArgs {
                    seqid,
                    share_access: share.access,
                    share_deny: share.deny,
                    owner: open_owner(clientid),
                    how: OpenHow::NoCreate,
                    claim: OpenClaim::Null(Opaque(name.as_bytes())),
                });
            })
            .await?;
        let opened = answer.reply().and_then(|mut reply| {
            reply.take::<PutRootFhRes>()?;
            reply.take::<OpenRes>()
        });
        let opened = match opened {
            Ok(opened) => opened,
            Err(e) if e.status() == Some(NfsStatus::ShareDenied) => return Ok(None),
            Err(e) => return Err(self.failed("OPEN", &e)),
        };
        self.recorded = self.held.renewed;
        self.take_delegation(file, &opened.delegation);
        if opened.rflags & OPEN_RESULT_CONFIRM != 0 {
            return self.confirm(file, opened.stateid).await.map(Some);
        }
        Ok(Some(opened.stateid))
    }

    async fn close(&mut self, file: usize, open: HeldOpen) -> Result<(), Again> {
        let (fh, open_stateid) = (self.fh(file), open.stateid);
        let answer = self
            .in_turn(Seqs::Open, &|b, seqid, _| {
                put(b, &fh);
                b.push(&CloseArgs {
                    seqid,
                    open_stateid,
                });
            })
            .await?;
        match answer.status() {
            NfsStatus::Ok => Ok(()),
            status => Err(self.odd("CLOSE", &status)),
        }
    }

    async fn lock(&mut self, file: usize, range: u64, is_exclusive: bool) -> Result<bool, Again> {
        let Some(open) = self.held.open(file).cloned() else {
            return Ok(false);
        };
        let (fh, owner) = (self.fh(file), format!("l{file}"));
        let wanted = HeldRange {
            range,
            is_exclusive,
            from: (0, 0),
        };
        let of = (self.client.unwrap_or_default(), owner.as_str());
        let (seqs, locker) = first_or_next(file, of, open.stateid, open.lock_stateid);
        let answer = self
            .in_turn(seqs, &|b, open_seqid, lock_seqid| {
                put(b, &fh);
                b.push(&lock_args(&wanted, false, locker(open_seqid, lock_seqid)));
            })
            .await?;
        match answer.taken::<LockRes<'_>>() {
            Ok(LockRes::Ok(granted)) => {
                if let Some(open) = &mut self.held.files[file].open {
                    open.lock_stateid = Some(granted.lock_stateid);
                }
                self.recorded = self.held.renewed;
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
        let fh = self.fh(file);
        let answer = self
            .in_turn(Seqs::Lock(file), &|b, _, seqid| {
                put(b, &fh);
                b.push(&LockUArgs {
                    lock_type: lock_type(lock.is_exclusive),
                    seqid,
                    lock_stateid,
                    offset: lock.offset(),
                    length: u64::from(RANGE_BYTES),
                });
            })
            .await?;
        match answer.taken::<LockURes>() {
            Ok(unlocked) => {
                if let Some(open) = &mut self.held.files[file].open {
                    open.lock_stateid = Some(unlocked.lock_stateid);
                }
                Ok(())
            }
            Err(e) => Err(self.failed("LOCKU", &e)),
        }
    }

    async fn test(&mut self, file: usize, range: u64) -> Result<(), Again> {
        let (fh, owner) = (self.fh(file), format!("l{file}"));
        let clientid = self.client.unwrap_or_default();
        let answer = self
            .patiently(&|b| {
                put(b, &fh);
                b.push(&LockTArgs {
                    lock_type: lock_type(true),
                    offset: range * u64::from(RANGE_BYTES),
                    length: u64::from(RANGE_BYTES),
                    owner: StateOwner {
                        clientid,
                        owner: Opaque(owner.as_bytes()),
                    },
                });
            })
            .await?;
        match answer.taken::<LockTRes<'_>>() {
            Ok(LockTRes::Denied(denied)) if denied.owner.clientid == clientid => {
                Err(self.odd("LOCKT", &"an owner's own lock is in its way"))
            }
            Ok(_) => Ok(()),
            Err(e) => Err(self.failed("LOCKT", &e)),
        }
    }

    async fn read(&mut self, file: usize, range: u64) -> Result<Vec<u8>, Again> {
        let since = Instant::now();
        let Some(stateid) = self.held.open(file).map(HeldOpen::io_stateid) else {
            return Err(Again);
        };
        let fh = self.fh(file);
        let answer = self
            .patiently(&|b| {
                put(b, &fh);
                b.push(&ReadArgs {
                    stateid,
                    offset: range * u64::from(RANGE_BYTES),
                    count: RANGE_BYTES,
                });
            })
            .await?;
        match answer.taken::<ReadRes<'_>>() {
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
        let answer = self
            .patiently(&|b| {
                put(b, &fh);
                b.push(&WriteArgs {
                    stateid,
                    offset: range * u64::from(RANGE_BYTES),
                    stable: StableHow::FileSync,
                    data: Opaque(&data),
                });
            })
            .await?;
        match answer.status() {
            NfsStatus::Ok => Ok(()),
            status if self.held.is_explained(Some(status), since) => Err(Again),
            status => Err(self.odd("WRITE", &status)),
        }
    }

    async fn renew(&mut self) -> Result<(), Again> {
        self.obey().await?;
        let Some(clientid) = self.client else {
            return Ok(());
        };
        let answer = self
            .send(&|b| {
                b.push(&RenewArgs { clientid });
            })
            .await?;
        match answer.status() {
            NfsStatus::Ok => Ok(()),
            // What cannot be recalled is not to be kept.
            NfsStatus::CbPathDown => {
                for file in 0..FILES {
                    self.give_back(file).await?;
                }
                Ok(())
            }
            status => Err(self.odd("RENEW", &status)),
        }
    }

    async fn extra(&mut self, bits: u64) -> Result<(), Again> {
        match bits % 8 {
            n if n < REBOOTS => Err(self.lose()),
            1..4 => {
                self.give_back(usize::try_from(bits >> 32).unwrap_or(0) % FILES)
                    .await
            }
            _ => self.scratch().await,
        }
    }
}
