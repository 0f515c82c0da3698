//! Goal: whatever a fuzzer once found stays fixed, and changes of real records do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use redo::contract::record;
use redo::fuzz;
use replay::Target;
use ropewalk_redo as redo;

const TARGETS: &[Target] = &[("redo_record", fuzz::record, seed)];

fn seed() -> Vec<u8> {
    xdr::encode_to_vec(&record(3, b"some data"))
}
