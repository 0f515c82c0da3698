//! Roles: one primary for a place at a time (rules P3, P4, P12).
//!
//! A data server answers for a place in a reign. Once it has answered in a newer reign of that place, nothing that was asked
//! later is answered in an older one.

use crate::wire::{Ask, Reply, Request};
use layout::DS_HANDLE_BYTES;
use nfs4::{NfsStatus, OpNum};
use std::collections::BTreeMap;

/// A placement group and a place of it.
type Place = (u32, u8);

/// The place and the reign of a handle, read without its key (docs/formats.md, "File handles").
fn place_of(handle: &[u8]) -> Option<(Place, u32)> {
    let is_of_place = handle.len() == DS_HANDLE_BYTES && handle[0] == 2;
    let word = |at: usize| Some(u32::from_be_bytes(handle.get(at..at + 4)?.try_into().ok()?));
    is_of_place.then_some(((word(8)?, handle[2]), word(12)?))
}

/// The newest reign of a place that has answered.
#[derive(Debug, Clone, Copy)]
struct Newest {
    reign: u32,
    /// The event of its first answer.
    since: u64,
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    newest: BTreeMap<Place, Newest>,
}

impl Checker {
    /// A reply of a data server at event `now` to a request that was first sent at event `sent`.
    pub(crate) fn ds_reply(
        &mut self,
        (ds, request, reply): (&str, &Request, &Reply),
        (sent, now): (u64, u64),
    ) -> Vec<String> {
        let mut found = Vec::new();
        let mut at = None;
        for ((_, ask), (op, status, _)) in request.ops.iter().zip(&reply.ops) {
            if let Ask::Fh(bytes) = ask {
                at = place_of(bytes);
            }
            let is_served = matches!(op, OpNum::Read | OpNum::Write | OpNum::Commit);
            let Some((place, reign)) = at.filter(|_| is_served && *status == NfsStatus::Ok) else {
                continue;
            };
            let first = Newest { reign, since: now };
            let newest = self.newest.entry(place).or_insert(first);
            if reign > newest.reign {
                *newest = first;
            }
            if reign < newest.reign && sent > newest.since {
                let Newest {
                    reign: other,
                    since,
                } = *newest;
                found.push(format!(
                    "{ds}: {op:?} at place {} of group {} in reign {reign}, sent at event {sent}, after reign {other} answered at event {since}",
                    place.1, place.0,
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an answer of an old reign is found, unless it was asked for before the new one began.

    use super::*;
    use crate::wire::Got;

    fn read(reign: u32) -> (Request, Reply) {
        let mut fh = vec![0; DS_HANDLE_BYTES];
        (fh[0], fh[2], fh[11], fh[15]) = (2, 1, 7, u8::try_from(reign).unwrap_or(0));
        let request = Request {
            key: None,
            ops: vec![(OpNum::PutFh, Ask::Fh(fh)), (OpNum::Commit, Ask::Plain)],
        };
        let ok = |op| (op, NfsStatus::Ok, Got::Plain);
        let ops = vec![ok(OpNum::PutFh), ok(OpNum::Commit)];
        (request, Reply { ops })
    }

    #[test]
    fn nothing_is_answered_in_an_old_reign_after_a_new_one() {
        let mut checker = Checker::default();
        for (reign, sent, now, is_good) in [
            (3, 10, 11, true),
            (4, 20, 22, true),
            (3, 21, 25, true),
            (3, 23, 26, false),
            (4, 27, 28, true),
        ] {
            let (request, reply) = read(reign);
            let found = checker.ds_reply(("ds-0", &request, &reply), (sent, now));
            assert_eq!(found.is_empty(), is_good, "{reign} {sent}: {found:?}");
        }
    }
}
