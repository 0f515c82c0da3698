//! Calls `fabric_iwarp::fuzz::terminate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fabric_iwarp::fuzz::terminate(data));
