//! What the experiments on records have in common: a stream of records as a cell, and lines of figures.

use crate::net::Rate;
use crate::suite::job::Work;
use crate::suite::work::{Access, Order, StreamWork, Workers};

use crate::suite::plan::{Cell, Server, X};

/// Names of the phases of streams.
pub(super) const WRITE_READ: &[&str] = &["write", "read"];
pub(super) const WRITE: &[&str] = &["write"];
pub(super) const READ: &[&str] = &["read"];
/// The stripe unit of clusters of our own.
pub(super) const STRIPE_UNIT_BYTES: u32 = 1 << 20;
/// Records in flight of one stream, where a kernel would read ahead and write behind.
pub(super) const WINDOW: u32 = 8;

/// Records in flight of one client. Where servers have links of their own, each of them gets a stripe, and all links
/// are in use.
pub(in crate::suite) fn window(server: Server, record_bytes: u32) -> u32 {
    match server {
        Server::Own(own) if own.link.is_some() => {
            STRIPE_UNIT_BYTES / record_bytes * u32::from(own.ds_count)
        }
        Server::Ganesha { link: Some(_), .. } => STRIPE_UNIT_BYTES / record_bytes,
        _ => WINDOW,
    }
}

/// What a reader must know of links.
pub(in crate::suite) fn link_note(rate: Rate) -> String {
    format!(
        "Each server, the metadata server too, is behind a link of {rate} in each direction, headers included (veth and tbf of the kernel). \
         All run on the processors of this machine: where CPU idle is near 0, they are the limit, and not the links."
    )
}

/// A cell of streams: each process has a file of its own, which it writes and then reads, from its start to its end.
pub(in crate::suite) fn streams(
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
pub(in crate::suite) fn with(mut cell: Cell, change: impl FnOnce(&mut StreamWork)) -> Cell {
    if let Work::Stream(work) = &mut cell.work {
        change(work);
    }
    cell
}
