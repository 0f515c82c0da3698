//! The I/O of the NAS benchmark BT in its full mode. A square number of processes write the solution of a cube of points. Time
//! steps follow one another in one file, by collective buffering.
//!
//! The cube is cut into `side`^3 cells for `side`^2 processes. Each process has `side` cells on a diagonal: one cell in
//! every slice of every direction (the multi-partition decomposition). A point is five doubles, x runs fastest. What a
//! process has are therefore many short pieces of the file.
//!
//! *Collective buffering* writes them as a few long ones: processes put their pieces into a shared area, in one piece each; when all
//! have done so, some of them, the aggregators, take whole planes out of the area and write them. Reading goes the other way. The
//! area is a file in memory, in place of messages between processes. Reading compares every byte twice: at the aggregator, and at the
//! process that owns the piece.

use crate::BenchError;
use crate::load::Tally;
use crate::process::cpu_of_this_process;
use crate::suite::content::Content;
use crate::suite::files::Files;
use crate::suite::job::Job;
use crate::suite::link::Link;
use crate::suite::work::{BtioWork, POINT_BYTES};
use bytes::Bytes;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

/// Most processes that write; the others only hand over their pieces.
const AGGREGATORS_MAX: u32 = 8;
/// An aggregator writes at most so much at once, unless a plane is longer.
const BUFFER_BYTES: u64 = 4 << 20;

/// A cell's place among cells and its points in each direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BtCell {
    pub(crate) x: Range<u64>,
    pub(crate) y: Range<u64>,
    pub(crate) z: Range<u64>,
    /// Where its bytes begin in the shared area.
    pub(crate) area_offset: u64,
}

impl BtCell {
    fn plane_bytes(&self) -> u64 {
        (self.y.end - self.y.start) * self.row_bytes()
    }

    fn row_bytes(&self) -> u64 {
        (self.x.end - self.x.start) * POINT_BYTES
    }

    fn bytes(&self) -> u64 {
        (self.z.end - self.z.start) * self.plane_bytes()
    }
}

/// Who has which part of the cube.
#[derive(Debug, Clone)]
pub(crate) struct Decomposition {
    points_count: u64,
    side: u64,
    /// Of all processes, one after the other; a process has `side` of them.
    cells: Vec<BtCell>,
}

impl Decomposition {
    /// For a square number of processes with at least a point for each cell.
    pub(crate) fn new(points_count: u64, processes_count: u32) -> Result<Self, BenchError> {
        let side = u64::from(processes_count.isqrt());
        if side * side != u64::from(processes_count) || side == 0 || side > points_count {
            return Err(BenchError::Setting {
                name: "the number of processes",
                must_be: "a square, and its root not above the points of an edge",
            });
        }
        let range = |n: u64| n * points_count / side..(n + 1) * points_count / side;
        let mut cells = Vec::new();
        let mut area_offset = 0;
        for process in 0..side * side {
            let (first_x, first_y) = (process % side, process / side);
            for z in 0..side {
                let cell = BtCell {
                    x: range((first_x + side - z) % side),
                    y: range((first_y + side - z) % side),
                    z: range(z),
                    area_offset,
                };
                area_offset += cell.bytes();
                cells.push(cell);
            }
        }
        Ok(Self {
            points_count,
            side,
            cells,
        })
    }

    /// The cells of a process; their bytes are one piece of the shared area.
    pub(crate) fn cells_of(&self, process: u32) -> &[BtCell] {
        let first = u64::from(process) * self.side;
        let first = usize::try_from(first).expect("an index of a list");
        let count = usize::try_from(self.side).expect("a length of a list");
        &self.cells[first..first + count]
    }

    /// Where a row of a cell is in the file of one step.
    pub(crate) fn row_offset(&self, cell: &BtCell, y: u64, z: u64) -> u64 {
        ((z * self.points_count + y) * self.points_count + cell.x.start) * POINT_BYTES
    }

    fn plane_bytes(&self) -> u64 {
        self.points_count * self.points_count * POINT_BYTES
    }

