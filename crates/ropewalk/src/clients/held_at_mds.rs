//! The metadata server's answers about what is held: of a client, and of a file.
//!
//! # Ordering
//! Each kind is copied under a lock of its own, at most [`HELD_MAX`] rows. Paths are looked up afterwards, on a thread that may block.

use super::at_mds::{count, find, protocol, row};
use super::rows::{ClientHolds, FileHolds, HeldRow, id_text, name_text};
use crate::admin::Refusal;
use fs::{Fs, RecallWait, likely_paths};
use namespace::{Cred, FileId, NsError, Op};
use nfs4::ClientId;
use state::{ACCESS_READ, ACCESS_WRITE, DelegationKind, Held, HeldKind, HeldWhat, LockKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most rows of one kind.
pub(crate) const HELD_MAX: usize = 500;
/// Deepest path of a question.
const DEPTH_MAX: usize = 4096;

/// What a client holds, and what is stuck on it.
///
/// # Errors
/// One sentence: there is no such client.
pub(crate) async fn show(fs: &Arc<Fs>, id: &str) -> Result<ClientHolds, Refusal> {
    let known = find(fs, id)?;
    let client = known.view.id;
    let mut held = Vec::new();
    let mut cut = false;
    for kind in [
        HeldKind::Opens,
        HeldKind::Locks,
        HeldKind::Delegations,
        HeldKind::Layouts,
    ] {
        let some = fs.state().held_by_client(client, kind, HELD_MAX + 1);
        held.extend(at_most(some.into_iter(), &mut cut));
    }
    let recalled = fs.state().recalled_of_client(client, HELD_MAX + 1);
    let waiting = fs.waiting(usize::MAX);
    let files: BTreeSet<u64> = held.iter().chain(&recalled).map(|h| h.file).collect();
    let mut stuck: Vec<HeldRow> = recalled.iter().map(|held| held_row(fs, held)).collect();
    let others = waiting.iter().filter(|w| w.client != client);
    stuck.extend(
        others
            .filter(|w| files.contains(&w.file))
            .map(|w| waiting_row(fs, w)),
    );
    let locked = held.iter().filter(|h| matches!(h.what, HeldWhat::Lock(..)));
    for file in locked.map(|h| h.file).collect::<BTreeSet<_>>() {
        let waits = fs.state().held_of_file(file, HeldKind::Waits, HELD_MAX + 1);
        stuck.extend(waits.iter().map(|held| held_row(fs, held)));
    }
    let stuck = at_most(stuck.into_iter(), &mut cut);
    let own = waiting.iter().filter(|w| w.client == client);
    let waits = at_most(own.map(|waiting| waiting_row(fs, waiting)), &mut cut);
    let mut answer = ClientHolds {
        client: row(fs, known),
        limit: count(HELD_MAX),
        cut,
        holds: held.iter().map(|held| held_row(fs, held)).collect(),
        stuck,
        waits,
    };
    let all = |answer: &ClientHolds| {
        let rows = answer.holds.iter().chain(&answer.stuck);
        rows.chain(&answer.waits).map(|row| row.inode).collect()
    };
    let paths = paths(fs, all(&answer)).await?;
    let rows = answer.holds.iter_mut().chain(&mut answer.stuck);
    for row in rows.chain(&mut answer.waits) {
        row.path = paths.get(&row.inode).cloned();
    }
    Ok(answer)
}

/// What is held of a file.
///
/// # Errors
/// One sentence: there is no such file.
pub(crate) async fn locks_of(fs: &Arc<Fs>, path: &str) -> Result<FileHolds, Refusal> {
    let (own, wanted) = (Arc::clone(fs), path.to_owned());
    let looked = tokio::task::spawn_blocking(move || resolve(&own, &wanted)).await;
    let file = looked.map_err(|e| Refusal::Failed(e.to_string()))??;
    let mut answer = FileHolds {
        path: path.to_owned(),
        inode: file.0,
        limit: count(HELD_MAX),
        ..FileHolds::default()
    };
    for kind in [
        HeldKind::Locks,
        HeldKind::Waits,
        HeldKind::Opens,
        HeldKind::Delegations,
        HeldKind::Layouts,
    ] {
        let held = fs.state().held_of_file(file.0, kind, HELD_MAX + 1);
        let rows = held.iter().map(|held| held_row(fs, held));
        let rows = at_most(rows, &mut answer.cut);
        answer.holds.extend(rows);
    }
    let waiting = fs.waiting(usize::MAX);
    let waiting = waiting.iter().filter(|w| w.file == file.0);
    let rows = at_most(waiting.map(|w| waiting_row(fs, w)), &mut answer.cut);
    answer.holds.extend(rows);
    Ok(answer)
}

/// At most [`HELD_MAX`] rows of a kind; notes that there are more.
fn at_most<T>(mut rows: impl Iterator<Item = T>, cut: &mut bool) -> Vec<T> {
    let some = rows.by_ref().take(HELD_MAX).collect();
    *cut |= rows.next().is_some();
    some
}

/// The file of a path from the root. Symbolic links are not followed.
fn resolve(fs: &Fs, path: &str) -> Result<FileId, Refusal> {
    let cred = Cred::root();
    let mut at = FileId::ROOT;
    for name in path
        .split('/')
        .filter(|name| !name.is_empty())
        .take(DEPTH_MAX)
    {
        let mut op = Op::new(&cred, fs.now());
        at = match fs.namespace().lookup(&mut op, at, name.as_bytes()) {
            Ok(inode) => inode.id,
            Err(NsError::NoEnt | NsError::NotDir) => {
                let why = format!("there is no {}", path.escape_debug());
                return Err(Refusal::NotFound(why));
            }
            Err(error) => {
                let why = format!("{}: {error}", path.escape_debug());
                return Err(match error {
                    NsError::NameTooLong | NsError::BadName => Refusal::Invalid(why),
                    _ => Refusal::Failed(why),
                });
            }
        };
    }
    Ok(at)
}

async fn paths(fs: &Arc<Fs>, files: BTreeSet<u64>) -> Result<BTreeMap<u64, String>, Refusal> {
    let fs = Arc::clone(fs);
    let looked = tokio::task::spawn_blocking(move || likely_paths(&fs, &files)).await;
    let found = looked.map_err(|e| Refusal::Failed(e.to_string()))?;
    found.map_err(|e| Refusal::Failed(e.to_string()))
}

fn base(fs: &Fs, client: ClientId, file: u64) -> HeldRow {
    let view = fs.clients().lock().view(client, fs.clients().now_ms());
    HeldRow {
        client: id_text(client.value),
        protocol: view.map_or_else(|| "gone".to_owned(), |view| protocol(view.kind)),
        inode: file,
        ..HeldRow::default()
    }
}

fn waiting_row(fs: &Fs, waiting: &RecallWait) -> HeldRow {
    HeldRow {
        what: "waits for delegation".to_owned(),
        since_seconds: Some(fs.clients().now_ms().saturating_sub(waiting.since_ms) / 1000),
        ..base(fs, waiting.client, waiting.file)
    }
}

fn held_row(fs: &Fs, held: &Held) -> HeldRow {
    let base = base(fs, held.client, held.file);
    let owner = (!held.owner.is_empty()).then(|| name_text(&held.owner));
    // A recall is due a lease after its beginning.
    let recalled = |deadline_ms: Option<u64>| {
        let began_ms = deadline_ms?.saturating_sub(fs.lease_ms());
        Some(fs.clients().now_ms().saturating_sub(began_ms) / 1000)
    };
    let locked = |what: &str, range: state::LockRange, kind| HeldRow {
        what: what.to_owned(),
        owner: owner.clone(),
        mode: mode(true, kind == LockKind::Write, false),
        offset: Some(range.offset()),
        length: Some(range.length()).filter(|length| *length != u64::MAX),
        ..base.clone()
    };
    match held.what {
        HeldWhat::Open(share) => HeldRow {
            what: "open".to_owned(),
            owner: owner.clone(),
            mode: share_text(share.access),
            deny: Some(share_text(share.deny)),
            ..base.clone()
        },
        HeldWhat::Lock(range, kind) => locked("lock", range, kind),
        HeldWhat::Waits(range, kind) => locked("waits for lock", range, kind),
        HeldWhat::Delegation(kind, deadline_ms) => HeldRow {
            what: "delegation".to_owned(),
            mode: mode(true, kind == DelegationKind::Write, false),
            since_seconds: recalled(deadline_ms),
            ..base.clone()
        },
        HeldWhat::Layout(writes, deadline_ms) => HeldRow {
            what: "layout".to_owned(),
            mode: mode(true, writes, true),
            since_seconds: recalled(deadline_ms),
            ..base.clone()
        },
    }
}

/// ACCESS or DENY bits, which have the same values.
fn share_text(bits: u32) -> String {
    mode(bits & ACCESS_READ != 0, bits & ACCESS_WRITE != 0, true)
}

fn mode(reads: bool, writes: bool, tells_both: bool) -> String {
    match (reads, writes) {
        (true, true) if tells_both => "read+write",
        (_, true) => "write",
        (true, false) => "read",
        (false, false) => "none",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    //! Goal: an answer that is not whole says so.
    use super::*;

    #[test]
    fn a_cut_is_noted_and_stays_noted() {
        let mut cut = false;
        assert_eq!(at_most(0..HELD_MAX, &mut cut).len(), HELD_MAX);
        assert!(!cut);
        assert_eq!(at_most(0..HELD_MAX + 1, &mut cut).len(), HELD_MAX);
        assert!(cut);
        assert_eq!(at_most(0..1, &mut cut), [0]);
        assert!(cut);
    }
}
