//! Devices in use: what their connections share, and the threads that take what they say.
//!
//! A thread sleeps until its device has an event.

use crate::cm::Id;
use crate::device::Device;
use crate::memory::Domain;
use crate::shared::SharedReceives;
use crate::sys::{self, AsyncEvent};
use fabric::ReceiveQueue;
use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, OnceLock, Weak};

/// A device in use.
pub(crate) struct InUse {
    pub(crate) device: Device,
    /// Memory of connections that expose none.
    shared: OnceLock<Arc<Domain>>,
    /// Receives that connections share. A queue goes with its last connection.
    receives: Mutex<Vec<Weak<SharedReceives>>>,
}

impl InUse {
    /// The device that this identifier is on.
    pub(crate) fn of(id: &Id) -> io::Result<&'static Self> {
        static DEVICES: Mutex<Vec<&InUse>> = Mutex::new(Vec::new());
        let context = id.context().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut devices = DEVICES.lock();
        let is_of = |known: &&&Self| known.device.context() == context.as_ptr();
        if let Some(known) = devices.iter().find(is_of) {
            return Ok(known);
        }
        // There are as many as the machine has had devices.
        let in_use: &'static Self = Box::leak(Box::new(Self {
            device: Device::open(id)?,
            shared: OnceLock::new(),
            receives: Mutex::default(),
        }));
        let listening = std::thread::Builder::new().name("rdma-events".to_owned());
        listening.spawn(|| in_use.listen())?;
        devices.push(in_use);
        Ok(in_use)
    }

    /// Memory that all connections share which expose none of theirs.
    pub(crate) fn shared(&'static self) -> io::Result<Arc<Domain>> {
        if let Some(domain) = self.shared.get() {
            return Ok(Arc::clone(domain));
        }
        let domain = Domain::new(&self.device)?;
        Ok(Arc::clone(self.shared.get_or_init(|| domain)))
    }

    /// Receives of `queue` that connections of this device share, with room for a connection that begins with so many messages. `None`
    /// where there is no such thing.
    pub(crate) fn receives(
        &'static self,
        queue: &ReceiveQueue,
        messages: u32,
    ) -> io::Result<Option<Arc<SharedReceives>>> {
        if self.device.caps.shared_max == 0 {
            return Ok(None);
        }
        let fits = |known: &Arc<SharedReceives>| known.is_of(queue) && known.takes(messages);
        if let Some(known) = self.known_receives().into_iter().find(fits) {
            return Ok(Some(known));
        }
        let made = SharedReceives::new(self.shared()?, queue.clone())?;
        let mut receives = self.receives.lock();
        receives.retain(|known| known.strong_count() > 0);
        receives.push(Arc::downgrade(&made));
        Ok(Some(made))
    }

    /// Those that are there, without the lock: the last handle of one waits for the thread of this device when it goes.
    fn known_receives(&self) -> Vec<Arc<SharedReceives>> {
        let receives = self.receives.lock();
        receives.iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes what the device says, for ever.
    fn listen(&self) {
        loop {
            let mut event = AsyncEvent {
                element: std::ptr::null_mut(),
                event_type: 0,
            };
            // SAFETY: the context is open for ever; `event` takes an event.
            if unsafe {
                (self.device.api.verbs.ibv_get_async_event)(self.device.context(), &raw mut event)
            } != 0
            {
                let e = io::Error::last_os_error();
                if e.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                tracing::warn!(device = %self.device.name, "no more news of the device: {e}");
                return;
            }
            let of_receives = self.heard_of_receives(&event);
            if of_receives.is_none() {
                self.device.heard(&event);
            }
            // SAFETY: it was just got, and is acknowledged once. What it names lives until then.
            unsafe { (self.device.api.verbs.ibv_ack_async_event)(&raw mut event) };
            // After it: this may be the last one, and destroying a queue waits for the acknowledgement.
            drop(of_receives);
        }
    }

    /// Tells receives that are shared what the device says of them.
    fn heard_of_receives(&self, event: &AsyncEvent) -> Option<Arc<SharedReceives>> {
        if ![sys::EVENT_SRQ_ERR, sys::EVENT_SRQ_LIMIT_REACHED].contains(&event.event_type) {
            return None;
        }
        let at = event.element.addr();
        let mut known = self.known_receives().into_iter();
        let known = known.find(|known| known.address() == at)?;
        if event.event_type == sys::EVENT_SRQ_ERR {
            tracing::error!(device = %self.device.name, "a shared receive queue has failed");
            known.failed();
        } else {
            known.ran_low();
        }
        Some(known)
    }
}
