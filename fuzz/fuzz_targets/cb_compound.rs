//! Calls `nfs4::fuzz::cb_compound`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs4::fuzz::cb_compound(data));
