//! A directory of a file system that this machine has mounted. All calls block; their futures are ready when first polled.

use super::Files;
use crate::BenchError;
use bytes::Bytes;
use futures_util::FutureExt;
use rustix::fs::Advice;
use std::fs::{self, File, OpenOptions, Permissions};
use std::future::Future;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

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

/// The value of a future of this adapter.
fn ready<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("calls on a mounted directory block and never wait")
}

impl Files for Mounted {
    type File = File;

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

    async fn create(&self, path: &str) -> Result<File, BenchError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(super::FILE_MODE)
            .open(self.path(path))
            .map_err(BenchError::io("create a file"))
    }

    async fn open(&self, path: &str) -> Result<File, BenchError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(path))
            .map_err(BenchError::io("open a file"))
    }

    async fn close(&self, file: File) -> Result<(), BenchError> {
        // Dropping closes. NFS clients flush at close, but only fsync tells of errors.
        drop(file);
        Ok(())
    }

    async fn read(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize, BenchError> {
        let mut count = 0;
        while count < buffer.len() {
            match file.read_at(&mut buffer[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(n) => count += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(BenchError::io("read")(e)),
            }
        }
        Ok(count)
    }

    async fn write(&self, file: &File, offset: u64, data: Bytes) -> Result<(), BenchError> {
        file.write_all_at(&data, offset)
            .map_err(BenchError::io("write"))
    }

    async fn sync(&self, file: &File) -> Result<(), BenchError> {
        file.sync_all().map_err(BenchError::io("sync a file"))
    }

    async fn forget(&self, file: &File) -> Result<(), BenchError> {
        // Only clean pages go, so whoever wrote has synced before.
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
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
