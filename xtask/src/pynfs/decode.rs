//! What a run of the suite sends, under the eyes of tshark: no frame of ours may be malformed or have an error in it.
//!
//! The suite sends nonsense on purpose, so frames count that the clusters sent: from their ports, calls of theirs to NFSv3
//! servers, and callbacks of sessions. Those of NFSv4.0 have a program that tshark does not know. Needs dumpcap and tshark, and the right to record loopback.

use super::server::{self, Server};
use crate::repo::{self, Result};
use crate::vm::capture::{self, Recorder, SEVERITY_ERROR};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fewest frames with RPC from our ports; one test makes more.
const FRAMES_MIN: usize = 20;
/// Findings that are shown.
const SHOWN_MAX: usize = 10;
/// Program of callbacks that both the suite and Ropewalk's clients name.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// A recording of loopback.
pub(super) struct Decode {
    recorder: Recorder,
    file: PathBuf,
    /// Ports of the cluster under test, its data servers among them.
    ports: Vec<String>,
    /// Ports of the NFSv3 servers.
    ports_3: Vec<String>,
}

impl Decode {
    /// Begins to record into `dir`.
    pub(super) fn start(dir: &Path, tested: &Server, others: &[Server]) -> Result<Self> {
        let cluster = server::cluster(tested.dir());
        let file = dir.join("loopback.pcapng");
        let dumpcap = Command::new("dumpcap");
        Ok(Self {
            ports: capture::ports(Some(&cluster)).map_err(|e| e.to_string())?,
            ports_3: others
                .iter()
                .map(|other| other.address().port().to_string())
                .collect(),
            recorder: Recorder::start_on(dumpcap, "lo", &file).map_err(|e| e.to_string())?,
            file,
        })
    }

    /// Ends the recording and judges it; one without a fault is removed.
    pub(super) fn stop(self) -> Result<()> {
        self.recorder.stop().map_err(|e| e.to_string())?;
        let ports: Vec<&String> = self.ports.iter().chain(&self.ports_3).collect();
        let is_ours = filter_ours(&self.ports, &self.ports_3);
        let seen = lines(&self.file, &ports, &format!("rpc && ({is_ours})"))?;
        let wrong = format!("(_ws.malformed || _ws.expert.severity >= {SEVERITY_ERROR})");
        let wrong = lines(&self.file, &ports, &format!("{wrong} && ({is_ours})"))?;
        judge(&seen, &wrong).map_err(|why| format!("{}: {why}", self.file.display()))?;
        std::fs::remove_file(&self.file)
            .map_err(|e| format!("cannot remove {}: {e}", self.file.display()))
    }
}

/// Frames that a cluster of ours sent.
fn filter_ours(ports: &[String], ports_3: &[String]) -> String {
    let from = ports.iter().map(|port| format!("tcp.srcport == {port}"));
    let with = ports_3.iter().map(|port| format!("tcp.port == {port}"));
    let called = format!("(rpc.program == {CALLBACK_PROGRAM} && rpc.msgtyp == 0)");
    from.chain(with)
        .chain([called])
        .collect::<Vec<_>>()
        .join(" || ")
}

/// A line for each frame that `filter` lets through.
fn lines(file: &Path, ports: &[&String], filter: &str) -> Result<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-Y", filter]);
    for port in ports {
        command.args(["-d", &format!("tcp.port=={port},rpc")]);
    }
    let text = repo::output(&mut command)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn judge(seen: &[String], wrong: &[String]) -> Result<()> {
    if !wrong.is_empty() {
        let shown = &wrong[..wrong.len().min(SHOWN_MAX)];
        let count = wrong.len();
        return Err(format!("{count} frames are wrong:\n{}", shown.join("\n")));
    }
    match seen.len() {
        0..FRAMES_MIN => Err(format!("only {} frames of ours were recorded", seen.len())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! What passes and what does not.
    use super::*;

    fn frames(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{n} NFS Reply")).collect()
    }

    #[test]
    fn a_frame_that_is_wrong_or_a_recording_of_nothing_fails() {
        assert_eq!(judge(&frames(FRAMES_MIN), &[]), Ok(()));
        assert!(judge(&frames(FRAMES_MIN - 1), &[]).is_err());
        let why = judge(&frames(100), &frames(11)).unwrap_err();
        assert!(why.starts_with("11 frames are wrong:\n0 NFS Reply"));
        assert!(!why.contains("10 NFS Reply"));
    }

    #[test]
    fn frames_of_the_suite_do_not_count() {
        let ports = ["1".to_owned(), "2".to_owned()];
        assert_eq!(
            filter_ours(&ports, &["3".to_owned()]),
            "tcp.srcport == 1 || tcp.srcport == 2 || tcp.port == 3 || \
             (rpc.program == 1073741824 && rpc.msgtyp == 0)"
        );
    }
}
