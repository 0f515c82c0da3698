//! `sweep`: the grid of file and record sizes of `iozone -a`. Files are all powers of two from 64 KiB to 512 MiB, records from
//! 4 KiB to 16 MiB. Files of 32 MiB and more have no record below 64 KiB.

use super::io;
use crate::runner::Metric;
use crate::suite::plan::{Cell, Figure, ONE, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

/// Exponents of two of the smallest and the largest file and record.
const FILES: std::ops::RangeInclusive<u32> = 16..=29;
const RECORDS: std::ops::RangeInclusive<u32> = 12..=24;
/// Files of this size and more have no smaller record than the second.
const CROSSOVER: (u64, u64) = (32 << 20, 64 << 10);
/// The largest file of each figure: a plot of all would have too many lines.
const GROUPS: [(&str, u64); 3] = [
    ("small", 1 << 20),
    ("medium", 16 << 20),
    ("large", u64::MAX),
];
/// What is enough to see that it works.
const QUICK: [(u64, u64); 5] = [
    (64 << 10, 4 << 10),
    (64 << 10, 64 << 10),
    (4 << 20, 4 << 10),
    (4 << 20, 64 << 10),
    (32 << 20, 64 << 10),
];
const DS_COUNT: u16 = 4;

/// File and record sizes of the whole grid.
fn grid() -> Vec<(u64, u64)> {
    let files = FILES.map(|bits| 1_u64 << bits);
    let pairs = files.flat_map(|file| RECORDS.map(move |bits| (file, 1_u64 << bits)));
    let (large_file, least_record) = CROSSOVER;
    let is_in = |(file, record): &(u64, u64)| {
        record <= file && (*file < large_file || *record >= least_record)
    };
    pairs.filter(is_in).collect()
}

fn group_of(file_bytes: u64) -> &'static str {
    let mut groups = GROUPS.iter();
    let found = groups.find(|(_, most)| file_bytes <= *most);
    found.map_or(GROUPS[0].0, |(name, _)| name)
}

pub(super) fn plan(setting: &Setting) -> Plan {
    let server = setting.server(DS_COUNT, Store::Memory);
    let mut cells = Vec::new();
    for (file_bytes, record_bytes) in setting.pick(grid(), QUICK.to_vec()) {
        let series = format!("file of {}", X::size(file_bytes).label);
        for (server, series) in setting.over(ONE, server, &series) {
            cells.push(cell(setting, server, series, file_bytes, record_bytes));
        }
    }
    let mut figures = Vec::new();
    for (group, _) in GROUPS {
        for phases in [io::WRITE, io::READ] {
            figures.push(figure(setting, group, phases));
        }
    }
    Plan {
        name: "sweep",
        title: "Sweep: file sizes by record sizes",
        notes: vec!["One process, one record in flight.".to_owned()],
        cells,
        figures,
    }
}

fn cell(
    setting: &Setting,
    server: Server,
    series: String,
    file_bytes: u64,
    record_bytes: u64,
) -> Cell {
    let x = X::size(record_bytes);
    let record_bytes = u32::try_from(record_bytes).expect("records are at most 16 MiB");
    let group = group_of(file_bytes);
    let cell = io::streams(group, x, series, server, 1, (file_bytes, record_bytes));
    io::with(cell, |work| work.limit_ms = setting.limit_ms())
}

fn figure(setting: &Setting, group: &'static str, phases: &'static [&'static str]) -> Figure {
    let (id, what) = match (group, phases) {
        ("small", io::WRITE) => ("small-write", "Write, files up to 1 MiB"),
        ("small", _) => ("small-read", "Read, files up to 1 MiB"),
        ("medium", io::WRITE) => ("medium-write", "Write, files of 2 to 16 MiB"),
        ("medium", _) => ("medium-read", "Read, files of 2 to 16 MiB"),
        (_, io::WRITE) => ("large-write", "Write, files from 32 MiB"),
        _ => ("large-read", "Read, files from 32 MiB"),
    };
    Figure {
        id,
        title: format!("{what}, by record"),
        group,
        x_label: "record",
        metric: Metric::MegabytesPerSecond,
        phases,
        published: Name::Sweep.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    }
}

#[cfg(test)]
mod tests {
    //! The grid is that of iozone.
    use super::*;

    #[test]
    fn the_grid_has_all_pairs_and_no_small_records_of_large_files() {
        let grid = grid();
        // 5 to 13 records of the nine files up to 16 MiB, nine of each of the five above.
        assert_eq!(grid.len(), (5..=13).sum::<usize>() + 5 * 9);
        assert!(grid.contains(&(64 << 10, 64 << 10)) && grid.contains(&(512 << 20, 16 << 20)));
        assert!(grid.contains(&(16 << 20, 4 << 10)) && !grid.contains(&(32 << 20, 32 << 10)));
        assert_eq!(group_of(64 << 10), "small");
        assert_eq!(group_of(16 << 20), "medium");
        assert_eq!(group_of(512 << 20), "large");
    }
}
