//! Layouts: which client may reach which file at the data servers (RFC 8881 §12.5, §18.42 to §18.44).
//!
//! Owns one layout state for each (client, file): whole-file segments for reading and for writing,
//! the stateid, and a recall under way. Does not own fencing or devices; the caller fences what is
//! revoked *before* it relies on it. Memory: about 200 bytes a layout state.
//!
//! # Ownership
//! A client owns its layouts until it returns them, or until they are revoked or it is removed.
//!
//! # Ordering
//! A recall bumps the stateid and blocks LAYOUTGET on the file, for every client, until nobody is left to answer. A
//! caller that goes on to change the file (truncate) holds it meanwhile with [`Layouts::hold`]. No layout is granted
//! between the last return and the change. It then raises the commit floor, and a LAYOUTCOMMIT for earlier writes is
//! refused (rule R3).
//!
//! # Failure
//! All of it is lost with the process. Clients lose their layouts, and the fencing epoch of the new boot keeps the old
//! ones out of the data servers.

mod devices;
pub(crate) mod follow;
mod listing;

pub use devices::DeviceVersion;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use nfs4::layout::LAYOUT_NFSV4_1_FILES;
use nfs4::{ClientId, NfsStatus, Stateid};

use crate::holders::Holders;
use crate::stateid::{Other, StateKind, StateidSource, check_layout_seqid, is_after, next_seqid};

/// How far a layout stateid may lag: more than the operations that the slots of a client's sessions can have under way
/// (RFC 8881 §12.5.5.2.1.4).
pub const LAYOUT_SEQID_WINDOW: u32 = 1 << 20;

/// `layoutiomode4` of a segment that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// LAYOUTIOMODE4_READ.
    Read,
    /// LAYOUTIOMODE4_RW.
    ReadWrite,
}

/// A choice of segments, in returns and recalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoModes {
    read: bool,
    rw: bool,
}

impl IoModes {
    /// LAYOUTIOMODE4_READ.
    pub const READ: Self = Self {
        read: true,
        rw: false,
    };
    /// LAYOUTIOMODE4_RW.
    pub const RW: Self = Self {
        read: false,
        rw: true,
    };
    /// LAYOUTIOMODE4_ANY.
    pub const ANY: Self = Self {
        read: true,
        rw: true,
    };

    fn union(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            rw: self.rw || other.rw,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            read: self.read && !other.read,
            rw: self.rw && !other.rw,
        }
    }

    fn meets(self, other: Self) -> bool {
        self.read && other.read || self.rw && other.rw
    }

    fn is_empty(self) -> bool {
        !self.read && !self.rw
    }
}

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutLimits {
    /// Most layout states of one client.
    pub per_client_max: usize,
    /// Most layout states in all.
    pub total_max: usize,
}

impl Default for LayoutLimits {
    fn default() -> Self {
        Self {
            per_client_max: 262_144,
            total_max: 4_194_304,
        }
    }
}

/// A callback to send: CB_LAYOUTRECALL of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall {
    /// To whom.
    pub client: ClientId,
    /// `lor_stateid`.
    pub stateid: Stateid,
    /// The file.
    pub file: u64,
    /// `clora_iomode`.
    pub modes: IoModes,
    /// `clora_type`.
    pub layout_type: u32,
    /// When it is overdue.
    pub deadline_ms: u64,
}

/// What a client answered to CB_LAYOUTRECALL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecallAnswer {
    /// NFS4_OK: LAYOUTRETURN will follow.
    WillReturn,
    /// NFS4ERR_NOMATCHING_LAYOUT: it holds nothing of that.
    NoMatchingLayout,
}

/// A layout state that changed hands back to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// Who held it.
    pub client: ClientId,
    /// The file.
    pub file: u64,
    /// The segment for writing was among what came back: the "RW out" mark may go when
    /// [`Layouts::rw_holders`] is empty.
    pub rw: bool,
    /// The stateid that goes on, `lrs_stateid`; `None` when nothing is held any more.
    pub stateid: Option<Stateid>,
}

