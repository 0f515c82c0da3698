//! Goal: the contract on a real directory, holds against cuts, full disks, and what opening may answer. Method: a disk
//! that is full after some bytes is a function in place of pwrite. A real small tmpfs is one more test for root.

use super::*;
use objects::contract::{Subject, bytes, object};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;

fn options() -> Options {
    Options {
        handles_max: 64,
        reserve_bytes: 0,
        hold_wait_ms: 5000,
    }
}

#[derive(Default)]
struct OnDisk {
    dirs: Vec<TempDir>,
}

impl OnDisk {
    fn newest(&self) -> PathBuf {
        self.dirs.last().unwrap().path().join("store")
    }
}

impl Subject for OnDisk {
    fn fresh(&mut self) -> Arc<dyn ObjectStore> {
        self.dirs.push(TempDir::new().unwrap());
        Arc::new(DirObjects::open(&self.newest(), options()).unwrap())
    }

    fn reopen(&mut self, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        drop(store);
        Some(Arc::new(
            DirObjects::open(&self.newest(), options()).unwrap(),
        ))
    }
}

objects::contract_tests!(OnDisk::default());

fn store() -> (TempDir, DirObjects) {
    let dir = TempDir::new().unwrap();
    let store = DirObjects::open(dir.path(), options()).unwrap();
    (dir, store)
}

fn refusal(dir: &Path) -> String {
    DirObjects::open(dir, options()).unwrap_err().to_string()
}

#[test]
fn opening_refuses_in_one_sentence() {
    let (dir, open) = store();
    let name = dir.path().display().to_string();
    assert!(refusal(dir.path()).contains(&format!("{name} is in use by another process")));
    drop(open);
    DirObjects::open(dir.path(), options()).unwrap();
    std::fs::write(dir.path().join("format"), "ropewalk object store 7\n").unwrap();
    assert!(refusal(dir.path()).contains("has format \"ropewalk object store 7\""));

    let foreign = TempDir::new().unwrap();
    std::fs::write(foreign.path().join("letter.txt"), "dear").unwrap();
    let text = refusal(foreign.path());
    assert!(
        text.contains("letter.txt") && text.contains("not an object store"),
        "{text}"
    );

    let file = foreign.path().join("letter.txt");
    let text = refusal(&file);
    assert!(text.contains(&file.display().to_string()), "{text}");
}

#[test]
fn a_store_that_lost_its_format_file_keeps_its_objects() {
    let (dir, open) = store();
    open.write(object(1), 0, b"precious").unwrap();
    drop(open);
    std::fs::remove_file(dir.path().join("format")).unwrap();
    assert!(refusal(dir.path()).contains("no format file"));
    std::fs::write(dir.path().join("format"), "ropewalk object store 1\n").unwrap();
    let open = DirObjects::open(dir.path(), options()).unwrap();
    assert_eq!(bytes(&open.read(object(1), 0, 99).unwrap()), b"precious");
}

#[test]
fn an_interrupted_creation_is_finished() {
    let (dir, open) = store();
    drop(open);
    std::fs::remove_file(dir.path().join("format")).unwrap();
    std::fs::remove_dir(dir.path().join("objects/fe")).unwrap();
    let open = DirObjects::open(dir.path(), options()).unwrap();
    open.write(object(0xfe), 0, b"x").unwrap();
}

#[test]
fn a_cut_waits_for_the_spans_beyond_it_and_for_no_other() {
    let (_dir, store) = store();
    let id = object(1);
    store.write(id, 0, &[1; 100_000]).unwrap();
    let low = store.read(id, 0, 40_000).unwrap();
    let high = store.read(id, 40_000, 40_000).unwrap();
    store.set_size(id, 90_000).unwrap();
    store.set_size(id, 200_000).unwrap();
    std::thread::scope(|scope| {
        let cut = scope.spawn(|| store.set_size(id, 50_000));
        // New readers are served meanwhile and end at the new size as soon as it is announced.
        while store.read(id, 0, 200_000).unwrap().len() != 50_000 {
            std::thread::yield_now();
        }
        assert!(!cut.is_finished());
        assert_eq!(bytes(&high), [1; 40_000], "still whole while it is held");
        drop(high);
        cut.join().unwrap().unwrap();
    });
    assert_eq!(bytes(&low), [1; 40_000]);
    assert_eq!(store.stat(id).unwrap().size_bytes, 50_000);
}

