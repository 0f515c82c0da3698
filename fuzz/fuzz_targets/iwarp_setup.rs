//! Calls `fabric_iwarp::fuzz::setup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fabric_iwarp::fuzz::setup(data));
