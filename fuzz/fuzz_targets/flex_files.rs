//! Calls `nfs4::fuzz::flex_files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs4::fuzz::flex_files(data));
