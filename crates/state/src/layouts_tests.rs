//! Goal: grants, returns, recalls and commits as RFC 8881 §12.5 and rule R3 say. Method: scenarios
//! with three clients and one file.

use super::*;

const A: ClientId = ClientId { value: 1 };
const B: ClientId = ClientId { value: 2 };
const C: ClientId = ClientId { value: 3 };
const FILE: u64 = 9;

struct Bed {
    source: StateidSource,
    layouts: Layouts,
}

fn bed() -> Bed {
    Bed {
        source: StateidSource::new(1),
        layouts: Layouts::new(LayoutLimits {
            per_client_max: 2,
            total_max: 3,
        }),
    }
}

impl Bed {
    fn get_of(
        &mut self,
        client: ClientId,
        file: u64,
        stateid: Option<Stateid>,
        mode: IoMode,
    ) -> Result<Stateid, NfsStatus> {
        self.layouts
            .get(&mut self.source, client, file, stateid, mode, false)
    }

    fn get(&mut self, client: ClientId, mode: IoMode) -> Result<Stateid, NfsStatus> {
        self.get_of(client, FILE, None, mode)
    }
}

fn at(stateid: Stateid, seqid: u32) -> Stateid {
    Stateid { seqid, ..stateid }
}

#[test]
fn every_grant_and_return_counts_up() {
    let mut bed = bed();
    let one = bed.get(A, IoMode::Read).unwrap();
    assert_eq!(one.seqid, 1);
    let two = bed.get_of(A, FILE, Some(one), IoMode::ReadWrite).unwrap();
    assert_eq!(two, at(one, 2));
    // In parallel with the one before: an older seqid is fine, zero and the future are not.
    assert_eq!(bed.get_of(A, FILE, Some(one), IoMode::Read), Ok(at(one, 3)));
    for seqid in [0, 4] {
        assert_eq!(
            bed.get_of(A, FILE, Some(at(one, seqid)), IoMode::Read),
            Err(NfsStatus::BadStateid)
        );
    }
    // A client that forgot its layout comes with its open again.
    assert_eq!(bed.get(A, IoMode::Read), Ok(at(one, 3)));
    // Another client's, or another file's.
    assert_eq!(
        bed.get_of(B, FILE, Some(one), IoMode::Read),
        Err(NfsStatus::BadStateid)
    );
    assert_eq!(
        bed.get_of(A, 10, Some(one), IoMode::Read),
        Err(NfsStatus::BadStateid)
    );

    assert_eq!(bed.layouts.rw_holders(FILE), [A]);
    let part = bed
        .layouts
        .return_file(one, A, FILE, IoModes::ANY, false)
        .unwrap();
    assert_eq!((part.rw, part.stateid), (false, Some(at(one, 4))));
    let rw = bed
        .layouts
        .return_file(one, A, FILE, IoModes::RW, true)
        .unwrap();
    assert_eq!((rw.rw, rw.stateid), (true, Some(at(one, 5))));
    assert_eq!(bed.layouts.rw_holders(FILE), []);
    assert_eq!(bed.layouts.holders(FILE, IoModes::READ), [A]);
    let last = bed
        .layouts
        .return_file(one, A, FILE, IoModes::ANY, true)
        .unwrap();
    assert_eq!((last.rw, last.stateid), (false, None));
    assert_eq!(
        bed.layouts.return_file(one, A, FILE, IoModes::ANY, true),
        Err(NfsStatus::BadStateid)
    );
    assert!(bed.layouts.is_empty() && bed.layouts.holders.is_empty());
    assert!(!bed.layouts.has_client(A));
    assert_ne!(
        bed.get(A, IoMode::Read).unwrap().other,
        one.other,
        "a new state has a new name"
    );
}

#[test]
fn a_stateid_beyond_the_window_is_old() {
    let mut bed = bed();
    let one = bed.get(A, IoMode::Read).unwrap();
    bed.layouts.states.get_mut(&one.other).unwrap().seqid = LAYOUT_SEQID_WINDOW + 2;
    assert_eq!(
        bed.get_of(A, FILE, Some(one), IoMode::Read),
        Err(NfsStatus::OldStateid)
    );
    assert!(bed.get_of(A, FILE, Some(at(one, 2)), IoMode::Read).is_ok());
}

#[test]
fn layouts_are_bounded() {
    let mut bed = bed();
    bed.get_of(A, 1, None, IoMode::Read).unwrap();
    bed.get_of(A, 2, None, IoMode::Read).unwrap();
    let later = Err(NfsStatus::LayoutTryLater);
    assert_eq!(bed.get_of(A, 3, None, IoMode::Read), later);
    bed.get_of(B, 1, None, IoMode::Read).unwrap();
    assert_eq!(bed.get_of(C, 1, None, IoMode::Read), later);
    assert!(bed.get_of(A, 1, None, IoMode::Read).is_ok(), "no new state");
}

