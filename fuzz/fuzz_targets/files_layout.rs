//! Calls `nfs4::fuzz::files_layout`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs4::fuzz::files_layout(data));
