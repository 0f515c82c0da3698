//! The bits of a mode.

/// Set-user-ID and set-group-ID in a mode.
pub const SET_ID_BITS: u32 = SETUID | SETGID;
/// Mode of every symbolic link, as on Linux: its permissions mean nothing, and no umask cuts them.
pub(crate) const SYMLINK_MODE: u32 = 0o777;
/// Permission bits with setuid, setgid and sticky.
pub(crate) const MODE_BITS: u32 = 0o7777;
pub(crate) const SETUID: u32 = 0o4000;
pub(crate) const SETGID: u32 = 0o2000;
pub(crate) const STICKY: u32 = 0o1000;
pub(crate) const GROUP_EXECUTE: u32 = 0o0010;

/// A mode without the bits that a write by others than root takes away.
pub(crate) fn without_privileges(mode: u32) -> u32 {
    // Setgid without group execute once meant mandatory locking; it grants nothing and stays.
    let setgid = if mode & GROUP_EXECUTE != 0 { SETGID } else { 0 };
    mode & !(SETUID | setgid)
}