#[test]
fn a_recall_blocks_grants_until_all_have_returned() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    let b = bed.get(B, IoMode::ReadWrite).unwrap();
    let c = bed.get(C, IoMode::Read).unwrap();
    let recalls = bed.layouts.begin_recall(FILE, IoModes::RW, Some(A), 100);
    assert_eq!(
        recalls,
        [Recall {
            client: B,
            stateid: at(b, 2),
            file: FILE,
            modes: IoModes::RW,
            layout_type: 1,
            deadline_ms: 100,
        }]
    );
    assert_eq!(
        bed.layouts.begin_recall(FILE, IoModes::RW, Some(A), 500),
        [],
        "once is enough"
    );
    let conflict = Err(NfsStatus::RecallConflict);
    for (client, stateid) in [(A, a), (B, b), (C, c)] {
        assert_eq!(
            bed.get_of(client, FILE, Some(stateid), IoMode::Read),
            conflict
        );
    }
    assert!(
        bed.get_of(A, 10, None, IoMode::Read).is_err(),
        "three in all"
    );
    assert!(bed.layouts.is_held(FILE, IoModes::RW, Some(A)));
    assert_eq!(
        bed.layouts
            .recall_answered(&b.other, RecallAnswer::WillReturn),
        None
    );
    assert_eq!(
        bed.get_of(B, FILE, Some(at(b, 2)), IoMode::Read),
        Err(NfsStatus::ReturnConflict)
    );
    assert_eq!(bed.get_of(C, FILE, Some(c), IoMode::Read), conflict);
    let back = bed
        .layouts
        .return_file(at(b, 2), B, FILE, IoModes::RW, true)
        .unwrap();
    assert_eq!((back.rw, back.stateid), (true, None));
    assert!(!bed.layouts.is_held(FILE, IoModes::RW, Some(A)));
    assert!(bed.get_of(C, FILE, Some(c), IoMode::Read).is_ok());
    assert_eq!(bed.layouts.rw_holders(FILE), [A]);
}

#[test]
fn a_partial_return_does_not_end_a_recall() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    bed.get(A, IoMode::Read).unwrap();
    bed.layouts.begin_recall(FILE, IoModes::ANY, None, 100);
    bed.layouts
        .return_file(a, A, FILE, IoModes::ANY, false)
        .unwrap();
    assert_eq!(bed.get(B, IoMode::Read), Err(NfsStatus::RecallConflict));
    bed.layouts
        .return_file(a, A, FILE, IoModes::READ, true)
        .unwrap();
    assert_eq!(bed.get(B, IoMode::Read), Err(NfsStatus::RecallConflict));
    bed.layouts
        .return_file(a, A, FILE, IoModes::RW, true)
        .unwrap();
    assert!(bed.get(B, IoMode::Read).is_ok());
}

#[test]
fn no_matching_layout_counts_as_returned() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    bed.get(A, IoMode::Read).unwrap();
    bed.layouts.begin_recall(FILE, IoModes::RW, None, 100);
    let back = bed
        .layouts
        .recall_answered(&a.other, RecallAnswer::NoMatchingLayout)
        .unwrap();
    assert!(back.rw && back.stateid.is_some());
    assert_eq!(
        bed.layouts
            .recall_answered(&a.other, RecallAnswer::NoMatchingLayout),
        None,
        "no recall is under way"
    );
    assert_eq!(bed.layouts.holders(FILE, IoModes::ANY), [A]);
    assert_eq!(bed.layouts.rw_holders(FILE), []);
    assert_eq!(bed.layouts.overdue(1000), []);
    assert!(bed.get(B, IoMode::ReadWrite).is_ok(), "the recall is over");
}

#[test]
fn a_wider_recall_is_sent_again_with_the_first_deadline() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    bed.get(A, IoMode::Read).unwrap();
    bed.layouts.begin_recall(FILE, IoModes::RW, None, 100);
    let wider = bed.layouts.begin_recall(FILE, IoModes::ANY, None, 900);
    assert_eq!(wider.len(), 1);
    assert_eq!((wider[0].stateid, wider[0].modes), (at(a, 3), IoModes::ANY));
    assert_eq!(bed.layouts.overdue(99), []);
    assert_eq!(bed.layouts.overdue(100).len(), 1);
}

