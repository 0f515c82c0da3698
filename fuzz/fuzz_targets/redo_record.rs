//! Calls `redo::fuzz::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| redo::fuzz::record(data));
