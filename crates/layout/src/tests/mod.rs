//! Tests of the crate, one file per module of it.

mod fence;
mod handle;
mod placement;
mod stripe;
