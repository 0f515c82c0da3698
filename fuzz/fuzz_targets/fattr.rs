//! Calls `nfs4::fuzz::fattr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs4::fuzz::fattr(data));
