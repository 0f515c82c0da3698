//! A locker by NFSv3: a host with NLM and NSM. Its opens are SHAREs, and no lease ends what it holds.
//!
//! Each lock has a process of its own, or that of its file. A lock of the second kind may be granted for an earlier request, so the
//! host asks again when it was told. It may wait for a lock until GRANTED comes, or take its request back.
//!
//! # What a restart of the server does
//! NOTIFY has the host reclaim (`reclaim_3`). If nobody could tell it, its locks are lost without its knowing. So what it holds
//! counts to the first power cut that it has not reclaimed after ([`Held::until`]).

use super::callbacks_3::{Callbacks3, Waits};
use super::calls::{Calls, Procedure};
use super::locker::{
    Again, FILES, Held, HeldOpen, HeldRange, Locker, Locking, RANGE_BYTES, RANGES, Share,
};
use super::locker_1::LockerParts;
use crate::check::Findings;
use crate::check::linear::Moment;
use crate::mds_node::LEASE_MS;
use crate::rng::Rng;
use bytes::Bytes;
use nfs3::procs::{ReadArgs, WriteArgs};
use nfs3::{Nfs3Status, ProcArgs, StableHow};
use nfs4::ops::{SHARE_ACCESS_READ, SHARE_ACCESS_WRITE};
use nfs4::{NfsStatus, Stateid};
use nlm::nsm::{NsmProc, StatChge};
use nlm::{
    Fsh4Access, Fsh4Mode, Nlm4CancArgs, Nlm4Lock, Nlm4LockArgs, Nlm4Res, Nlm4Share, Nlm4ShareArgs,
    Nlm4ShareRes, Nlm4Stats, Nlm4TestArgs, Nlm4TestReply, Nlm4TestRes, Nlm4UnlockArgs, NlmProc,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use xdr::{Decode, Encode, Opaque, decode_all, encode_to_vec};

/// How often the answer may be that it is the grace period, or JUKEBOX, and the pause after it in milliseconds.
const PAUSES_MAX: u32 = 4_000;
const PAUSE_MS: u64 = 200;
/// Locks that the host waits for where they are not free, in 1000, and how long at most, in milliseconds.
const BLOCKS_PER_MILLE: u32 = 600;
const WAIT_MS_MAX: u64 = 4_000;
/// Locks of a process of their own, in 1000.
const OWN_PROCESS_PER_MILLE: u32 = 500;
/// The process that opens files, and the first one that locks.
const OPENER: i32 = 1;
const FIRST_PROCESS: i32 = 100;
/// How long a host is off that dies, in milliseconds.
const OFF_MS_MAX: u64 = LEASE_MS * 2;
/// After so long without NOTIFY there was none in the grace period, which lasts two leases at most.
const UNTOLD_MS: u64 = LEASE_MS * 4;
/// The host dies in so many of its other steps, in 8.
const DEATHS: u64 = 2;

/// A lock as the host asks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) svid: i32,
    pub(super) is_exclusive: bool,
}

/// See the module.
pub(crate) struct Locker3 {
    calls: Calls,
    pub(super) findings: Findings,
    pub(super) held: Held,
    pub(super) back: Arc<Callbacks3>,
    _serving: JoinSet<()>,
    rng: Rng,
    /// The NSM state of this host.
    state: i32,
    next_process: i32,
    /// Processes that hold locks, by file and range.
    pub(super) processes: BTreeMap<(usize, u64), i32>,
}

impl Locker3 {
    /// A host that can be called.
    pub(crate) fn worker(mut parts: LockerParts) -> Result<Locker<Self>, String> {
        let rng = parts.rng.split();
        let back = Arc::new(Callbacks3::default());
        let (_, serving) = parts.wires.takes_calls(&parts.name, back.clone())?;
        let mut held = Held::new(&parts.name, &parts.history, parts.bug, parts.places);
        held.is_leased = false;
        let how = Self {
            calls: Calls::new(&parts.name, &parts.wires, &mut parts.rng),
            held,
            findings: parts.findings,
            back,
            _serving: serving,
            rng: parts.rng,
            state: 1,
            next_process: FIRST_PROCESS,
            processes: BTreeMap::new(),
        };
        Ok(Locker::with(how, rng))
    }

