//! Goal: layouts of an older version are recalled once, and versions are gone when nobody names them (rule P22).
//! Method: clients with few and many layouts, a device that rises in its version.

use super::*;
use crate::layouts::{IoMode, LayoutLimits};
use crate::stateid::StateidSource;
use nfs4::Stateid;

const A: ClientId = ClientId { value: 1 };
const B: ClientId = ClientId { value: 2 };

struct Bed {
    source: StateidSource,
    layouts: Layouts,
}

fn at(version: u32) -> DeviceVersion {
    DeviceVersion { group: 7, version }
}

impl Bed {
    fn new() -> Self {
        Self {
            source: StateidSource::new(1),
            layouts: Layouts::new(LayoutLimits::default()),
        }
    }

    fn get(
        &mut self,
        client: ClientId,
        file: u64,
        known: Option<Stateid>,
        version: u32,
    ) -> Stateid {
        let mode = IoMode::ReadWrite;
        let got = self
            .layouts
            .get(&mut self.source, client, file, known, mode, true);
        let stateid = got.unwrap();
        self.layouts.name_device(&stateid.other, at(version));
        stateid
    }

    fn follow(&mut self, reign: u32) -> Vec<(ClientId, Follow)> {
        let reigns = BTreeMap::from([(7, reign)]);
        self.layouts.ask_to_follow(&reigns, &BTreeSet::new(), 100)
    }

    fn gone(&mut self, version: u32) -> BTreeMap<ClientId, Vec<DeviceVersion>> {
        let current = BTreeMap::from([(7, version)]);
        self.layouts
            .take_gone_devices(&current, &BTreeSet::new(), 100)
    }
}

fn files(asked: &[(ClientId, Follow)]) -> Vec<(ClientId, Option<usize>)> {
    let counted = asked.iter().map(|(client, follow)| match follow {
        Follow::Files(recalls) => (*client, Some(recalls.len())),
        Follow::All => (*client, None),
    });
    counted.collect()
}

#[test]
fn old_layouts_are_asked_for_once_by_file_or_all_at_once() {
    let mut bed = Bed::new();
    for file in 0..64 {
        bed.get(A, file, None, 1);
    }
    for file in 0..65 {
        bed.get(B, file, None, 1);
    }
    bed.get(A, 100, None, 2);
    assert_eq!(files(&bed.follow(1)), []);
    assert_eq!(files(&bed.follow(2)), [(A, Some(64)), (B, None)]);
    assert_eq!(files(&bed.follow(2)), [], "asked once");
    // Nothing came back, and there is another change.
    assert_eq!(files(&bed.follow(3)), [(A, None), (B, None)]);
    // Grants go on: the recall holds up nobody.
    bed.get(A, 100, None, 3);
}

#[test]
fn who_is_busy_and_whoever_is_too_many_is_asked_later() {
    let mut bed = Bed::new();
    bed.get(A, 1, None, 1);
    bed.get(B, 1, None, 1);
    let reigns = BTreeMap::from([(7, 2)]);
    let busy = BTreeSet::from([A]);
    let asked = bed.layouts.ask_to_follow(&reigns, &busy, 100);
    assert_eq!(files(&asked), [(B, Some(1))]);
    let asked = bed.layouts.ask_to_follow(&reigns, &BTreeSet::new(), 0);
    assert_eq!(files(&asked), []);
    assert_eq!(files(&bed.follow(2)), [(A, Some(1))]);
}

#[test]
fn an_ordinary_recall_comes_first() {
    let mut bed = Bed::new();
    for file in 0..65 {
        bed.get(A, file, None, 1);
    }
    let ordinary = bed.layouts.begin_recall(0, IoModes::ANY, None, 10);
    assert_eq!(bed.follow(2), [], "no bulk recall beside it");
    let other = &ordinary[0].stateid.other;
    bed.layouts.revoke(other).unwrap();
    assert_eq!(files(&bed.follow(2)), [(A, Some(64))]);
    let _recalled = bed.layouts.begin_recall(1, IoModes::ANY, None, 10);
    assert_eq!(
        files(&bed.follow(3)),
        [(A, Some(63))],
        "that one is asked for already"
    );
}

#[test]
fn a_layout_that_is_granted_meanwhile_outlives_the_answer() {
    let mut bed = Bed::new();
    let known = bed.get(A, 1, None, 1);
    let Follow::Files(recalls) = bed.follow(2).remove(0).1 else {
        panic!("one file")
    };
    assert_eq!(recalls[0].stateid.seqid, known.seqid + 1);
    // The client has forgotten the layout, says so, and its next LAYOUTGET overtakes the answer.
    bed.get(A, 1, None, 2);
    assert_eq!(bed.layouts.follow_unmatched(&recalls[0]), None);
    assert_eq!(bed.layouts.len(), 1);
    let Follow::Files(recalls) = bed.follow(3).remove(0).1 else {
        panic!("one file")
    };
    assert!(bed.layouts.follow_unmatched(&recalls[0]).is_some());
    assert!(bed.layouts.is_empty());
}

#[test]
fn a_version_is_gone_when_no_layout_of_the_client_names_it_or_an_older_one() {
    let mut bed = Bed::new();
    let one = bed.get(A, 1, None, 1);
    for version in 1..=3 {
        bed.layouts.watch_device(A, at(version));
    }
    bed.layouts.watch_device(B, at(2));
    assert_eq!(bed.gone(3), BTreeMap::from([(B, vec![at(2)])]));
    // Another segment at a newer version: the older one is still there.
    let two = bed.get(A, 1, Some(one), 2);
    assert_eq!(bed.gone(3), BTreeMap::new());
    // With an open the client says that it has forgotten both.
    assert_eq!(bed.get(A, 1, None, 3).other, two.other);
    assert_eq!(bed.gone(3), BTreeMap::from([(A, vec![at(1), at(2)])]));
    assert_eq!(bed.gone(3), BTreeMap::new(), "told once");
    bed.layouts.return_all(A, IoModes::ANY, None);
    bed.layouts.forget_devices_of(A);
    assert_eq!(bed.gone(4), BTreeMap::new());
}
