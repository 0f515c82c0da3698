//! Sums of what lies on the disk (rule P26): made when a part is quiet, compared by scrub and by reads, used to mend.
//!
//! A *chunk* is 16 MiB of a part. The index has the sums of its 64 KiB blocks, or has none for it. A chunk without sums is
//! one that was changed lately, or was never looked at.
//!
//! # Ownership
//! `table` has what memory knows, `store` what the index has. `change` stands before changes and reads, `scrub` makes and
//! compares sums, `mend` replaces damaged blocks.
//!
//! # Ordering
//! The sums of a chunk are gone from the index, durably, before the first byte of it changes. So a crash leaves no sum of
//! bytes that were written later, and a torn write is no damage. Sums are stored when no change of the file was begun since
//! its bytes were synced and read.
//!
//! # Failure
//! A block that does not fit its sum is damaged, and stays so durably until it is mended, wholly overwritten or removed.
//! Reads of it are I/O errors, and so are changes of a part of it.

mod change;
mod mend;
mod scrub;
mod store;
pub(crate) mod table;

pub use scrub::run;
pub(crate) use table::Quiet;
pub use table::SumsConfig;
