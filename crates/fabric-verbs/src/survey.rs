//! What RDMA devices this machine has, and in words why they can or cannot be used.

use crate::addresses::{Bound, PortAddress, bound, interfaces, read};
use crate::cm::Channel;
use crate::context::{attributes, check, port};
use crate::library::{Api, api};
use crate::sys::{self, Context, Device};
use std::ffi::{CStr, c_char};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are registered for a try: as much as a slab.
const TRY_BYTES: usize = 4 << 20;

/// All that there is.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Why rdma-core cannot be used, if so. No device is known then.
    pub library: Option<String>,
    /// Why connections cannot be made, whatever the devices are.
    pub connections: Option<String>,
    /// Devices, by name.
    pub devices: Vec<DeviceReport>,
}

/// A device.
#[derive(Debug, Clone)]
pub struct DeviceReport {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// What it speaks.
    pub kind: DeviceKind,
    /// Its firmware, where it has one.
    pub firmware: String,
    /// Why it cannot be opened, if so. Nothing else is known then.
    pub unusable: Option<String>,
    /// Why memory cannot be registered with it, if so.
    pub memory: Option<String>,
    /// Most queue pairs, so connections.
    pub queue_pairs_max: i32,
    /// Most work requests of one queue.
    pub requests_max: i32,
    /// Most pieces of one request.
    pub pieces_max: i32,
    /// Most reads that one connection serves, and has outstanding.
    pub reads_max: (i32, i32),
    /// Whether it has the memory management extensions. They are messages that take back memory of their receiver (Send
    /// with invalidation), and fast registration and local invalidation by work requests.
    pub invalidates: bool,
    /// Most receives that connections may share, 0 without shared receive queues.
    pub shared_receives_max: i32,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// What a device speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Converged Ethernet.
    Roce,
    /// The kernel's rdma_rxe: RoCE v2 without a device.
    SoftRoce,
    /// iWARP.
    Iwarp,
    /// The kernel's siw: iWARP without a device.
    SoftIwarp,
}

impl DeviceKind {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InfiniBand => "InfiniBand",
            Self::Roce => "RoCE",
            Self::SoftRoce => "soft-RoCE (rdma_rxe)",
            Self::Iwarp => "iWARP",
            Self::SoftIwarp => "soft-iWARP (siw)",
        }
    }

    /// Whether the kernel does what a device would.
    #[must_use]
    pub fn is_software(self) -> bool {
        matches!(self, Self::SoftRoce | Self::SoftIwarp)
    }

    /// Whether it is RDMA over TCP.
    #[must_use]
    pub fn is_iwarp(self) -> bool {
        matches!(self, Self::Iwarp | Self::SoftIwarp)
    }
}

/// A port of a device.
#[derive(Debug, Clone)]
pub struct PortReport {
    /// Its number, from 1.
    pub number: u8,
    /// Whether it carries traffic.
    pub is_active: bool,
    /// In words.
    pub state: &'static str,
    /// Bytes of one packet, where there are such.
    pub mtu: Option<u32>,
    /// Most bytes of one message.
    pub message_bytes_max: u32,
    /// The network interfaces behind it, whose addresses are used.
    pub interfaces: Vec<String>,
    /// The addresses by which it is reached. Without rdma_cm none is known.
    pub addresses: Vec<PortAddress>,
}

impl PortReport {
    /// Whether it has an address that others can be told.
    #[must_use]
    pub fn has_address(&self) -> bool {
        self.addresses.iter().any(|address| !address.is_of_link())
    }

    /// Why no connection can be made over it, in one line.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        let number = self.number;
        if !self.is_active {
            return Some(format!("port {number} is {}", self.state));
        }
        if self.has_address() {
            return None;
        }
        let lacks = if self.addresses.is_empty() {
            "no IP address: rdma_cm cannot be used"
        } else {
            "no IP address but those of its link, which no client can be told of"
        };
        let (of, to) = match &self.interfaces[..] {
            [] => (String::new(), "INTERFACE"),
            [first, ..] => (format!(" ({})", self.interfaces.join(", ")), first.as_str()),
        };
        Some(format!(
            "port {number}{of} has {lacks}, give it one with `ip addr add ADDRESS/PREFIX dev {to}`"
        ))
    }

    /// Takes its addresses out of those of the machine, and names the interfaces that have them.
    fn take_addresses(&mut self, device: &str, all: &[Bound]) {
        let here = |known: &&Bound| known.device == device && known.port == self.number;
        let here = all.iter().filter(here).map(|known| known.address.clone());
        self.addresses = here.collect();
        for address in &self.addresses {
            if !self.interfaces.contains(&address.interface) {
                self.interfaces.push(address.interface.clone());
            }
        }
    }
}

