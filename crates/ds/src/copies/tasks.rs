//! Keeps one task for each stream and for each member that is filled.
//!
//! # Ownership
//! [`run`] owns the tasks; they end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use layout::MemberState;
use server::Nfsd;
use tokio::task::JoinSet;
use transport::Connector;

use super::fill::fill;
use super::leave::{leave, to_leave};
use super::noted::FillKey;
use super::send::carry;
use super::settle;
use super::stream::Stream;
use crate::Ds;

/// How often it is looked whether something is to be done that nobody told.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after a filling that failed.
const AGAIN: Duration = Duration::from_secs(2);
/// Members that are filled at one time, at places with one member in sync, and at others: those do not wait for these.
const FILLINGS_MAX: usize = 2;

/// How a data server reaches others.
pub struct CopiesConfig {
    /// Connects to their data listeners.
    pub connector: Arc<dyn Connector>,
}

/// Passes on what changes parts, and fills members, until it is dropped.
pub async fn run(nfsd: Arc<Nfsd<Ds>>, config: CopiesConfig) {
    let mut streams = JoinSet::new();
    let mut carried = BTreeSet::new();
    let mut fillings = JoinSet::new();
    let mut filled: BTreeMap<FillKey, Urgency> = BTreeMap::new();
    let mut leaving = JoinSet::new();
    let mut settling = JoinSet::new();
    settling.spawn(settle::run(Arc::clone(&nfsd)));
    let mut counting = JoinSet::new();
    loop {
        let ds = nfsd.role();
        close_streams(ds);
        let all: Vec<_> = ds.copies.streams.lock().values().cloned().collect();
        for stream in all {
            if carried.insert(stream.number) {
                let (nfsd, connector) = (Arc::clone(&nfsd), Arc::clone(&config.connector));
                let number = stream.number;
                streams.spawn(async move {
                    carry(nfsd, connector, stream).await;
                    number
                });
            }
        }
        for (key, urgency) in to_fill(ds) {
            let Some(urgency) = urgency else {
                ds.copies.fills.lock().remove(&key);
                continue;
            };
            let others = filled.values().filter(|other| **other == urgency);
            if !filled.contains_key(&key) && others.count() < FILLINGS_MAX {
                filled.insert(key, urgency);
                let nfsd = Arc::clone(&nfsd);
                fillings.spawn(async move {
                    fill_one(nfsd.role(), key).await;
                    key
                });
            }
        }
        if leaving.is_empty()
            && let Some(place) = to_leave(ds)
        {
            let nfsd = Arc::clone(&nfsd);
            leaving.spawn(async move { leave_one(nfsd.role(), place).await });
        }
        if counting.is_empty() {
            let nfsd = Arc::clone(&nfsd);
            counting.spawn(async move {
                while nfsd.role().count_lacking().await {}
                tokio::time::sleep(LOOK).await;
            });
        }
        tokio::select! {
            biased; // What has ended comes first, however often this is woken.
            Some(ended) = streams.join_next(), if !streams.is_empty() => {
                if let Ok(number) = ended {
                    carried.remove(&number);
                }
            }
            Some(_ended) = leaving.join_next(), if !leaving.is_empty() => {}
            Some(_ended) = counting.join_next(), if !counting.is_empty() => {}
            Some(ended) = fillings.join_next(), if !fillings.is_empty() => {
                if let Ok(key) = ended {
                    filled.remove(&key);
                }
            }
            () = ds.copies.wake.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn leave_one(ds: &Ds, place: (u32, u8)) {
    if let Err(why) = leave(ds, place).await {
        let (group, place) = place;
        tracing::warn!(group, place, why, "leaving a place");
        tokio::time::sleep(AGAIN).await;
    }
}

async fn fill_one(ds: &Ds, key: FillKey) {
    let known = Arc::clone(ds.copies.fills.lock().entry(key).or_default());
    let (group, place, member) = key;
    tracing::info!(group, place, member, "filling a member");
    if let Err(why) = fill(ds, key, &known).await {
        tracing::warn!(group, place, member, why, "filling a member");
        tokio::time::sleep(AGAIN).await;
    }
}

/// How urgent it is to fill a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// The place is on its last copy.
    Last,
    Other,
}

/// Members that are noted as filling, or are so by the rows; and how urgent it is, if they are by the rows.
fn to_fill(ds: &Ds) -> BTreeMap<FillKey, Option<Urgency>> {
    let mut keys = BTreeMap::new();
    let by_rows = ds.gate.with_rows(|rows, ds_id| {
        let own = rows.all().filter(|(_, _, row)| row.row.primary == ds_id);
        let keys = own.flat_map(|(group, place, row)| {
            let urgency = match row.row.in_state(MemberState::Sync).count() {
                0 | 1 => Urgency::Last,
                _ => Urgency::Other,
            };
            let members = row.row.in_state(MemberState::Filling);
            let key = move |ds| Some((group, u8::try_from(place).ok()?, ds));
            members.filter_map(move |ds| Some((key(ds)?, Some(urgency))))
        });
        keys.collect::<Vec<(FillKey, Option<Urgency>)>>()
    });
    let Some(by_rows) = by_rows else {
        return keys;
    };
    for key in ds.copies.fills.lock().keys() {
        keys.insert(*key, None);
    }
    keys.extend(by_rows);
    keys
}

/// Closes streams to data servers that count at no place of this server.
fn close_streams(ds: &Ds) {
    let members = ds.gate.with_rows(|rows, ds_id| {
        let own = rows.all().filter(|(_, _, row)| row.row.primary == ds_id);
        let counted = own.flat_map(|(_, _, row)| row.row.takers());
        counted.collect::<BTreeSet<u32>>()
    });
    let Some(members) = members else {
        return;
    };
    let streams: Vec<_> = ds.copies.streams.lock().values().cloned().collect();
    // One with work carries a question to a member of another's place.
    let idle = |s: &&Arc<Stream>| !members.contains(&s.ds) && !s.has_questions();
    for stream in streams.iter().filter(idle) {
        ds.copies.forget(stream);
    }
}
