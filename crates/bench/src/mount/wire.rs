//! How long servers take to answer, from the wire: dumpcap records what crosses the servers' end of the client's link, and calls are
//! matched with their replies by connection and transaction id.
//!
//! A time is that from the last byte of a request to the first of its answer. Neither the client's kernel nor its link is in it, and it
//! has the resolution of the recorder, where the client counts milliseconds.
//!
//! # Ownership
//! A [`Recorder`] owns dumpcap and a thread that reads what it writes. No file is made.
//!
//! # Failure
//! Bytes that were not recorded are counted, and so are calls beyond a limit. A [`Recorder`] that is dropped kills dumpcap.

mod calls;
mod pcap;
mod stream;

use crate::BenchError;
use crate::process::Launcher;
use calls::Calls;
pub(super) use calls::{Answer, Seen};
use hdrhistogram::Histogram;
use pcap::{Packets, Segment};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What records.
const PROGRAM: &str = "dumpcap";
/// What to say when it is not there.
pub(super) const HOW_TO_INSTALL: &str =
    "dumpcap is not installed (Debian: apt-get install --no-install-recommends wireshark-common)";
/// Memory for what was not read yet, MiB: as much as both servers send in a second.
const BUFFER_MIB: &str = "256";
/// It records when this has passed, or does not start; it ends within as long, and is looked at so often.
const START_MAX: Duration = Duration::from_secs(30);
const END_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// What is kept of its words.
const WORDS_BYTES_MAX: u64 = 4096;
/// Digits of times in percentiles, and the longest: an hour.
const DIGITS: u8 = 3;
const TOOK_NS_MAX: u64 = 3_600_000_000_000;

/// Whether traffic can be recorded.
pub(super) fn is_there() -> bool {
    crate::process::find(PROGRAM).is_some()
}

/// Records the traffic of a client.
#[derive(Debug)]
pub(super) struct Recorder {
    child: Child,
    reader: Option<JoinHandle<Seen>>,
}

impl Recorder {
    /// Records what crosses `device` from and to `client`. The calling thread is in the device's network.
    ///
    /// # Errors
    /// [`BenchError::Guest`] with dumpcap's last words.
    pub(super) fn start(
        launcher: &Launcher,
        device: &str,
        client: Ipv4Addr,
    ) -> Result<Self, BenchError> {
        let mut child = launcher
            .bound(Path::new(PROGRAM))
            .args(["-q", "-P", "-i", device, "-B", BUFFER_MIB])
            .args(["-f", "tcp", "-w", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal is for us.
            .process_group(0)
            .spawn()
            .map_err(BenchError::io("start dumpcap"))?;
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let (begun, begins) = mpsc::sync_channel(1);
        let reader = std::thread::spawn(move || {
            let Ok(packets) = Packets::open(BufReader::new(stdout)) else {
                return Seen::default();
            };
            // Nobody waits any more when it took too long.
            let _ = begun.send(());
            read(packets, client)
        });
        let mut recorder = Self {
            child,
            reader: Some(reader),
        };
        recorder.wait_until_begun(&begins)?;
        Ok(recorder)
    }

    fn wait_until_begun(&mut self, begins: &Receiver<()>) -> Result<(), BenchError> {
        if begins.recv_timeout(START_MAX).is_ok() {
            return Ok(());
        }
        self.kill();
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // What cannot be read is not said.
            let _ = stderr.take(WORDS_BYTES_MAX).read_to_end(&mut words);
        }
        let words = String::from_utf8_lossy(&words);
        Err(BenchError::Guest(format!(
            "dumpcap does not record its traffic (measure without it: --no-wire): {}",
            words.trim()
        )))
    }

    /// Ends it and returns what it has seen.
    pub(super) fn stop(mut self) -> Seen {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Fails only when it has gone by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + END_MAX;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
        self.kill();
        let seen = self.reader.take().and_then(|reader| reader.join().ok());
        seen.unwrap_or_default()
    }

    fn kill(&mut self) {
        // Both fail only when it has gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(mut packets: Packets<impl Read>, client: Ipv4Addr) -> Seen {
    let mut calls = Calls::of(client);
    // An error is the end of the recording: what came before it counts.
    while let Ok(Some((at_ns, frame))) = packets.next() {
        if let Some(segment) = Segment::of(frame) {
            calls.take(&segment, at_ns);
        }
    }
    calls.end()
}

/// Answers of one operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OfOperation {
    pub(super) requests_count: u64,
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

impl OfOperation {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a table shows whole microseconds"
    )]
    fn of(times: &Histogram<u64>) -> Self {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            requests_count: times.len(),
            mean_us: times.mean() / 1000.0,
            p50_us: at(0.5),
            p99_us: at(0.99),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "requests": self.requests_count,
            "mean_us": self.mean_us,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
        })
    }
}

/// Answers by operation, of those that `counts`.
pub(super) fn by_operation<'a>(
    answers: impl Iterator<Item = &'a Answer>,
) -> BTreeMap<&'static str, OfOperation> {
    let mut times: BTreeMap<&'static str, Histogram<u64>> = BTreeMap::new();
    for answer in answers {
        let of = times.entry(answer.operation).or_insert_with(|| {
            Histogram::new_with_bounds(1, TOOK_NS_MAX, DIGITS).expect("bounds of an hour")
        });
        of.saturating_record(answer.took_ns);
    }
    let all = times.iter().map(|(name, of)| (*name, OfOperation::of(of)));
    all.collect()
}

#[cfg(test)]
mod tests {
    //! Goal: a recording becomes times by operation, and what is none is nothing.
    use super::*;
    use std::net::SocketAddrV4;

    #[test]
    fn times_are_those_of_their_operation() {
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let answer = |operation, took_us: u64| Answer {
            server,
            operation,
            asked_ns: 0,
            took_ns: took_us * 1000,
        };
        let mut answers: Vec<_> = (1..=99).map(|us| answer("OPEN", us)).collect();
        answers.push(answer("OPEN", 10_000));
        answers.push(answer("READ", 5));
        let by = by_operation(answers.iter());
        assert_eq!(by.len(), 2);
        let open = &by["OPEN"];
        assert_eq!(open.requests_count, 100);
        for (value, expected) in [
            (open.p50_us, 50.0),
            (open.p99_us, 99.0),
            (open.mean_us, 149.5),
        ] {
            assert!(
                (value - expected).abs() < expected / 500.0,
                "{value} {expected}"
            );
        }
    }

    #[test]
    fn what_is_no_recording_says_why() {
        let launcher = Launcher {
            program: "sh".into(),
            arguments: ["-c", "echo no such device >&2", "sh"]
                .map(Into::into)
                .into(),
        };
        let started = Recorder::start(&launcher, "nothing0", Ipv4Addr::LOCALHOST);
        let text = started.unwrap_err().to_string();
        assert!(text.contains("no such device"), "{text}");
        let empty = pcap::file(&[]);
        let seen = read(Packets::open(&empty[..]).unwrap(), Ipv4Addr::LOCALHOST);
        assert!(seen.answers.is_empty());
    }
}
