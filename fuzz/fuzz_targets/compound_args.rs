//! Calls `nfs4::fuzz::compound_args`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs4::fuzz::compound_args(data));
