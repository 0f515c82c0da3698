//! No stateid is issued twice: not to two requests, not to two clients, not by two incarnations of the server.
//!
//! LAYOUTGET by an open's stateid may tell a client the stateid of its layout again: Linux asks so in each OPEN, and drops the
//! answer.

use crate::wire::SlotKey;
use nfs4::Stateid;
use state::lost_open;
use std::collections::BTreeMap;

/// In which reply a stateid stood.
#[derive(Debug)]
pub(crate) struct Issue<'a> {
    /// Host of the client.
    pub client: &'a str,
    /// Incarnation of the server.
    pub incarnation: u32,
    /// The request.
    pub key: SlotKey,
    /// Whether it is the reply of LAYOUTGET.
    pub is_layout: bool,
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    owners: BTreeMap<[u8; 12], (String, u32)>,
    issued: BTreeMap<Stateid, SlotKey>,
}

impl Checker {
    /// A stateid in a reply.
    pub(crate) fn reply(&mut self, stateid: Stateid, issue: &Issue<'_>) -> Option<String> {
        // What a client is told of an open that was lost with its server is nobody's.
        if stateid.is_special() || stateid == lost_open(boot_of(stateid)) {
            return None;
        }
        let repeated = self.issued.contains_key(&stateid);
        let first = *self.issued.entry(stateid).or_insert(issue.key);
        if first != issue.key && !issue.is_layout {
            return Some(format!("stateid {stateid:?} was issued to two requests"));
        }
        let mine = (issue.client.to_owned(), issue.incarnation);
        let owner = self
            .owners
            .entry(stateid.other)
            .or_insert_with(|| mine.clone());
        // A retry gets the reply of then, also from a later incarnation (persistent sessions).
        let is_retry = repeated && first == issue.key && owner.0 == mine.0;
        let same = *owner == mine || is_retry;
        (!same).then(|| format!("stateid {stateid:?} of {owner:?} was issued to {mine:?}"))
    }
}

/// The first four bytes of a stateid of the MDS.
fn boot_of(stateid: Stateid) -> u32 {
    stateid
        .other
        .first_chunk()
        .copied()
        .map_or(0, u32::from_be_bytes)
}
