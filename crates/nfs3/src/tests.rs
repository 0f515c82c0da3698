//! Tests of the wire format. Goal: every type round-trips, refuses every truncation and has the bytes of the RFC.
//! Method: a table with samples of every procedure (`samples`), bytes written out by hand (`wire`), and limits
//! (`limits`).

mod limits;
mod samples;
mod wire;
