//! Tests of the crate. They compare the header with hand-written bytes (`header`), and test private data
//! (`private_data`), chunks (`chunk`) and shared credits (`credit_pool`). An engine meets hand-written messages
//! (`script`). Two engines meet each other (`pair`) on a simulated connection (`sim`).

mod chunk;
mod credit_pool;
mod header;
mod pair;
mod private_data;
mod script;
mod sim;
