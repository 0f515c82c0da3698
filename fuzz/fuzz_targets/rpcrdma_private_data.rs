//! Calls `rpcrdma::fuzz::private_data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma::fuzz::private_data(data));
