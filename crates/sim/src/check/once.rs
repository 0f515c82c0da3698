//! Exactly once: all replies to one request (session, slot, sequence id) that passed SEQUENCE are the same.
//!
//! Of NFSv3, all replies of one incarnation of the server to one call that is not idempotent are the same: sent again, it has the same
//! transaction id and the same bytes.
//!
//! A server that did not keep its reply may say so instead (`NFS4ERR_RETRY_UNCACHED_REP`, RFC 8881 §2.10.6.1.3). A
//! second execution would show in another change value, stateid or status. That each reply was also true is for
//! the checkers of histories.

use crate::wire::{OlderKey, SlotKey};
use std::collections::BTreeMap;

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    replies: BTreeMap<SlotKey, Vec<u8>>,
    older: BTreeMap<(u32, OlderKey), Vec<u8>>,
}

impl Checker {
    /// The result of a call of NFSv3 by this incarnation of the server.
    pub(crate) fn older(&mut self, incarnation: u32, key: OlderKey, body: &[u8]) -> Option<String> {
        let client = key.0.clone();
        let first = self.older.entry((incarnation, key));
        let first = first.or_insert_with(|| body.to_vec());
        (first != body).then(|| format!("two replies to one call of {client} differ"))
    }

    /// The COMPOUND body of a reply.
    pub(crate) fn reply(&mut self, key: SlotKey, body: &[u8]) -> Option<String> {
        let first = self.replies.entry(key).or_insert_with(|| body.to_vec());
        let (_, slot, seqid) = key;
        (first != body).then(|| format!("two replies to the request {slot}.{seqid} differ"))
    }
}
