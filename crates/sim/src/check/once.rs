//! Exactly once: all replies to one request (session, slot, sequence id) that passed SEQUENCE are the same.
//!
//! A server that did not keep its reply may say so instead (`NFS4ERR_RETRY_UNCACHED_REP`, RFC 8881 §2.10.6.1.3). A
//! second execution would show in another change value, stateid or status. That each reply was also true is for
//! the checkers of histories.

use crate::wire::SlotKey;
use std::collections::BTreeMap;

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    replies: BTreeMap<SlotKey, Vec<u8>>,
}

impl Checker {
    /// The COMPOUND body of a reply.
    pub(crate) fn reply(&mut self, key: SlotKey, body: &[u8]) -> Option<String> {
        let first = self.replies.entry(key).or_insert_with(|| body.to_vec());
        let (_, slot, seqid) = key;
        (first != body).then(|| format!("two replies to the request {slot}.{seqid} differ"))
    }
}
