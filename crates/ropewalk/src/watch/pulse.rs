//! The signs that a data server gives to the process that watches it.
//!
//! A sign says that this process runs, that its main runtime has turned within [`TURN_MAX`], and that its disk has just answered
//! a read. The read is a direct one of a small file (O_DIRECT). It waits for no sync and no journal, as a write would. So a disk
//! that syncs for seconds gives signs, and one that answers nothing gives none.
//!
//! # Ownership
//! A thread of its own sends the signs: the main runtime may stand in a sync for longer than a watcher waits. Each read has
//! a short-lived thread, so that a read that is late holds up none that comes after it.
//!
//! # Failure
//! A read that fails is a sign too: the disk has answered. While [`PROBES_MAX`] reads wait, no other begins.

use super::line::ParentLine;
use crate::failure::{Outcome, cannot};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time from one read to the next.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// Reads under way: those of a disk that takes 4 s for each, one after the other.
const PROBES_MAX: usize = 8;
/// Bytes of a read and the alignment of its buffer: no disk asks for more.
const PROBE_BYTES: usize = 4096;
/// How often the main runtime shows that it turns.
const TURN_EVERY: Duration = Duration::from_secs(1);
/// A main runtime that has not turned for so long hangs. A sync of a slow disk, in which it may stand, takes less.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Gives signs as long as the process lives.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    turned: Arc<Mutex<Instant>>,
}

impl Pulse {
    /// Begins. A sign needs an answer for each of the files.
    pub(crate) fn start(line: ParentLine, files: Vec<PathBuf>) -> Outcome<Self> {
        let turned = Arc::new(Mutex::new(Instant::now()));
        let pulse = Self {
            turned: Arc::clone(&turned),
        };
        let probe = move || files.iter().for_each(|file| probe(file));
        let beat = move || beat(&line, &(Arc::new(probe) as Probe), &turned);
        let thread = std::thread::Builder::new().name("pulse".to_owned());
        thread.spawn(beat).map_err(cannot("start a thread"))?;
        Ok(pulse)
    }

    /// To run on the main runtime: shows that it turns.
    pub(crate) async fn turns(self) {
        loop {
            *self.turned.lock() = Instant::now();
            tokio::time::sleep(TURN_EVERY).await;
        }
    }
}

/// Returns when the disk has answered.
type Probe = Arc<dyn Fn() + Send + Sync>;

fn beat(line: &ParentLine, probe: &Probe, turned: &Mutex<Instant>) {
    let under_way = Arc::new(AtomicUsize::new(0));
    loop {
        let turns = turned.lock().elapsed() < TURN_MAX;
        if turns && under_way.load(Relaxed) < PROBES_MAX {
            under_way.fetch_add(1, Relaxed);
            let place = Place(Arc::clone(&under_way));
            let (line, probe) = (line.clone(), Arc::clone(probe));
            let ask = move || {
                let _place = place;
                probe();
                line.alive();
            };
            let thread = std::thread::Builder::new().name("probe".to_owned());
            // Without a thread there is no sign, until there is one again.
            let _ = thread.spawn(ask);
        }
        std::thread::sleep(PROBE_EVERY);
    }
}

/// One of [`PROBES_MAX`].
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Returns when the disk has answered.
fn probe(file: &Path) {
    let plain = OFlags::RDONLY | OFlags::CLOEXEC;
    // An access time would be a write. Only the owner may read without it, and not every file system reads directly.
    for more in [
        OFlags::DIRECT | OFlags::NOATIME,
        OFlags::DIRECT,
        OFlags::empty(),
    ] {
        match rustix::fs::open(file, plain | more, Mode::empty()) {
            Err(Errno::INVAL | Errno::PERM) => {}
            Err(_) => return,
            Ok(file) => {
                let mut bytes = vec![0; 2 * PROBE_BYTES];
                let from = bytes.as_ptr().align_offset(PROBE_BYTES).min(PROBE_BYTES);
                let _ = rustix::io::pread(file, &mut bytes[from..from + PROBE_BYTES], 0);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a slow disk gives signs often enough, one that hangs gives none, and neither does a runtime that hangs. Method: the other
    //! end of the line, and probes that take their time.
    use super::super::SILENT_MAX;
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;

    /// Begins with this probe. The signs come out of what is returned, which waits for as long as a watcher.
    fn signs(probe: Probe, turned: Instant) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(SILENT_MAX)).expect("a timeout");
        let line = ParentLine::of(theirs.into());
        std::thread::spawn(move || beat(&line, &probe, &Mutex::new(turned)));
        ours
    }

    #[test]
    fn a_disk_that_takes_three_seconds_for_a_read_is_not_silent() {
        let slow = || std::thread::sleep(Duration::from_secs(3));
        let mut signs = signs(Arc::new(slow), Instant::now());
        std::thread::sleep(Duration::from_secs(2));
        for _ in 0..6 {
            signs.read_exact(&mut [0]).expect("a sign in time");
        }
    }

    #[test]
    fn a_disk_that_hangs_is_silent_and_takes_few_threads() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let hang = move || {
            count.fetch_add(1, Relaxed);
            loop {
                std::thread::park();
            }
        };
        let mut signs = signs(Arc::new(hang), Instant::now());
        std::thread::sleep(PROBE_EVERY * (1 + 2 * u32::try_from(PROBES_MAX).expect("few")));
        let silence = signs.read(&mut [0]).expect_err("no sign");
        assert_eq!(silence.kind(), ErrorKind::WouldBlock);
        assert_eq!(asked.load(Relaxed), PROBES_MAX);
    }

    #[test]
    fn a_runtime_that_hangs_is_silent() {
        let long_ago = Instant::now().checked_sub(TURN_MAX);
        let mut signs = signs(
            Arc::new(|| ()),
            long_ago.expect("this machine runs for longer"),
        );
        let silence = signs.read(&mut [0]).expect_err("no sign");
        assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_probe_ends_whatever_the_file_is() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let file = dir.path().join("file");
        std::fs::write(&file, "short").expect("written");
        for path in [&file, &dir.path().join("missing"), &dir.path().to_owned()] {
            probe(path);
        }
    }
}
