//! Datagrams to the service manager (sd_notify(3)).

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg_addr, socket_with,
};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

/// How long a datagram waits for room at a manager that is behind.
pub const SEND_MAX: Duration = Duration::from_millis(200);
/// Characters of a status that are sent.
const STATUS_CHARS_MAX: usize = 256;
/// Descriptors in one datagram; the kernel takes 253.
const FDS_AT_ONCE: usize = 128;

/// The manager that has started this process, if one did that wants to hear of it. Clones share one socket.
#[derive(Debug, Clone, Default)]
pub struct Manager(Option<Arc<Channel>>);

#[derive(Debug)]
struct Channel {
    socket: OwnedFd,
    address: SocketAddrUnix,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that the environment names.
    ///
    /// # Errors
    /// It names one that cannot be reached: the process would be taken for one that never serves.
    pub fn from_environment() -> io::Result<Self> {
        match std::env::var_os("NOTIFY_SOCKET") {
            None => Ok(Self::default()),
            Some(name) => Self::at(&name, watchdog(|key| std::env::var_os(key))),
        }
    }

    /// The one that listens there, in the form of NOTIFY_SOCKET, and waits for a sign of life for so long.
    ///
    /// # Errors
    /// That is no address of a Unix socket.
    pub fn at(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddrUnix::new_abstract_name(rest)?,
            [b'/', ..] => SocketAddrUnix::new(name)?,
            _ => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_MAX))?;
        Ok(Self(Some(Arc::new(Channel {
            socket,
            address,
            watchdog,
        }))))
    }

    /// The service serves, or has taken its configuration again.
    pub fn ready(&self) {
        self.tell("READY=1", &[]);
    }

    /// How the service is, as one line for people.
    pub fn status(&self, text: &str) {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = text.chars().take(STATUS_CHARS_MAX).map(plain).collect();
        self.tell(&format!("STATUS={line}"), &[]);
    }

    /// The service takes its configuration again. [`Manager::ready`] says that it has.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"), &[]);
    }

    /// The service ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping", &[]);
    }

    /// The service is alive and well.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1", &[]);
    }

    /// How often [`Manager::alive`] is to be called: twice in the time after which the manager gives the service up. `None`
    /// when it never does.
    #[must_use]
    pub fn alive_every(&self) -> Option<Duration> {
        self.0.as_ref()?.watchdog.map(|whole| whole / 2)
    }

    /// Keeps descriptors with the manager, under a name, for the next process of this service. One that is kept already is not
    /// kept twice. The manager forgets those that are shut.
    pub fn keep(&self, name: &str, fds: &[BorrowedFd<'_>]) {
        for batch in fds.chunks(FDS_AT_ONCE) {
            self.tell(&format!("FDSTORE=1\nFDNAME={name}"), batch);
        }
    }

    /// Forgets all descriptors of a name.
    pub fn forget(&self, name: &str) {
        self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
    }

    fn tell(&self, text: &str, fds: &[BorrowedFd<'_>]) {
        let Some(channel) = &self.0 else {
            return;
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(fds));
            debug_assert!(fits, "the space is for as many");
        }
        let bytes = [IoSlice::new(text.as_bytes())];
        // A manager that is gone or takes nothing has its own timeouts.
        let _ = rustix::io::retry_on_intr(|| {
            let flags = SendFlags::NOSIGNAL;
            sendmsg_addr(
                &channel.socket,
                &channel.address,
                &bytes,
                &mut control,
                flags,
            )
        });
    }
}

/// The time of the watchdog, if it is for this process.
fn watchdog(variable: impl Fn(&str) -> Option<OsString>) -> Option<Duration> {
    let number = |key: &str| variable(key)?.to_str()?.parse::<u64>().ok();
    let is_ours = variable("WATCHDOG_PID").is_none()
        || number("WATCHDOG_PID") == Some(u64::from(std::process::id()));
    let usec = number("WATCHDOG_USEC").filter(|usec| is_ours && *usec > 0);
    usec.map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    //! Goal: the manager gets what the manual pages say. Method: a socket of this process in its place.
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn next(manager: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let len = manager.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    #[test]
    fn each_message_is_a_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let service = Manager::at(path.as_os_str(), Some(Duration::from_secs(30))).unwrap();
        assert_eq!(service.alive_every(), Some(Duration::from_secs(15)));
        service.ready();
        service.status("two\nlines");
        service.status(&"\u{fc}".repeat(2 * STATUS_CHARS_MAX));
        service.reloading();
        service.alive();
        service.stopping();
        let file = File::open(dir.path()).unwrap();
        service.keep("listen", &[file.as_fd()]);
        service.forget("listen");
        assert_eq!(next(&manager), "READY=1");
        assert_eq!(next(&manager), "STATUS=two lines");
        let long = next(&manager);
        assert_eq!(long.chars().count(), "STATUS=".len() + STATUS_CHARS_MAX);
        let reloading = next(&manager);
        let (said, usec) = reloading.split_once("\nMONOTONIC_USEC=").unwrap();
        assert_eq!(said, "RELOADING=1");
        assert!(usec.parse::<u64>().unwrap() > 0);
        assert_eq!(next(&manager), "WATCHDOG=1");
        assert_eq!(next(&manager), "STOPPING=1\nSTATUS=stopping");
        assert_eq!(next(&manager), "FDSTORE=1\nFDNAME=listen");
        assert_eq!(next(&manager), "FDSTOREREMOVE=1\nFDNAME=listen");
    }

    #[test]
    fn a_name_that_begins_with_at_is_abstract() {
        let name = format!("ropewalk-systemd-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let service = Manager::at(OsStr::new(&format!("@{name}")), None).unwrap();
        service.ready();
        assert_eq!(next(&manager), "READY=1");
        assert_eq!(service.alive_every(), None);
    }

    #[test]
    fn a_manager_that_reads_nothing_holds_nobody_up_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let service = Manager::at(path.as_os_str(), None).unwrap();
        let most = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap();
        let most: usize = most.trim().parse().unwrap();
        let began = std::time::Instant::now();
        (0..most + 3).for_each(|_| service.alive());
        assert!(began.elapsed() < 50 * SEND_MAX);
        drop(manager);
        service.alive();
    }

    #[test]
    fn only_an_address_of_a_socket_is_taken() {
        assert!(Manager::at(OsStr::new("vsock:2:1"), None).is_err());
        assert!(Manager::at(OsStr::new(&format!("/{}", "a".repeat(200))), None).is_err());
        Manager::default().ready();
    }

    #[test]
    fn the_watchdog_of_another_process_is_not_ours() {
        let of = |usec: &str, pid: Option<&str>| {
            let (usec, pid) = (usec.to_owned(), pid.map(str::to_owned));
            watchdog(move |key| match key {
                "WATCHDOG_USEC" => Some(usec.clone().into()),
                "WATCHDOG_PID" => pid.clone().map(Into::into),
                _ => None,
            })
        };
        let own = std::process::id().to_string();
        let three = Some(Duration::from_secs(3));
        assert_eq!(of("3000000", None), three);
        assert_eq!(of("3000000", Some(&own)), three);
        assert_eq!(of("3000000", Some("0")), None);
        assert_eq!(of("0", None), None);
        assert_eq!(of("soon", None), None);
    }
}