impl DeviceReport {
    /// Whether connections can be made on it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.why_not().is_none()
    }

    /// Whether connections can be made on it once it has an address.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_sound().is_ok() && self.ports.iter().any(|port| port.is_active)
    }

    /// Why no connection can be made on it, in one line.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        if let Err(why) = self.is_sound() {
            return Some(why.clone());
        }
        let reasons: Vec<_> = self.ports.iter().filter_map(PortReport::why_not).collect();
        (reasons.len() == self.ports.len()).then(|| reasons.join(", "))
    }

    /// Whether it does what is asked of it, whatever its ports are.
    fn is_sound(&self) -> Result<(), &String> {
        let trouble = self.unusable.as_ref().or(self.memory.as_ref());
        trouble.map_or(Ok(()), Err)
    }
}

impl Survey {
    /// Why RDMA cannot be used, in one line; `None` when it can.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        self.unless(DeviceReport::is_usable)
    }

    /// Why RDMA could not be used even if ports without an address had one: such come and go while a server runs.
    #[must_use]
    pub fn why_not_ready(&self) -> Option<String> {
        self.unless(DeviceReport::is_ready)
    }

    /// Whether a port has an address that others can be told.
    #[must_use]
    pub fn has_address(&self) -> bool {
        let mut ports = self.devices.iter().flat_map(|device| &device.ports);
        ports.any(PortReport::has_address)
    }

    fn unless(&self, will_do: fn(&DeviceReport) -> bool) -> Option<String> {
        if let Some(why) = self.library.as_ref().or(self.connections.as_ref()) {
            return Some(why.clone());
        }
        if self.devices.is_empty() {
            return Some("there is no RDMA device".to_owned());
        }
        if self.devices.iter().any(will_do) {
            return None;
        }
        let reasons = self.devices.iter().filter_map(|device| {
            let why = device.why_not()?;
            Some(format!("{}: {why}", device.name))
        });
        Some(reasons.collect::<Vec<_>>().join("; "))
    }
}

/// Looks at all of it: opens each device for a moment and registers some memory with it.
#[must_use]
pub fn survey() -> Survey {
    let api = match api() {
        Ok(api) => api,
        Err(why) => {
            return Survey {
                library: Some(why.to_owned()),
                ..Survey::default()
            };
        }
    };
    let connections = Channel::new().err();
    let mut devices = devices(api);
    if connections.is_none() && !devices.is_empty() {
        let bound = bound();
        for device in &mut devices {
            let ports = device.ports.iter_mut();
            ports.for_each(|port| port.take_addresses(&device.name, &bound));
        }
    }
    Survey {
        library: None,
        connections: connections.map(|e| {
            format!("/dev/infiniband/rdma_cm cannot be used: {e} (the kernel's module is rdma_ucm)")
        }),
        devices,
    }
}