#[test]
fn a_cut_gives_up_on_a_reader_that_never_ends_and_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let impatient = Options {
        hold_wait_ms: 50,
        ..options()
    };
    let store = DirObjects::open(dir.path(), impatient).unwrap();
    let id = object(1);
    store.write(id, 0, &[1; 100_000]).unwrap();
    let span = store.read(id, 0, 100_000).unwrap();
    let start = Instant::now();
    assert!(matches!(store.set_size(id, 10), Err(ObjectError::Busy)));
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!(store.read(id, 0, 999_999).unwrap().len(), 100_000);
    drop(span);
    store.set_size(id, 10).unwrap();
}

#[test]
fn a_small_read_is_a_copy_that_no_cut_waits_for() {
    let (_dir, store) = store();
    let id = object(1);
    store.write(id, 0, &[1; 100_000]).unwrap();
    let written = store.copied_bytes();
    let small = store.read(id, 90_000, COPIED_READ_BYTES_MAX).unwrap();
    assert_eq!(small.len(), 10_000, "ends with the object");
    assert_eq!(store.copied_bytes() - written, 10_000);
    assert!(store.read(id, 100_000, 10).unwrap().is_empty());
    store.set_size(id, 10).unwrap();
    assert_eq!(bytes(&small), [1; 10_000]);
    assert_eq!(bytes(&store.read(id, 0, 4096).unwrap()), [1; 10]);
    let handle = store.handles.cached(id).unwrap();
    let cut_meanwhile = handle.uncut(|| handle.cut(5, Duration::ZERO).unwrap());
    assert_eq!(cut_meanwhile, None, "what was read is not to be trusted");
}

#[test]
fn handles_are_bounded_and_those_in_use_stay() {
    let (_dir, store) = store();
    store.write(object(0), 0, &[1; 20_000]).unwrap();
    let span = store.read(object(0), 0, 20_000).unwrap();
    for n in 1..1000 {
        store.write(object(n), 0, b"x").unwrap();
    }
    assert!(store.handles.len() <= 64 + 32, "{}", store.handles.len());
    assert!(store.handles.cached(object(0)).is_some());
    drop(span);
    for n in 0..1000 {
        store.sync(object(n)).unwrap();
    }
}

#[test]
fn the_cache_probe_knows_cold_from_warm() {
    let (_dir, store) = store();
    let id = object(1);
    store.write(id, 0, &[1; 1 << 20]).unwrap();
    assert!(store.is_cached(id, 0, 1 << 20));
    assert!(
        !store.is_cached(object(2), 0, 1),
        "not open: opening may wait"
    );
    if store.in_memory {
        return;
    }
    store.sync(id).unwrap();
    // Pages that another processor is at stay, and a probe of a cold page may read it ahead. Each try drops the pages
    // again, and asks for each range once.
    let cold = (0..100).any(|_| {
        store.drop_unwritten(id).unwrap();
        let cold = !store.is_cached(id, 1 << 19, 1) && !store.is_cached(id, 0, 1 << 20);
        if !cold {
            std::thread::sleep(Duration::from_millis(10));
        }
        cold
    });
    assert!(cold, "no try found the pages dropped");
    assert_eq!(bytes(&store.read(id, 0, 1 << 20).unwrap()), [1; 1 << 20]);
    assert!(store.is_cached(id, 0, 1 << 20));
    assert!(
        store.is_cached(id, u64::MAX - 5, 100),
        "past the end there is nothing to wait for"
    );
}

thread_local! {
    static ROOM: Cell<usize> = const { Cell::new(0) };
    static ERRNO: Cell<i32> = const { Cell::new(0) };
}

