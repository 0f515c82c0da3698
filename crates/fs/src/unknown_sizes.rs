//! Files whose size is not known: those that lost writers may have written to.

use crate::hint::{Facts, SOME};
use namespace::{Cred, FileId, Namespace, NsError, Op, PAGE_MAX, Time, TruncateIntent};
use nfs4::NfsStatus;
use std::collections::{BTreeMap, BTreeSet};

/// Files whose truncation has an intent, and what those are told that come meanwhile.
pub(crate) type Truncating = BTreeMap<FileId, NfsStatus>;

/// Whose writes a file's size may lack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LostWriters {
    /// Those of every client that an earlier boot knew.
    pub(crate) all: bool,
    pub(crate) clients: BTreeSet<u64>,
}

/// Files whose size is not known.
#[derive(Debug, Default)]
pub(crate) struct UnknownSizes {
    pub(crate) files: BTreeMap<FileId, LostWriters>,
}

impl Facts for UnknownSizes {
    fn facts(&self) -> u8 {
        if self.files.is_empty() { 0 } else { SOME }
    }
}

impl UnknownSizes {
    pub(crate) fn add_client(&mut self, file: FileId, client: u64) {
        self.files.entry(file).or_default().clients.insert(client);
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Takes off what was recovered; who was added meanwhile stays.
    pub(crate) fn done(&mut self, file: FileId, writers: &LostWriters) {
        let Some(entry) = self.files.get_mut(&file) else {
            return;
        };
        entry.all &= !writers.all;
        entry.clients.retain(|c| !writers.clients.contains(c));
        if !entry.all && entry.clients.is_empty() {
            self.files.remove(&file);
        }
    }
}

/// Marked files and truncations under way, as the previous run left them.
pub(crate) fn load(ns: &Namespace) -> Result<(UnknownSizes, Truncating), NsError> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let mut unknown = UnknownSizes::default();
    let mut after = FileId(0);
    loop {
        let page = ns.rw_out_files(&mut op, after, PAGE_MAX)?;
        for (file, _) in &page {
            unknown.files.entry(*file).or_default().all = true;
        }
        match page.last() {
            Some((file, _)) if page.len() == PAGE_MAX => after = *file,
            _ => break,
        }
    }
    let truncating = intents(ns, &mut op)?
        .iter()
        .map(|i| (i.file, NfsStatus::Delay))
        .collect();
    Ok((unknown, truncating))
}

/// All truncations under way.
pub(crate) fn intents(ns: &Namespace, op: &mut Op<'_>) -> Result<Vec<TruncateIntent>, NsError> {
    let mut out: Vec<TruncateIntent> = Vec::new();
    loop {
        let after = out.last().map_or(FileId(0), |i| i.file);
        let page = ns.truncate_intents(op, after, PAGE_MAX)?;
        let full = page.len() == PAGE_MAX;
        out.extend(page);
        if !full {
            return Ok(out);
        }
    }
}