/// ```text
///                begin_recall              answer(WillReturn)
///   Held ────────────────────► Recalling ────────────────────► Returning
///    ▲  ▲                        │   │                           │   │
///    │  └── returned in part ────┘   │ returned, NoMatching       │   │
///    └───────────────────────────────┼───────────────────────────┘   │
///                  (other mode left) └────► gone ◄── overdue, revoke ─┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Held,
    /// CB_LAYOUTRECALL is under way.
    Recalling(Due),
    /// The client has answered it, and must yet return.
    Returning(Due),
}

/// What a client is to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    modes: IoModes,
    deadline_ms: u64,
    /// Of the last CB_LAYOUTRECALL: an older one is not sent again.
    seqid: u32,
}

#[derive(Debug)]
struct Layout {
    client: ClientId,
    file: u64,
    seqid: u32,
    held: IoModes,
    phase: Phase,
    /// `layouttype4`: a file has layouts of one type.
    layout_type: u32,
    return_on_close: bool,
    /// The seqid of the last reply to LAYOUTGET or LAYOUTRETURN; 0 when the next one must be another.
    told_seqid: u32,
    /// LAYOUTCOMMIT needs a seqid after this one; `None` before any truncate.
    commit_floor: Option<u32>,
    /// The oldest key that signed a handle of it; 0 before any did.
    oldest_key: u32,
    /// The oldest version of its device that it names.
    device: Option<DeviceVersion>,
}

impl Layout {
    /// The callback that asks for what is due.
    fn recall(&self, other: Other, due: Due) -> Recall {
        Recall {
            client: self.client,
            stateid: Stateid {
                seqid: self.seqid,
                other,
            },
            file: self.file,
            modes: due.modes,
            layout_type: self.layout_type,
            deadline_ms: due.deadline_ms,
        }
    }
}

/// All layouts.
#[derive(Debug)]
pub struct Layouts {
    limits: LayoutLimits,
    states: BTreeMap<Other, Layout>,
    holders: Holders,
    /// States with a recall under way, for [`Layouts::overdue`].
    recalls: BTreeSet<Other>,
    /// How many states have each key as their oldest.
    keys: BTreeMap<u32, usize>,
    devices: devices::Devices,
}

impl Layouts {
    /// An empty table.
    #[must_use]
    pub fn new(limits: LayoutLimits) -> Self {
        Self {
            limits,
            states: BTreeMap::new(),
            holders: Holders::default(),
            recalls: BTreeSet::new(),
            keys: BTreeMap::new(),
            devices: devices::Devices::default(),
        }
    }

    /// Whether a LAYOUTGET must wait.
    fn check_available(&self, client: ClientId, file: u64) -> Result<(), NfsStatus> {
        let mine = self.holders.find(client, file);
        let mine = mine.and_then(|o| self.states.get(&o));
        if mine.is_some_and(|l| matches!(l.phase, Phase::Returning { .. })) {
            return Err(NfsStatus::ReturnConflict);
        }
        let mut of_file = self.holders.of_file(file);
        let recalled = of_file.any(|(_, other)| self.recalls.contains(other));
        if recalled || self.holders.is_on_hold(file) {
            return Err(NfsStatus::RecallConflict);
        }
        Ok(())
    }

    /// Finds a layout state, with the checks of RFC 8881 §12.5.3 and §12.5.5.2.1.4.
    fn check(&self, stateid: Stateid, client: ClientId, file: u64) -> Result<&Layout, NfsStatus> {
        let layout = self
            .states
            .get(&stateid.other)
            .filter(|l| l.client == client && l.file == file)
            .ok_or(NfsStatus::BadStateid)?;
        check_layout_seqid(stateid.seqid, layout.seqid, LAYOUT_SEQID_WINDOW)?;
        Ok(layout)
    }