/// A disk with `ROOM` bytes left, which then fails with `ERRNO`.
fn small_disk(file: &File, data: &[u8], offset: u64) -> Result<usize, Error> {
    let room = ROOM.get();
    if room == 0 {
        return Err(Error::from_raw_os_error(ERRNO.get()));
    }
    let taken = file.write_at(&data[..data.len().min(room)], offset)?;
    ROOM.set(room - taken);
    Ok(taken)
}

#[test]
fn a_full_disk_after_part_of_a_write_is_no_space() {
    let (_dir, mut store) = store();
    store.pwrite = small_disk;
    let id = object(1);
    type Kind = fn(&ObjectError) -> bool;
    let no_space: Kind = |e| matches!(e, ObjectError::NoSpace);
    let too_large: Kind = |e| matches!(e, ObjectError::TooLarge);
    let other: Kind = |e| matches!(e, ObjectError::Io(_));
    let cases = [
        (Errno::NOSPC, no_space),
        (Errno::DQUOT, no_space),
        (Errno::FBIG, too_large),
        (Errno::IO, other),
    ];
    for (errno, is_right) in cases {
        ROOM.set(3000);
        ERRNO.set(errno.raw_os_error());
        let error = store.write(id, 0, &[1; 10_000]).unwrap_err();
        assert!(is_right(&error), "{error}");
        assert_eq!(store.stat(id).unwrap().size_bytes, 3000);
    }
    ROOM.set(usize::MAX);
    store.write(id, 0, &[1; 10_000]).unwrap();
    store.sync(id).unwrap();
}

#[test]
fn the_reserve_is_left_to_others() {
    let dir = TempDir::new().unwrap();
    let with = |reserve_bytes| Options {
        reserve_bytes,
        ..options()
    };
    let store = DirObjects::open(dir.path(), with(u64::MAX)).unwrap();
    let capacity = store.capacity().unwrap();
    assert_eq!((capacity.total_bytes, capacity.free_bytes), (0, 0));
    assert!(matches!(
        store.write(object(1), 0, b"x"),
        Err(ObjectError::NoSpace)
    ));
    assert!(matches!(store.stat(object(1)), Err(ObjectError::NotFound)));
    store.remove(object(1)).unwrap();
    // What was accepted before a crash has its room there.
    store.write_again(object(2), 0, b"x").unwrap();
    assert_eq!(store.stat(object(2)).unwrap().size_bytes, 1);
}

/// Each error of a file system has its meaning; a quota is no more room, and a file system that became read-only has failed.
#[test]
fn errors_of_the_file_system_are_told_apart() {
    let told = |code: i32| match io_error(Error::from_raw_os_error(code)) {
        ObjectError::NoSpace => "no space",
        ObjectError::TooLarge => "too large",
        ObjectError::Io(_) => "failed",
        other => panic!("{other:?}"),
    };
    use rustix::io::Errno;
    for (code, meaning) in [
        (Errno::FBIG, "too large"),
        (Errno::NOSPC, "no space"),
        (Errno::DQUOT, "no space"),
        (Errno::ROFS, "failed"),
        (Errno::IO, "failed"),
    ] {
        assert_eq!(told(code.raw_os_error()), meaning, "{code:?}");
    }
}

#[test]
fn the_largest_object_is_the_one_that_the_file_system_takes() {
    let dir = TempDir::new().unwrap();
    let store = DirObjects::open(dir.path(), options()).unwrap();
    let most = store.capacity().unwrap().object_bytes_max;
    let names = std::fs::read_dir(dir.path()).unwrap();
    assert!(names.flatten().all(|entry| entry.file_name() != "probe"));
    let file = std::fs::File::create(dir.path().join("try")).unwrap();
    file.set_len(most).unwrap();
    assert!(most > 1 << 31);
    if most < i64::MAX as u64 {
        file.set_len(most + 1).unwrap_err();
    }
}

