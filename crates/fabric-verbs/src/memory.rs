//! Registered memory: protection domains, slabs in them, and pieces that are registered for one purpose.
//!
//! # Ownership
//! A slab is registered in a domain, as a whole, when a buffer of it is first used there. It stays until the slab or
//! the domain goes. A connection that has the slabs it needs registers none any more. Slabs carry no right of remote
//! access: no peer can name them. What a peer may touch is registered for itself ([`Domain::register`]), in a domain of
//! that connection alone, out of reach of other peers. It is deregistered before its owner gets it back.
//!
//! # Failure
//! A registration that the kernel refuses (the limit of locked memory, as a rule) is an error of the one connection.
//! Memory whose device is gone is ours again without a word; where a device that is there does not give it back, the process stops.

use crate::device::Device;
use crate::sys::{self, Mr, Pd};
use fabric::SlabUser;
use parking_lot::RwLock;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// What a peer may do with registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing; this side sends from it and receives into it.
    Local,
    /// Read.
    RemoteRead,
    /// Write.
    RemoteWrite,
}

/// A protection domain and the slabs that are registered in it.
pub(crate) struct Domain {
    device: &'static Device,
    pd: NonNull<Pd>,
    /// By address; they never overlap.
    slabs: RwLock<Vec<Slab>>,
    /// Slabs that were registered and not counted by a connection yet.
    uncounted: AtomicU64,
    me: Weak<Domain>,
}

struct Slab {
    start: usize,
    end: usize,
    region: Region,
}

// SAFETY: libibverbs takes calls on one domain from any thread; the rest is guarded.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    /// An empty domain.
    pub(crate) fn new(device: &'static Device) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open for ever.
        let pd = unsafe { (device.api.verbs.ibv_alloc_pd)(device.context()) };
        let pd = NonNull::new(pd).ok_or_else(io::Error::last_os_error)?;
        Ok(Arc::new_cyclic(|me| Self {
            device,
            pd,
            slabs: RwLock::default(),
            uncounted: AtomicU64::new(0),
            me: me.clone(),
        }))
    }

    pub(crate) fn device(&self) -> &'static Device {
        self.device
    }

    pub(crate) fn pd(&self) -> *mut Pd {
        self.pd.as_ptr()
    }

    /// The local key of this memory, when it lies in a slab; the slab is registered if it is not yet.
    pub(crate) fn local_key(&self, start: usize, len: usize) -> io::Result<Option<u32>> {
        if let Some(key) = self.known(start, len) {
            return Ok(Some(key));
        }
        let Some(slab) = fabric::slab_at(start) else {
            return Ok(None);
        };
        let range = slab.range();
        if start + len > range.end {
            return Ok(None);
        }
        // Before it is registered, so that it never goes without this domain hearing of it.
        slab.tell(self.me.clone());
        let region = self.region(range.start, range.len(), Access::Local)?;
        self.uncounted.fetch_add(1, Relaxed);
        let mut slabs = self.slabs.write();
        let at = slabs.partition_point(|known| known.start < range.start);
        // Another thread may have been as quick.
        if slabs.get(at).is_none_or(|known| known.start != range.start) {
            let (start, end) = (range.start, range.end);
            slabs.insert(at, Slab { start, end, region });
        }
        Ok(Some(slabs[at].region.mr_ref().lkey))
    }

    /// Slabs that were registered since somebody last asked.
    pub(crate) fn take_uncounted(&self) -> u64 {
        match self.uncounted.load(Relaxed) {
            0 => 0,
            _ => self.uncounted.swap(0, Relaxed),
        }
    }

    fn known(&self, start: usize, len: usize) -> Option<u32> {
        let slabs = self.slabs.read();
        let at = slabs.partition_point(|slab| slab.start <= start);
        let slab = slabs.get(at.checked_sub(1)?)?;
        (start + len <= slab.end).then(|| slab.region.mr_ref().lkey)
    }

    /// Registers memory for one purpose.
    pub(crate) fn register(
        self: &Arc<Self>,
        start: usize,
        len: usize,
        access: Access,
    ) -> io::Result<Registered> {
        let region = self.region(start, len, access)?;
        Ok(Registered {
            region,
            _domain: Arc::clone(self),
        })
    }

    fn region(&self, start: usize, len: usize, access: Access) -> io::Result<Region> {
        let rights = match access {
            Access::Local => sys::ACCESS_LOCAL_WRITE,
            Access::RemoteRead => sys::ACCESS_REMOTE_READ,
            Access::RemoteWrite => sys::ACCESS_LOCAL_WRITE | sys::ACCESS_REMOTE_WRITE,
        };
        let start = std::ptr::with_exposed_provenance_mut(start);
        let api = &self.device.api.verbs;
        // SAFETY: the domain is live. Registering touches no byte: it fails where the process has no such memory.
        let mr = unsafe { (api.ibv_reg_mr)(self.pd(), start, len, rights) };
        let mr = NonNull::new(mr).ok_or_else(io::Error::last_os_error)?;
        let device = self.device;
        Ok(Region { mr, device })
    }
}

/// The key of memory of a buffer, which lies in a slab of its pool.
pub(crate) fn local_key(domain: &Domain, start: usize, length: u32) -> io::Result<u32> {
    let len = usize::try_from(length).expect("usize has 32 bits at least");
    let key = domain.local_key(start, len)?;
    Ok(key.expect("a buffer lies in a slab"))
}

impl SlabUser for Domain {
    fn forget(&self, start: usize) {
        let mut slabs = self.slabs.write();
        let at = slabs.iter().position(|slab| slab.start == start);
        let gone = at.map(|at| slabs.remove(at));
        // The device takes its time, and the data path looks for others meanwhile.
        drop(slabs);
        drop(gone);
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.slabs.get_mut().clear();
        // SAFETY: it is live until here, and nothing is registered in it. Slabs are gone; whatever was registered for
        // itself, or is a queue pair, holds the domain.
        let result = unsafe { (self.device.api.verbs.ibv_dealloc_pd)(self.pd()) };
        if let Err(e) = self.device.taken_back(result) {
            tracing::warn!(device = %self.device.name, "a protection domain is left behind: {e}");
        }
    }
}

/// A memory region; deregistered when dropped. Its domain outlives it.
struct Region {
    mr: NonNull<Mr>,
    device: &'static Device,
}

// SAFETY: libibverbs takes calls on one region from any thread.
unsafe impl Send for Region {}
// SAFETY: its fields do not change.
unsafe impl Sync for Region {}

impl Region {
    fn mr_ref(&self) -> &Mr {
        // SAFETY: it is live until it is dropped, and its fields do not change.
        unsafe { self.mr.as_ref() }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is live until here.
        let result = unsafe { (self.device.api.verbs.ibv_dereg_mr)(self.mr.as_ptr()) };
        if let Err(e) = self.device.taken_back(result) {
            // A peer may still reach this memory; giving it back would be worse than stopping.
            panic!("memory cannot be taken back from {}: {e}", self.device.name);
        }
    }
}

/// Memory that was registered for one purpose; no peer can touch it any more once this is dropped.
pub(crate) struct Registered {
    region: Region,
    /// Behind the region, so that it goes last.
    _domain: Arc<Domain>,
}

impl Registered {
    pub(crate) fn local_key(&self) -> u32 {
        self.region.mr_ref().lkey
    }

    pub(crate) fn remote_key(&self) -> u32 {
        self.region.mr_ref().rkey
    }
}
