//! Calls `rpc::fuzz::rpcbind_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpc::fuzz::rpcbind_answer(data));