    /// LAYOUTGET. `stateid` is a layout stateid, or `None` when the client came with one of an open,
    /// lock or delegation that the caller has checked. A client that holds a layout and comes with an
    /// open stateid has forgotten it (§12.5.5.1): it is told the stateid again. That is the one that it was told last, unless
    /// something has happened to the layout since. Linux asks so in each OPEN, and drops the answer when it has a layout. It says
    /// DELAY to a recall that is more than one seqid ahead of what it knows.
    ///
    /// # Errors
    /// `BadStateid`, `OldStateid`; `RecallConflict` or `ReturnConflict` while the file is being
    /// recalled or held; `LayoutTryLater` at a limit.
    pub(crate) fn get(
        &mut self,
        source: &mut StateidSource,
        client: ClientId,
        file: u64,
        stateid: Option<Stateid>,
        mode: IoMode,
        return_on_close: bool,
    ) -> Result<Stateid, NfsStatus> {
        if let Some(stateid) = stateid {
            self.check(stateid, client, file)?;
        }
        self.check_available(client, file)?;
        let other = self.state_for(source, client, file)?;
        let layout = self
            .states
            .get_mut(&other)
            .expect("the layout was found or made above");
        if stateid.is_none() {
            // What it has forgotten names no device any more.
            self.devices.leave(client, layout.device.take(), &other);
        }
        layout.held = layout.held.union(match mode {
            IoMode::Read => IoModes::READ,
            IoMode::ReadWrite => IoModes::RW,
        });
        layout.return_on_close = return_on_close;
        if stateid.is_some() || layout.seqid != layout.told_seqid {
            layout.seqid = next_seqid(layout.seqid);
        }
        layout.told_seqid = layout.seqid;
        Ok(Stateid {
            seqid: layout.seqid,
            other,
        })
    }

    fn state_for(
        &mut self,
        source: &mut StateidSource,
        client: ClientId,
        file: u64,
    ) -> Result<Other, NfsStatus> {
        if let Some(other) = self.holders.find(client, file) {
            return Ok(other);
        }
        let of_client = self.holders.count_of_client(client);
        if of_client >= self.limits.per_client_max || self.states.len() >= self.limits.total_max {
            return Err(NfsStatus::LayoutTryLater);
        }
        let other = source.next(StateKind::Layout);
        self.holders.enter(client, file, other);
        self.states.insert(
            other,
            Layout {
                client,
                file,
                seqid: 0,
                held: IoModes {
                    read: false,
                    rw: false,
                },
                phase: Phase::Held,
                layout_type: LAYOUT_NFSV4_1_FILES,
                return_on_close: false,
                told_seqid: 1,
                commit_floor: None,
                oldest_key: 0,
                device: None,
            },
        );
        Ok(other)
    }

    /// Says of which type (`layouttype4`) a layout is that was just granted. One of which nobody says it is a files layout.
    pub fn is_of_type(&mut self, other: &Other, layout_type: u32) {
        if let Some(layout) = self.states.get_mut(other) {
            layout.layout_type = layout_type;
        }
    }

    /// A handle of the layout is signed with key `key` (not 0). A layout counts under the oldest key of any of its
    /// handles: the server does not see which of them the client goes on with.
    pub fn signed(&mut self, other: &Other, key: u32) {
        let Some(layout) = self.states.get_mut(other) else {
            return;
        };
        let before = layout.oldest_key;
        if before != 0 && before <= key {
            return;
        }
        layout.oldest_key = key;
        self.uncount_key(before);
        *self.keys.entry(key).or_default() += 1;
    }

