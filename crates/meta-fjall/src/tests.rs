//! Goal: the contract on a real directory, and every sentence that opening may answer.

use super::*;
use crate::ballast::Ballast;
use meta::contract::{Subject, block_on};
use std::path::PathBuf;
use tempfile::TempDir;

fn options() -> Options {
    Options {
        reserve_bytes: 0,
        ..Options::default()
    }
}

#[derive(Default)]
struct OnDisk {
    dirs: Vec<TempDir>,
}

impl OnDisk {
    fn newest(&self) -> PathBuf {
        self.dirs.last().unwrap().path().join("meta")
    }
}

impl Subject for OnDisk {
    fn fresh(&mut self) -> Arc<dyn MetaStore> {
        self.dirs.push(TempDir::new().unwrap());
        Arc::new(FjallStore::open(&self.newest(), options()).unwrap())
    }

    fn reopen(&mut self, store: Arc<dyn MetaStore>) -> Option<Arc<dyn MetaStore>> {
        drop(store);
        Some(Arc::new(
            FjallStore::open(&self.newest(), options()).unwrap(),
        ))
    }
}

meta::contract_tests!(OnDisk::default());

/// Every sync counts as quick, so that who waits does it.
mod quick {
    use super::*;
    use std::task::{Context, Waker};
    use std::time::Duration;

    #[derive(Default)]
    struct OnQuickDisk(OnDisk);

    const ALWAYS: SpotLimits = SpotLimits {
        quick_below: Duration::MAX,
        quick_in_a_row: 0,
        ..SpotLimits::USUAL
    };

    impl OnQuickDisk {
        fn open(&self) -> Arc<dyn MetaStore> {
            Arc::new(FjallStore::open_with(&self.0.newest(), options(), ALWAYS, None).unwrap())
        }
    }

    impl Subject for OnQuickDisk {
        fn fresh(&mut self) -> Arc<dyn MetaStore> {
            self.0.dirs.push(TempDir::new().unwrap());
            self.open()
        }

        fn reopen(&mut self, store: Arc<dyn MetaStore>) -> Option<Arc<dyn MetaStore>> {
            drop(store);
            Some(self.open())
        }
    }

    meta::contract_tests!(OnQuickDisk::default());

    #[test]
    fn whoever_comes_first_syncs_for_all_that_were_ready() {
        let dir = TempDir::new().unwrap();
        let store = FjallStore::open_with(dir.path(), options(), ALWAYS, None).unwrap();
        // Without the thread, which may come first just after it was started.
        store.engine.queue.stop();
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = store.durable(put(&store, b"a", b"").unwrap());
        assert!(first.as_mut().poll(&mut cx).is_pending(), "others first");
        let mut second = store.durable(put(&store, b"b", b"").unwrap());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert_eq!(store.durable_through(), Seq(0));
        assert!(first.as_mut().poll(&mut cx).is_ready());
        assert_eq!(store.durable_through(), Seq(2));
        assert!(second.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn only_after_quick_syncs_in_a_row_is_it_left_to_those_who_wait() {
        for (quick_below, expected) in [
            (Duration::MAX, [false, true]),
            (Duration::ZERO, [false, false]),
        ] {
            let dir = TempDir::new().unwrap();
            let limits = SpotLimits {
                quick_below,
                quick_in_a_row: 2,
                ..SpotLimits::USUAL
            };
            let store = FjallStore::open_with(dir.path(), options(), limits, None).unwrap();
            for (key, expected) in [b"a", b"b"].into_iter().zip(expected) {
                block_on(store.durable(put(&store, key, b"").unwrap())).unwrap();
                assert_eq!(store.committer.is_quick(), expected);
            }
        }
    }
}

fn put(store: &FjallStore, key: &[u8], value: &[u8]) -> Result<Seq, MetaError> {
    store.transact(&mut |tx| {
        tx.put(key, value);
        Ok(TxOutcome::Commit)
    })
}

fn refusal(dir: &Path) -> String {
    FjallStore::open(dir, options()).unwrap_err().to_string()
}

#[test]
fn a_second_store_in_one_directory_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let store = FjallStore::open(dir.path(), options()).unwrap();
    let text = refusal(dir.path());
    let expected = format!("{} is in use by another process", dir.path().display());
    assert!(text.contains(&expected), "{text}");
    drop(store);
    FjallStore::open(dir.path(), options()).unwrap();
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let text = refusal(dir.path());
    assert!(
        text.contains("thesis.tex") && text.contains("not a metadata store"),
        "{text}"
    );
    assert!(dir.path().join("thesis.tex").exists());
}

#[test]
fn a_store_that_lost_its_format_file_is_not_made_anew() {
    let dir = TempDir::new().unwrap();
    put(
        &FjallStore::open(dir.path(), options()).unwrap(),
        b"k",
        b"v",
    )
    .unwrap();
    std::fs::remove_file(dir.path().join("format")).unwrap();
    assert!(refusal(dir.path()).contains("no format file"));
    assert!(dir.path().join("engine").exists());
}

#[test]
fn a_format_of_another_version_is_refused() {
    let dir = TempDir::new().unwrap();
    drop(FjallStore::open(dir.path(), options()).unwrap());
    std::fs::write(dir.path().join("format"), "ropewalk metadata store 9\n").unwrap();
    assert!(refusal(dir.path()).contains("has format \"ropewalk metadata store 9\""));
}

#[test]
fn a_file_in_place_of_the_directory_is_one_sentence() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "").unwrap();
    let text = refusal(&path);
    assert!(text.contains(&path.display().to_string()), "{text}");
}

