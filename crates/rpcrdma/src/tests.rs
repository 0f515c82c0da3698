//! Tests of the crate: the header against hand-written bytes (`header`), private data (`private_data`),
//! chunks (`chunk`), shared credits (`credit_pool`), an engine against hand-written messages (`script`), and two engines against each
//! other (`pair`) on a simulated connection (`sim`).

mod chunk;
mod credit_pool;
mod header;
mod pair;
mod private_data;
mod script;
mod sim;
