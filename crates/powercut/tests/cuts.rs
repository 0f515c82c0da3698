//! Goal: a cut takes what was not synced and only that. Method: a workload that says of each thing whether it is safe,
//! cut at every point with several dice. What must be there is there, and each way of losing the rest is met.

#![allow(clippy::unwrap_used, reason = "tests unwrap")]

use nix::fcntl::{FallocateFlags, fallocate};
use ropewalk_powercut::{Dice, Recording, ack, record, scratch, workload};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const ROUNDS: u64 = 40;

/// Builds what each cut leaves and looks at it.
fn each_cut(recording: &Recording, mut look: impl FnMut(&Path, usize)) {
    let scratch = scratch();
    for point in recording.points() {
        for seed in 0..ROUNDS {
            let image = scratch.path().join("image");
            let dice = &mut Dice::new(seed * 1000 + point as u64);
            recording.leave(point, dice, &image).unwrap();
            look(&image, point);
            fs::remove_dir_all(&image).unwrap();
        }
    }
}

fn has(recording: &Recording, point: usize, promise: &str) -> bool {
    recording.acknowledged(point).any(|said| said == promise)
}

#[test]
fn names_last_from_the_sync_of_their_directory() {
    if let Some(workload) = workload() {
        let sub = workload.root.join("sub");
        fs::create_dir(&sub).unwrap();
        let mut file = File::create(sub.join("new")).unwrap();
        file.write_all(b"new").unwrap();
        file.sync_all().unwrap();
        File::open(&sub).unwrap().sync_all().unwrap();
        ack("nothing: sub itself has no synced name");
        File::open(&workload.root).unwrap().sync_all().unwrap();
        ack("new");
        fs::rename(sub.join("new"), sub.join("newer")).unwrap();
        ack("renamed, who knows");
        File::open(&sub).unwrap().sync_all().unwrap();
        ack("newer");
        fs::remove_file(sub.join("newer")).unwrap();
        File::open(&sub).unwrap().sync_all().unwrap();
        ack("gone");
        return;
    }
    let scratch = scratch();
    let name = "names_last_from_the_sync_of_their_directory";
    let recording = record(name, scratch.path(), 0).unwrap();
    let mut met = BTreeSet::new();
    each_cut(&recording, |image, point| {
        let sub = image.join("sub");
        let there = [
            sub.exists(),
            sub.join("new").exists(),
            sub.join("newer").exists(),
        ];
        let said = |promise| has(&recording, point, promise);
        let allowed = if said("gone") {
            there == [true, false, false]
        } else if said("newer") {
            there[0] && !there[1]
        } else if said("new") && !said("renamed, who knows") {
            // The rename may be under way; it has one half only when it has both.
            there[0] && there[1] != there[2]
        } else {
            true
        };
        assert!(allowed, "{there:?} at {point}");
        if said("new") && !said("newer") && !there[0..2].contains(&false) {
            assert_eq!(fs::read(sub.join("new")).unwrap(), b"new");
        }
        met.insert((said("new"), said("newer"), said("gone"), there));
    });
    let renamed = |there| met.contains(&(true, false, false, there));
    assert!(
        renamed([true, true, false]) && renamed([true, false, true]),
        "{met:?}"
    );
    assert!(met.contains(&(false, false, false, [false; 3])), "{met:?}");
    assert!(recording.acknowledged(recording.points().end - 1).count() == 5);
}

