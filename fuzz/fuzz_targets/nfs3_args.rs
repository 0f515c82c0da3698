//! Calls `nfs3::fuzz::args`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs3::fuzz::args(data));
