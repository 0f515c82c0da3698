//! IP addresses of this machine, and the device and port that each is on.
//!
//! Connections are made to and from addresses, so a port without one cannot be used. librdmacm says which port an
//! address is on. An identifier that is bound to the address has the device, also over VLANs and IPoIB. sysfs names the
//! network interfaces of a port, for those that have no address yet.

use crate::cm::{self, Channel, Id};
use crate::sys::SockaddrStorage;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// Most addresses that are looked at: each takes a call of the kernel.
const ADDRESSES_MAX: usize = 1024;
/// Most entries of a port's table of GIDs that are looked at.
const GIDS_MAX: usize = 256;

/// An address by which a port of a device can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAddress {
    /// The address.
    pub address: IpAddr,
    /// The network interface that has it.
    pub interface: String,
}

impl PortAddress {
    /// Whether it is good on its own link only, together with an interface: no server can tell clients such an address.
    #[must_use]
    pub fn is_of_link(&self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.is_unicast_link_local())
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.is_of_link() {
            write!(f, "%{}", self.interface)?;
        }
        Ok(())
    }
}

/// An address, and where it is.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) device: String,
    pub(crate) port: u8,
    pub(crate) address: PortAddress,
}

/// Those addresses of this machine that are on a device.
pub(crate) fn bound() -> Vec<Bound> {
    let Ok(channel) = Channel::new() else {
        return Vec::new();
    };
    let addresses = of_machine().into_iter().take(ADDRESSES_MAX);
    let bound = addresses.filter_map(|(address, interface)| bind(&channel, address, interface));
    bound.collect()
}

fn bind(channel: &Arc<Channel>, address: SocketAddr, interface: String) -> Option<Bound> {
    if address.ip().is_loopback() {
        return None;
    }
    let id = Id::new(Arc::clone(channel)).ok()?;
    id.bind(address).ok()?;
    Some(Bound {
        device: id.device_name()?,
        port: id.port(),
        address: PortAddress {
            address: address.ip(),
            interface,
        },
    })
}

/// `struct ifaddrs` of getifaddrs(3), as far as it is looked at.
#[repr(C)]
struct Entry {
    next: *mut Entry,
    name: *const c_char,
    flags: c_uint,
    address: *const c_void,
}

unsafe extern "C" {
    fn getifaddrs(list: *mut *mut Entry) -> c_int;
    fn freeifaddrs(list: *mut Entry);
}

/// Every IP address of this machine, without a port, and its interface.
fn of_machine() -> Vec<(SocketAddr, String)> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` takes the list.
    if unsafe { getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at: *const Entry = list;
    // SAFETY: the list lives until it is freed, and its last entry has no next one.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: the address is one of a socket, or none.
        if let Some(address) = unsafe { socket_address(entry.address) } {
            // SAFETY: a name is there and ends with a zero.
            let name = unsafe { CStr::from_ptr(entry.name) };
            found.push((address, name.to_string_lossy().into_owned()));
        }
        at = entry.next;
    }
    // SAFETY: it was just got, and is not used any more.
    unsafe { freeifaddrs(list) };
    found
}

/// # Safety
/// A socket address lies there, as long as its family says, unless it is null.
unsafe fn socket_address(raw: *const c_void) -> Option<SocketAddr> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    let family = unsafe { raw.cast::<u16>().read_unaligned() };
    let mut storage = SockaddrStorage { bytes: [0; 128] };
    let len = cm::address_bytes(family)?;
    // SAFETY: so long is one of this family, and there is room for it.
    unsafe { std::ptr::copy_nonoverlapping(raw.cast(), storage.bytes.as_mut_ptr(), len) };
    cm::decode(&storage)
}

/// The network interfaces of a port of the device at this place of sysfs: those of its GIDs. Where GIDs have none (InfiniBand,
/// older kernels), those of the same hardware that say to be on this port.
pub(crate) fn interfaces(device: &Path, port: u8) -> Vec<String> {
    let of_gids = device.join(format!("ports/{port}/gid_attrs/ndevs"));
    let names = (0..GIDS_MAX).map(|at| of_gids.join(at.to_string()));
    let mut names: BTreeSet<String> = names.filter_map(|path| read(&path)).collect();
    if names.is_empty() {
        let beside = std::fs::read_dir(device.join("device/net"));
        let beside = beside.into_iter().flatten().flatten();
        // Ports of devices begin at 1, those of interfaces at 0.
        let here = (port.saturating_sub(1)).to_string();
        let of_port =
            beside.filter(|known| read(&known.path().join("dev_port")) == Some(here.clone()));
        names = of_port
            .map(|known| known.file_name().to_string_lossy().into_owned())
            .collect();
    }
    names.into_iter().collect()
}

/// The text of a file of sysfs, if there is any.
pub(crate) fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    //! Goal: interfaces of ports are found as kernels show them, and addresses of this machine with theirs.
    use super::*;
    use std::fs;

    #[test]
    fn interfaces_are_those_of_the_gids_or_of_the_same_hardware() {
        let sysfs = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sysfs.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let of = |device: &str, port| interfaces(&sysfs.path().join(device), port);
        // RoCE: one interface for several GIDs, and one of a VLAN.
        for (at, name) in ["eth0\n", "eth0\n", "", "eth0.5\n"].into_iter().enumerate() {
            write(&format!("roce/ports/1/gid_attrs/ndevs/{at}"), name);
        }
        write("roce/device/net/eth9/dev_port", "0\n");
        assert_eq!(of("roce", 1), ["eth0", "eth0.5"]);
        // InfiniBand: IPoIB interfaces lie beside the device.
        for (name, port) in [("ib0", "0\n"), ("ib1", "1\n"), ("ib1.8001", "1\n")] {
            write(&format!("hca/device/net/{name}/dev_port"), port);
        }
        assert_eq!(of("hca", 1), ["ib0"]);
        assert_eq!(of("hca", 2), ["ib1", "ib1.8001"]);
        assert_eq!(of("none", 1), Vec::<String>::new());
    }

    #[test]
    fn this_machine_has_addresses_of_its_loopback() {
        let found = of_machine();
        let loopback = found.iter().filter(|(a, _)| a.ip().is_loopback());
        assert!(loopback.map(|(_, name)| name).all(|name| !name.is_empty()));
        assert!(found.iter().all(|(address, _)| address.port() == 0));
        assert!(bound().iter().all(|known| known.port > 0));
    }

    #[test]
    fn addresses_of_one_link_name_it() {
        let address = |text: &str| PortAddress {
            address: text.parse().unwrap(),
            interface: "eth1".to_owned(),
        };
        for (text, shown, is_of_link) in [
            ("192.0.2.1", "192.0.2.1", false),
            ("2001:db8::1", "2001:db8::1", false),
            ("fe80::1", "fe80::1%eth1", true),
        ] {
            let address = address(text);
            assert_eq!(
                (address.to_string(), address.is_of_link()),
                (shown.to_owned(), is_of_link)
            );
        }
    }
}
