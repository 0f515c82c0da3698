//! Calls `control::fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| control::fuzz::message(data));