    pub(super) fn odd(&self, what: &str, why: &dyn std::fmt::Display) -> Again {
        let text = format!("{}: {what}: {why}", self.held.who);
        self.findings.add(text);
        Again
    }

    fn now(&self) -> Moment {
        self.held.history.now()
    }

    /// Whether the server lost its power between then and now: nobody knows which of its runs has done what was asked for.
    fn is_cut_since(&self, start: Moment) -> bool {
        !self.held.history.cuts_within(start, self.now()).is_empty()
    }

    async fn raw(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        args: &impl Encode,
    ) -> Result<Bytes, Again> {
        let what = Procedure {
            program,
            version,
            procedure,
        };
        let start = self.now();
        let done = self.calls.call(what, &encode_to_vec(args)).await;
        let body = done.map_err(|e| self.odd("a call", &e))?;
        if self.held.is_empty() && !self.is_cut_since(start) {
            self.held.renewed = start;
        }
        Ok(body)
    }

    async fn nlm(&mut self, proc: NlmProc, args: &impl Encode) -> Result<Bytes, Again> {
        self.raw((nlm::PROGRAM, nlm::VERSION, proc as u32), args)
            .await
    }

    pub(super) async fn pause() {
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
    }

    fn alock<'a>(who: &'a str, fh: &'a [u8], wanted: Wanted) -> Nlm4Lock<'a> {
        Nlm4Lock {
            caller_name: Opaque(who.as_bytes()),
            fh: Opaque(fh),
            oh: Opaque(who.as_bytes()),
            svid: wanted.svid,
            l_offset: wanted.offset,
            l_len: u64::from(RANGE_BYTES),
        }
    }

    fn names(&self, file: usize) -> (String, Vec<u8>) {
        let fh = self.held.files[file].place.fh.0.clone();
        (self.held.who.clone(), fh)
    }

    /// LOCK, once.
    pub(super) async fn ask_lock(
        &mut self,
        wanted: Wanted,
        block: bool,
        reclaim: bool,
    ) -> Result<Nlm4Stats, Again> {
        let (who, fh) = self.names(wanted.file);
        let args = Nlm4LockArgs {
            cookie: Opaque(b"c"),
            block,
            exclusive: wanted.is_exclusive,
            alock: Self::alock(&who, &fh, wanted),
            reclaim,
            state: self.state,
        };
        let body = self.nlm(NlmProc::Lock, &args).await?;
        self.stat("LOCK", &body)
    }

    fn stat(&self, what: &str, body: &[u8]) -> Result<Nlm4Stats, Again> {
        let res = decode_all::<Nlm4Res<'_>>(body);
        res.map(|res| res.stat).map_err(|e| self.odd(what, &e))
    }

    /// SHARE, once.
    pub(super) async fn ask_share(
        &mut self,
        file: usize,
        share: Share,
        reclaim: bool,
    ) -> Result<Nlm4Stats, Again> {
        self.shared(NlmProc::Share, file, share, reclaim).await
    }

    async fn shared(
        &mut self,
        proc: NlmProc,
        file: usize,
        share: Share,
        reclaim: bool,
    ) -> Result<Nlm4Stats, Again> {
        let (who, fh) = self.names(file);
        let oh = format!("{who}/{OPENER}");
        let args = Nlm4ShareArgs {
            cookie: Opaque(b"c"),
            share: Nlm4Share {
                caller_name: Opaque(who.as_bytes()),
                fh: Opaque(&fh),
                oh: Opaque(oh.as_bytes()),
                mode: of_bits::<Fsh4Mode>(share.deny).unwrap_or(Fsh4Mode::DenyNone),
                access: of_bits::<Fsh4Access>(share.access).unwrap_or(Fsh4Access::None),
            },
            reclaim,
        };
        let body = self.nlm(proc, &args).await?;
        let res = decode_all::<Nlm4ShareRes<'_>>(&body);
        res.map(|res| res.stat).map_err(|e| self.odd("SHARE", &e))
    }

    async fn ask_unlock(&mut self, wanted: Wanted) -> Result<(), Again> {
        let (who, fh) = self.names(wanted.file);
        let args = Nlm4UnlockArgs {
            cookie: Opaque(b"c"),
            alock: Self::alock(&who, &fh, wanted),
        };
        let body = self.nlm(NlmProc::Unlock, &args).await?;
        match self.stat("UNLOCK", &body)? {
            Nlm4Stats::Granted => Ok(()),
            stat => Err(self.odd("UNLOCK", &stat)),
        }
    }