    /// Bytes of one step.
    pub(crate) fn step_bytes(&self) -> u64 {
        self.points_count * self.plane_bytes()
    }

    /// Planes that an aggregator writes, in pieces that it writes at once.
    fn pieces(&self, aggregator: u32, aggregators_count: u32) -> Vec<Range<u64>> {
        let (n, count) = (u64::from(aggregator), u64::from(aggregators_count));
        let planes = n * self.points_count / count..(n + 1) * self.points_count / count;
        let at_once = (BUFFER_BYTES / self.plane_bytes()).max(1);
        let step = usize::try_from(at_once).unwrap_or(usize::MAX);
        let starts = planes.clone().step_by(step);
        starts
            .map(|start| start..planes.end.min(start + at_once))
            .collect()
    }

    /// The rows of some planes: for each cell in them, where its part lies in the area, and how long it is. For each row of it,
    /// where it belongs, counted from the first plane.
    fn parts(&self, planes: &Range<u64>) -> impl Iterator<Item = Part> {
        self.cells.iter().filter_map(move |cell| {
            let z = planes.start.max(cell.z.start)..planes.end.min(cell.z.end);
            if z.is_empty() {
                return None;
            }
            let first = planes.start * self.plane_bytes();
            let rows = z.clone().flat_map(|z| cell.y.clone().map(move |y| (y, z)));
            Some(Part {
                area_offset: cell.area_offset + (z.start - cell.z.start) * cell.plane_bytes(),
                bytes: len((z.end - z.start) * cell.plane_bytes()),
                row_bytes: len(cell.row_bytes()),
                rows: rows
                    .map(|(y, z)| len(self.row_offset(cell, y, z) - first))
                    .collect(),
            })
        })
    }
}

/// See [`Decomposition::parts`].
struct Part {
    area_offset: u64,
    bytes: usize,
    row_bytes: usize,
    rows: Vec<usize>,
}

fn len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("parts of a cube fit in memory")
}

pub(crate) async fn run<F: Files>(
    work: &BtioWork,
    job: &Job,
    files: &F,
    link: &mut Link,
) -> Result<(), BenchError> {
    let cube = Decomposition::new(work.points_count, job.workers_count)?;
    let path = format!("{}/solution", job.folder);
    if job.worker == 0 {
        files.close(files.create(&path).await?).await?;
        make_area(job, cube.step_bytes())?;
    }
    link.barrier().await?;
    let aggregators_count = job.workers_count.min(AGGREGATORS_MAX);
    let is_aggregator = job.worker < aggregators_count;
    let rank = Rank {
        content: Content::new(u32::try_from(BUFFER_BYTES.max(cube.plane_bytes())).map_err(
            |_| BenchError::Setting {
                name: "a plane of the cube",
                must_be: "below 4 GiB",
            },
        )?),
        area: open_area(job)?,
        files,
        file: match is_aggregator {
            true => Some(files.open(&path).await?),
            false => None,
        },
        pieces: match is_aggregator {
            true => cube.pieces(job.worker, aggregators_count),
            false => Vec::new(),
        },
        process: job.worker,
        cube: &cube,
    };
    rank.write(work.steps_count, link).await?;
    rank.read(work.steps_count, link).await?;
    if let Some(file) = rank.file {
        files.close(file).await?;
    }
    link.barrier().await?;
    if job.worker == 0 {
        files.remove(&path).await?;
        fs::remove_file(area_path(job)).map_err(BenchError::io("remove the shared area"))?;
    }
    Ok(())
}

fn area_path(job: &Job) -> PathBuf {
    job.scratch.join(format!("{}.area", job.folder))
}

fn make_area(job: &Job, bytes: u64) -> Result<(), BenchError> {
    let area = File::create(area_path(job)).and_then(|area| area.set_len(bytes));
    area.map_err(BenchError::io("make the shared area"))
}

fn open_area(job: &Job) -> Result<File, BenchError> {
    let area = File::options().read(true).write(true).open(area_path(job));
    area.map_err(BenchError::io("open the shared area"))
}