fn devices(api: &Api) -> Vec<DeviceReport> {
    let mut count = 0;
    // SAFETY: `count` takes the number of devices.
    let list = unsafe { (api.verbs.ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        return Vec::new();
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the list has so many devices, which live until it is freed.
    let listed = unsafe { std::slice::from_raw_parts(list, count) };
    // SAFETY: as above.
    let mut devices: Vec<_> = listed
        .iter()
        .map(|device| unsafe { report(api, *device) })
        .collect();
    // SAFETY: it was just got, and is not used any more.
    unsafe { (api.verbs.ibv_free_device_list)(list) };
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    devices
}

/// # Safety
/// The device is of a list that is not freed.
unsafe fn report(api: &Api, device: *mut Device) -> DeviceReport {
    // SAFETY: as the caller promises; its texts end with a zero.
    let (name, path, is_iwarp) = unsafe {
        let known = &*device;
        let is_iwarp = known.transport_type == sys::TRANSPORT_IWARP;
        (text(&known.name), text(&known.ibdev_path), is_iwarp)
    };
    let path = PathBuf::from(path);
    let kind = kind(&path, is_iwarp);
    let mut report = DeviceReport {
        name,
        kind,
        firmware: String::new(),
        unusable: None,
        memory: None,
        queue_pairs_max: 0,
        requests_max: 0,
        pieces_max: 0,
        reads_max: (0, 0),
        invalidates: false,
        shared_receives_max: 0,
        ports: Vec::new(),
    };
    // SAFETY: as the caller promises.
    let context = unsafe { (api.verbs.ibv_open_device)(device) };
    if context.is_null() {
        let e = io::Error::last_os_error();
        report.unusable = Some(format!("it cannot be opened: {e}"));
        return report;
    }
    // SAFETY: it was just opened.
    if let Err(e) = unsafe { inspect(api, context, &path, &mut report) } {
        report.unusable = Some(format!("it does not say what it can: {e}"));
    }
    // SAFETY: it was opened here, and nothing of it is left.
    unsafe { (api.verbs.ibv_close_device)(context) };
    report
}

/// # Safety
/// The context is open.
unsafe fn inspect(
    api: &Api,
    context: *mut Context,
    path: &Path,
    report: &mut DeviceReport,
) -> io::Result<()> {
    // SAFETY: as the caller promises.
    let attr = unsafe { attributes(api, context)? };
    report.firmware = text(&attr.fw_ver);
    report.queue_pairs_max = attr.max_qp;
    report.requests_max = attr.max_qp_wr;
    report.pieces_max = attr.max_sge;
    report.reads_max = (attr.max_qp_rd_atom, attr.max_qp_init_rd_atom);
    report.invalidates = attr.device_cap_flags & sys::DEVICE_MEM_MGT_EXTENSIONS != 0;
    if attr.max_srq > 0 {
        report.shared_receives_max = attr.max_srq_wr;
    }
    for number in 1..=attr.phys_port_cnt {
        // SAFETY: as the caller promises.
        let known = unsafe { port(api, context, number)? };
        report.ports.push(PortReport {
            number,
            is_active: known.state == sys::PORT_ACTIVE,
            state: state(known.state),
            // 256 is 1, and each further number the double.
            mtu: (1..=5)
                .contains(&known.active_mtu)
                .then(|| 128 << known.active_mtu),
            message_bytes_max: known.max_msg_sz,
            interfaces: interfaces(path, number),
            addresses: Vec::new(),
        });
    }
    // SAFETY: as the caller promises.
    report.memory = unsafe { try_memory(api, context) }.err().map(|e| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
        let limit = limit.current.map_or_else(
            || "without a limit".to_owned(),
            |bytes| format!("{} KiB", bytes >> 10),
        );
        format!(
            "{} MiB of memory cannot be registered: {e} (locked memory: {limit}; `ulimit -l`, LimitMEMLOCK= of systemd)",
            TRY_BYTES >> 20
        )
    });
    Ok(())
}

/// Registers as much memory as a slab, and takes it back.
///
/// # Safety
/// The context is open.
unsafe fn try_memory(api: &Api, context: *mut Context) -> io::Result<()> {
    let mut memory = vec![0_u8; TRY_BYTES];
    // SAFETY: the context is open.
    let pd = unsafe { (api.verbs.ibv_alloc_pd)(context) };
    if pd.is_null() {
        return Err(io::Error::last_os_error());
    }
    let start = memory.as_mut_ptr().cast();
    // SAFETY: the domain is live, and so is the memory until it is deregistered.
    let mr = unsafe { (api.verbs.ibv_reg_mr)(pd, start, TRY_BYTES, sys::ACCESS_LOCAL_WRITE) };
    let registered = if mr.is_null() {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: it was just made, and nobody uses it.
        check(unsafe { (api.verbs.ibv_dereg_mr)(mr) })
    };
    // SAFETY: it was made here, and is empty.
    let freed = check(unsafe { (api.verbs.ibv_dealloc_pd)(pd) });
    registered.and(freed)
}

/// What kind of device lies at this place of sysfs.
fn kind(path: &Path, is_iwarp: bool) -> DeviceKind {
    // What has no hardware is nowhere below a bus.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_software = real.starts_with("/sys/devices/virtual");
    let layer = read(&path.join("ports/1/link_layer"));
    match (is_iwarp, is_software) {
        (true, true) => DeviceKind::SoftIwarp,
        (true, false) => DeviceKind::Iwarp,
        (false, true) => DeviceKind::SoftRoce,
        (false, false) if layer.as_deref() == Some("Ethernet") => DeviceKind::Roce,
        (false, false) => DeviceKind::InfiniBand,
    }
}

fn state(state: i32) -> &'static str {
    match state {
        1 => "down",
        2 => "initialising (InfiniBand needs a subnet manager)",
        3 => "armed, not active yet",
        sys::PORT_ACTIVE => "active",
        5 => "active, deferred",
        _ => "in no known state",
    }
}

