//! What a service tells systemd, and what it gets from it: sd_notify(3) and sd_listen_fds(3), in the form of their manual pages.
//!
//! [`Manager`] sends datagrams: the service serves, is alive, stops, or keeps descriptors with systemd. [`take_passed`] takes
//! the descriptors that an earlier process of the service kept there. What a descriptor is for is the caller's concern.
//!
//! Without systemd, or anybody who speaks as it does, all of it does nothing.
//!
//! # Failure
//! A datagram that cannot be sent within [`SEND_MAX`] is lost. systemd finds out by its own timeouts.

mod notify;
mod passed;

pub use notify::{Manager, SEND_MAX};
pub use passed::{PASSED_MAX, PassedFd, take_passed};

/// Variables of the environment that are for one process only. Who starts a service of its own takes them away from it.
pub const ENVIRONMENT: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];