/// One process of the benchmark.
struct Rank<'a, F: Files> {
    content: Content,
    area: File,
    files: &'a F,
    /// Of an aggregator.
    file: Option<F::File>,
    pieces: Vec<Range<u64>>,
    process: u32,
    cube: &'a Decomposition,
}

impl<F: Files> Rank<'_, F> {
    async fn write(&self, steps_count: u64, link: &mut Link) -> Result<(), BenchError> {
        link.ready("write").await?;
        let cpu = cpu_of_this_process()?;
        let mut tally = Tally::new();
        for step in 0..steps_count {
            let doing = BenchError::io("write to the shared area");
            let (at, own) = self.own_pieces(step);
            self.area.write_all_at(&own, at).map_err(doing)?;
            link.barrier().await?;
            for planes in &self.pieces {
                let (offset, data) = self.gather(step, planes)?;
                let bytes = data.len() as u64;
                let start = Instant::now();
                self.files.write(self.open_file(), offset, data).await?;
                tally.add(bytes, start.elapsed());
            }
            link.barrier().await?;
        }
        if let Some(file) = &self.file {
            self.files.sync(file).await?;
        }
        link.done(&tally, cpu)
    }

    async fn read(&self, steps_count: u64, link: &mut Link) -> Result<(), BenchError> {
        if let Some(file) = &self.file {
            self.files.forget(file).await?;
        }
        link.ready("read").await?;
        let cpu = cpu_of_this_process()?;
        let mut tally = Tally::new();
        for step in 0..steps_count {
            for planes in &self.pieces {
                let mut data = vec![0; len(self.bytes_of(planes))];
                let offset = self.offset_of(step, planes);
                let start = Instant::now();
                let count = self.files.read(self.open_file(), offset, &mut data).await?;
                tally.add(count as u64, start.elapsed());
                self.content.check(offset, &data)?;
                self.scatter(planes, &data)?;
            }
            link.barrier().await?;
            let (at, expected) = self.own_pieces(step);
            let mut own = vec![0; expected.len()];
            let doing = BenchError::io("read from the shared area");
            self.area.read_exact_at(&mut own, at).map_err(doing)?;
            if own != expected {
                return Err(BenchError::WrongBytes { offset: at });
            }
            link.barrier().await?;
        }
        link.done(&tally, cpu)
    }

    fn open_file(&self) -> &F::File {
        self.file.as_ref().expect("only aggregators have pieces")
    }

    fn bytes_of(&self, planes: &Range<u64>) -> u64 {
        (planes.end - planes.start) * self.cube.plane_bytes()
    }

    fn offset_of(&self, step: u64, planes: &Range<u64>) -> u64 {
        step * self.cube.step_bytes() + planes.start * self.cube.plane_bytes()
    }

    /// What this process has of a step, and where that lies in the area.
    fn own_pieces(&self, step: u64) -> (u64, Vec<u8>) {
        let cells = self.cube.cells_of(self.process);
        let mut own = Vec::with_capacity(len(cells.iter().map(BtCell::bytes).sum()));
        for cell in cells {
            let row_bytes = u32::try_from(cell.row_bytes()).expect("a row is part of a plane");
            for z in cell.z.clone() {
                for y in cell.y.clone() {
                    let offset = self.cube.row_offset(cell, y, z) + step * self.cube.step_bytes();
                    own.extend_from_slice(&self.content.slice(offset, row_bytes));
                }
            }
        }
        (cells.first().map_or(0, |cell| cell.area_offset), own)
    }

    /// Whole planes out of the area, and where they belong in the file.
    fn gather(&self, step: u64, planes: &Range<u64>) -> Result<(u64, Bytes), BenchError> {
        let mut data = vec![0; len(self.bytes_of(planes))];
        let mut rows = Vec::new();
        for part in self.cube.parts(planes) {
            rows.resize(part.bytes, 0);
            let read = self.area.read_exact_at(&mut rows, part.area_offset);
            read.map_err(BenchError::io("read from the shared area"))?;
            for (row, at) in rows.chunks_exact(part.row_bytes).zip(&part.rows) {
                data[*at..at + part.row_bytes].copy_from_slice(row);
            }
        }
        Ok((self.offset_of(step, planes), data.into()))
    }

    /// The reverse of [`Rank::gather`].
    fn scatter(&self, planes: &Range<u64>, data: &[u8]) -> Result<(), BenchError> {
        for part in self.cube.parts(planes) {
            let row = |at: &usize| &data[*at..at + part.row_bytes];
            let rows = part.rows.iter().map(row).collect::<Vec<_>>().concat();
            let written = self.area.write_all_at(&rows, part.area_offset);
            written.map_err(BenchError::io("write to the shared area"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! The decomposition covers the cube once, however it is cut, and so do the pieces of the aggregators.
    use super::*;

    #[test]
    fn every_byte_belongs_to_one_process() {
        for (points, processes) in [(12, 1), (12, 4), (13, 9), (24, 16), (10, 49)] {
            let cube = Decomposition::new(points, processes).unwrap();
            let mut owners = vec![0_u8; len(cube.step_bytes())];
            let mut area = vec![0_u8; len(cube.step_bytes())];
            for process in 0..processes {
                for cell in cube.cells_of(process) {
                    let part = len(cell.area_offset)..len(cell.area_offset + cell.bytes());
                    area[part].iter_mut().for_each(|n| *n += 1);
                    for z in cell.z.clone() {
                        for y in cell.y.clone() {
                            let at = len(cube.row_offset(cell, y, z));
                            let row = &mut owners[at..at + len(cell.row_bytes())];
                            row.iter_mut().for_each(|n| *n += 1);
                        }
                    }
                }
            }
            assert!(owners.iter().all(|n| *n == 1), "{points} {processes}");
            assert!(area.iter().all(|n| *n == 1), "{points} {processes}");
        }
    }

    #[test]
    fn each_process_has_one_cell_in_every_slice() {
        let cube = Decomposition::new(64, 16).unwrap();
        for process in 0..16 {
            let cells = cube.cells_of(process);
            for direction in [
                |c: &BtCell| c.x.start,
                |c: &BtCell| c.y.start,
                |c: &BtCell| c.z.start,
            ] {
                let mut starts: Vec<u64> = cells.iter().map(direction).collect();
                starts.sort_unstable();
                assert_eq!(starts, [0, 16, 32, 48]);
            }
        }
    }

    #[test]
    fn aggregators_write_every_plane_once() {
        for (points, processes) in [(12, 4), (64, 16), (102, 9)] {
            let cube = Decomposition::new(points, processes).unwrap();
            let count = processes.min(AGGREGATORS_MAX);
            let mut next = 0;
            for aggregator in 0..count {
                for planes in cube.pieces(aggregator, count) {
                    assert_eq!(planes.start, next);
                    assert!(planes.end > planes.start);
                    next = planes.end;
                    let mut seen =
                        vec![0_u8; len((planes.end - planes.start) * cube.plane_bytes())];
                    for part in cube.parts(&planes) {
                        assert_eq!(part.bytes, part.rows.len() * part.row_bytes);
                        for at in part.rows {
                            seen[at..at + part.row_bytes]
                                .iter_mut()
                                .for_each(|n| *n += 1);
                        }
                    }
                    assert!(seen.iter().all(|n| *n == 1));
                }
            }
            assert_eq!(next, points);
        }
    }

    #[test]
    fn only_squares_that_fit_are_taken() {
        for (points, processes) in [(12, 0), (12, 2), (12, 15), (3, 16)] {
            assert!(Decomposition::new(points, processes).is_err());
        }
    }

    #[test]
    fn class_a_is_about_400_megabytes() {
        let cube = Decomposition::new(64, 4).unwrap();
        assert_eq!(cube.step_bytes() * 40, 419_430_400);
    }
}
