//! Promises: none to fewer copies than must be in sync (rules P8, P20).
//!
//! From when COMMIT or a stable WRITE was first sent to a data server until it is answered, so many other data servers must
//! say that they have synced the part.

use crate::wire::{Ask, Reply, Request};
use control::Answer;
use layout::DS_HANDLE_BYTES;
use nfs4::{NfsStatus, OpNum};
use parts::{PartsProc, PassArgs, PassOk, StreamItem};
use std::collections::BTreeMap;
use xdr::{Decode, Decoder};

/// A file and a place.
pub(crate) type PartName = (u64, u32);

/// The part that a call of the parts program has synced when it is done, if it does that.
pub(crate) fn synced(procedure: u32, args: &[u8]) -> Option<PartName> {
    if procedure != PartsProc::Pass as u32 {
        return None;
    }
    let args: PassArgs<'_> = xdr::decode_all(args).ok()?;
    let is_synced = match args.item {
        StreamItem::Sync => true,
        StreamItem::Write { is_stable, .. } => is_stable,
        _ => false,
    };
    is_synced.then_some((args.file.file_id, args.place))
}

/// Whether an answer of the parts program says that it is done.
pub(crate) fn is_done(answer: &[u8]) -> bool {
    matches!(
        Answer::<PassOk>::decode(&mut Decoder::new(answer)),
        Ok(Answer::Ok(_))
    )
}

/// The part of a handle, read without its key (docs/formats.md, "File handles").
fn part_of(handle: &[u8]) -> Option<PartName> {
    let is_of_place = handle.len() == DS_HANDLE_BYTES && handle[0] == 2;
    let file_id = handle.get(16..24)?.try_into().ok()?;
    is_of_place.then_some((u64::from_be_bytes(file_id), u32::from(handle[2])))
}

/// The checker.
#[derive(Debug)]
pub(crate) struct Checker {
    copies_min: usize,
    /// By part and data server: when that last said that it has synced the part.
    synced: BTreeMap<PartName, BTreeMap<String, u64>>,
}

impl Checker {
    /// A checker of a cluster in which so many copies must be in sync.
    pub(crate) fn new(copies_min: u32) -> Self {
        Self {
            copies_min: copies_min as usize,
            synced: BTreeMap::new(),
        }
    }

    /// A member says at event `now` that it has synced a part.
    pub(crate) fn synced(&mut self, member: &str, part: PartName, now: u64) {
        if self.copies_min > 1 {
            let of_part = self.synced.entry(part).or_default();
            of_part.insert(member.to_owned(), now);
        }
    }

    /// A reply of a data server to a request that was first sent at event `sent`.
    pub(crate) fn ds_reply(
        &self,
        ds: &str,
        request: &Request,
        reply: &Reply,
        sent: u64,
    ) -> Vec<String> {
        let mut part = None;
        let mut found = Vec::new();
        if self.copies_min < 2 {
            return found;
        }
        for ((_, ask), (op, status, _)) in request.ops.iter().zip(&reply.ops) {
            if let Ask::Fh(bytes) = ask {
                part = part_of(bytes);
            }
            let is_promise = match (op, ask) {
                (OpNum::Commit, _) => true,
                (OpNum::Write, Ask::Io { len, is_stable, .. }) => *is_stable && *len > 0,
                _ => false,
            };
            let Some(part) = part.filter(|_| is_promise && *status == NfsStatus::Ok) else {
                continue;
            };
            let others = self.synced.get(&part).into_iter().flatten();
            let others = others.filter(|(member, at)| *member != ds && **at > sent);
            let count = 1 + others.count();
            if count < self.copies_min {
                found.push(format!(
                    "{ds}: {op:?} of file {} at place {}, sent at event {sent}: {count} data server has synced it",
                    part.0, part.1,
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a promise without a second copy is found, and one with it passes.

    use super::*;
    use crate::wire::Got;

    fn commit() -> (Request, Reply) {
        let mut fh = vec![0; DS_HANDLE_BYTES];
        (fh[0], fh[2]) = (2, 1);
        fh[16..24].copy_from_slice(&5_u64.to_be_bytes());
        let request = Request {
            key: None,
            ops: vec![(OpNum::PutFh, Ask::Fh(fh)), (OpNum::Commit, Ask::Plain)],
        };
        let ok = |op| (op, NfsStatus::Ok, Got::Plain);
        let ops = vec![ok(OpNum::PutFh), ok(OpNum::Commit)];
        (request, Reply { ops })
    }

    #[test]
    fn a_promise_needs_another_member_that_has_synced_the_part_since_it_was_asked_for() {
        let (request, reply) = commit();
        for (member, part, at, is_good) in [
            ("ds-1", (5, 1), 101, true),
            ("ds-1", (5, 1), 99, false),
            ("ds-0", (5, 1), 101, false),
            ("ds-1", (5, 0), 101, false),
            ("ds-1", (6, 1), 101, false),
        ] {
            let mut checker = Checker::new(2);
            checker.synced(member, part, at);
            let found = checker.ds_reply("ds-0", &request, &reply, 100);
            assert_eq!(found.is_empty(), is_good, "{member} {part:?} {at}");
            let one = Checker::new(1);
            assert!(one.ds_reply("ds-0", &request, &reply, 100).is_empty());
        }
    }
}
