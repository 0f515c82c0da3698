//! Calls `rpcrdma::fuzz::header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma::fuzz::header(data));