    async fn ask_cancel(&mut self, wanted: Wanted) -> Result<(), Again> {
        let (who, fh) = self.names(wanted.file);
        let args = Nlm4CancArgs {
            cookie: Opaque(b"c"),
            block: true,
            exclusive: wanted.is_exclusive,
            alock: Self::alock(&who, &fh, wanted),
        };
        let body = self.nlm(NlmProc::Cancel, &args).await?;
        match self.stat("CANCEL", &body)? {
            Nlm4Stats::Granted => Ok(()),
            stat => Err(self.odd("CANCEL", &stat)),
        }
    }

    /// A lock is not to be had, whatever became of the request.
    async fn give_up(&mut self, wanted: Wanted) -> Result<(), Again> {
        self.back.wait_no_more();
        self.ask_cancel(wanted).await?;
        self.ask_unlock(wanted).await
    }

    /// The host dies, and comes back some time later. Its status monitor says so to the server, before anything else is asked for.
    pub(super) async fn die(&mut self) -> Again {
        let until = self.held.until();
        self.held.drop_all(until);
        self.processes.clear();
        self.back.wait_no_more();
        let ms = self.rng.within(0, OFF_MS_MAX);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        self.state += 2;
        let who = self.held.who.clone();
        let args = StatChge {
            mon_name: Opaque(who.as_bytes()),
            state: self.state,
        };
        let id = (nlm::nsm::PROGRAM, nlm::nsm::VERSION, NsmProc::Notify as u32);
        let _ = self.raw(id, &args).await;
        // What was to be reclaimed is gone.
        self.back.take_restart();
        Again
    }

    /// Waits as after an answer that it is the grace period. What is held is reclaimed meanwhile.
    async fn wait_a_little(&mut self) -> Result<(), Again> {
        Self::pause().await;
        self.keep().await
    }

    /// Reclaims if the server has told of a restart, or dies if it did not in time.
    async fn keep(&mut self) -> Result<(), Again> {
        if self.back.take_restart() && !self.held.is_empty() {
            return self.reclaim().await;
        }
        match self.held.restarted() {
            Some(cut) if !self.held.is_empty() && self.now().0 > cut.0 + UNTOLD_MS => {
                Err(self.die().await)
            }
            _ => Ok(()),
        }
    }

    /// Whether a grace period may have ended without the host before the last restart. What it lost then it must not reclaim now, and
    /// the server cannot know: the states that NOTIFY tells say so to a careful host.
    pub(super) fn has_missed_one(&self) -> bool {
        let last = self.held.history.last_cut();
        let first = self.held.restarted();
        first
            .zip(last)
            .is_some_and(|(first, last)| last.0 >= first.0 + LEASE_MS)
    }

    /// Waits for GRANTED. Whether it came.
    async fn wait(&mut self, start: Moment) -> bool {
        let wait = Duration::from_millis(self.rng.within(0, WAIT_MS_MAX));
        let came = tokio::time::timeout(wait, self.back.is_granted()).await;
        drop(came);
        self.back.wait_no_more() && !self.is_cut_since(start)
    }

    async fn try_lock(&mut self, wanted: Wanted, block: bool) -> Result<bool, Again> {
        for _ in 0..PAUSES_MAX {
            let start = self.now();
            if block {
                self.back.wait_for(self.waits(wanted));
            }
            let stat = self.ask_lock(wanted, block, false).await?;
            let has_it = match stat {
                Nlm4Stats::Granted => {
                    self.back.wait_no_more();
                    true
                }
                Nlm4Stats::Denied => false,
                Nlm4Stats::Blocked if block => {
                    self.wait(start).await && self.is_still_wanted(wanted).await?
                }
                Nlm4Stats::DeniedGracePeriod => {
                    self.back.wait_no_more();
                    self.wait_a_little().await?;
                    continue;
                }
                stat => return Err(self.odd("LOCK", &stat)),
            };
            if has_it && !self.is_cut_since(start) {
                return Ok(true);
            }
            if has_it || stat == Nlm4Stats::Blocked {
                self.give_up(wanted).await?;
            }
            return Ok(false);
        }
        Err(self.odd("LOCK", &"told to wait for ever"))
    }

