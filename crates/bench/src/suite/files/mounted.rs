//! A directory of a file system that this machine has mounted. All calls block; their futures are ready when first polled.
//!
//! Files go through the page cache, but for the reads of those that are read again and again ([`Reads`]).

use super::{Buffer, Bypass, Files, PAGE_BYTES};
use crate::BenchError;
use crate::nfs::cluster::{TMPFS, file_system_of};
use bytes::Bytes;
use futures_util::FutureExt;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The adapter.
#[derive(Debug, Clone)]
pub(crate) struct Mounted {
    root: PathBuf,
}

impl Mounted {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    reads: Reads,
}

/// Where reads of a file come from.
#[derive(Debug)]
enum Reads {
    /// The page cache, if it has them.
    Cached,
    /// The file system: the file, opened with O_DIRECT.
    Direct(File),
    /// The page cache, which is told to drop them each time.
    Dropped,
}

impl Opened {
    const fn cached(file: File) -> Self {
        Self {
            file,
            reads: Reads::Cached,
        }
    }

    /// Drops the pages of a range. Only clean pages go, so whoever wrote has synced before.
    fn drop_pages(&self, offset: u64, len: usize) -> io::Result<()> {
        let page = PAGE_BYTES as u64;
        // Of a page that is in the range only in part nothing goes.
        let first = offset / page * page;
        let end = (offset + len as u64).next_multiple_of(page);
        let len = NonZeroU64::new(end - first);
        Ok(rustix::fs::fadvise(
            &self.file,
            first,
            len,
            Advice::DontNeed,
        )?)
    }
}

/// Opens a file for reads that leave out the page cache; none where the file system does not take them, at multiples of `unit_bytes`.
/// The file has two units.
fn open_direct(path: &Path, unit_bytes: u32) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let read = opened.and_then(|file| {
        let mut buffer = Buffer::new(unit_bytes as usize);
        let room = buffer.first(unit_bytes as usize);
        let count = file.read_at(room, u64::from(unit_bytes))?;
        Ok((count == room.len()).then_some(file))
    });
    match read {
        Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::INVAL | Errno::NOTSUP)) => {
            Ok(None)
        }
        other => other,
    }
}

/// Whether a file is in memory anyway: its reads are those of the page cache, whatever it is opened with.
fn is_tmpfs(file: &File) -> io::Result<bool> {
    let stat = rustix::fs::fstatfs(file)?;
    Ok(file_system_of(&stat) == TMPFS)
}

/// The value of a future of this adapter.
fn ready<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("calls on a mounted directory block and never wait")
}

impl Files for Mounted {
    type File = Opened;

    async fn at_once<T: Send, Fut: Future<Output = Result<T, BenchError>>>(
        &self,
        count: u32,
        task: impl Fn(u32) -> Fut + Sync,
    ) -> Result<Vec<T>, BenchError> {
        if count == 1 {
            return Ok(vec![ready(task(0))?]);
        }
        std::thread::scope(|scope| {
            let task = &task;
            let threads: Vec<_> = (0..count)
                .map(|index| scope.spawn(move || ready(task(index))))
                .collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, Result<T, BenchError>>| {
                t.join().expect("a task does not panic")
            };
            threads.into_iter().map(join).collect()
        })
    }

    async fn make_dir(&self, path: &str) -> Result<(), BenchError> {
        fs::create_dir(self.path(path)).map_err(BenchError::io("make a directory"))
    }

    async fn remove_dir(&self, path: &str) -> Result<(), BenchError> {
        fs::remove_dir(self.path(path)).map_err(BenchError::io("remove a directory"))
    }

