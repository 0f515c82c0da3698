//! The calls that change files, and what each does.

use super::memory;
use crate::log::{Node, What};
use crate::{ACK, Recording};
use nix::libc;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Standard output, where the workload acknowledges.
const STDOUT: u64 = 1;

/// A call that may change files, with its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    kind: Kind,
    args: [u64; 6],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OpenAt,
    Write,
    PWrite,
    WriteV,
    PWriteV,
    Truncate,
    Allocate,
    Sync,
    MakeDirAt,
    UnlinkAt,
    RenameAt,
    Link,
    Map,
    /// Nothing of this is understood.
    Foreign(&'static str),
}

/// The "current directory" of calls that have none.
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

impl Call {
    /// The call, if it is one that matters.
    pub(super) fn of(number: i64, args: [u64; 6]) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if let Some(call) = Self::of_old(number, args) {
            return Some(call);
        }
        let kind = match number {
            libc::SYS_openat => Kind::OpenAt,
            libc::SYS_write => Kind::Write,
            libc::SYS_pwrite64 => Kind::PWrite,
            libc::SYS_writev => Kind::WriteV,
            libc::SYS_pwritev | libc::SYS_pwritev2 => Kind::PWriteV,
            libc::SYS_ftruncate => Kind::Truncate,
            libc::SYS_fallocate => Kind::Allocate,
            libc::SYS_fsync | libc::SYS_fdatasync => Kind::Sync,
            libc::SYS_mkdirat => Kind::MakeDirAt,
            libc::SYS_unlinkat => Kind::UnlinkAt,
            libc::SYS_renameat2 => Kind::RenameAt,
            libc::SYS_linkat => Kind::Link,
            libc::SYS_mmap => Kind::Map,
            libc::SYS_io_uring_setup => Kind::Foreign("io_uring_setup"),
            libc::SYS_sendfile => Kind::Foreign("sendfile"),
            libc::SYS_copy_file_range => Kind::Foreign("copy_file_range"),
            libc::SYS_truncate => Kind::Foreign("truncate"),
            libc::SYS_openat2 => Kind::Foreign("openat2"),
            libc::SYS_symlinkat => Kind::Foreign("symlinkat"),
            _ => return None,
        };
        Some(Self { kind, args })
    }

    /// Calls that newer machines do not have, as those that they have.
    #[cfg(target_arch = "x86_64")]
    fn of_old(number: i64, [a, b, c, d, ..]: [u64; 6]) -> Option<Self> {
        let created = u64::from((libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY).cast_unsigned());
        let is_dir = u64::from(libc::AT_REMOVEDIR.cast_unsigned());
        let (kind, args) = match number {
            libc::SYS_open => (Kind::OpenAt, [HERE, a, b, c, 0, 0]),
            libc::SYS_creat => (Kind::OpenAt, [HERE, a, created, b, 0, 0]),
            libc::SYS_mkdir => (Kind::MakeDirAt, [HERE, a, b, 0, 0, 0]),
            libc::SYS_unlink => (Kind::UnlinkAt, [HERE, a, 0, 0, 0, 0]),
            libc::SYS_rmdir => (Kind::UnlinkAt, [HERE, a, is_dir, 0, 0, 0]),
            libc::SYS_rename => (Kind::RenameAt, [HERE, a, HERE, b, 0, 0]),
            libc::SYS_renameat => (Kind::RenameAt, [a, b, c, d, 0, 0]),
            libc::SYS_link => (Kind::Link, [HERE, a, HERE, b, 0, 0]),
            _ => return None,
        };
        Some(Self { kind, args })
    }

    /// Records a call that has ended well.
    pub(super) fn record(
        self,
        pid: Pid,
        result: u64,
        begun: usize,
        recording: &mut Recording,
        root: &Path,
    ) -> Result<(), Error> {
        let [a, b, c, d, ..] = self.args;
        let seen = Seen { pid, root };
        let what = match self.kind {
            Kind::OpenAt => return seen.opened(recording, begun, self.args, result),
            Kind::MakeDirAt => {
                if let Some(below) = seen.below(a, b)?
                    && let Some(place) = recording.place(&below)
                {
                    let inode = std::fs::metadata(root.join(&below))?.ino();
                    recording.made(begun, place, inode, true);
                }
                return Ok(());
            }
            Kind::Write if a == STDOUT => {
                let text = memory::bytes(pid, b, place(result))?;
                text.strip_prefix(ACK)
                    .map(|text| What::Ack(String::from_utf8_lossy(text).trim_end().to_owned()))
            }
            Kind::Write | Kind::PWrite | Kind::WriteV | Kind::PWriteV => {
                let Some(node) = seen.node(recording, a) else {
                    return Ok(());
                };
                let data = match self.kind {
                    Kind::Write | Kind::PWrite => memory::bytes(pid, b, place(result))?,
                    _ => memory::gathered(pid, b, c, result)?,
                };
                let offset = match self.kind {
                    Kind::Write | Kind::WriteV => seen.position(a)? - result,
                    _ => d,
                };
                Some(What::Write { node, offset, data })
            }
            Kind::Truncate => seen
                .node(recording, a)
                .map(|node| What::SetSize { node, size: b }),
            Kind::Allocate => seen.node(recording, a).map(|node| allocated(node, b, c, d)),
            Kind::Sync => seen.node(recording, a).map(What::Sync),
            Kind::UnlinkAt => seen
                .at(recording, a, b)?
                .map(|(dir, name)| What::Names(vec![(dir, name, None)])),
            Kind::RenameAt => seen.renamed(recording, self.args)?,
            Kind::Link => seen
                .at(recording, c, d)?
                .map(|_| panic!("a link is not understood")),
            Kind::Map => {
                let writes = b_has(c, libc::PROT_WRITE) && b_has(d, libc::MAP_SHARED);
                let is_ours = writes && seen.node(recording, self.args[4]).is_some();
                assert!(!is_ours, "a mapping that writes is not understood");
                None
            }
            Kind::Foreign(name) => panic!("{name} is not understood"),
        };
        if let Some(what) = what {
            recording.push(begun, what);
        }
        Ok(())
    }
}

