//! READ and WRITE of one data server against the bare servers, and the client library against bare streams.

use super::beside::beside_ganesha;
use super::table::{Denominator, Shape};
use super::trial::{Ground, Trial};
use super::{Planning, Row};
use crate::bare::pwrite::PWrite;
use crate::bare::sendfile::SendFile;
use crate::nfs::Form;
use crate::nfs::cluster::Carrier;
use crate::nfs::host::Host;
use crate::nfs::io::{Access, FileIo, Order};
use crate::nfs::library::Library;
use crate::runner::Metric;

/// Size of the file of the client library, and of that of `--quick`.
const STRIPED_BYTES: u64 = 1 << 30;
const STRIPED_BYTES_QUICK: u64 = 64 << 20;
/// Size of the files of durable writes: room for many, written over.
const STABLE_FILE_BYTES: u64 = 16 << 20;
/// Payload of a durable write, unless a goal says another.
const STABLE_BYTES: u32 = 4096;
/// Size of inline files and of each request to them, unless a goal says another.
const INLINE_BYTES: u32 = 3000;
/// Payload of a bare stream beside it: the largest rsize and wsize that Linux asks for.
const STREAM_BYTES: u32 = 1 << 20;

pub(super) fn read(planning: &Planning<'_>) -> Vec<Trial> {
    trials(planning, Row::Read, Access::Read)
}

pub(super) fn write(planning: &Planning<'_>) -> Vec<Trial> {
    trials(planning, Row::Write, Access::Write)
}

fn trials(planning: &Planning<'_>, row: Row, access: Access) -> Vec<Trial> {
    let shapes = planning.table.shapes(row);
    let trial = |shape: &Shape| {
        let size_bytes = planning.file_bytes();
        let io_bytes = shape.size_bytes.unwrap_or(STREAM_BYTES);
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let bare = add_bare(&mut trial, access, size_bytes, io_bytes);
        let ours = [Form::Wire, Form::Session].map(|form| {
            trial.add(move |stage| {
                Ok(FileIo {
                    host: Host::Ropewalk(stage.cluster(1, Carrier::Tcp)),
                    form,
                    access,
                    order: Order::Walk,
                    own_files: false,
                    file_bytes: size_bytes,
                    io_bytes,
                    is_inline: false,
                })
            })
        });
        let metric = Metric::RequestsPerSecond;
        trial.claim(shape, ours[0], bare, metric);
        trial.claim(shape, ours[1], bare, metric).note = ", through session-client";
        trial
    };
    shapes.iter().map(trial).collect()
}

/// Durable writes of one data server beside nfs-ganesha, on a disk and on a tmpfs. Both answer when the disk has the bytes.
pub(super) fn stable(planning: &Planning<'_>) -> Vec<Trial> {
    beside_ganesha(planning, Row::Stable, |shape| {
        let requests = Requests {
            access: Access::StableWrite,
            file_bytes: STABLE_FILE_BYTES,
            io_bytes: shape.size_bytes.unwrap_or(STABLE_BYTES),
            is_inline: false,
        };
        Some(move |host| requests.at(host))
    })
}

/// Reads and durable writes of an inline file as a whole beside nfs-ganesha, on a disk and on a tmpfs.
pub(super) fn inline(planning: &Planning<'_>) -> Vec<Trial> {
    beside_ganesha(planning, Row::Inline, |shape| {
        let io_bytes = shape.size_bytes.unwrap_or(INLINE_BYTES);
        let requests = Requests {
            access: match shape.operation.as_str() {
                "READ, inline" => Access::Read,
                _ => Access::StableWrite,
            },
            file_bytes: u64::from(io_bytes),
            io_bytes,
            is_inline: true,
        };
        Some(move |host| requests.at(host))
    })
}

/// What each connection asks of its own file.
#[derive(Clone, Copy)]
struct Requests {
    access: Access,
    file_bytes: u64,
    io_bytes: u32,
    is_inline: bool,
}

impl Requests {
    fn at(self, host: Host) -> FileIo {
        FileIo {
            host,
            form: Form::Wire,
            access: self.access,
            order: Order::Walk,
            own_files: true,
            file_bytes: self.file_bytes,
            io_bytes: self.io_bytes,
            is_inline: self.is_inline,
        }
    }
}

/// The bare server of an access, on the test file of the trial.
pub(super) fn add_bare(
    trial: &mut Trial,
    access: Access,
    size_bytes: u64,
    io_bytes: u32,
) -> (Denominator, usize) {
    match access {
        Access::Read => {
            let place = trial.add(move |stage| {
                Ok(SendFile {
                    launcher: stage.launcher(),
                    path: stage.test_file(size_bytes)?,
                    size_bytes,
                    read_bytes: io_bytes,
                })
            });
            (Denominator::SendFile, place)
        }
        Access::Write | Access::StableWrite => {
            let place = trial.add(move |stage| {
                Ok(PWrite {
                    launcher: stage.launcher(),
                    path: stage.test_file(size_bytes)?,
                    size_bytes,
                    write_bytes: io_bytes,
                })
            });
            (Denominator::PWrite, place)
        }
    }
}

pub(super) fn client(planning: &Planning<'_>) -> Vec<Trial> {
    let file_bytes = planning.pick(STRIPED_BYTES, STRIPED_BYTES_QUICK);
    let trial = |shape: &Shape| {
        let access = match shape.operation.as_str() {
            "striped read" => Access::Read,
            "striped write" => Access::Write,
            _ => return None,
        };
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let bare = add_bare(&mut trial, access, file_bytes, STREAM_BYTES);
        let ds_count = shape.data_servers;
        let ours = trial.add(move |stage| {
            Ok(Library {
                cluster: stage.cluster(ds_count, Carrier::Tcp),
                access,
                file_bytes,
                request_bytes: None,
            })
        });
        trial.claim(shape, ours, bare, Metric::MegabytesPerSecond);
        Some(trial)
    };
    let shapes = planning.table.shapes(Row::Client);
    shapes.iter().filter_map(trial).collect()
}