    fn uncount_key(&mut self, key: u32) {
        if let Some(count) = self.keys.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.keys.remove(&key);
            }
        }
    }

    /// The oldest key that a layout which is held needs.
    #[must_use]
    pub fn oldest_key(&self) -> Option<u32> {
        self.keys.keys().next().copied()
    }

    /// How many layouts have `key` as the oldest that they need.
    #[must_use]
    pub fn count_of_key(&self, key: u32) -> usize {
        self.keys.get(&key).copied().unwrap_or(0)
    }

    /// Recalls layouts that need a key up to `key`, and no others, looking at no more than `look_max` states after
    /// `after`. Returns the callbacks to send, and where to go on unless that was all.
    pub fn begin_recall_of_keys(
        &mut self,
        key: u32,
        after: Option<Other>,
        look_max: usize,
        deadline_ms: u64,
    ) -> (Vec<Recall>, Option<Other>) {
        if self.oldest_key().is_none_or(|oldest| oldest > key) {
            return (Vec::new(), None);
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let looked = self.states.range((from, Bound::Unbounded)).take(look_max);
        let looked: Vec<(Other, bool)> = looked
            .map(|(other, l)| (*other, l.oldest_key != 0 && l.oldest_key <= key))
            .collect();
        let next = looked.last().filter(|_| looked.len() == look_max);
        let next = next.map(|(other, _)| *other);
        let old = looked.into_iter().filter(|(_, is_old)| *is_old);
        let recall = |(other, _)| self.recall_state(other, IoModes::ANY, deadline_ms);
        (old.filter_map(recall).collect(), next)
    }

    /// LAYOUTRETURN of a file. A return of a part of the file is noted but gives nothing back,
    /// because segments are whole files. `whole_file` says that the range covers all.
    ///
    /// # Errors
    /// `BadStateid`, `OldStateid`.
    pub fn return_file(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
        modes: IoModes,
        whole_file: bool,
    ) -> Result<Returned, NfsStatus> {
        self.check(stateid, client, file)?;
        let nothing = IoModes {
            read: false,
            rw: false,
        };
        let back = if whole_file { modes } else { nothing };
        self.give_back(&stateid.other, back)
            .ok_or(NfsStatus::BadStateid)
    }

    /// Takes segments back; removes the state when nothing is left.
    fn give_back(&mut self, other: &Other, modes: IoModes) -> Option<Returned> {
        let layout = self.states.get_mut(other)?;
        let rw = layout.held.rw && modes.rw;
        layout.held = layout.held.without(modes);
        layout.seqid = next_seqid(layout.seqid);
        layout.told_seqid = layout.seqid;
        match &mut layout.phase {
            Phase::Held => {}
            Phase::Recalling(due) | Phase::Returning(due) => {
                due.modes = due.modes.without(modes);
                if !due.modes.meets(layout.held) {
                    layout.phase = Phase::Held;
                    self.recalls.remove(other);
                }
            }
        }
        let mut returned = Returned {
            client: layout.client,
            file: layout.file,
            rw,
            stateid: Some(Stateid {
                seqid: layout.seqid,
                other: *other,
            }),
        };
        if layout.held.is_empty() {
            returned.stateid = None;
            self.remove(other);
        }
        Some(returned)
    }

    /// LAYOUTRETURN of a file system or of everything: all layouts of one type, since a file system has one type; `None` is all
    /// types.
    pub fn return_all(
        &mut self,
        client: ClientId,
        modes: IoModes,
        layout_type: Option<u32>,
    ) -> Vec<Returned> {
        let is_meant = |other: &&Other| {
            let held = self.states.get(*other).map(|layout| layout.layout_type);
            layout_type.is_none_or(|wanted| held == Some(wanted))
        };
        let held = self.holders.of_client(client).filter(is_meant);
        let names: Vec<Other> = held.copied().collect();
        names
            .iter()
            .filter_map(|other| self.give_back(other, modes))
            .collect()
    }

    /// The client closed the file for the last time: layouts granted with "return on close" are
    /// returned by that (RFC 8881 §18.43.3).
    pub fn closed(&mut self, client: ClientId, file: u64) -> Option<Returned> {
        let other = self.holders.find(client, file)?;
        self.states
            .get(&other)
            .filter(|l| l.return_on_close)
            .is_some()
            .then(|| self.give_back(&other, IoModes::ANY))?
    }

    /// LAYOUTCOMMIT: whether the stateid stands for a layout for writing that was granted (or used)
    /// after the file's last truncate.
    ///
    /// # Errors
    /// `BadStateid`, `OldStateid`. `BadLayout` for a layout not held for writing, and for one from
    /// before a truncate, which Linux takes to mean that nothing need be committed.
    pub fn check_commit(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<(), NfsStatus> {
        let layout = self.check(stateid, client, file)?;
        let stale = layout
            .commit_floor
            .is_some_and(|floor| !is_after(stateid.seqid, floor));
        if !layout.held.rw || stale {
            return Err(NfsStatus::BadLayout);
        }
        Ok(())
    }

    /// The file is being truncated: commits under its present stateids are refused from here on. A
    /// client that keeps its layout gets a fresh stateid with its next LAYOUTGET, which its handles make it send if they are
    /// fenced.
    pub fn raise_commit_floor(&mut self, file: u64, is_fenced: bool) {
        for (_, other) in self.holders.of_file(file) {
            if let Some(layout) = self.states.get_mut(other) {
                layout.commit_floor = Some(layout.seqid);
                if is_fenced {
                    layout.told_seqid = 0;
                }
            }
        }
    }

    /// Recalls segments of a file from all clients but `except`. Returns the callbacks to send: one
    /// to each holder, except those already asked for as much. The deadline is at least one lease away
    /// (RFC 8881 §12.5.5).
    pub fn begin_recall(
        &mut self,
        file: u64,
        modes: IoModes,
        except: Option<ClientId>,
        deadline_ms: u64,
    ) -> Vec<Recall> {
        let of_file = self.holders.of_file(file);
        let chosen = of_file.filter(|(c, _)| Some(*c) != except);
        let chosen: Vec<Other> = chosen.map(|(_, other)| *other).collect();
        let recall = |other| self.recall_state(other, modes, deadline_ms);
        chosen.into_iter().filter_map(recall).collect()
    }

    /// Recalls segments of one layout, unless it was asked for as much already.
    fn recall_state(&mut self, other: Other, modes: IoModes, deadline_ms: u64) -> Option<Recall> {
        let layout = self.states.get_mut(&other)?;
        if !layout.held.meets(modes) {
            return None;
        }
        let (modes, deadline_ms) = match layout.phase {
            Phase::Held => (modes, deadline_ms),
            Phase::Recalling(due) | Phase::Returning(due) => {
                if due.modes.union(modes) == due.modes {
                    return None;
                }
                (due.modes.union(modes), due.deadline_ms)
            }
        };
        layout.seqid = next_seqid(layout.seqid);
        let due = Due {
            modes,
            deadline_ms,
            seqid: layout.seqid,
        };
        layout.phase = Phase::Recalling(due);
        self.recalls.insert(other);
        Some(layout.recall(other, due))
    }

    /// Whether segments are still out that this recall asks for, and no later one asks for more.
    #[must_use]
    pub fn is_due(&self, recall: &Recall) -> bool {
        let layout = self.states.get(&recall.stateid.other);
        layout.is_some_and(|layout| match layout.phase {
            Phase::Held => false,
            Phase::Recalling(due) | Phase::Returning(due) => due.seqid == recall.stateid.seqid,
        })
    }

    /// A recall that has had no effect so far, to be sent once more: the same, unless a part of the segments came back meanwhile.
    /// `None` when it is over, or a later one asks for more.
    pub fn recall_again(&mut self, recall: &Recall) -> Option<Recall> {
        if !self.is_due(recall) {
            return None;
        }
        let other = recall.stateid.other;
        let layout = self.states.get_mut(&other)?;
        let seqid = layout.seqid;
        let (Phase::Recalling(due) | Phase::Returning(due)) = &mut layout.phase else {
            return None;
        };
        if seqid != due.seqid {
            // The client knows this one already, and a recall must have a later one (RFC 8881 §12.5.3).
            layout.seqid = next_seqid(seqid);
            due.seqid = layout.seqid;
        }
        let due = *due;
        Some(layout.recall(other, due))
    }

    /// The client answered the callback. After `NoMatchingLayout` the segments count as returned.
    pub fn recall_answered(&mut self, other: &Other, answer: RecallAnswer) -> Option<Returned> {
        let layout = self.states.get_mut(other)?;
        let Phase::Recalling(due) = layout.phase else {
            return None;
        };
        match answer {
            RecallAnswer::WillReturn => {
                layout.phase = Phase::Returning(due);
                None
            }
            RecallAnswer::NoMatchingLayout => self.give_back(other, due.modes),
        }
    }

    /// Whether anyone but `except` still holds segments of `modes`: what a truncate waits for.
    #[must_use]
    pub fn is_held(&self, file: u64, modes: IoModes, except: Option<ClientId>) -> bool {
        self.holders.of_file(file).any(|(client, other)| {
            Some(client) != except && self.states.get(other).is_some_and(|l| l.held.meets(modes))
        })
    }

    /// Refuses LAYOUTGET on the file until [`Layouts::release`] was called as often.
    pub fn hold(&mut self, file: u64) {
        self.holders.hold(file);
    }

    /// Ends one [`Layouts::hold`].
    ///
    /// # Panics
    /// Without one: a bug of the caller.
    pub fn release(&mut self, file: u64) {
        self.holders.release(file);
    }

    /// Recalls whose deadline has passed: fence the client off the file, then [`Layouts::revoke`].
    #[must_use]
    pub fn overdue(&self, now_ms: u64) -> Vec<Recall> {
        self.recalls
            .iter()
            .filter_map(|other| {
                let layout = self.states.get(other)?;
                let (Phase::Recalling(due) | Phase::Returning(due)) = layout.phase else {
                    return None;
                };
                (now_ms >= due.deadline_ms).then(|| layout.recall(*other, due))
            })
            .collect()
    }

    /// Takes all of a layout state away. The client learns it from the data servers (`NFS4ERR_PNFS_NO_LAYOUT`) and from
    /// `NFS4ERR_BAD_STATEID`. SEQ4_STATUS_RECALLABLE_STATE_REVOKED does *not* announce it: Linux would answer that by dropping every
    /// layout at each SEQUENCE, and never sends the FREE_STATEID that would end it.
    pub fn revoke(&mut self, other: &Other) -> Option<Returned> {
        self.give_back(other, IoModes::ANY)
    }

    /// Clients that hold the file for writing, in ascending order.
    #[must_use]
    pub fn rw_holders(&self, file: u64) -> Vec<ClientId> {
        self.holders(file, IoModes::RW)
    }

    /// Clients that hold segments of `modes`, in ascending order.
    #[must_use]
    pub fn holders(&self, file: u64, modes: IoModes) -> Vec<ClientId> {
        self.holders
            .of_file(file)
            .filter(|(_, other)| self.states.get(*other).is_some_and(|l| l.held.meets(modes)))
            .map(|(client, _)| client)
            .collect()
    }

    /// The layout of a client on a file, and whether it is for writing.
    #[must_use]
    pub fn held_by(&self, client: ClientId, file: u64) -> Option<(Other, bool)> {
        let other = self.holders.find(client, file)?;
        self.states.get(&other).map(|l| (other, l.held.rw))
    }

    /// Whether the client holds any layout.
    #[must_use]
    pub fn has_client(&self, client: ClientId) -> bool {
        self.holders.count_of_client(client) > 0
    }

    /// Layout states in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The client and current seqid of a layout state.
    pub(crate) fn by_other(&self, other: &Other) -> Option<(ClientId, u32)> {
        self.states.get(other).map(|l| (l.client, l.seqid))
    }

    fn remove(&mut self, other: &Other) {
        let Some(layout) = self.states.remove(other) else {
            return;
        };
        self.recalls.remove(other);
        self.uncount_key(layout.oldest_key);
        self.devices.leave(layout.client, layout.device, other);
        self.holders.leave(layout.client, layout.file, other);
    }
}

#[cfg(test)]
#[path = "layouts_tests.rs"]
mod tests;
