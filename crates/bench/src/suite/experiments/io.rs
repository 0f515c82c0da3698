//! What the experiments on records have in common: a stream of records as a cell, and lines of figures.

use crate::suite::job::Work;
use crate::suite::loads::stream::{Access, Order, StreamWork};
use crate::suite::plan::{Cell, Server, Workers, X};

/// Names of the phases of streams.
pub(super) const WRITE_READ: &[&str] = &["write", "read"];
pub(super) const WRITE: &[&str] = &["write"];
pub(super) const READ: &[&str] = &["read"];
/// Records in flight of one stream, where a kernel would read ahead and write behind.
pub(super) const WINDOW: u32 = 8;

/// A cell of streams: each process has a file of its own, which it writes and then reads, from its start to its end.
pub(super) fn streams(
    group: &'static str,
    x: X,
    series: String,
    server: Server,
    processes_count: u32,
    (file_bytes, record_bytes): (u64, u32),
) -> Cell {
    Cell {
        group,
        x,
        series,
        server,
        workers: Workers::processes(processes_count),
        work: Work::Stream(StreamWork {
            file_bytes,
            record_bytes,
            order: Order::Sequential,
            window: 1,
            phases: vec![Access::Write, Access::Read],
            one_file: false,
            requests_count: None,
            limit_ms: None,
        }),
        cold: false,
    }
}

/// A cell of streams with other parameters than usual.
pub(super) fn with(mut cell: Cell, change: impl FnOnce(&mut StreamWork)) -> Cell {
    if let Work::Stream(work) = &mut cell.work {
        change(work);
    }
    cell
}
