//! Tests of the crate: the header against hand-written bytes (`header`), private data (`private_data`)
//! and chunks (`chunk`).

mod chunk;
mod header;
mod private_data;
