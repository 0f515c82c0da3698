//! Promises: none before each member in sync has what is promised, and none to too few copies (rules P8, P20).
//!
//! From when COMMIT or a stable WRITE was first sent to a data server until it is answered, every member that the primary
//! knows to be in sync all that time must say that it has synced the part. So must as many others as `copies_min` asks for.

use crate::wire::{Ask, Reply, Request};
use control::{Answer, PlaceRow, Proc, RowsOk, RowsTold, ToDs};
use layout::{DS_HANDLE_BYTES, MemberState};
use nfs4::{NfsStatus, OpNum};
use parts::{PartsProc, PassArgs, PassOk, StreamItem};
use std::collections::{BTreeMap, BTreeSet};
use xdr::{Decode, Decoder};

/// A file and a place.
pub(crate) type PartName = (u64, u32);
/// A placement group and a place of it.
type Place = (u32, u32);
/// Most rows of a place that are kept for a data server. A promise that is older than all of them is not judged by members.
const ROWS_MAX: usize = 64;

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

/// The name of a data server in the simulated network, by its id.
fn name_of(ds_id: u32) -> String {
    format!("ds-{}", ds_id.saturating_sub(1))
}

/// What a handle names, read without its key (docs/formats.md, "File handles").
fn part_of(handle: &[u8]) -> Option<(PartName, Place)> {
    let is_of_place = handle.len() == DS_HANDLE_BYTES && handle[0] == 2;
    let place = u32::from(*handle.get(2)?);
    let group = u32::from_be_bytes(handle.get(8..12)?.try_into().ok()?);
    let file_id = u64::from_be_bytes(handle.get(16..24)?.try_into().ok()?);
    is_of_place.then_some(((file_id, place), (group, place)))
}

/// A row of a place, as a data server was told it.
#[derive(Debug)]
struct Told {
    /// The event at which the data server said that it has taken it.
    taken: Option<u64>,
    version: u32,
    /// The members in sync.
    in_sync: BTreeSet<String>,
}

/// The checker.
#[derive(Debug)]
pub(crate) struct Checker {
    copies_min: usize,
    /// By part and data server: when that last said that it has synced the part.
    synced: BTreeMap<PartName, BTreeMap<String, u64>>,
    /// By data server and place, in the order of sending.
    rows: BTreeMap<(String, Place), Vec<Told>>,
}

impl Checker {
    /// A checker of a cluster in which so many copies must be in sync.
    pub(crate) fn new(copies_min: u32) -> Self {
        Self {
            copies_min: copies_min as usize,
            synced: BTreeMap::new(),
            rows: BTreeMap::new(),
        }
    }

    /// A member says at event `now` that it has synced a part.
    pub(crate) fn synced(&mut self, member: &str, part: PartName, now: u64) {
        let of_part = self.synced.entry(part).or_default();
        of_part.insert(member.to_owned(), now);
    }

    /// The MDS calls the data server `ds`.
    pub(crate) fn control_call(&mut self, ds: &str, procedure: u32, args: &[u8]) {
        if let Ok(ToDs::Rows(args)) = ToDs::decode(procedure, args) {
            self.rows_sent(ds, &args.rows.0);
        }
    }

    /// The answer to a call of the control program, between the MDS and the data server `ds`, at event `now`.
    pub(crate) fn control_reply(&mut self, ds: &str, call: &[u8], answer: &[u8], now: u64) {
        let Some((procedure, args)) = call.split_first_chunk::<4>() else {
            return;
        };
        let procedure = u32::from_be_bytes(*procedure);
        let mut d = Decoder::new(answer);
        match Proc::from_u32(procedure) {
            Some(Proc::Out | Proc::Filled) => {
                if let Ok(Answer::<RowsTold>::Ok(told)) = Answer::decode(&mut d) {
                    self.rows_sent(ds, &told.rows.0);
                }
            }
            Some(Proc::Rows) => {
                if let (Ok(ToDs::Rows(args)), Ok(Answer::<RowsOk>::Ok(ok))) =
                    (ToDs::decode(procedure, args), Answer::decode(&mut d))
                {
                    let rows = args.rows.0.iter();
                    let taken = rows.filter(|row| !ok.newer.0.contains(&row.group));
                    taken.for_each(|row| self.row_taken(ds, row, now));
                }
            }
            _ => {}
        }
    }

    fn rows_sent(&mut self, ds: &str, rows: &[PlaceRow]) {
        for row in rows {
            let of_place = self.rows.entry((ds.to_owned(), (row.group, row.place)));
            let members = row.row.members.0.iter();
            let in_sync = members.filter(|member| member.state == MemberState::Sync);
            let of_place = of_place.or_default();
            of_place.push(Told {
                taken: None,
                version: row.version,
                in_sync: in_sync.map(|member| name_of(member.ds)).collect(),
            });
            if of_place.len() > ROWS_MAX {
                of_place.remove(0);
            }
        }
    }

