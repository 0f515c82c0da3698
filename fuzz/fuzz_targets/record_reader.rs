//! Calls `rpc::fuzz::record_reader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpc::fuzz::record_reader(data));