#[test]
fn data_last_from_the_sync_of_their_file_and_tear_by_sectors() {
    if let Some(workload) = workload() {
        let file = File::create(workload.root.join("file")).unwrap();
        File::open(&workload.root).unwrap().sync_all().unwrap();
        ack("file");
        file.write_all_at(&[1; 2000], 0).unwrap();
        file.sync_data().unwrap();
        ack("ones");
        file.write_all_at(&[2; 1500], 100).unwrap();
        ack("twos, who knows");
        file.set_len(50).unwrap();
        file.sync_all().unwrap();
        ack("cut");
        return;
    }
    let scratch = scratch();
    let name = "data_last_from_the_sync_of_their_file_and_tear_by_sectors";
    let recording = record(name, scratch.path(), 0).unwrap();
    let (mut is_torn, mut is_long) = (false, false);
    each_cut(&recording, |image, point| {
        let said = |promise| has(&recording, point, promise);
        if !said("file") {
            return;
        }
        let bytes = fs::read(image.join("file")).unwrap();
        if said("cut") {
            assert_eq!(bytes, [1; 50]);
        } else if said("ones") {
            let of_twos = |at: usize| (100..1600).contains(&at);
            let whole = bytes
                .iter()
                .enumerate()
                .all(|(at, b)| *b == 1 || *b == 2 && of_twos(at));
            assert!(
                whole && [50, 2000].contains(&bytes.len()) || bytes.len() > 50,
                "{point}"
            );
            // 512 to 1024 is one sector, and 1024 to 1536 the next.
            if bytes.len() == 2000 {
                is_torn |= bytes[600] != bytes[1100];
                assert_eq!(bytes[512], bytes[1023]);
            }
        } else {
            is_long |= bytes.len() == 2000 && bytes.contains(&0);
        }
    });
    assert!(is_torn && is_long, "{is_torn} {is_long}");
}

/// Bytes of storage that are taken beyond the end of a file.
const RESERVED_BYTES: i64 = 1 << 20;

#[test]
fn storage_that_was_taken_lasts_from_the_sync_of_its_file_until_it_is_given_back() {
    if let Some(workload) = workload() {
        let file = File::create(workload.root.join("file")).unwrap();
        file.sync_all().unwrap();
        File::open(&workload.root).unwrap().sync_all().unwrap();
        let keep_size = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(&file, keep_size, 100, RESERVED_BYTES).unwrap();
        file.sync_data().unwrap();
        ack("taken");
        let punch = keep_size | FallocateFlags::FALLOC_FL_PUNCH_HOLE;
        fallocate(&file, punch, 0, 2 * RESERVED_BYTES).unwrap();
        file.sync_data().unwrap();
        ack("given back");
        return;
    }
    let scratch = scratch();
    let name = "storage_that_was_taken_lasts_from_the_sync_of_its_file_until_it_is_given_back";
    let recording = record(name, scratch.path(), 0).unwrap();
    let mut met = BTreeSet::new();
    each_cut(&recording, |image, point| {
        let found = fs::metadata(image.join("file"));
        let has_storage = found.map(|found| {
            assert_eq!(found.len(), 0);
            found.blocks() * 512 >= RESERVED_BYTES.cast_unsigned()
        });
        let promises = ["taken", "given back"].map(|promise| has(&recording, point, promise));
        match promises {
            [true, true] => assert!(!has_storage.as_ref().unwrap()),
            [true, false] => assert!(has_storage.is_ok()),
            _ => {}
        }
        met.insert((promises, has_storage.ok()));
    });
    for (promises, has_storage) in [
        ([false, false], Some(false)),
        ([false, false], Some(true)),
        ([true, false], Some(true)),
        ([true, false], Some(false)),
        ([true, true], Some(false)),
    ] {
        assert!(met.contains(&(promises, has_storage)), "{met:?}");
    }
}

#[test]
fn what_an_earlier_cut_left_is_on_the_disk() {
    if let Some(workload) = workload() {
        File::create(workload.root.join("second")).unwrap();
        File::open(&workload.root).unwrap().sync_all().unwrap();
        ack("second");
        return;
    }
    let scratch = scratch();
    fs::create_dir(scratch.path().join("dir")).unwrap();
    fs::write(scratch.path().join("dir/first"), b"first").unwrap();
    let name = "what_an_earlier_cut_left_is_on_the_disk";
    let recording = record(name, scratch.path(), 0).unwrap();
    each_cut(&recording, |image, point| {
        assert_eq!(fs::read(image.join("dir/first")).unwrap(), b"first");
        assert!(image.join("second").exists() || !has(&recording, point, "second"));
    });
}
