//! Tests of the wire format. Goal: every type round-trips, refuses every truncation and has the bytes of the RFC.
//! Method: a table with samples of every operation (`samples`), bytes written out by hand (`wire`) and framing
//! (`framing`). Also generated values (`random`) and replay of the fuzz corpus (`corpus`).

mod corpus;
mod flex_files;
mod framing;
mod random;
mod samples;
mod wire;
