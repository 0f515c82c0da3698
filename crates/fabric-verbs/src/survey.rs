//! What RDMA devices this machine has, and in words why they can or cannot be used.

use crate::cm::Channel;
use crate::device::{attributes, check, port};
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
    pub kind: Kind,
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
    /// Whether a message may take back memory of its receiver.
    pub invalidates: bool,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// What a device speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
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
    /// The network interface behind it, whose addresses are used.
    pub interface: Option<String>,
}

impl DeviceReport {
    /// Whether connections can be made on it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.why_not().is_none()
    }

    /// Why no connection can be made on it, in one line.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        if let Some(why) = self.unusable.as_ref().or(self.memory.as_ref()) {
            return Some(why.clone());
        }
        if self.ports.iter().any(|port| port.is_active) {
            return None;
        }
        let ports = self.ports.iter();
        let states = ports.map(|port| format!("port {} is {}", port.number, port.state));
        Some(states.collect::<Vec<_>>().join(", "))
    }
}

impl Survey {
    /// Why RDMA cannot be used, in one line; `None` when it can.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        if let Some(why) = self.library.as_ref().or(self.connections.as_ref()) {
            return Some(why.clone());
        }
        if self.devices.is_empty() {
            return Some("there is no RDMA device".to_owned());
        }
        if self.devices.iter().any(DeviceReport::is_usable) {
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
    Survey {
        library: None,
        connections: connections.map(|e| {
            format!("/dev/infiniband/rdma_cm cannot be used: {e} (the kernel's module is rdma_ucm)")
        }),
        devices: devices(api),
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
    for number in 1..=attr.phys_port_cnt {
        // SAFETY: as the caller promises.
        let known = unsafe { port(api, context, number)? };
        let interface = path.join(format!("ports/{number}/gid_attrs/ndevs/0"));
        report.ports.push(PortReport {
            number,
            is_active: known.state == sys::PORT_ACTIVE,
            state: state(known.state),
            // 256 is 1, and each further number the double.
            mtu: (1..=5)
                .contains(&known.active_mtu)
                .then(|| 128 << known.active_mtu),
            message_bytes_max: known.max_msg_sz,
            interface: read(&interface),
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
fn kind(path: &Path, is_iwarp: bool) -> Kind {
    // What has no hardware is nowhere below a bus.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_software = real.starts_with("/sys/devices/virtual");
    let layer = read(&path.join("ports/1/link_layer"));
    match (is_iwarp, is_software) {
        (true, true) => Kind::SoftIwarp,
        (true, false) => Kind::Iwarp,
        (false, true) => Kind::SoftRoce,
        (false, false) if layer.as_deref() == Some("Ethernet") => Kind::Roce,
        (false, false) => Kind::InfiniBand,
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

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
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
            kind: Kind::SoftRoce,
            firmware: String::new(),
            unusable: None,
            memory: None,
            queue_pairs_max: 1,
            requests_max: 1,
            pieces_max: 1,
            reads_max: (1, 1),
            invalidates: true,
            ports: vec![PortReport {
                number: 1,
                is_active: state == "active",
                state,
                mtu: Some(1024),
                message_bytes_max: 1,
                interface: None,
            }],
        }
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
        all.devices.push(device("active"));
        assert_eq!(all.why_not(), None);
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
