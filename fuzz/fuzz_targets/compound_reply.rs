//! Calls `nfs4::fuzz::compound_reply`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs4::fuzz::compound_reply(data));