/// The text of an array that ends with a zero.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|c| c.to_ne_bytes()[0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    //! Goal: each reason that speaks against RDMA is said, the first one that matters.
    use super::*;

    fn device(state: &'static str) -> DeviceReport {
        DeviceReport {
            name: "rxe0".to_owned(),
            kind: DeviceKind::SoftRoce,
            firmware: String::new(),
            unusable: None,
            memory: None,
            queue_pairs_max: 1,
            requests_max: 1,
            pieces_max: 1,
            reads_max: (1, 1),
            invalidates: true,
            shared_receives_max: 1,
            ports: vec![port(1, state)],
        }
    }

    fn port(number: u8, state: &'static str) -> PortReport {
        PortReport {
            number,
            is_active: state == "active",
            state,
            mtu: Some(1024),
            message_bytes_max: 1,
            interfaces: vec!["eth1".to_owned()],
            addresses: Vec::new(),
        }
    }

    /// An address of the machine, on this port of the device.
    fn on(device: &str, port: u8, interface: &str, address: &str) -> Bound {
        Bound {
            device: device.to_owned(),
            port,
            address: PortAddress {
                address: address.parse().expect("an address"),
                interface: interface.to_owned(),
            },
        }
    }

    fn give(device: &mut DeviceReport, all: &[Bound]) {
        let ports = device.ports.iter_mut();
        ports.for_each(|port| port.take_addresses(&device.name, all));
    }

    #[test]
    fn the_reason_is_the_one_to_remove_first() {
        let why = |survey: &Survey| survey.why_not().unwrap_or_default();
        let mut all = Survey {
            library: Some("no library".to_owned()),
            connections: Some("no rdma_cm".to_owned()),
            devices: Vec::new(),
        };
        assert_eq!(why(&all), "no library");
        all.library = None;
        assert_eq!(why(&all), "no rdma_cm");
        all.connections = None;
        assert_eq!(why(&all), "there is no RDMA device");
        all.devices = vec![device("down"), device("down")];
        all.devices[1].memory = Some("no memory".to_owned());
        assert_eq!(why(&all), "rxe0: port 1 is down; rxe0: no memory");
        assert_eq!(all.why_not_ready(), all.why_not());
        all.devices.push(device("active"));
        assert!(why(&all).contains("rxe0: port 1 (eth1) has no IP address: rdma_cm"));
        assert_eq!((all.why_not_ready(), all.has_address()), (None, false));
        give(&mut all.devices[2], &[on("rxe0", 1, "eth1", "192.0.2.1")]);
        assert_eq!((all.why_not(), all.has_address()), (None, true));
    }

    #[test]
    fn a_port_is_reached_by_addresses_of_its_own() {
        let mut device = device("active");
        device.ports.push(port(2, "active"));
        device.ports[1].interfaces.clear();
        let elsewhere = on("rxe1", 1, "eth2", "192.0.2.3");
        let of_link = on("rxe0", 1, "eth1", "fe80::1");
        give(&mut device, &[elsewhere, of_link]);
        let why = device.why_not().expect("it has no address");
        assert_eq!(
            why,
            "port 1 (eth1) has no IP address but those of its link, which no client can be told of, give it one with \
             `ip addr add ADDRESS/PREFIX dev eth1`, port 2 has no IP address: rdma_cm cannot be used, give it one with \
             `ip addr add ADDRESS/PREFIX dev INTERFACE`"
        );
        give(&mut device, &[on("rxe0", 2, "eth1.5", "2001:db8::2")]);
        assert!(device.is_usable() && device.ports[0].why_not().is_some());
        assert_eq!(device.ports[1].interfaces, ["eth1.5"]);
    }

    #[test]
    fn a_machine_without_devices_can_be_asked() {
        let survey = survey();
        let usable = survey.devices.iter().any(DeviceReport::is_usable);
        assert_eq!(
            survey.why_not().is_none(),
            usable && survey.connections.is_none()
        );
    }
}
