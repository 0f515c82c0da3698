//! A client that opens a few shared files, relies on what it is delegated, and gives it back when it is called.
//!
//! If it loses its session, or hears that state of its was revoked, it relies on nothing after its last successful request. It
//! begins again as another incarnation.

use super::shared::{owner, root_caller, session_of, taken};
use crate::check::Findings;
use crate::check::delegations::{How, Use};
use crate::check::linear::Moment;
use crate::connector::Wires;
use crate::history::History;
use crate::injected_bug::InjectedBug;
use crate::rng::Rng;
use crate::trace::Trace;
use nfs4::attr::{Attrs, CHANGE, SIZE};
use nfs4::cb::CbRecallArgs;
use nfs4::ops::{
    CloseArgs, CloseRes, CreateHow, DelegReturnArgs, DelegReturnRes, Delegation, GetAttrArgs,
    GetAttrRes, GetFhArgs, GetFhRes, OPEN_RESULT_NO_OPEN_STATEID, OpenArgs, OpenClaim, OpenHow,
    OpenRes, PutFhArgs, PutFhRes, PutRootFhArgs, PutRootFhRes, ReclaimCompleteArgs,
    SEQ_STATUS_ADMIN_STATE_REVOKED, SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED,
    SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED, SEQ_STATUS_RECALLABLE_STATE_REVOKED, SHARE_ACCESS_BOTH,
    SHARE_ACCESS_READ, SHARE_WANT_OPEN_XOR_DELEGATION, SetAttrArgs, SetAttrRes,
};
use nfs4::{
    Bitmap, CbOpNum, CompoundBuilder, Fattr, FileHandle, NfsStatus, OpError, OpReader, Stateid,
};
use parking_lot::Mutex;
use session_client::{CallbackHandler, Caller, HeldAttrs, Outcome, Session};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use xdr::Opaque;

/// Longest rest between two steps in milliseconds, the longest of the rare long ones, and how rare these are.
const REST_MS_MAX: u64 = 120;
const LONG_REST_MS_MAX: u64 = 15_000;
const LONG_PER_MILLE: u32 = 60;
/// Between two looks at recalls.
const LOOK_MS: u64 = 50;
/// Between two renewals of the lease.
const RENEW_MS: u64 = 2_000;
/// How often the answer may be DELAY or GRACE, and the pause after it in milliseconds.
const PAUSES_MAX: u32 = 2_000;
const PAUSE_MS: u64 = 200;
/// How long one with the bug goes on relying on what it has returned.
const KEEPS_MS: u64 = 60_000;
/// Flags that say that state was revoked.
const REVOKED: u32 = SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED
    | SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED
    | SEQ_STATUS_ADMIN_STATE_REVOKED
    | SEQ_STATUS_RECALLABLE_STATE_REVOKED;

/// What a client is made of.
pub(crate) struct HolderParts {
    pub(crate) name: String,
    pub(crate) wires: Wires,
    pub(crate) rng: Rng,
    pub(crate) history: History,
    pub(crate) trace: Trace,
    pub(crate) findings: Findings,
    /// Files that all share.
    pub(crate) files: u64,
    pub(crate) bug: Option<InjectedBug>,
}

/// The back channel: recalls wait here for the worker.
#[derive(Default)]
struct Back {
    recalled: Mutex<VecDeque<Stateid>>,
    /// By handle: change and size of what is held for writing.
    known: Mutex<BTreeMap<Vec<u8>, HeldAttrs>>,
}

impl CallbackHandler for Back {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        let status = match op {
            CbOpNum::Recall => match args.args::<CbRecallArgs<'_>>() {
                Ok(args) => {
                    self.recalled.lock().push_back(args.stateid);
                    NfsStatus::Ok
                }
                Err(_) => NfsStatus::BadXdr,
            },
            _ => NfsStatus::NotSupp,
        };
        Box::pin(std::future::ready(status))
    }

    fn attributes(&self, fh: &[u8]) -> Result<HeldAttrs, NfsStatus> {
        let known = self.known.lock().get(fh).copied();
        known.ok_or(NfsStatus::BadHandle)
    }
}

/// An open or a delegation.
#[derive(Debug, Clone)]
struct Held {
    stateid: Stateid,
    how: How,
    from: Moment,
    /// The change value that its client goes by.
    change: u64,
}

