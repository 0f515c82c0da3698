//! Calls `layout::fuzz::mds_handle`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layout::fuzz::mds_handle(data));
