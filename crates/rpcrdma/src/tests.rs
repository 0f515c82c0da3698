//! Tests of the crate: the header against hand-written bytes (`header`), private data (`private_data`),
//! chunks (`chunk`), shared credits (`lending`), an engine against hand-written messages (`script`), and two engines against each
//! other (`pair`) on a simulated connection (`sim`).

mod chunk;
mod header;
mod lending;
mod pair;
mod private_data;
mod script;
mod sim;