#[test]
fn a_recall_is_sent_again_as_it_was_until_nothing_is_due_or_another_asks_for_more() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    bed.get(A, IoMode::Read).unwrap();
    let first = bed.layouts.begin_recall(FILE, IoModes::RW, None, 100)[0];
    assert_eq!(bed.layouts.recall_again(&first), Some(first));
    let answer = RecallAnswer::WillReturn;
    assert_eq!(bed.layouts.recall_answered(&a.other, answer), None);
    assert_eq!(bed.layouts.recall_again(&first), Some(first));
    let wider = bed.layouts.begin_recall(FILE, IoModes::ANY, None, 900)[0];
    assert_eq!(bed.layouts.recall_again(&first), None);
    assert_eq!(bed.layouts.recall_again(&wider), Some(wider));
    // What came back took a sequence id, which the client knows.
    let back = bed
        .layouts
        .return_file(a, A, FILE, IoModes::RW, true)
        .unwrap();
    let known = back.stateid.unwrap().seqid;
    let rest = bed.layouts.recall_again(&wider).unwrap();
    assert_eq!((rest.modes, rest.deadline_ms), (IoModes::READ, 100));
    assert_eq!(rest.stateid, at(a, known + 1));
    assert_eq!(bed.layouts.recall_again(&rest), Some(rest));
    assert!(!bed.layouts.is_due(&wider) && bed.layouts.is_due(&rest));
    bed.layouts
        .return_file(a, A, FILE, IoModes::READ, true)
        .unwrap();
    assert_eq!(bed.layouts.recall_again(&rest), None);
}

#[test]
fn the_silent_are_overdue_and_revoked() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    let b = bed.get(B, IoMode::ReadWrite).unwrap();
    bed.layouts.begin_recall(FILE, IoModes::ANY, None, 100);
    bed.layouts
        .recall_answered(&a.other, RecallAnswer::WillReturn);
    bed.layouts
        .return_file(at(b, 2), B, FILE, IoModes::ANY, true)
        .unwrap();
    assert_eq!(bed.layouts.overdue(99), []);
    let overdue = bed.layouts.overdue(100);
    assert_eq!(overdue.iter().map(|r| r.client).collect::<Vec<_>>(), [A]);
    let gone = bed.layouts.revoke(&a.other).unwrap();
    assert_eq!((gone.client, gone.rw, gone.stateid), (A, true, None));
    assert_eq!(bed.layouts.revoke(&a.other), None);
    assert_eq!(bed.layouts.overdue(1000), []);
    assert_eq!(
        bed.get_of(A, FILE, Some(a), IoMode::Read),
        Err(NfsStatus::BadStateid)
    );
}

#[test]
fn a_held_file_grants_nothing() {
    let mut bed = bed();
    bed.layouts.hold(FILE);
    bed.layouts.hold(FILE);
    assert_eq!(bed.get(A, IoMode::Read), Err(NfsStatus::RecallConflict));
    bed.layouts.release(FILE);
    assert_eq!(bed.get(A, IoMode::Read), Err(NfsStatus::RecallConflict));
    assert!(bed.get_of(A, 10, None, IoMode::Read).is_ok());
    bed.layouts.release(FILE);
    assert!(bed.get(A, IoMode::Read).is_ok());
}

#[test]
fn a_commit_from_before_a_truncate_is_refused() {
    let mut bed = bed();
    let read = bed.get(A, IoMode::Read).unwrap();
    assert_eq!(
        bed.layouts.check_commit(read, A, FILE),
        Err(NfsStatus::BadLayout)
    );
    let rw = bed.get(A, IoMode::ReadWrite).unwrap();
    assert_eq!(bed.layouts.check_commit(rw, A, FILE), Ok(()));
    assert_eq!(bed.layouts.check_commit(read, A, FILE), Ok(()));
    bed.layouts.raise_commit_floor(FILE, true);
    for stale in [read, rw] {
        assert_eq!(
            bed.layouts.check_commit(stale, A, FILE),
            Err(NfsStatus::BadLayout)
        );
    }
    let fresh = bed.get_of(A, FILE, Some(rw), IoMode::ReadWrite).unwrap();
    assert_eq!(bed.layouts.check_commit(fresh, A, FILE), Ok(()));
    assert_eq!(
        bed.layouts.check_commit(rw, A, FILE),
        Err(NfsStatus::BadLayout)
    );
    assert_eq!(
        bed.layouts.check_commit(at(fresh, 0), A, FILE),
        Err(NfsStatus::BadStateid)
    );
    assert_eq!(
        bed.layouts.check_commit(fresh, B, FILE),
        Err(NfsStatus::BadStateid)
    );
    bed.layouts.raise_commit_floor(12345, true);
}

#[test]
fn a_recalled_client_may_still_commit() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    let recall = bed.layouts.begin_recall(FILE, IoModes::RW, None, 100)[0];
    assert_eq!(bed.layouts.check_commit(a, A, FILE), Ok(()));
    assert_eq!(bed.layouts.check_commit(recall.stateid, A, FILE), Ok(()));
}

