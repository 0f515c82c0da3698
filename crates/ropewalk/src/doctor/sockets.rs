//! Listening sockets of this machine by /proc/net, and the processes that have them, as far as they may be seen.
//!
//! Owns the form of these files. Judges nothing.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Most bytes that are read of a list of sockets.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// Most processes that are looked into.
const PROCESSES_MAX: usize = 65_536;
/// Most files of one that are looked at.
const FILES_MAX: usize = 65_536;
/// The state of a socket that listens.
const LISTEN: &str = "0A";

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    pub(super) inode: u64,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
}

/// All that listens by TCP. None when the kernel does not say.
pub(super) fn listening() -> Option<Vec<Listening>> {
    let mut all = Vec::new();
    let mut seen = false;
    for list in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(file) = std::fs::File::open(list) else {
            continue;
        };
        seen = true;
        let lines = BufReader::new(file.take(LIST_BYTES_MAX)).lines();
        all.extend(
            lines
                .map_while(Result::ok)
                .filter_map(|line| listener(&line)),
        );
    }
    seen.then_some(all)
}

/// A line of the list, if that socket listens.
fn listener(line: &str) -> Option<Listening> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if *words.get(3)? != LISTEN {
        return None;
    }
    let address = address(words.get(1)?)?;
    let inode = words.get(9)?.parse().ok()?;
    Some(Listening { address, inode })
}

/// Each four bytes of an address are printed as one number of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The processes that have these sockets. Those of other users are seen by root only.
pub(super) fn holders(inodes: &[u64]) -> BTreeMap<u64, Vec<Process>> {
    let mut found: BTreeMap<u64, Vec<Process>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries.take(PROCESSES_MAX) {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let files = std::fs::read_dir(entry.path().join("fd"));
        for file in files.into_iter().flatten().flatten().take(FILES_MAX) {
            let link = std::fs::read_link(file.path()).ok();
            let Some(inode) = link.and_then(|link| socket_inode(&link)) else {
                continue;
            };
            if !inodes.contains(&inode) {
                continue;
            }
            let held = found.entry(inode).or_default();
            if !held.iter().any(|process| process.pid == pid) {
                let name = name_of(pid);
                held.push(Process { pid, name });
            }
        }
    }
    found
}

/// `socket:[123]`
fn socket_inode(link: &Path) -> Option<u64> {
    let text = link.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

/// The program of a process, as the kernel has it.
pub(super) fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "a program".to_owned(), |name| name.trim().to_owned())
}

/// The process that has started another.
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    //! Goal: a socket of this process is found, with this process; strange lines are passed over.
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn our_own_sockets_are_found() {
        for ip in ["127.0.0.1", "::1"] {
            let Ok(socket) = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), 0)) else {
                continue;
            };
            let address = socket.local_addr().unwrap();
            let all = listening().unwrap();
            let found = all.iter().find(|l| l.address == address).unwrap();
            let holders = holders(&[found.inode]);
            let pids: Vec<u32> = holders[&found.inode].iter().map(|p| p.pid).collect();
            assert!(pids.contains(&std::process::id()), "{holders:?}");
        }
        let parent = std::os::unix::process::parent_id();
        assert_eq!(parent_of(std::process::id()), Some(parent));
    }

    #[test]
    fn strange_lines_are_no_sockets() {
        for line in [
            "",
            "  sl  local_address rem_address   st tx_queue",
            "0: 0100007F:0801 00000000:0000 01 a b c d e 77",
            "0: 0100007F 00000000:0000 0A a b c d e 77",
            "0: 01:0801 00000000:0000 0A a b c d e 77",
            "0: 0100007F:0801 00000000:0000 0A",
            "0: ééé:0801 00000000:0000 0A a b c d e 77",
        ] {
            assert_eq!(listener(line), None, "{line}");
        }
    }
}
