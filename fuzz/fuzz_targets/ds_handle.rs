//! Calls `layout::fuzz::ds_handle`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layout::fuzz::ds_handle(data));