    fn waits(&self, wanted: Wanted) -> Waits {
        Waits {
            fh: self.names(wanted.file).1,
            svid: wanted.svid,
            offset: wanted.offset,
            is_exclusive: wanted.is_exclusive,
        }
    }

    /// Whether a lock that was granted is that which was waited for last. A process that locks once knows.
    async fn is_still_wanted(&mut self, wanted: Wanted) -> Result<bool, Again> {
        if wanted.svid >= FIRST_PROCESS {
            return Ok(true);
        }
        let stat = self.ask_lock(wanted, false, false).await?;
        Ok(stat == Nlm4Stats::Granted)
    }

    fn fresh_process(&mut self) -> i32 {
        self.next_process += 1;
        self.next_process
    }

    /// A call of NFSv3, until it is neither the grace period nor too early.
    async fn older<A: ProcArgs>(&mut self, args: &A) -> Result<Bytes, Again> {
        for _ in 0..PAUSES_MAX {
            let id = (nfs3::PROGRAM, nfs3::VERSION, A::PROC as u32);
            let body = self.raw(id, args).await?;
            let waits = match A::decode_res(&body).map(nfs3::Res::into_result) {
                Ok(Ok(_)) => false,
                Ok(Err((status, _))) => status == Nfs3Status::Jukebox,
                Err(e) => return Err(self.odd("a reply", &e)),
            };
            if !waits {
                return Ok(body);
            }
            self.wait_a_little().await?;
        }
        Err(self.odd("a call", &"told to wait for ever"))
    }

    /// An end of I/O that is no success. The trouble of a disk explains some, and opens that were lost others.
    fn no_data(&self, what: &str, status: Nfs3Status, since: Instant) -> Again {
        let status4 = match status {
            Nfs3Status::Io => Some(NfsStatus::Io),
            Nfs3Status::NoSpc => Some(NfsStatus::NoSpc),
            _ => None,
        };
        let is_lost = self.held.restarted().is_some();
        if self.held.is_explained(status4, since) || is_lost {
            return Again;
        }
        self.odd(what, &status)
    }

    /// Whether the host's own open denies this to all who have no stateid, and so to itself.
    fn denies(&self, file: usize, access: u32) -> bool {
        let open = self.held.open(file);
        open.is_none_or(|open| open.share.deny & access != 0)
    }
}

fn of_bits<T: for<'a> Decode<'a>>(bits: u32) -> Option<T> {
    decode_all(&bits.to_be_bytes()).ok()
}

impl Locking for Locker3 {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    async fn open(&mut self, file: usize, share: Share) -> Result<Option<Stateid>, Again> {
        for _ in 0..PAUSES_MAX {
            let start = self.now();
            match self.ask_share(file, share, false).await? {
                Nlm4Stats::Granted if self.is_cut_since(start) => {
                    self.shared(NlmProc::Unshare, file, share, false).await?;
                    return Err(Again);
                }
                Nlm4Stats::Granted => return Ok(Some(Stateid::ANONYMOUS)),
                Nlm4Stats::Denied => return Ok(None),
                Nlm4Stats::DeniedGracePeriod => self.wait_a_little().await?,
                stat => return Err(self.odd("SHARE", &stat)),
            }
        }
        Err(self.odd("SHARE", &"told to wait for ever"))
    }

    async fn close(&mut self, file: usize, open: HeldOpen) -> Result<(), Again> {
        match self
            .shared(NlmProc::Unshare, file, open.share, false)
            .await?
        {
            Nlm4Stats::Granted => Ok(()),
            stat => Err(self.odd("UNSHARE", &stat)),
        }
    }

    async fn lock(&mut self, file: usize, range: u64, is_exclusive: bool) -> Result<bool, Again> {
        let svid = match self.rng.chance(OWN_PROCESS_PER_MILLE) {
            true => self.fresh_process(),
            false => OPENER + 1 + i32::try_from(file).unwrap_or(0),
        };
        let wanted = Wanted {
            file,
            offset: range * u64::from(RANGE_BYTES),
            svid,
            is_exclusive,
        };
        let block = self.rng.chance(BLOCKS_PER_MILLE);
        let has_it = self.try_lock(wanted, block).await?;
        if has_it {
            self.processes.insert((file, range), svid);
        }
        Ok(has_it)
    }