    fn row_taken(&mut self, ds: &str, row: &PlaceRow, now: u64) {
        let of_place = self.rows.get_mut(&(ds.to_owned(), (row.group, row.place)));
        let told = of_place.into_iter().flatten().rev();
        if let Some(told) = { told }.find(|told| told.version == row.version) {
            told.taken.get_or_insert(now);
        }
    }

    /// The members that are in sync in the row which `ds` had when a request was sent, and in all that it was told later.
    fn counted_on(&self, ds: &str, place: Place, sent: u64) -> BTreeSet<String> {
        let rows = self.rows.get(&(ds.to_owned(), place));
        let rows = rows.map_or(&[][..], Vec::as_slice);
        let had = rows
            .iter()
            .rposition(|told| told.taken.is_some_and(|at| at < sent));
        let Some((first, later)) = had.and_then(|at| rows[at..].split_first()) else {
            return BTreeSet::new();
        };
        let mut members = first.in_sync.clone();
        members.retain(|name| name != ds && later.iter().all(|told| told.in_sync.contains(name)));
        members
    }

    /// A reply of a data server to a request that was first sent at event `sent`.
    pub(crate) fn ds_reply(
        &self,
        ds: &str,
        request: &Request,
        reply: &Reply,
        sent: u64,
    ) -> Vec<String> {
        let mut named = None;
        let mut found = Vec::new();
        for ((_, ask), (op, status, _)) in request.ops.iter().zip(&reply.ops) {
            if let Ask::Fh(bytes) = ask {
                named = part_of(bytes);
            }
            let is_promise = match (op, ask) {
                (OpNum::Commit, _) => true,
                (OpNum::Write, Ask::Io { len, is_stable, .. }) => *is_stable && *len > 0,
                _ => false,
            };
            let Some((part, place)) = named.filter(|_| is_promise && *status == NfsStatus::Ok)
            else {
                continue;
            };
            let have = self.synced.get(&part).into_iter().flatten();
            let have = have.filter(|(member, at)| *member != ds && **at > sent);
            let have: BTreeSet<&String> = have.map(|(member, _)| member).collect();
            let what = || {
                let (file, place) = part;
                format!("{ds}: {op:?} of file {file} at place {place}, sent at event {sent}")
            };
            if 1 + have.len() < self.copies_min {
                let count = 1 + have.len();
                found.push(format!("{}: {count} data server has synced it", what()));
            }
            let wanted = self.counted_on(ds, place, sent);
            let lacking: Vec<String> = wanted.into_iter().filter(|m| !have.contains(m)).collect();
            if !lacking.is_empty() {
                found.push(format!("{}: {lacking:?} have not synced it", what()));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a promise without a second copy is found, and one with it passes. So is one without a member in sync.

    use super::*;
    use crate::wire::Got;
    use control::RowsArgs;
    use layout::{Member, Row};
    use xdr::List;

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
    /// The row of place 1 of group 0, whose primary is `ds-0`; `ds-1` is in this state.
    fn row(version: u32, state: MemberState) -> PlaceRow {
        PlaceRow {
            group: 0,
            place: 1,
            width: 2,
            version,
            row: Row {
                primary: 1,
                era: 1,
                reign: 1,
                members: List(vec![
                    Member::new(1, MemberState::Sync),
                    Member::new(2, state),
                ]),
            },
            copies_min: 1,
        }
    }

    /// The MDS tells `ds-0` a row, which takes it.
    fn tell(checker: &mut Checker, row: PlaceRow, taken: u64) {
        let args = xdr::encode_to_vec(&RowsArgs {
            rows: List(vec![row]),
            members: List(Vec::new()),
        });
        let number = Proc::Rows as u32;
        checker.control_call("ds-0", number, &args);
        let call = [&number.to_be_bytes()[..], &args].concat();
        let ok = Answer::Ok(RowsOk {
            newer: List(Vec::new()),
        });
        checker.control_reply("ds-0", &call, &xdr::encode_to_vec(&ok), taken);
    }

    #[test]
    fn a_promise_needs_each_member_that_is_in_sync_all_the_time() {
        use MemberState::{Stale, Sync};
        let (request, reply) = commit();
        // What the row says, when it was taken; what a later row says; whether ds-1 has synced.
        for (first, taken, later, has_synced, is_good) in [
            (Sync, 90, None, true, true),
            (Sync, 90, None, false, false),
            (Sync, 101, None, false, true),
            (Sync, 90, Some(Stale), false, true),
            (Stale, 90, None, false, true),
            (Stale, 90, Some(Sync), false, true),
        ] {
            let mut checker = Checker::new(1);
            tell(&mut checker, row(1, first), taken);
            if let Some(later) = later {
                tell(&mut checker, row(2, later), 103);
            }
            if has_synced {
                checker.synced("ds-1", (5, 1), 104);
            }
            let found = checker.ds_reply("ds-0", &request, &reply, 100);
            assert_eq!(
                found.is_empty(),
                is_good,
                "{first:?} {taken} {later:?}: {found:?}"
            );
        }
    }
}
