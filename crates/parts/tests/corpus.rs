//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use parts::{GreetOk, fuzz};
use replay::Target;
use ropewalk_parts as parts;

const TARGETS: &[Target] = &[("parts_message", fuzz::message, greeting)];

fn greeting() -> Vec<u8> {
    xdr::encode_to_vec(&control::Answer::Ok(GreetOk {
        ds_id: 3,
        nonce: u64::MAX,
        challenge: [7; parts::CHALLENGE_BYTES],
    }))
}
