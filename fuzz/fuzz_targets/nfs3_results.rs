//! Calls `nfs3::fuzz::results`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs3::fuzz::results(data));