    async fn create(&self, path: &str) -> Result<Opened, BenchError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(super::FILE_MODE)
            .open(self.path(path))
            .map(Opened::cached)
            .map_err(BenchError::io("create a file"))
    }

    async fn create_uncached(
        &self,
        path: &str,
        unit_bytes: u32,
    ) -> Result<(Opened, Option<Bypass>), BenchError> {
        let doing = BenchError::io("try whether a file can be read around the page cache");
        let Opened { file, .. } = self.create(path).await?;
        let units = vec![0; 2 * unit_bytes as usize];
        let written = file.write_all_at(&units, 0).and_then(|()| file.sync_all());
        written.map_err(&doing)?;
        if is_tmpfs(&file).map_err(&doing)? {
            file.set_len(0).map_err(&doing)?;
            return Ok((Opened::cached(file), Some(Bypass::Tmpfs)));
        }
        let direct = open_direct(&self.path(path), unit_bytes).map_err(&doing)?;
        file.set_len(0).map_err(&doing)?;
        let (reads, bypass) = match direct {
            Some(direct) => (Reads::Direct(direct), Bypass::Direct),
            None => {
                // What is read ahead would be answered from the cache later.
                let advised = rustix::fs::fadvise(&file, 0, None, Advice::Random);
                advised.map_err(|e| doing(e.into()))?;
                (Reads::Dropped, Bypass::Dropped)
            }
        };
        Ok((Opened { file, reads }, Some(bypass)))
    }

    async fn open(&self, path: &str) -> Result<Opened, BenchError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(path))
            .map(Opened::cached)
            .map_err(BenchError::io("open a file"))
    }

    async fn close(&self, file: Opened) -> Result<(), BenchError> {
        // Dropping closes. NFS clients flush at close, but only fsync tells of errors.
        drop(file);
        Ok(())
    }

    async fn read(
        &self,
        opened: &Opened,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, BenchError> {
        let file = match &opened.reads {
            Reads::Direct(direct) => direct,
            Reads::Cached | Reads::Dropped => &opened.file,
        };
        let mut count = 0;
        while count < buffer.len() {
            match file.read_at(&mut buffer[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(n) => count += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(BenchError::io("read")(e)),
            }
        }
        if matches!(opened.reads, Reads::Dropped) {
            let dropped = opened.drop_pages(offset, count);
            dropped.map_err(BenchError::io("drop pages from the page cache"))?;
        }
        Ok(count)
    }

    async fn write(&self, opened: &Opened, offset: u64, data: Bytes) -> Result<(), BenchError> {
        let written = opened.file.write_all_at(&data, offset);
        written.map_err(BenchError::io("write"))
    }

    async fn sync(&self, opened: &Opened) -> Result<(), BenchError> {
        let synced = opened.file.sync_all();
        synced.map_err(BenchError::io("sync a file"))
    }

    async fn forget(&self, opened: &Opened) -> Result<(), BenchError> {
        // Only clean pages go, so whoever wrote has synced before.
        rustix::fs::fadvise(&opened.file, 0, None, Advice::DontNeed)
            .map_err(|e| BenchError::io("drop a file from the page cache")(e.into()))
    }

    async fn stat(&self, path: &str) -> Result<bool, BenchError> {
        match fs::symlink_metadata(self.path(path)) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(BenchError::io("stat")(e)),
        }
    }

    async fn chmod(&self, path: &str, mode: u32) -> Result<(), BenchError> {
        fs::set_permissions(self.path(path), Permissions::from_mode(mode))
            .map_err(BenchError::io("chmod"))
    }

    async fn list(&self, path: &str) -> Result<u64, BenchError> {
        let doing = BenchError::io("read a directory");
        let mut count = 0;
        for entry in fs::read_dir(self.path(path)).map_err(&doing)? {
            entry.and_then(|e| e.metadata()).map_err(&doing)?;
            count += 1;
        }
        Ok(count)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), BenchError> {
        fs::rename(self.path(from), self.path(to)).map_err(BenchError::io("rename"))
    }

    async fn remove(&self, path: &str) -> Result<(), BenchError> {
        fs::remove_file(self.path(path)).map_err(BenchError::io("remove a file"))
    }
}

#[cfg(test)]
mod tests {
    //! The calls on a temporary directory, and tasks as threads.
    use super::*;

