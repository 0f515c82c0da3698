//! Descriptors that the manager passes to a process (sd_listen_fds(3)).

use rustix::fd::{FromRawFd, OwnedFd, RawFd};
use rustix::io::{FdFlags, fcntl_setfd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Descriptors that are taken; the manager passes as many as FileDescriptorStoreMax= of the unit allows.
pub const PASSED_MAX: u32 = 4096;
/// The first of them.
const FIRST: RawFd = 3;

/// They are taken once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A descriptor, and the name under which it was kept.
#[derive(Debug)]
pub struct PassedFd {
    /// The name; empty when the manager gave none.
    pub name: String,
    /// The descriptor. It is closed when this process runs another program.
    pub fd: OwnedFd,
}

/// Takes the descriptors that are for this process; the first call does. Call it before this process opens anything.
#[must_use]
pub fn take_passed() -> Vec<PassedFd> {
    let variable = |key: &str| std::env::var(key).ok();
    let Some(names) = names(variable, std::process::id()) else {
        return Vec::new();
    };
    if TAKEN.swap(true, Relaxed) {
        return Vec::new();
    }
    let numbers = (FIRST..).zip(names);
    numbers
        .filter_map(|(number, name)| take(number, name))
        .collect()
}

/// The names, one for each descriptor, if any are for the process `pid`.
fn names(variable: impl Fn(&str) -> Option<String>, pid: u32) -> Option<Vec<String>> {
    let number = |key: &str| variable(key)?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(pid) {
        return None;
    }
    let count = number("LISTEN_FDS")?.min(PASSED_MAX);
    let said = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut said = said.split(':');
    let name = |_| said.next().unwrap_or_default().to_owned();
    Some((0..count).map(name).collect())
}

/// `None` when nothing is open there.
fn take(number: RawFd, name: String) -> Option<PassedFd> {
    std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).ok()?;
    // SAFETY: the descriptor is open, as the line above has seen. It is nobody else's: the manager has opened it for this very
    // process, whose id it names, before this process ran. Nobody takes it twice, as `TAKEN` ensures.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC).ok()?;
    Some(PassedFd { name, fd })
}

#[cfg(test)]
mod tests {
    //! Goal: only what is for this process is taken, in bounded number. Method: environments made up; the tests of the servers
    //! pass real ones.
    use super::*;

    fn named(pid: &str, fds: &str, names_said: Option<&str>) -> Option<Vec<String>> {
        let variable = |key: &str| match key {
            "LISTEN_PID" => Some(pid.to_owned()),
            "LISTEN_FDS" => Some(fds.to_owned()),
            "LISTEN_FDNAMES" => names_said.map(str::to_owned),
            _ => None,
        };
        names(variable, 7)
    }

    #[test]
    fn each_descriptor_has_its_name() {
        assert_eq!(
            named("7", "2", Some("listen:control")).unwrap(),
            ["listen", "control"]
        );
        assert_eq!(named("7", "2", Some("listen")).unwrap(), ["listen", ""]);
        assert_eq!(named("7", "1", None).unwrap(), [""]);
        assert_eq!(named("7", "0", Some("x")).unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_for_another_process_or_makes_no_sense_is_left() {
        assert_eq!(named("8", "2", None), None);
        assert_eq!(named("", "2", None), None);
        assert_eq!(named("7", "-1", None), None);
        assert_eq!(named("7", "many", None), None);
    }

    #[test]
    fn the_units_keep_no_more_than_is_taken() {
        for unit in [
            include_str!("../../../packaging/systemd/ropewalk-mds.service"),
            include_str!("../../../packaging/systemd/ropewalk-ds.service"),
        ] {
            assert!(unit.contains(&format!("\nFileDescriptorStoreMax={PASSED_MAX}\n")));
        }
    }

    #[test]
    fn the_number_is_bounded() {
        let most = named("7", &u32::MAX.to_string(), None).unwrap();
        assert_eq!(most.len(), PASSED_MAX as usize);
    }
}
