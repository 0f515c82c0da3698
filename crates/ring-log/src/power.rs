//! Goal: a power cut at any call takes no record that was durable, brings back none that was retired, and leaves none torn.
//! Method: `powercut` records this test as its own workload, over several openings and rounds of the ring.

use crate::{CAPACITY_BYTES_MIN, RingLog};
use powercut::{Dice, ack, record, scratch, workload};
use std::path::Path;

/// Points in the short form.
const POINTS: usize = 60;
const POINTS_PER_RECORDING: usize = 30;
const STARTS: u64 = 2;
const GROUPS: u64 = 60;
const PAYLOAD_BYTES_MAX: u64 = 24 * 1024;

fn open(root: &Path) -> RingLog {
    let log = RingLog::open(&root.join("log"), CAPACITY_BYTES_MIN);
    log.unwrap_or_else(|e| panic!("{e}"))
}

/// What a record of this number holds.
fn payload(number: u64) -> Vec<u8> {
    let len = 8 + number * 7919 % PAYLOAD_BYTES_MAX;
    let mut bytes = vec![number.to_le_bytes()[0]; usize::try_from(len).unwrap()];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn wait(log: &RingLog, number: u64) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut durable = log.durable(number);
    while durable.as_mut().poll(&mut cx).is_pending() {
        std::thread::yield_now();
    }
}

fn work(root: &Path, seed: u64) {
    let dice = &mut Dice::new(seed);
    for _ in 0..STARTS {
        let log = open(root);
        for _ in 0..GROUPS {
            let mut newest = log.durable_through();
            for _ in 0..=dice.below(3) {
                match log.append(&payload(newest + 1)) {
                    Some(number) => newest = number,
                    None => break,
                }
            }
            wait(&log, newest);
            ack(&format!("durable {newest}"));
            if dice.one_in(4) {
                let number = newest.saturating_sub(dice.below(6) as u64);
                ack(&format!("retiring {number}"));
                let retired = log.retire(number).unwrap();
                ack(&format!("retired {retired}"));
            }
        }
    }
}

/// What was said so far.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    durable: u64,
    retiring: u64,
    retired: u64,
}

impl Said {
    fn take(&mut self, line: &str) {
        let (what, number) = line.split_once(' ').unwrap();
        let number: u64 = number.parse().unwrap();
        let place = match what {
            "durable" => &mut self.durable,
            "retiring" => &mut self.retiring,
            _ => &mut self.retired,
        };
        *place = number.max(*place);
    }
}

fn check(image: &Path, said: Said, at: &str) {
    let log = open(image);
    let mut seen = Vec::new();
    let replayed = log.replay(&mut |number, bytes| {
        assert!(bytes == payload(number), "{at}: record {number}");
        seen.push(number);
        true
    });
    replayed.unwrap_or_else(|e| panic!("{at}: {e}"));
    assert!(seen.windows(2).all(|w| w[0] + 1 == w[1]), "{at}: {seen:?}");
    assert!(
        seen.first().is_none_or(|n| *n > said.retired),
        "{at}: {seen:?}"
    );
    let needed = said.retiring + 1..=said.durable;
    assert!(
        needed.clone().all(|n| seen.contains(&n)),
        "{at}: {needed:?} of {seen:?}"
    );
    assert!(log.durable_through() >= said.durable, "{at}");
}

#[test]
fn a_cut_at_any_call_takes_no_record_that_was_durable() {
    if let Some(workload) = workload() {
        return work(&workload.root, workload.seed);
    }
    let name = "power::a_cut_at_any_call_takes_no_record_that_was_durable";
    let recordings = powercut::points(POINTS).div_ceil(POINTS_PER_RECORDING) as u64;
    let scratch = scratch();
    let mut durable = 0;
    for seed in 0..recordings {
        let root = scratch.path().join(format!("root-{seed}"));
        let recording = record(name, &root, seed).unwrap();
        let dice = &mut Dice::new(seed);
        for cut in 0..POINTS_PER_RECORDING {
            let points = recording.points();
            let point = points.start + dice.below(points.end - points.start);
            let image = scratch.path().join(format!("image-{seed}-{cut}"));
            recording.leave(point, dice, &image).unwrap();
            let mut said = Said::default();
            recording
                .acknowledged(point)
                .for_each(|line| said.take(line));
            durable += said.durable;
            let at = format!("seed {seed} point {point} of {points:?}");
            if image.join("log").exists() {
                check(&image, said, &at);
            } else {
                assert_eq!(said.durable, 0, "{at}: the log is gone");
            }
            std::fs::remove_dir_all(image).unwrap();
        }
        std::fs::remove_dir_all(root).unwrap();
    }
    // The ring has gone round.
    assert!(durable > recordings * 500, "{durable}");
}
