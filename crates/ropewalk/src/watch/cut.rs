//! Ends the connections of a process that hangs.
//!
//! SIGKILL ends a stopped process, and with it its connections. It does not end one that waits for a disk that never answers. Its
//! clients would wait for as long as it (L2 of the Linux client: they wait while the kernel of the server lives).
//!
//! # Ownership
//! Copies of the process's sockets, one at a time, each gone before the next. Must be called before SIGKILL: a process that is
//! ending has no sockets that could be copied.
//!
//! # Failure
//! Where the kernel does not allow it (Yama, containers, file capabilities of the program) nothing is cut, and the caller is told.

use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, Shutdown, SocketType, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::read_dir;
use std::net::SocketAddr;

/// Descriptors of a process that are looked at.
const FILES_MAX: usize = 1 << 20;

/// Shuts every TCP socket of the process but those that listen on an address of `kept`. Returns how many.
///
/// # Errors
/// When the sockets of that process cannot be had.
pub(super) fn cut_connections(pid: Pid, kept: &[SocketAddr]) -> std::io::Result<usize> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let files = read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
    let mut cut = 0;
    for file in files.take(FILES_MAX).flatten() {
        let name = file.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let link = std::fs::read_link(file.path()).unwrap_or_default();
        if !link.to_string_lossy().starts_with("socket:") {
            continue;
        }
        let socket = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            // Closed meanwhile.
            Err(Errno::BADF) => continue,
            copied => copied?,
        };
        let is_inet = matches!(
            socket_domain(&socket),
            Ok(AddressFamily::INET | AddressFamily::INET6)
        );
        if !is_inet || socket_type(&socket) != Ok(SocketType::STREAM) {
            continue;
        }
        let local = getsockname(&socket)
            .ok()
            .and_then(|a| SocketAddr::try_from(a).ok());
        let listens = socket_acceptconn(&socket) == Ok(true);
        if listens && local.is_some_and(|local| kept.contains(&local)) {
            continue;
        }
        if rustix::net::shutdown(&socket, Shutdown::Both).is_ok() {
            cut += 1;
        }
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    //! Goal: the connections of another process end, and its kept ports do not. Method: a process that has been given sockets.
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    #[test]
    fn the_connections_of_a_process_end_and_kept_ports_stay() {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a socket");
        let (kept, other) = (listen(), listen());
        let address = |socket: &TcpListener| socket.local_addr().expect("an address");
        let (kept_at, other_at) = (address(&kept), address(&other));
        let mut client = TcpStream::connect(kept_at).expect("connected");
        let (served, _) = kept.accept().expect("accepted");
        let [served, kept, other] =
            [served.into(), kept.into(), other.into()].map(|socket: OwnedFd| Stdio::from(socket));
        let mut process = Command::new("sleep")
            .arg("600")
            .stdin(served)
            .stdout(kept)
            .stderr(other)
            .spawn()
            .expect("a process");
        let pid = Pid::from_raw(process.id().cast_signed()).expect("a pid");
        let cut = cut_connections(pid, &[kept_at]);
        let end = client.read(&mut [0]);
        let (stays, goes) = (TcpStream::connect(kept_at), TcpStream::connect(other_at));
        process.kill().expect("killed");
        process.wait().expect("gone");
        assert_eq!(cut.expect("allowed for a child"), 2);
        assert_eq!(end.expect("an orderly end"), 0);
        assert!(stays.is_ok() && goes.is_err());
    }
}