#[test]
fn an_interrupted_creation_is_begun_again() {
    let dir = TempDir::new().unwrap();
    drop(FjallStore::open(dir.path(), options()).unwrap());
    std::fs::remove_file(dir.path().join("format")).unwrap();
    std::fs::write(dir.path().join("creating"), "").unwrap();
    std::fs::remove_file(dir.path().join("engine/version")).unwrap();
    let store = FjallStore::open(dir.path(), options()).unwrap();
    put(&store, b"k", b"v").unwrap();
    drop(store);
    let store = FjallStore::open(dir.path(), options()).unwrap();
    assert!(store.get(b"k").unwrap().is_some());
}

#[test]
fn nothing_is_synced_while_nobody_waits() {
    let dir = TempDir::new().unwrap();
    let store = FjallStore::open(dir.path(), options()).unwrap();
    for n in 0..100_u8 {
        put(&store, &[n], &[n]).unwrap();
    }
    assert_eq!(store.durable_through(), Seq(0));
    assert_eq!(store.engine.store_dir.watermark().unwrap(), 0);
    block_on(store.durable(Seq(1))).unwrap();
    // One sync served all that was there.
    assert_eq!(store.durable_through(), Seq(100));
}

/// Tests that fill the disk by hundreds of MiB take turns: each counts on what is free.
static DISK: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

#[test]
fn a_disk_that_others_fill_between_two_transactions_refuses_the_second() {
    const MIB: u64 = 1 << 20;
    let _turn = DISK.lock();
    let dir = TempDir::new().unwrap();
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    let options = Options {
        reserve_bytes: stat.f_bavail * stat.f_frsize - 128 * MIB,
        ..options()
    };
    let store = FjallStore::open(dir.path(), options).unwrap();
    let one = |store: &FjallStore| {
        store.transact(&mut |tx| {
            tx.put(b"k", b"v");
            Ok(TxOutcome::Commit)
        })
    };
    one(&store).unwrap();
    let ballast = std::fs::File::create(dir.path().join("ballast")).unwrap();
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&ballast, flags, 0, 512 * MIB).unwrap();
    assert!(matches!(one(&store), Err(MetaError::NoSpace)));
}

