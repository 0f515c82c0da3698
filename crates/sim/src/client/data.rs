//! A worker on data: writes, flushes, reads, cuts and removes a few files that all clients share, by the client library.
//!
//! Cells of [`CELL_BYTES`] are written whole with the mark of their write, so that a read tells whose bytes it sees. What servers do by
//! themselves is in [`super::copies`].

use crate::check::Findings;
use crate::check::data::SetTime;
use crate::check::data::{
    ALWAYS, Change, File as FileHistory, Mark, NEVER, NOTHING, Seen, What, mark,
};
use crate::check::linear::Moment;
use crate::connector::{Wires, verifier};
use crate::history::History;
use crate::rng::Rng;
use crate::trace::Trace;
use bytes::Bytes;
use client::{
    Client, ClientConfig, Error, File, NfsVersion, OpenOptions, SetAttrs, UserIdentity, V3Ports,
};
use nfs4::{NfsStatus, NfsTime};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{Address, Connector};

/// Bytes of a cell: the unit that a disk writes whole.
pub(super) const CELL_BYTES: u64 = 512;
/// Cells of the largest file, and of the largest write: more than a stripe unit.
pub(super) const CELLS_MAX: u64 = 96;
pub(super) const WRITE_CELLS_MAX: u64 = 24;
/// Directory of the files.
const DIR: &str = "data";
/// Longest rest between two operations in milliseconds, and the longest of the rare long ones.
const REST_MS_MAX: u64 = 80;
const LONG_REST_MS_MAX: u64 = 12_000;
const LONG_PER_MILLE: u32 = 60;
/// Operations that servers do by themselves, where there are any.
const RANGES_PER_MILLE: u32 = 400;
/// Times that are set: no clock of a run comes so far.
const TIMES_FROM: i64 = 1_000_000_000;
/// Writes that are durable when they return.
const SYNC_PER_MILLE: u32 = 300;
/// Settings of a modification time, where there are any.
const TIMES_PER_MILLE: u32 = 200;
/// Tries of the final look.
const LOOKS_MAX: u32 = 50;

/// What a worker is made of.
pub(crate) struct DataParts {
    pub(crate) name: String,
    pub(crate) wires: Wires,
    pub(crate) rng: Rng,
    pub(crate) history: History,
    pub(crate) trace: Trace,
    pub(crate) findings: Findings,
    /// Whether it asks for layouts.
    pub(crate) is_pnfs: bool,
    /// The share of RDMA of one that speaks NFSv3, all or nothing; without it NFSv4.
    pub(crate) older: Option<bool>,
    /// Files that all work on.
    pub(crate) files: u64,
    /// Whether it also has servers copy, clone, make holes and take storage.
    pub(crate) copies: bool,
    /// Whether it also sets modification times.
    pub(crate) times: bool,
    /// A built-in fault: [`crate::InjectedBug::WriteAgain`].
    pub(crate) writes_again: bool,
}

/// An open file, and which of its changes wait for a flush.
pub(super) struct Held {
    pub(super) file: File,
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) unflushed: Vec<usize>,
    /// Where the last write went, and its bytes.
    pub(super) last: Option<(u64, Bytes)>,
}

/// A client with one thread.
pub(crate) struct DataWorker {
    pub(super) parts: DataParts,
    pub(super) client: Client,
    pub(super) held: Option<Held>,
    opens: u64,
    /// When the present operation was begun.
    begun: Instant,
}

pub(super) fn path(name: &str) -> String {
    format!("/{DIR}/{name}")
}

