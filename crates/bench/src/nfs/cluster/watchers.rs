//! Who watches a cluster while it is measured: one that follows the event stream, and one that scrapes the metrics each second.

use super::Page;
use crate::BenchError;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two scrapes.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// How often a watcher looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The watchers. Dropping them ends them.
#[derive(Debug)]
pub(super) struct Watchers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Watchers {
    /// Both begin to watch.
    pub(super) fn start(page: Page) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let [follows, scrapes] = [(); 2].map(|()| (page.clone(), Arc::clone(&is_over)));
        let threads = vec![
            std::thread::spawn(move || follow(&follows.0, &follows.1)),
            std::thread::spawn(move || scrape(&scrapes.0, &scrapes.1)),
        ];
        Self { is_over, threads }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn open(page: &Page, path: &str, how: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(page.address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: {how}\r\n\r\n",
        page.address, page.token
    )?;
    Ok(stream)
}

/// Reads the stream until it is over. A broken one is opened again: what is measured is a server that is watched.
fn follow(page: &Page, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = open(page, "/api/v1/stream", "keep-alive") else {
            std::thread::sleep(LOOK);
            continue;
        };
        let _ = stream.set_read_timeout(Some(LOOK));
        let mut bytes = [0; 64 * 1024];
        while !is_over.load(Ordering::Relaxed) {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock) => {}
                Err(_) => break,
            }
        }
    }
}

fn scrape(page: &Page, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let _ = get(page, "/metrics");
        let looks = SCRAPE_EVERY.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// What is answered to a GET with 200; the connection is one of its own.
///
/// # Errors
/// [`BenchError::Io`], or [`BenchError::Cluster`] with another answer.
pub(crate) fn get(page: &Page, path: &str) -> Result<Vec<u8>, BenchError> {
    let asked = || {
        let mut stream = open(page, path, "close")?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer: Vec<u8> = asked().map_err(BenchError::io("ask the page"))?;
    match answer.starts_with(b"HTTP/1.1 200") {
        true => Ok(answer),
        false => {
            let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line).into_owned();
            Err(BenchError::Cluster(format!("{path}: {line}")))
        }
    }
}
