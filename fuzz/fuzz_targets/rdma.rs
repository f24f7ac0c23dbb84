#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| readers_fuzz::rdma(bytes));