#[test]
fn the_room_is_what_the_file_system_says() {
    let dir = TempDir::new().unwrap();
    let store = DirObjects::open(dir.path(), options()).unwrap();
    // Others may write to the same disk meanwhile.
    let near = |a: u64, b: u64| a.abs_diff(b) < 1 << 30;
    let capacity = store.capacity().unwrap();
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    for (said, blocks) in [
        (capacity.total_bytes, stat.f_blocks),
        (capacity.unused_bytes, stat.f_bfree),
        (capacity.free_bytes, stat.f_bavail),
    ] {
        let bytes = (blocks * stat.f_frsize).saturating_sub(options().reserve_bytes);
        assert!(near(said, bytes), "{said} {bytes}");
    }
}

#[test]
fn stores_on_one_file_system_say_so() {
    let dir = TempDir::new().unwrap();
    let disk = |path: &Path| {
        let store = DirObjects::open(path, options()).unwrap();
        store.capacity().unwrap().disk
    };
    assert_ne!(disk(&dir.path().join("a")), 0);
    assert_eq!(disk(&dir.path().join("a")), disk(&dir.path().join("b")));
    assert_ne!(
        disk_of(Path::new("/proc")).unwrap(),
        disk_of(dir.path()).unwrap()
    );
}

#[test]
fn foreign_files_in_a_subdirectory_are_not_objects() {
    let (dir, store) = store();
    for name in [
        "core",
        "1.1.0",
        "0000000000000001.00000001.0",
        "+000000000000001.00000001.00",
    ] {
        std::fs::write(dir.path().join("objects/01").join(name), "x").unwrap();
    }
    store.write(object(1), 0, b"x").unwrap();
    let mut found = Vec::new();
    let listed = store.list(&mut |id, _| {
        found.push(id);
        true
    });
    listed.unwrap();
    assert_eq!(found, [object(1)]);
}

#[test]
#[ignore = "mounts a tmpfs in a mount namespace of its own: needs root"]
fn a_small_tmpfs_fills_up_and_recovers() {
    const INSIDE: &str = "ROPEWALK_TEST_SMALL_TMPFS";
    let Some(dir) = std::env::var_os(INSIDE) else {
        let dir = TempDir::new().unwrap();
        let script = "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"";
        let status = std::process::Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(dir.path())
            .arg(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "tests::a_small_tmpfs_fills_up_and_recovers",
            ])
            .env(INSIDE, dir.path())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    };
    let store = DirObjects::open(Path::new(&dir), options()).unwrap();
    assert!(store.in_memory);
    let total = store.capacity().unwrap().total_bytes;
    assert!(total <= 2 << 20, "this is not the small tmpfs");
    let mut offset = 0;
    let full = loop {
        match store.write(object(1), offset, &[1; 100_000]) {
            Ok(()) => offset += 100_000,
            Err(e) => break e,
        }
        assert!(offset <= 2 << 20);
    };
    assert!(matches!(full, ObjectError::NoSpace), "{full}");
    assert!(offset > 1 << 20);
    assert_eq!(
        bytes(&store.read(object(1), 0, 100_000).unwrap()),
        [1; 100_000]
    );
    store.remove(object(1)).unwrap();
    store.write(object(2), 0, &[2; 1 << 20]).unwrap();
    store.sync(object(2)).unwrap();
}

#[test]
fn a_store_belongs_to_one_index() {
    let (dir, store) = store();
    store.tie(0xabcd, false).unwrap();
    store.tie(0xabcd, true).unwrap();
    drop(store);
    let store = DirObjects::open(dir.path(), options()).unwrap();
    store.tie(0xabcd, true).unwrap();
    let text = store.tie(0xabce, false).unwrap_err().to_string();
    let named = text.contains(&dir.path().display().to_string());
    assert!(named && text.contains("another index"), "{text}");
    store.tie(0xabcd, true).unwrap();
}

#[test]
fn a_new_store_is_not_taken_for_the_one_of_an_index_that_knows_objects() {
    let dir = TempDir::new().unwrap();
    // Twice: the first attempt has made the directory a store.
    for _ in 0..2 {
        let store = DirObjects::open(dir.path(), options()).unwrap();
        let text = store.tie(7, true).unwrap_err().to_string();
        assert!(text.contains("is the disk mounted?"), "{text}");
    }
    let store = DirObjects::open(dir.path(), options()).unwrap();
    store.tie(7, false).unwrap();
}