fn place(len: u64) -> usize {
    usize::try_from(len).expect("fits into memory, where it was")
}

fn b_has(flags: u64, flag: libc::c_int) -> bool {
    flags & u64::from(flag.cast_unsigned()) != 0
}

/// fallocate(2).
fn allocated(node: Node, mode: u64, offset: u64, len: u64) -> What {
    if b_has(mode, libc::FALLOC_FL_PUNCH_HOLE) {
        return What::Punch { node, offset, len };
    }
    assert!(
        mode == 0 || mode == u64::from(libc::FALLOC_FL_KEEP_SIZE.cast_unsigned()),
        "fallocate mode {mode:#x} is not understood"
    );
    assert!(mode != 0, "fallocate that sets the size is not understood");
    What::Reserve { node, offset, len }
}

/// A stopped thread, and the root below which its files matter.
struct Seen<'r> {
    pid: Pid,
    root: &'r Path,
}

impl Seen<'_> {
    fn descriptor(&self, number: u64) -> PathBuf {
        // Descriptors are of 32 bits; the rest of the register is anything.
        let number = number & u64::from(u32::MAX);
        PathBuf::from(format!("/proc/{}/fd/{number}", self.pid))
    }

    /// The file behind a descriptor, if it is below the root.
    fn node(&self, recording: &Recording, number: u64) -> Option<Node> {
        let link = self.descriptor(number);
        if !std::fs::read_link(&link).ok()?.starts_with(self.root) {
            return None;
        }
        let inode = std::fs::metadata(&link).ok()?.ino();
        let node = recording.node_of(inode);
        Some(node.unwrap_or_else(|| panic!("{} was never made", link.display())))
    }

    /// Where a descriptor stands, after what it has written.
    fn position(&self, number: u64) -> Result<u64, Error> {
        let number = number & u64::from(u32::MAX);
        let text = std::fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.pid))?;
        let position = text.lines().find_map(|line| line.strip_prefix("pos:"));
        let parsed = position.and_then(|text| text.trim().parse().ok());
        parsed.ok_or_else(|| Error::other("fdinfo has no position"))
    }

    /// A path below the root, from there.
    fn below(&self, dir: u64, path: u64) -> Result<Option<PathBuf>, Error> {
        let path = memory::path(self.pid, path)?;
        let whole = if path.is_absolute() {
            path
        } else if dir & u64::from(u32::MAX) == HERE & u64::from(u32::MAX) {
            std::fs::read_link(format!("/proc/{}/cwd", self.pid))?.join(path)
        } else {
            std::fs::read_link(self.descriptor(dir))?.join(path)
        };
        Ok(whole.strip_prefix(self.root).ok().map(Path::to_path_buf))
    }

    fn at(
        &self,
        recording: &Recording,
        dir: u64,
        path: u64,
    ) -> Result<Option<(Node, OsString)>, Error> {
        let below = self.below(dir, path)?;
        Ok(below.and_then(|below| recording.place(&below)))
    }

    fn opened(
        &self,
        recording: &mut Recording,
        begun: usize,
        [dir, path, flags, ..]: [u64; 6],
        descriptor: u64,
    ) -> Result<(), Error> {
        if !b_has(flags, libc::O_CREAT | libc::O_TRUNC) {
            return Ok(());
        }
        let Some(place) = self.at(recording, dir, path)? else {
            return Ok(());
        };
        match recording.lookup(&place) {
            None => {
                let inode = std::fs::metadata(self.descriptor(descriptor))?.ino();
                recording.made(begun, place, inode, false);
            }
            Some(node) if b_has(flags, libc::O_TRUNC) => {
                recording.push(begun, What::SetSize { node, size: 0 });
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn renamed(
        &self,
        recording: &Recording,
        [from_dir, from, to_dir, to, flags, _]: [u64; 6],
    ) -> Result<Option<What>, Error> {
        let (from, to) = (
            self.at(recording, from_dir, from)?,
            self.at(recording, to_dir, to)?,
        );
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(None);
        };
        assert!(
            !b_has(flags, libc::RENAME_EXCHANGE.cast_signed()),
            "an exchange of names is not understood"
        );
        let node = recording.lookup(&from);
        let node = node.unwrap_or_else(|| panic!("{} was never made", from.1.display()));
        Ok(Some(What::Names(vec![
            (from.0, from.1, None),
            (to.0, to.1, Some(node)),
        ])))
    }
}
