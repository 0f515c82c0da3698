//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use control::{ObjectRef, StatArgs, fuzz};
use replay::Target;
use ropewalk_control as control;

const TARGETS: &[Target] = &[("control_message", fuzz::message, stat)];

fn stat() -> Vec<u8> {
    let object = ObjectRef {
        group: 0,
        file_id: u64::MAX,
        generation: 3,
        place: 1,
    };
    xdr::encode_to_vec(&StatArgs {
        objects: vec![object; 3].into(),
    })
}