#[test]
fn a_nearly_full_file_system_refuses_by_purpose_and_the_store_lives_on() {
    let dir = TempDir::new().unwrap();
    drop(FjallStore::open(dir.path(), options()).unwrap());
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    let all = [Purpose::Ordinary, Purpose::Upkeep, Purpose::Removal];
    // What is free as a share of the reserve, and the purposes that still go on: the others change nothing.
    for (reserve_bytes, admitted) in [
        (free / 4 * 3, &all[..]),
        (free / 3 * 4, &all[1..]),
        (free * 3, &all[2..]),
        (free * 8, &[]),
    ] {
        let options = Options {
            reserve_bytes,
            ..Options::default()
        };
        let store = FjallStore::open(dir.path(), options).unwrap();
        for purpose in all {
            let before = store.applied();
            let done = store.transact(&mut |tx| {
                tx.purpose(purpose);
                tx.put(b"k", b"v");
                Ok(TxOutcome::Commit)
            });
            if admitted.contains(&purpose) {
                block_on(store.durable(done.unwrap())).unwrap();
            } else {
                assert!(matches!(done, Err(MetaError::NoSpace)), "{purpose:?}");
                assert_eq!(store.applied(), before);
            }
        }
        let removal = store.transact(&mut |tx| {
            tx.put(b"parent", b"smaller");
            tx.delete(b"k");
            Ok(TxOutcome::Commit)
        });
        assert_eq!(removal.is_ok(), !admitted.is_empty());
    }
    put(
        &FjallStore::open(dir.path(), options()).unwrap(),
        b"k",
        b"v",
    )
    .unwrap();
}

/// What was admitted is written, also when the room for it has gone meanwhile.
#[test]
fn a_batch_on_a_full_disk_gets_the_ballast_of_the_store() {
    let dir = TempDir::new().unwrap();
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    // Nothing but a small part of the reserve is free.
    let options = Options {
        reserve_bytes: free.saturating_mul(16),
        ..options()
    };
    let store = FjallStore::open(dir.path(), options).unwrap();
    let engine = &store.engine;
    assert!(!engine.ballast().is_held(), "no room to take it");
    *engine.ballast() = Ballast::new(dir.path(), 16 << 20);
    engine.ballast().take();
    assert!(engine.ballast().is_held());
    engine.put_later(b"k", b"v").unwrap();
    engine.write_out().unwrap();
    assert!(!engine.ballast().is_held());
}

