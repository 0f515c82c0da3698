//! Reading what a stopped thread passed to the kernel.

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::{Error, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest path (PATH_MAX, linux/limits.h).
const PATH_BYTES_MAX: usize = 4096;
/// A multiple of it is never crossed by one read: the next page may not be there.
const PAGE_BYTES: usize = 4096;

fn at(address: u64) -> usize {
    usize::try_from(address).expect("an address of a process of the same width")
}

/// So many bytes.
pub(super) fn bytes(pid: Pid, address: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut data = vec![0; len];
    let mut done = 0;
    while done < len {
        let from = RemoteIoVec {
            base: at(address) + done,
            len: len - done,
        };
        let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut data[done..])], &[from])?;
        if read == 0 {
            return Err(Error::other("the workload's memory ends"));
        }
        done += read;
    }
    Ok(data)
}

/// A path that ends with a zero.
pub(super) fn path(pid: Pid, address: u64) -> Result<PathBuf, Error> {
    let mut text = Vec::new();
    while text.len() < PATH_BYTES_MAX {
        let next = at(address) + text.len();
        let part = bytes(pid, next as u64, PAGE_BYTES - next % PAGE_BYTES)?;
        if let Some(end) = part.iter().position(|b| *b == 0) {
            text.extend_from_slice(&part[..end]);
            return Ok(OsStr::from_bytes(&text).into());
        }
        text.extend(part);
    }
    Err(Error::other("a path without an end"))
}

/// The first `total` bytes of several buffers (struct iovec: address and length).
pub(super) fn gathered(pid: Pid, vec: u64, count: u64, total: u64) -> Result<Vec<u8>, Error> {
    let word = size_of::<usize>();
    let table = bytes(pid, vec, at(count) * 2 * word)?;
    let mut data = Vec::with_capacity(at(total));
    for entry in table.chunks_exact(2 * word) {
        let number = |part: &[u8]| usize::from_ne_bytes(part.try_into().expect("one word"));
        let len = number(&entry[word..]).min(at(total) - data.len());
        data.extend(bytes(pid, number(&entry[..word]) as u64, len)?);
    }
    Ok(data)
}
