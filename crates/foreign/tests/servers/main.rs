//! Goal: files on servers of others keep their bytes through failures, and fences keep old ids out.
//! Method: several small servers in memory, with faults one at a time; time is virtual.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../fake/mod.rs"]
mod fake;
mod fences;
mod io;
mod lost;
mod members;
mod places;
mod world;
mod wrong;