/// A store stops while there is room to merge what it has, and what is removed comes back as room.
#[test]
fn a_store_that_is_full_takes_new_values_after_others_were_removed() {
    const MIB: u64 = 1 << 20;
    let _turn = DISK.lock();
    let dir = TempDir::new().unwrap();
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    let options = Options {
        reserve_bytes: stat.f_bavail * stat.f_frsize - 300 * MIB,
        memtable_bytes: 8 * MIB,
        ..Options::default()
    };
    let store = FjallStore::open(dir.path(), options).unwrap();
    let value = vec![7_u8; 512 * 1024];
    let mut keys = Vec::new();
    // Merges under way may make room: full is what stays so for a second.
    let mut refusals_count = 0;
    for n in 0..2000_u16 {
        match put(&store, &n.to_be_bytes(), &value) {
            Ok(_) => {
                keys.push(n.to_be_bytes());
                refusals_count = 0;
            }
            Err(_) if refusals_count == 10 => break,
            Err(_) => {
                refusals_count += 1;
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
    assert!((20..400).contains(&keys.len()), "{} values", keys.len());
    let removed = store.transact(&mut |tx| {
        keys.iter().for_each(|key| tx.delete(key));
        Ok(TxOutcome::Commit)
    });
    block_on(store.durable(removed.unwrap())).unwrap();
    for _ in 0..600 {
        if put(&store, b"new", &value).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("no room came back");
}

#[test]
fn values_survive_flushes_and_new_journals() {
    // Writes more than a journal holds, so journals are sealed, flushed and removed meanwhile.
    let dir = TempDir::new().unwrap();
    let small = Options {
        memtable_bytes: 8 * 1024 * 1024,
        ..options()
    };
    let store = FjallStore::open(dir.path(), small).unwrap();
    let value = vec![5_u8; 512 * 1024];
    let mut seq = Seq(0);
    for n in 0..300_u16 {
        seq = put(&store, &n.to_be_bytes(), &value).unwrap();
        if n % 10 == 0 {
            block_on(store.durable(seq)).unwrap();
        }
    }
    block_on(store.durable(seq)).unwrap();
    let journals = journal::journals(&store.engine.store_dir.engine_dir()).unwrap();
    assert!(journals.last().unwrap().0 > 0, "no journal was ever sealed");
    assert!(store.disk_bytes() > 0);
    drop(store);
    let store = FjallStore::open(dir.path(), small).unwrap();
    assert_eq!(store.scan(&[0], &[255], 999).unwrap().len(), 300);
}

/// A log of another kind: batches wait in it until the test lets them through.
mod logged {
    use super::*;
    use std::sync::mpsc;

    #[derive(Debug)]
    struct HeldLog {
        appended: mpsc::Sender<u64>,
        verdicts: parking_lot::Mutex<mpsc::Receiver<Result<(), MetaError>>>,
    }

    impl meta::BatchLog for HeldLog {
        fn append(&self, commit: u64, writes: &meta::Writes) -> Result<(), MetaError> {
            assert!(!writes.is_empty());
            self.appended.send(commit).unwrap();
            self.verdicts.lock().recv().unwrap()
        }
    }

    struct Logged {
        store: FjallStore,
        appended: mpsc::Receiver<u64>,
        verdicts: mpsc::Sender<Result<(), MetaError>>,
    }

    fn open(dir: &Path) -> Logged {
        let (appends, appended) = mpsc::channel();
        let (verdicts, of_log) = mpsc::channel();
        let log = HeldLog {
            appended: appends,
            verdicts: of_log.into(),
        };
        Logged {
            store: FjallStore::open_logged(dir, options(), Arc::new(log)).unwrap(),
            appended,
            verdicts,
        }
    }

    fn put(store: &FjallStore, key: &[u8]) -> Result<Seq, MetaError> {
        store.transact(&mut |tx| {
            tx.put(key, b"value");
            Ok(TxOutcome::Commit)
        })
    }

    fn engine_has(store: &FjallStore, key: &[u8]) -> bool {
        let stored = store.engine.keyspace.get(keys::stored(key)).unwrap();
        stored.is_some()
    }

    #[test]
    fn a_batch_is_in_the_log_before_it_is_in_the_engine_and_durable_after_both() {
        let dir = TempDir::new().unwrap();
        let logged = open(dir.path());
        let store = &logged.store;
        for commit in 1..=2 {
            let key = [u8::try_from(commit).unwrap()];
            let seq = put(store, &key).unwrap();
            // Readers see it, and a scan writes nothing.
            assert!(store.get(&key).unwrap().is_some());
            let seen = store.scan(&[0], &[9], 9).unwrap();
            assert_eq!(seen.len() as u64, commit);
            std::thread::scope(|threads| {
                let waits = threads.spawn(|| block_on(store.durable(seq)));
                assert_eq!(logged.appended.recv(), Ok(commit));
                assert!(!engine_has(store, &key));
                assert!(store.durable_through() < seq);
                assert_eq!(store.scan(&[0], &[9], 9).unwrap(), seen);
                logged.verdicts.send(Ok(())).unwrap();
                waits.join().unwrap().unwrap();
            });
            assert!(engine_has(store, &key));
            assert_eq!(store.scan(&[0], &[9], 9).unwrap(), seen);
        }
    }

    #[test]
    fn what_the_log_refuses_never_reaches_the_engine_and_nothing_follows_it() {
        let dir = TempDir::new().unwrap();
        let logged = open(dir.path());
        let seq = put(&logged.store, b"k").unwrap();
        logged.verdicts.send(Err(MetaError::Poisoned)).unwrap();
        block_on(logged.store.durable(seq)).unwrap_err();
        assert!(!engine_has(&logged.store, b"k"));
        assert!(matches!(put(&logged.store, b"l"), Err(MetaError::Poisoned)));
        drop(logged.store);
        assert_eq!(logged.appended.try_iter().count(), 1);
        let again = FjallStore::open(dir.path(), options()).unwrap();
        assert_eq!(again.get(b"k").unwrap(), None);
    }
}
