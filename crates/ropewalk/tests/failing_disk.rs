//! Goal: what is promised while a disk fails is there after it works again, without a restart, and after a power cut.
//!
//! Method: the real program on a real file system, on an image in a small tmpfs. The blocks of one file are taken from the
//! image and the tmpfs is filled, and then writing them back fails with EIO. Other blocks keep their place and work. It runs in
//! a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use bytes::Bytes;
use client::{Client, File, OpenOptions};
use rig::{Up, connect, is_alive, pid_of, signal, status, wait_for, watcher_of};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSIDE: &str = "ROPEWALK_TEST_FAILING_DISK";
const IMAGE_BYTES: u64 = 400 << 20;
/// What the tmpfs has beside the image.
const BESIDE_BYTES: u64 = 16 << 20;
const FILE_BYTES: usize = 4 << 20;
/// The bytes of the file whose blocks fail.
const FAILING: std::ops::Range<usize> = 1 << 20..(1 << 20) + (256 << 10);
/// As much as a redo record takes.
const SMALL_BYTES: usize = 4096;

/// Runs a program of the system, which must succeed.
fn system(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file system whose disk can be made to fail.
struct Disk {
    dir: PathBuf,
}

impl Disk {
    fn new(dir: &Path) -> Self {
        let disk = Self {
            dir: dir.to_owned(),
        };
        let (ram, mounted) = (dir.join("ram"), disk.mounted());
        fs::create_dir(&ram).unwrap();
        fs::create_dir(&mounted).unwrap();
        let size = format!("size={}", IMAGE_BYTES + BESIDE_BYTES);
        system("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &text(&ram)]);
        let image = text(&disk.image());
        let allocate = ["-l", &IMAGE_BYTES.to_string(), &image];
        system("fallocate", &allocate);
        let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        system("mkfs.ext4", &["-q", "-b", "4096", "-E", options, &image]);
        // It leaves holes where zeros are.
        system("fallocate", &allocate);
        disk.mount();
        disk
    }

    fn image(&self) -> PathBuf {
        self.dir.join("ram/image")
    }

    fn mounted(&self) -> PathBuf {
        self.dir.join("disk")
    }

    fn ballast(&self) -> PathBuf {
        self.dir.join("ram/ballast")
    }

    fn mount(&self) {
        let (image, mounted) = (text(&self.image()), text(&self.mounted()));
        system("mount", &["-o", "loop", &image, &mounted]);
    }

    /// Leaves what a power cut leaves: what reached the disk, and nothing of memory.
    fn cut_power(&self) {
        let (image, kept) = (text(&self.image()), text(&self.dir.join("kept")));
        system("cp", &[&image, &kept]);
        system("umount", &[&text(&self.mounted())]);
        system("cp", &[&kept, &image]);
        self.mount();
    }

    /// Makes writing the bytes of a file back to the disk fail. Their blocks lose what they have.
    fn fail(&self, file: &Path, bytes: std::ops::Range<usize>) {
        let image = text(&self.image());
        for (offset, len) in blocks_of(file, bytes) {
            let (offset, len) = (offset.to_string(), len.to_string());
            system("fallocate", &["-p", "-o", &offset, "-l", &len, &image]);
        }
        let ballast = fs::File::create(self.ballast()).unwrap();
        let mut filled = 0;
        while let Ok(written) = ballast.write_at(&[1; 4096], filled) {
            filled += written as u64;
        }
        assert!(filled > 0, "the tmpfs was full before");
    }

    fn mend(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Where bytes of a file are on its disk, in bytes: offsets and lengths.
fn blocks_of(file: &Path, bytes: std::ops::Range<usize>) -> Vec<(u64, u64)> {
    let (first, end) = (bytes.start as u64 / 4096, bytes.end as u64 / 4096);
    let printed = system("filefrag", &["-v", "-b4096", &text(file)]);
    // `   0:        0..    1023:      34816..     35839:   1024:             last,eof`
    let extents = printed.lines().filter_map(|line| {
        let numbers = line.replace("..", " ").replace(':', " ");
        let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (_, from, to, on_disk) = (next()?, next()?, next()?, next()?);
        let (from, to, at) = (
            from.max(first),
            (to + 1).min(end),
            on_disk + first.saturating_sub(from),
        );
        (from < to).then(|| (at * 4096, (to - from) * 4096))
    });
    let found: Vec<_> = extents.collect();
    let sum: u64 = found.iter().map(|(_, len)| len).sum();
    assert_eq!(sum, bytes.len() as u64, "{printed}");
    found
}

/// The file of the only object of a file.
fn object(cluster: &Path) -> PathBuf {
    let all = rig::objects(cluster, 1).into_iter();
    let (path, len) = all.max_by_key(|(_, len)| *len).unwrap();
    assert_eq!(len, FILE_BYTES as u64, "{}", path.display());
    path
}

fn log_has(cluster: &Path, what: &str) -> Option<()> {
    let log = fs::read_to_string(cluster.join("ds-1/log")).unwrap_or_default();
    log.contains(what).then_some(())
}

/// Small stable writes over all that fails, while it does; `expected` has what the file must have.
async fn write_small(file: &File, expected: &mut [u8], seed: u8) {
    for at in FAILING.step_by(SMALL_BYTES) {
        let data: Vec<u8> = (seed..=250)
            .cycle()
            .skip(at / SMALL_BYTES)
            .take(SMALL_BYTES)
            .collect();
        expected[at..at + SMALL_BYTES].copy_from_slice(&data);
        file.write_sync_at(at as u64, Bytes::from(data))
            .await
            .unwrap();
    }
}

async fn bytes_of(file: &File) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < FILE_BYTES {
        let piece = file.read_at(read.len() as u64, 1 << 20).await.unwrap();
        piece.chunks.iter().for_each(|c| read.extend_from_slice(c));
    }
    read
}

async fn client(cluster: &Path) -> Client {
    let status = status(cluster).unwrap();
    let address = status["mds"]["advertise"][0].as_str().unwrap();
    connect(address.parse().unwrap(), "writer").await
}

/// Ends all processes at once. Those that would start another go first.
fn kill(up: Up, cluster: &Path) {
    let status = status(cluster).unwrap();
    let servers = ["mds", "ds-1"].map(|name| pid_of(&status, name).unwrap());
    drop(up);
    for pid in servers {
        if is_alive(pid) {
            signal(watcher_of(pid), Signal::KILL);
            signal(pid, Signal::KILL);
        }
        wait_for("end", || (!is_alive(pid)).then_some(()));
    }
}

#[test]
#[ignore = "mounts a tmpfs and an image in a mount namespace of its own: needs root"]
fn what_was_promised_while_a_disk_fails_is_there_when_it_works_again() {
    let Some(dir) = std::env::var_os(INSIDE) else {
        let dir = tempfile::tempdir().unwrap();
        let name = "what_was_promised_while_a_disk_fails_is_there_when_it_works_again";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", name]);
        let status = command.env(INSIDE, dir.path()).status().unwrap();
        assert!(status.success());
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(inside(Path::new(&dir)));
}

async fn inside(dir: &Path) {
    let disk = Disk::new(dir);
    let cluster = disk.mounted().join("cluster");
    let up = Up::start(&cluster, &["--ds", "1", "--port", "0"]);
    let create = OpenOptions::create(0o600);
    let file = client(&cluster).await.open("/file", create).await.unwrap();
    let mut expected: Vec<u8> = (0..=255).cycle().take(FILE_BYTES).collect();
    let whole = Bytes::copy_from_slice(&expected);
    file.write_at(0, whole).await.unwrap();
    file.flush().await.unwrap();

    disk.fail(&object(&cluster), FAILING);
    write_small(&file, &mut expected, 3).await;
    let unstable = FAILING.start + 10_000..FAILING.end - 10_000;
    expected[unstable.clone()].fill(7);
    let data = Bytes::copy_from_slice(&expected[unstable.clone()]);
    let written = file.write_at(unstable.start as u64, data).await;
    let error = match written {
        Ok(()) => file.flush().await.unwrap_err(),
        Err(error) => error,
    };
    let said = error.to_string();
    assert!(said.contains("no space") || said.contains("I/O"), "{said}");
    wait_for("a failed sync", || log_has(&cluster, "a sync failed"));
    assert!(bytes_of(&file).await == expected, "memory has all of it");

    disk.mend();
    wait_for("recovery", || log_has(&cluster, "the disk works again"));
    file.flush().await.unwrap();
    assert!(bytes_of(&file).await == expected);
    kill(up, &cluster);
    disk.cut_power();

    let up = Up::start(&cluster, &[]);
    let client = client(&cluster).await;
    let file = client.open("/file", OpenOptions::read()).await.unwrap();
    assert!(bytes_of(&file).await == expected, "after a power cut");
    assert!(up.stop().success());
}
