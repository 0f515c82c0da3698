//! The metadata server of a running cluster from outside: its memory, its CPU time, its tokens.

use crate::BenchError;
use crate::nfs::cluster::Cluster;
use crate::nfs::server::Server;
use admin::{Request, Server as ApiServer};
use serde_json::Value;
use std::time::Duration;

/// How long a join token is good.
const TOKEN_SECONDS: u64 = 3600;

/// A cluster, and which of its processes is the metadata server.
#[derive(Debug)]
pub(super) struct Mds {
    cluster: Cluster,
    pid: i32,
}

impl Mds {
    pub(super) fn of(cluster: Cluster) -> Result<Self, BenchError> {
        let pid = cluster.mds_pid()?.as_raw_nonzero().get();
        Ok(Self { cluster, pid })
    }

    /// Where clients reach it.
    pub(super) fn server(&self) -> &Server {
        self.cluster.server()
    }

    /// Memory of its own that is in use, in bytes: files that it has mapped do not count.
    pub(super) fn memory_bytes(&self) -> Result<u64, BenchError> {
        let doing = BenchError::io("read the server's memory");
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).map_err(&doing)?;
        anonymous_bytes(&text).ok_or_else(|| doing(std::io::ErrorKind::InvalidData.into()))
    }

    /// User and system CPU time of all its threads so far, to the nanosecond: what the scheduler counts (proc(5), `schedstat`).
    pub(super) fn cpu(&self) -> Result<Duration, BenchError> {
        let doing = BenchError::io("read the server's CPU time");
        let mut ns = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.pid)).map_err(&doing)? {
            let path = thread.map_err(&doing)?.path().join("schedstat");
            // A thread may end meanwhile.
            let text = std::fs::read_to_string(path).unwrap_or_default();
            ns += on_cpu_ns(&text).unwrap_or(0);
        }
        Ok(Duration::from_nanos(ns))
    }

    /// Join tokens for so many data servers.
    pub(super) fn tokens(&self, count: usize) -> Result<Vec<String>, BenchError> {
        let socket = self.cluster.state_dir().join("mds").join("admin.sock");
        let server = ApiServer::Socket(socket);
        (0..count).map(|_| token(&server)).collect()
    }
}

fn token(server: &ApiServer) -> Result<String, BenchError> {
    let request = Request::TokenCreate {
        ttl_seconds: TOKEN_SECONDS,
    };
    let made = admin::ask::<Value>(server, &request);
    let made = made.map_err(|e| BenchError::Cluster(format!("it gives no token: {e}")))?;
    let token = made["token"].as_str().map(str::to_owned);
    token.ok_or_else(|| BenchError::Cluster(format!("it gives no token: {made}")))
}

/// `RssAnon` of proc(5) `status`, which is in kB.
fn anonymous_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The first field of proc(5) `schedstat`.
fn on_cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    //! What proc(5) says is read.
    use super::*;

    #[test]
    fn memory_and_time_are_read() {
        let status = "Name:\tropewalk\nVmRSS:\t   30000 kB\nRssAnon:\t   20000 kB\n";
        assert_eq!(anonymous_bytes(status), Some(20_480_000));
        assert_eq!(anonymous_bytes("VmRSS: 1 kB\n"), None);
        assert_eq!(on_cpu_ns("123456789 55734 1\n"), Some(123_456_789));
        assert_eq!(on_cpu_ns(""), None);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(anonymous_bytes(&status).unwrap() > 0);
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        assert!(on_cpu_ns(&schedstat).is_some());
    }
}
