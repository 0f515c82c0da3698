//! Calls `rpc::fuzz::call`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpc::fuzz::call(data));