/// A file as this client has it.
#[derive(Debug, Default)]
struct File {
    fh: Option<FileHandle>,
    open: Option<Held>,
    delegation: Option<Held>,
}

/// The session is lost, and with it everything.
struct Lost;

/// A client with one thread.
pub(crate) struct Holder {
    parts: HolderParts,
    caller: Caller,
    incarnation: u64,
    back: Arc<Back>,
    session: Arc<Session>,
    files: Vec<File>,
    /// When the last request was sent that shows that all that is held is held.
    alive: Moment,
}

impl Holder {
    pub(crate) fn new(parts: HolderParts) -> Self {
        let caller = root_caller(&parts.name);
        let back = Arc::new(Back::default());
        let session = session_of(&parts.name, &parts.wires, &caller, 0, Some(back.clone()));
        let files = (0..parts.files).map(|_| File::default()).collect();
        Self {
            alive: parts.history.now(),
            parts,
            caller,
            incarnation: 0,
            back,
            session,
            files,
        }
    }

    pub(crate) async fn work(mut self, steps: u32) {
        let mut begun = false;
        for _ in 0..steps {
            if !begun {
                begun = self.begin().await.is_ok();
            }
            let done = if begun { self.step().await } else { Err(Lost) };
            if done.is_err() {
                self.begin_again();
                begun = false;
            }
        }
        let now = self.parts.history.now();
        self.drop_all(now);
    }

    /// A session, and the word that nothing is reclaimed.
    async fn begin(&mut self) -> Result<(), Lost> {
        self.session.establish().await.map_err(|_| Lost)?;
        let build = |b: &mut CompoundBuilder| {
            b.push(&ReclaimCompleteArgs { one_fs: false });
        };
        self.ask(&build).await.map(drop)
    }

    fn begin_again(&mut self) {
        let alive = self.alive;
        self.drop_all(alive);
        self.parts
            .trace
            .tell(&self.parts.name, format_args!("! begins again"));
        self.incarnation += 1;
        self.back = Arc::new(Back::default());
        self.session = session_of(
            &self.parts.name,
            &self.parts.wires,
            &self.caller,
            self.incarnation,
            Some(self.back.clone()),
        );
    }

    fn drop_all(&mut self, to: Moment) {
        for index in 0..self.files.len() {
            let file = std::mem::take(&mut self.files[index]);
            for held in [file.open, file.delegation].into_iter().flatten() {
                self.ended(index, held, to);
            }
        }
    }

    fn ended(&self, file: usize, held: Held, to: Moment) {
        self.parts.history.used(Use {
            who: self.parts.name.clone(),
            file,
            how: held.how,
            from: held.from,
            to,
        });
    }