/// The inode number in an MDS handle (docs/formats.md, "File handles").
pub(super) fn file_id(file: &File) -> u64 {
    let bytes = file.handle().0.get(12..20).and_then(|b| b.try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

fn cells(first: u64, count: u64, tag: u32) -> Bytes {
    let mut out = Vec::new();
    for cell in first..first + count {
        for _ in 0..CELL_BYTES / 8 {
            out.extend_from_slice(&mark(tag, cell).to_be_bytes());
        }
    }
    out.into()
}

/// The mark of a cell, or what is odd about its bytes.
fn mark_of(bytes: &[u8]) -> Result<Mark, String> {
    let first = bytes.first_chunk::<8>();
    let mark = first.map_or(NOTHING, |b| u64::from_be_bytes(*b));
    let words = bytes.chunks(8);
    if words
        .clone()
        .all(|word| *word == mark.to_be_bytes()[..word.len()])
    {
        Ok(mark)
    } else {
        Err(format!(
            "torn or foreign bytes, beginning with {:?}",
            &bytes[..8.min(bytes.len())]
        ))
    }
}

impl DataWorker {
    /// A client that is connected.
    pub(crate) async fn connect(mut parts: DataParts) -> Result<Self, String> {
        let identity = UserIdentity {
            uid: 0,
            gid: 0,
            gids: Vec::new(),
            machine: parts.name.clone(),
        };
        let owner = parts.name.as_bytes().to_vec();
        let config = ClientConfig {
            pnfs: parts.is_pnfs,
            io_bytes_max: 8 * 1024,
            try_timeout: Duration::from_millis(1_500),
            // With `copies_min` each data server that is lost holds up promises, and others follow before it is back.
            give_up: Duration::from_secs(1_200),
            ds_give_up: Duration::from_secs(4),
            ..ClientConfig::new(owner, verifier(&mut parts.rng), identity)
        };
        let connector: Arc<dyn Connector> = match parts.older {
            Some(is_rdma) => parts.wires.one_way(&parts.name, is_rdma),
            None => parts.wires.connector(&parts.name),
        };
        let version = match parts.older {
            Some(_) => NfsVersion::V3(V3Ports::default()),
            None => NfsVersion::V4,
        };
        let config = ClientConfig { version, ..config };
        let client = Client::connect(vec![Address::Memory("mds".into())], connector, config).await;
        Ok(Self {
            client: client.map_err(|e| format!("{}: {e}", parts.name))?,
            parts,
            held: None,
            opens: 0,
            begun: Instant::now(),
        })
    }

    /// Makes the directory of the files, without faults.
    pub(crate) async fn furnish(&self) -> Result<(), String> {
        let made = self.client.mkdir(format!("/{DIR}"), 0o755).await;
        made.map(drop).map_err(|e| e.to_string())
    }

    pub(super) fn now(&self) -> Moment {
        self.parts.history.now()
    }

    fn who(&self) -> String {
        format!("{}.{}", self.parts.name, self.opens)
    }

    pub(super) fn tell(&self, what: &str) {
        self.parts
            .trace
            .tell(&self.parts.name, format_args!("= {what}"));
    }

    /// Does `steps` operations.
    pub(crate) async fn work(mut self, steps: u32) {
        for _ in 0..steps {
            let asked = Instant::now();
            self.step().await;
            self.parts.wires.answered(&self.parts.name, asked);
            let is_long = self.parts.rng.chance(LONG_PER_MILLE);
            let most = if is_long {
                LONG_REST_MS_MAX
            } else {
                REST_MS_MAX
            };
            let ms = self.parts.rng.within(0, most);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        self.close().await;
        let _ = self.client.clone().close().await;
    }

    async fn step(&mut self) {
        self.begun = Instant::now();
        if self.held.is_none() {
            return self.open().await;
        }
        if self.parts.copies && self.parts.rng.chance(RANGES_PER_MILLE) {
            return self.work_on_range().await;
        }
        if self.parts.times && self.parts.rng.chance(TIMES_PER_MILLE) {
            return self.set_time().await;
        }
        match self.parts.rng.below(100) {
            0..40 => self.write().await,
            40..55 => self.flush().await,
            55..80 => self.read().await,
            80..87 => self.cut().await,
            87..91 => self.remove().await,
            _ => self.close().await,
        }
    }

    /// An error that only a removal by somebody else, a lost lease, or a disk in trouble explains.
    pub(super) fn judge(&mut self, what: &str, error: &Error) {
        self.tell(&format!("{what}: {error}"));
        let is_explained = match error {
            Error::OpenLost => true,
            Error::Session(_) | Error::NotCommitted => false,
            other => other.status().is_some_and(|status| {
                matches!(status, NfsStatus::NoEnt | NfsStatus::Stale)
                    || self.parts.history.disk_explains(status, self.begun)
            }),
        };
        if !is_explained {
            let text = format!("{}: {what} failed: {error} ({error:?})", self.parts.name);
            self.parts.findings.add(text);
        }
        // The open is worth nothing any more; what was not flushed stays unacknowledged.
        self.held = None;
    }

    async fn open(&mut self) {
        let name = format!("f{}", self.parts.rng.below(self.parts.files));
        let options = OpenOptions {
            create: true,
            ..OpenOptions::read_write()
        };
        match self.client.open(path(&name), options).await {
            Ok(file) => {
                let id = file_id(&file);
                self.opens += 1;
                self.tell(&format!("opened {name}, file {id}"));
                self.held = Some(Held {
                    file,
                    id,
                    name,
                    unflushed: Vec::new(),
                    last: None,
                });
            }
            Err(e) => self.judge("open", &e),
        }
    }

    /// Enters a change that is about to be asked for; returns its place in the history.
    pub(super) fn begin(&self, id: u64, what: What) -> usize {
        let change = Change {
            who: self.who(),
            start: self.now(),
            returned: NEVER,
            acked: NEVER,
            last_done: ALWAYS,
            what,
        };
        self.parts.history.file(id, |file: &mut FileHistory| {
            file.changes.push(change);
            file.changes.len() - 1
        })
    }

    async fn write(&mut self) {
        let count = self.parts.rng.within(1, WRITE_CELLS_MAX);
        let first = self.parts.rng.below(CELLS_MAX - count + 1);
        let tag = self.parts.history.next_tag();
        let Some(id) = self.held.as_ref().map(|h| h.id) else {
            return;
        };
        let at = self.begin(id, What::Write(first, first + count, tag));
        let is_sync = self.parts.rng.chance(SYNC_PER_MILLE);
        let how = if is_sync { ", durably" } else { "" };
        self.tell(&format!("writes {tag} to {first}+{count} of {id}{how}"));
        let Some(held) = &mut self.held else { return };
        let data = cells(first, count, tag);
        let offset = first * CELL_BYTES;
        let written = match is_sync {
            true => held.file.write_sync_at(offset, data.clone()).await,
            false => held.file.write_at(offset, data.clone()).await,
        };
        match written {
            Ok(()) => {
                held.last = Some((offset, data));
                if is_sync {
                    self.acknowledge(id, &[at]);
                } else {
                    held.unflushed.push(at);
                }
                let now = self.parts.history.now();
                self.parts
                    .history
                    .file(id, |f| f.changes[at].returned = now);
            }
            Err(e) => self.judge("write", &e),
        }
    }

    async fn flush(&mut self) {
        let Some(held) = &mut self.held else { return };
        match held.file.flush().await {
            Ok(()) => {
                let (id, done) = (held.id, std::mem::take(&mut held.unflushed));
                self.acknowledge(id, &done);
            }
            Err(e) => self.judge("flush", &e),
        }
    }

    pub(super) fn acknowledge(&self, id: u64, done: &[usize]) {
        let now = self.now();
        self.tell(&format!("flushed {} changes of {id}", done.len()));
        self.parts.history.file(id, |file| {
            for at in done {
                file.changes[*at].acked = now;
            }
        });
    }

    async fn read(&mut self) {
        let count = self.parts.rng.within(1, CELLS_MAX);
        let first = self.parts.rng.below(CELLS_MAX - count + 1);
        if let Err(e) = self.read_cells(first, count).await {
            self.judge("read", &e);
        }
    }

    /// Reads cells and enters what was seen. Returns how many there were.
    async fn read_cells(&mut self, first: u64, count: u64) -> Result<u64, Error> {
        let start = self.now();
        let who = self.who();
        let Some(held) = &self.held else { return Ok(0) };
        let len = u32::try_from(count * CELL_BYTES).unwrap_or(u32::MAX);
        let data = held.file.read_at(first * CELL_BYTES, len).await?;
        let end = self.now();
        let bytes = data.into_bytes();
        let mut marks: Vec<_> = bytes
            .chunks(usize::try_from(CELL_BYTES).unwrap_or(1))
            .map(mark_of)
            .collect();
        let found = marks.len() as u64;
        self.tell(&format!("read {found} cells from {first} of {}", held.id));
        // What lies after the end is nothing, and is judged as such.
        marks.resize(usize::try_from(count).unwrap_or(0), Ok(NOTHING));
        let seen = Seen {
            who,
            start,
            end,
            first,
            marks,
        };
        self.parts
            .history
            .file(held.id, |file| file.reads.push(seen));
        Ok(found)
    }

    async fn cut(&mut self) {
        let size = self.parts.rng.below(CELLS_MAX);
        let Some(id) = self.held.as_ref().map(|h| h.id) else {
            return;
        };
        let at = self.begin(id, What::Cut(size));
        self.tell(&format!("cuts {id} to {size}"));
        let Some(held) = &mut self.held else { return };
        match held.file.set_len(size * CELL_BYTES).await {
            Ok(()) => {
                // It flushes first.
                let mut done = std::mem::take(&mut held.unflushed);
                done.push(at);
                self.acknowledge(id, &done);
                let now = self.now();
                self.parts
                    .history
                    .file(id, |f| f.changes[at].returned = now);
            }
            Err(e) => self.judge("cut", &e),
        }
    }

    /// Sets the modification time, once its own changes are made.
    async fn set_time(&mut self) {
        self.flush().await;
        let Some(held) = &self.held else { return };
        let (id, name) = (held.id, held.name.clone());
        let second = TIMES_FROM + i64::from(self.parts.history.next_tag());
        let start = self.now();
        let mut set = SetTime {
            second,
            start,
            end: NEVER,
        };
        let at = self.parts.history.file(id, |file| {
            file.times.push(set);
            file.times.len() - 1
        });
        self.tell(&format!("sets the time of {id} to {second}"));
        let attrs = SetAttrs {
            mtime: Some(NfsTime {
                seconds: second,
                nanoseconds: 0,
            }),
            ..SetAttrs::default()
        };
        if let Err(e) = self.client.set_attrs(path(&name), &attrs).await {
            return self.judge("set a time", &e);
        }
        let end = self.now();
        self.write_again().await;
        // An id does not come back to a name, so it was this file when it is still.
        match self.client.metadata(path(&name)).await {
            Ok(metadata) if metadata.file_id == id => set.end = end,
            Ok(_) => {}
            Err(e) => return self.judge("look at a time", &e),
        }
        self.parts.history.file(id, |file| file.times[at] = set);
    }

    /// The last write once more, where that is the fault.
    async fn write_again(&mut self) {
        let last = self.held.as_mut().and_then(|held| held.last.take());
        let Some((offset, data)) = last.filter(|_| self.parts.writes_again) else {
            return;
        };
        let Some(held) = &self.held else { return };
        if held.file.write_at(offset, data).await.is_ok() {
            let _ = held.file.flush().await;
        }
    }

    async fn remove(&mut self) {
        let Some(name) = self.held.as_ref().map(|h| h.name.clone()) else {
            return;
        };
        self.tell(&format!("removes {name}"));
        if let Err(e) = self.client.remove(path(&name)).await
            && !e.is_not_found()
        {
            self.judge("remove", &e);
        }
    }

    async fn close(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.tell(&format!("closes {}", held.id));
        match held.file.close().await {
            Ok(()) => self.acknowledge(held.id, &held.unflushed),
            Err(e) => self.judge("close", &e),
        }
    }

    /// Reads all files without faults, and notes their sizes.
    pub(crate) async fn look_everywhere(mut self) {
        for at in 0..self.parts.files {
            let name = format!("f{at}");
            let file = match self.client.open(path(&name), OpenOptions::read()).await {
                Ok(file) => file,
                Err(e) if e.is_not_found() => continue,
                Err(e) => {
                    self.judge("the last open", &e);
                    continue;
                }
            };
            let id = file_id(&file);
            self.held = Some(Held {
                file,
                id,
                name,
                unflushed: Vec::new(),
                last: None,
            });
            self.look(id).await;
            self.close().await;
        }
        let _ = self.client.clone().close().await;
    }

    async fn look(&mut self, id: u64) {
        for _ in 0..LOOKS_MAX {
            match self.read_cells(0, CELLS_MAX).await {
                Ok(_) => break,
                Err(e) if e.status() == Some(NfsStatus::Delay) => {}
                Err(e) => return self.judge("the last read", &e),
            }
        }
        let Some(held) = &self.held else { return };
        match held.file.metadata().await {
            Ok(metadata) => self.parts.history.file(id, |file| {
                file.final_cells = Some(metadata.size.div_ceil(CELL_BYTES));
                file.final_second = Some(metadata.mtime.seconds);
            }),
            Err(e) => self.judge("the last look", &e),
        }
    }
}
