//! Goal: what is sent is what the protocols say, and what they do not say is refused. Method: tables; messages that are
//! written byte by byte; one value of each procedure's arguments and results.

mod bytes;
mod range;
mod refusals;
mod round_trip;
mod samples;