    async fn unlock(&mut self, file: usize, lock: HeldRange) -> Result<(), Again> {
        let Some(svid) = self.processes.remove(&(file, lock.range)) else {
            return Err(self.odd("UNLOCK", &"of what nobody holds"));
        };
        self.ask_unlock(Wanted {
            file,
            offset: lock.offset(),
            svid,
            is_exclusive: lock.is_exclusive,
        })
        .await
    }

    /// The locks of this host are those that it knows of, no more and no fewer.
    async fn test(&mut self, file: usize, range: u64) -> Result<(), Again> {
        let (who, fh) = self.names(file);
        let wanted = Wanted {
            file,
            offset: range * u64::from(RANGE_BYTES),
            svid: self.fresh_process(),
            is_exclusive: true,
        };
        let args = Nlm4TestArgs {
            cookie: Opaque(b"c"),
            exclusive: true,
            alock: Self::alock(&who, &fh, wanted),
        };
        let body = self.nlm(NlmProc::Test, &args).await?;
        let found = decode_all::<Nlm4TestRes<'_>>(&body);
        let found = found.map_err(|e| self.odd("TEST", &e))?.stat;
        let held = self.processes.get(&(file, range)).copied();
        let is_known = self.held.restarted().is_none();
        match found {
            Nlm4TestReply::Denied(holder) if holder.oh.0 == who.as_bytes() => {
                match held == Some(holder.svid) {
                    true => Ok(()),
                    false => Err(self.odd("TEST", &"finds a lock that this host does not hold")),
                }
            }
            Nlm4TestReply::Other(Nlm4Stats::Granted) if held.is_some() && is_known => {
                Err(self.odd("TEST", &"does not find a lock that this host holds"))
            }
            Nlm4TestReply::Denied(_)
            | Nlm4TestReply::Other(Nlm4Stats::Granted | Nlm4Stats::DeniedGracePeriod) => Ok(()),
            Nlm4TestReply::Other(stat) => Err(self.odd("TEST", &stat)),
        }
    }

    async fn read(&mut self, file: usize, range: u64) -> Result<Vec<u8>, Again> {
        if self.denies(file, SHARE_ACCESS_READ) {
            return Err(Again);
        }
        let (since, fh) = (Instant::now(), self.names(file).1);
        let args = ReadArgs {
            file: Opaque(&fh),
            offset: range * u64::from(RANGE_BYTES),
            count: RANGE_BYTES,
        };
        let body = self.older(&args).await?;
        let read = ReadArgs::decode_res(&body).map(nfs3::Res::into_result);
        match read.map_err(|e| self.odd("READ", &e))? {
            Ok(read) => Ok(read.data.0.to_vec()),
            Err((status, _)) => Err(self.no_data("READ", status, since)),
        }
    }

    async fn write(&mut self, file: usize, range: u64, data: Vec<u8>) -> Result<(), Again> {
        if self.denies(file, SHARE_ACCESS_WRITE) {
            return Err(Again);
        }
        let (since, fh) = (Instant::now(), self.names(file).1);
        let args = WriteArgs {
            file: Opaque(&fh),
            offset: range * u64::from(RANGE_BYTES),
            count: RANGE_BYTES,
            stable: StableHow::FileSync,
            data: Opaque(&data),
        };
        let body = self.older(&args).await?;
        let written = WriteArgs::decode_res(&body).map(nfs3::Res::into_result);
        match written.map_err(|e| self.odd("WRITE", &e))? {
            Ok(written) if written.count == RANGE_BYTES => Ok(()),
            Ok(written) => Err(self.odd("WRITE", &format!("of {} bytes", written.count))),
            Err((status, _)) => Err(self.no_data("WRITE", status, since)),
        }
    }

    async fn renew(&mut self) -> Result<(), Again> {
        self.keep().await
    }

    async fn extra(&mut self, bits: u64) -> Result<(), Again> {
        if bits % 8 >= DEATHS {
            let at = usize::try_from(bits >> 32).unwrap_or(0);
            return self.test(at % FILES, bits % RANGES).await;
        }
        let _ = self.die().await;
        // Nothing of it is left.
        for file in 0..FILES {
            for range in 0..RANGES {
                self.test(file, range).await?;
            }
        }
        Ok(())
    }
}