#[test]
fn bulk_return_and_return_on_close() {
    let mut bed = bed();
    bed.get_of(A, 1, None, IoMode::ReadWrite).unwrap();
    bed.get_of(A, 2, None, IoMode::Read).unwrap();
    bed.get_of(B, 1, None, IoMode::Read).unwrap();
    let back = bed.layouts.return_all(A, IoModes::RW, None);
    assert_eq!(
        back.iter()
            .map(|r| (r.file, r.rw, r.stateid.is_some()))
            .collect::<Vec<_>>(),
        [(1, true, false), (2, false, true)]
    );
    assert_eq!(bed.layouts.return_all(C, IoModes::ANY, None), []);
    assert_eq!(bed.layouts.closed(B, 1), None, "not asked for on close");
    bed.layouts
        .get(&mut bed.source, B, 1, None, IoMode::Read, true)
        .unwrap();
    let closed = bed.layouts.closed(B, 1).unwrap();
    assert_eq!((closed.client, closed.stateid), (B, None));
    assert_eq!(bed.layouts.closed(B, 77), None);
}

#[test]
fn a_layout_counts_under_the_oldest_key_of_its_handles_until_it_is_returned() {
    let mut bed = bed();
    let a = bed.get(A, IoMode::Read).unwrap();
    assert_eq!(bed.layouts.oldest_key(), None, "nothing is signed yet");
    bed.layouts.signed(&a.other, 2);
    let b = bed.get(B, IoMode::Read).unwrap();
    bed.layouts.signed(&b.other, 3);
    let a = bed.get(A, IoMode::ReadWrite).unwrap();
    bed.layouts.signed(&a.other, 3);
    assert_eq!(
        bed.layouts.oldest_key(),
        Some(2),
        "A may use its old handle"
    );
    let count = |bed: &Bed| [2, 3].map(|key| bed.layouts.count_of_key(key));
    assert_eq!(count(&bed), [1, 1]);
    bed.layouts
        .return_file(a, A, FILE, IoModes::READ, true)
        .unwrap();
    assert_eq!(count(&bed), [1, 1], "a part of it is still held");
    bed.layouts.revoke(&a.other);
    assert_eq!(count(&bed), [0, 1]);
    bed.layouts.return_all(B, IoModes::ANY, None);
    assert_eq!(bed.layouts.oldest_key(), None);
    bed.layouts.signed(&b.other, 3);
    assert_eq!(bed.layouts.oldest_key(), None, "it is gone");
}

#[test]
fn only_layouts_that_need_an_old_key_are_recalled_for_it() {
    let mut bed = bed();
    let mut get = |client, key| {
        let stateid = bed.get(client, IoMode::Read).unwrap();
        bed.layouts.signed(&stateid.other, key);
        stateid.other
    };
    let (a, _, c) = (get(A, 1), get(B, 2), get(C, 1));
    let mut recalled = Vec::new();
    let mut after = None;
    for _ in 0..3 {
        let (some, next) = bed.layouts.begin_recall_of_keys(1, after, 1, 100);
        recalled.extend(some.into_iter().map(|r| r.stateid.other));
        after = next;
    }
    assert_eq!(recalled, [a, c]);
    let again = bed.layouts.begin_recall_of_keys(1, None, 10, 200);
    assert_eq!(again, (Vec::new(), None), "asked once");
    let overdue = bed.layouts.overdue(100);
    assert_eq!(overdue.len(), 2, "the first deadline counts");
    for other in [a, c] {
        bed.layouts.revoke(&other);
    }
    assert_eq!(bed.layouts.oldest_key(), Some(2));
    let none = bed.layouts.begin_recall_of_keys(1, None, 10, 200);
    assert_eq!(none, (Vec::new(), None));
}

#[test]
fn a_layout_asked_for_by_an_open_keeps_its_seqid_until_something_happens_to_it() {
    let mut bed = bed();
    let one = bed.get(A, IoMode::ReadWrite).unwrap();
    // Linux drops this answer. A recall must be the next that it knows.
    assert_eq!(bed.get(A, IoMode::Read), Ok(one));
    let recall = bed.layouts.begin_recall(FILE, IoModes::ANY, None, 100)[0];
    assert_eq!(recall.stateid, at(one, 2));
    let gone = RecallAnswer::NoMatchingLayout;
    bed.layouts.recall_answered(&one.other, gone).unwrap();
    // Own truncations leave handles alone, others do not.
    let two = bed.get(A, IoMode::ReadWrite).unwrap();
    bed.layouts.raise_commit_floor(FILE, false);
    assert_eq!(bed.get(A, IoMode::ReadWrite), Ok(two));
    bed.layouts.raise_commit_floor(FILE, true);
    let three = bed.get(A, IoMode::ReadWrite).unwrap();
    assert_eq!(three, at(two, 2));
    assert_eq!(bed.layouts.check_commit(three, A, FILE), Ok(()));
}