    #[test]
    fn files_live_and_die() {
        let dir = tempfile::tempdir().unwrap();
        let files = Mounted::new(dir.path().to_owned());
        ready(async {
            files.make_dir("d").await.unwrap();
            assert!(!files.stat("d/f").await.unwrap());
            let file = files.create("d/f").await.unwrap();
            files
                .write(&file, 2, Bytes::from_static(b"abc"))
                .await
                .unwrap();
            files.sync(&file).await.unwrap();
            files.forget(&file).await.unwrap();
            let mut buffer = [9; 8];
            assert_eq!(files.read(&file, 1, &mut buffer).await.unwrap(), 4);
            assert_eq!(&buffer[..4], b"\0abc");
            files.close(file).await.unwrap();
            files.chmod("d/f", 0o600).await.unwrap();
            files.rename("d/f", "d/g").await.unwrap();
            assert!(files.stat("d/g").await.unwrap());
            assert_eq!(files.list("d").await.unwrap(), 1);
            let file = files.open("d/g").await.unwrap();
            files.close(file).await.unwrap();
            files.remove("d/g").await.unwrap();
            files.remove_dir("d").await.unwrap();
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_read_again_is_read_around_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let files = Mounted::new(dir.path().to_owned());
        let unit = PAGE_BYTES;
        ready(async {
            let unit_bytes = u32::try_from(unit).unwrap();
            let (mut file, bypass) = files.create_uncached("f", unit_bytes).await.unwrap();
            match (&file.reads, bypass) {
                (Reads::Direct(direct), Some(Bypass::Direct)) => {
                    let flags = rustix::fs::fcntl_getfl(direct).unwrap();
                    assert!(flags.contains(OFlags::DIRECT), "{flags:?}");
                }
                (Reads::Dropped, Some(Bypass::Dropped)) | (Reads::Cached, Some(Bypass::Tmpfs)) => {}
                other => panic!("{other:?}"),
            }
            assert_eq!(file.file.metadata().unwrap().len(), 0, "the try is left");
            let data: Vec<u8> = (0..3 * unit)
                .map(|n| u8::try_from(n / 16 % 251).unwrap())
                .collect();
            let bytes = Bytes::from(data.clone());
            files.write(&file, 0, bytes).await.unwrap();
            files.sync(&file).await.unwrap();
            let mut buffer = Buffer::new(2 * unit);
            // In both forms, whichever this file system has.
            for _ in 0..2 {
                let room = buffer.first(2 * unit);
                let count = files.read(&file, unit as u64, room).await.unwrap();
                assert_eq!((count, &*room), (2 * unit, &data[unit..]));
                let end = files.read(&file, 2 * unit as u64, room).await.unwrap();
                assert_eq!(end, unit, "fewer at the end");
                file.reads = Reads::Dropped;
            }
            files.close(file).await.unwrap();
            files.remove("f").await.unwrap();
        });
    }

    #[test]
    fn a_tmpfs_reads_from_the_page_cache() {
        let shm = Path::new("/dev/shm");
        let is_tmpfs = |dir: &Path| crate::nfs::cluster::file_system(dir) == TMPFS;
        let elsewhere = tempfile::tempdir().unwrap();
        for dir in [shm, elsewhere.path()]
            .into_iter()
            .filter(|dir| dir.is_dir())
        {
            let dir = tempfile::tempdir_in(dir).unwrap();
            let files = Mounted::new(dir.path().to_owned());
            let (file, bypass) = ready(files.create_uncached("f", 4096)).unwrap();
            assert_eq!(
                bypass == Some(Bypass::Tmpfs),
                is_tmpfs(dir.path()),
                "{dir:?}"
            );
            assert_eq!(matches!(file.reads, Reads::Cached), is_tmpfs(dir.path()));
            assert_eq!(file.file.metadata().unwrap().len(), 0, "the try is left");
        }
    }

    #[test]
    fn a_file_system_without_o_direct_is_found_out() {
        // The files of proc(5) have none.
        let found = open_direct(Path::new("/proc/self/stat"), 4096).unwrap();
        assert!(found.is_none());
        assert!(open_direct(Path::new("/no/such/file"), 4096).is_err());
    }

    #[test]
    fn tasks_run_at_the_same_time() {
        let files = Mounted::new(PathBuf::new());
        let meeting = std::sync::Barrier::new(3);
        let meet = |index: u32| {
            let meeting = &meeting;
            async move {
                meeting.wait();
                Ok(index)
            }
        };
        // With one after another the first would wait for ever.
        assert_eq!(ready(files.at_once(3, meet)).unwrap(), [0, 1, 2]);
        let failing = |_| async { Err::<(), _>(BenchError::Refused) };
        assert!(ready(files.at_once(2, failing)).is_err());
    }
}