    async fn ask(
        &mut self,
        build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Outcome, Lost> {
        let sent = self.parts.history.now();
        let build = |b: &mut CompoundBuilder| {
            build(b);
            Vec::new()
        };
        let done = self.session.compound_once(&self.caller, &build).await;
        let done = done.map_err(|_| Lost)?;
        if done.status_flags & REVOKED != 0 {
            return Err(Lost);
        }
        self.alive = sent;
        Ok(done)
    }

    /// As [`Holder::ask`], again while the server says so; recalls are obeyed meanwhile.
    async fn ask_patiently(
        &mut self,
        build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Outcome, Lost> {
        for _ in 0..PAUSES_MAX {
            let done = self.ask(build).await?;
            let status = done.results().map_err(|_| Lost)?.status;
            if !matches!(status, NfsStatus::Delay | NfsStatus::Grace) {
                return Ok(done);
            }
            self.obey().await?;
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        }
        let text = format!("{}: told to wait for ever", self.parts.name);
        self.parts.findings.add(text);
        Err(Lost)
    }

    /// The same for DELEGRETURN, which no recall may hold up.
    async fn ask_alone(
        &mut self,
        build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
    ) -> Result<Outcome, Lost> {
        loop {
            let done = self.ask(build).await?;
            if done.results().map_err(|_| Lost)?.status != NfsStatus::Delay {
                return Ok(done);
            }
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        }
    }

    async fn step(&mut self) -> Result<(), Lost> {
        self.obey().await?;
        let file = usize::try_from(self.parts.rng.below(self.parts.files)).unwrap_or(0);
        match self.parts.rng.below(10) {
            0..4 => self.open(file).await?,
            4..7 => self.close(file).await?,
            7 => self.give_back(file).await?,
            _ => self.touch(file).await?,
        }
        self.rest().await
    }

    /// Time passes; recalls are obeyed and the lease is renewed.
    async fn rest(&mut self) -> Result<(), Lost> {
        let is_long = self.parts.rng.chance(LONG_PER_MILLE);
        let max = if is_long {
            LONG_REST_MS_MAX
        } else {
            REST_MS_MAX
        };
        let rest = Duration::from_millis(self.parts.rng.below(max));
        let end = Instant::now() + rest;
        let mut renew = Instant::now() + Duration::from_millis(RENEW_MS);
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
            self.obey().await?;
            if Instant::now() >= renew {
                self.ask(&|_| {}).await?;
                renew = Instant::now() + Duration::from_millis(RENEW_MS);
            }
        }
        Ok(())
    }

    async fn obey(&mut self) -> Result<(), Lost> {
        loop {
            let recalled = self.back.recalled.lock().pop_front();
            let Some(recalled) = recalled else {
                return Ok(());
            };
            let is_it = |f: &File| {
                let held = f.delegation.as_ref();
                held.is_some_and(|d| d.stateid.other == recalled.other)
            };
            if let Some(file) = self.files.iter().position(is_it) {
                self.give_back(file).await?;
            }
        }
    }

    async fn open(&mut self, file: usize) -> Result<(), Lost> {
        if self.files[file].open.is_some() {
            return Ok(());
        }
        let writes = self.parts.rng.below(3) == 0;
        let access = if writes {
            SHARE_ACCESS_BOTH
        } else {
            SHARE_ACCESS_READ
        };
        let either = match self.parts.rng.below(2) {
            0 => 0,
            _ => SHARE_WANT_OPEN_XOR_DELEGATION,
        };
        let name = format!("g{file}");
        let attrs = Fattr::new(&Attrs {
            mode: Some(0o644),
            ..Attrs::default()
        });
        let build = move |b: &mut CompoundBuilder| {
            b.push(&PutRootFhArgs {});
            b.push(&OpenArgs {
                seqid: 0,
                share_access: access | either,
                share_deny: 0,
                owner: owner("o"),
                how: OpenHow::Create(CreateHow::Unchecked(attrs.clone())),
                claim: OpenClaim::Null(Opaque(name.as_bytes())),
            });
            b.push(&GetFhArgs {});
            b.push(&GetAttrArgs {
                attr_request: Bitmap::of(&[CHANGE, SIZE]),
            });
        };
        let done = self.ask_patiently(&build).await?;
        match opened(&done) {
            Ok((opened, fh, known)) => self.take(file, writes, opened, fh, known),
            // Another step finds it again; a reply without all of it leaves an open that goes with the incarnation.
            Err(_) => return Err(Lost),
        }
        Ok(())
    }

    fn take(
        &mut self,
        file: usize,
        writes: bool,
        opened: OpenRes,
        fh: FileHandle,
        known: HeldAttrs,
    ) {
        let held = |stateid, how| Held {
            stateid,
            how,
            from: self.parts.history.now(),
            change: known.change,
        };
        let open = held(
            opened.stateid,
            if writes { How::Writes } else { How::Reads },
        );
        let delegation = match opened.delegation {
            Delegation::Read(d) => Some(held(d.stateid, How::ReadDelegation)),
            Delegation::Write(d) => Some(held(d.stateid, How::WriteDelegation)),
            _ => None,
        };
        if let Some(held) = &delegation {
            self.parts.trace.tell(
                &self.parts.name,
                format_args!("= delegated g{file}: {:?}", held.how),
            );
            self.back.known.lock().insert(fh.0.clone(), known);
            self.files[file].delegation = delegation;
        }
        self.files[file].fh = Some(fh);
        // With the delegation alone there is nothing to close (RFC 9754 §4).
        let is_alone = opened.rflags & OPEN_RESULT_NO_OPEN_STATEID != 0;
        self.files[file].open = (!is_alone).then_some(open);
    }

    async fn close(&mut self, file: usize) -> Result<(), Lost> {
        let Some(open) = self.files[file].open.take() else {
            return Ok(());
        };
        let now = self.parts.history.now();
        let fh = self.files[file].fh.clone().unwrap_or_default();
        let close = CloseArgs {
            seqid: 0,
            open_stateid: Stateid {
                seqid: 0,
                ..open.stateid
            },
        };
        let build = move |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            b.push(&close);
        };
        let done = self.ask_alone(&build).await;
        // Without an answer nobody knows whether it was open that long.
        let to = if done.is_ok() { now } else { self.alive };
        self.ended(file, open, to);
        let done = done?;
        self.expect(taken::<CloseRes>(&done).map(drop), "CLOSE")
    }

