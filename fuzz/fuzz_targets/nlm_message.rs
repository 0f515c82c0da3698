//! Calls `nlm::fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nlm::fuzz::message(data));
