//! Calls `rpcrdma::fuzz::engine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpcrdma::fuzz::engine(data));
