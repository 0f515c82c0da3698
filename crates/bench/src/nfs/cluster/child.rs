//! The processes of a cluster: what they say, and their end.

use crate::BenchError;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster that has not stopped after this is killed.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often a stopping cluster is looked at.
const STOP_POLL: Duration = Duration::from_millis(20);

/// What the metadata server of the cluster in `dir` says of itself.
pub(super) fn mds_status(program: &Path, dir: &Path) -> Result<Value, BenchError> {
    server_status(program, dir, "mds")
}

/// The same of one of its servers, named by its folder.
pub(super) fn server_status(program: &Path, dir: &Path, name: &str) -> Result<Value, BenchError> {
    let output = Command::new(program)
        .args(["status", "--json", "--dir"])
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(BenchError::io("ask for the cluster's status"))?;
    let status: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let server = status.and_then(|mut status| Some(status.get_mut(name)?.take()));
    server.filter(Value::is_object).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        BenchError::Cluster(format!("its status is missing: {}", said.trim()))
    })
}

/// Asks a process to stop.
pub(super) fn ask_to_stop(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Fails only when it has gone by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Waits until a process that was asked to stop has ended, and kills it when it takes too long.
pub(super) fn wait_for_end(child: &mut Child) {
    let end = Instant::now() + STOP_MAX;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(STOP_POLL),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