    /// Returns a delegation: what was cached under it is what is there.
    async fn give_back(&mut self, file: usize) -> Result<(), Lost> {
        let Some(held) = self.files[file].delegation.take() else {
            return Ok(());
        };
        let fh = self.files[file].fh.clone().unwrap_or_default();
        self.back.known.lock().remove(&fh.0);
        let now = self.parts.history.now();
        let stateid = held.stateid;
        let build = move |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            b.push(&GetAttrArgs {
                attr_request: Bitmap::of(&[CHANGE]),
            });
            b.push(&DelegReturnArgs { stateid });
        };
        let done = self.ask_alone(&build).await;
        let mut to = if done.is_ok() { now } else { self.alive };
        if self.parts.bug == Some(InjectedBug::KeepDelegations) {
            to.0 += KEEPS_MS;
        }
        self.ended(file, held.clone(), to);
        match returned(&done?) {
            Ok(change) if change == held.change => Ok(()),
            Ok(change) => {
                let who = &self.parts.name;
                let text = format!("{who}: g{file} changed under {held:?}: {change}");
                self.parts.findings.add(text);
                Ok(())
            }
            Err(e) => self.expect(Err(e), "DELEGRETURN"),
        }
    }

    /// Changes a file that is not delegated to this client.
    async fn touch(&mut self, file: usize) -> Result<(), Lost> {
        let Some(fh) = self.files[file].fh.clone() else {
            return Ok(());
        };
        if self.files[file].delegation.is_some() {
            return Ok(());
        }
        let mode = if self.parts.rng.below(2) == 0 {
            0o644
        } else {
            0o664
        };
        let attrs = Fattr::new(&Attrs {
            mode: Some(mode),
            ..Attrs::default()
        });
        let build = move |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            b.push(&SetAttrArgs {
                stateid: Stateid::ANONYMOUS,
                attrs: attrs.clone(),
            });
        };
        let done = self.ask_patiently(&build).await?;
        let set = taken::<SetAttrRes>(&done);
        self.expect(set.map(drop), "SETATTR")
    }

    /// A failure is a finding: whoever loses state is told otherwise.
    fn expect(&self, done: Result<(), OpError>, what: &str) -> Result<(), Lost> {
        if let Err(e) = done {
            let text = format!("{}: {what}: {e}", self.parts.name);
            self.parts.findings.add(text);
            return Err(Lost);
        }
        Ok(())
    }
}

fn opened(done: &Outcome) -> Result<(OpenRes, FileHandle, HeldAttrs), OpError> {
    let mut reply = done.results()?;
    reply.take::<PutRootFhRes>()?;
    let opened = reply.take::<OpenRes>()?;
    let fh = FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0);
    let got = reply.take::<GetAttrRes<'_>>()?;
    let attrs = got.attributes.attrs().unwrap_or_default();
    let known = HeldAttrs {
        change: attrs.change.unwrap_or(0),
        // A client of NFSv3 may have written.
        size: attrs.size.unwrap_or(0),
        ..HeldAttrs::default()
    };
    Ok((opened, fh, known))
}

/// The change value before a delegation went back.
fn returned(done: &Outcome) -> Result<u64, OpError> {
    let mut reply = done.results()?;
    reply.take::<PutFhRes>()?;
    let got = reply.take::<GetAttrRes<'_>>()?;
    let change = got.attributes.attrs().ok().and_then(|a| a.change);
    reply.take::<DelegReturnRes>()?;
    Ok(change.unwrap_or(0))
}
