//! A device, what it can do, and what it says of connections: a port that is down, a queue pair in an error state.
//!
//! librdmacm opens each device once in a process. It closes one that is gone when no identifier is on it any more. A device
//! on which a connection was made stays open as long as the process lives, held by an identifier of its own.

use crate::cm::{Channel, Id};
use crate::context::{attributes, check, name, port};
use crate::library::{Api, api};
use crate::sys::{self, AsyncEvent, Context, Qp};
use fabric::Fault;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Largest part of a transfer that goes in one work request. Larger ones would only keep others waiting.
const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// Pieces of one work request; more make each place of a queue larger.
const PIECES_MAX: u32 = 16;

/// What a device can do, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    pub(crate) is_iwarp: bool,
    /// Places of one queue.
    pub(crate) queue_max: u32,
    /// Places of one shared receive queue, 0 without such queues.
    pub(crate) shared_max: u32,
    /// Places of one completion queue.
    pub(crate) completions_max: u32,
    /// Pieces of one work request.
    pub(crate) pieces_max: u32,
    /// Reads that are served at a time, and outstanding.
    pub(crate) ird_max: u8,
    pub(crate) ord_max: u8,
    /// Whether a Send may invalidate.
    pub(crate) invalidates: bool,
    /// Bytes of one work request.
    pub(crate) request_bytes_max: u32,
}

/// A device that librdmacm has opened.
pub(crate) struct Device {
    pub(crate) api: &'static Api,
    context: *mut Context,
    pub(crate) name: String,
    pub(crate) caps: Caps,
    notices: Mutex<HashMap<usize, Arc<Notice>>>,
    /// Keeps the context open.
    _keeper: Id,
}

// SAFETY: libibverbs takes calls on one context from any thread; the rest is guarded.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The device that this identifier is on.
    pub(crate) fn open(id: &Id) -> io::Result<Self> {
        let absent = io::ErrorKind::AddrNotAvailable;
        let context = id.context().ok_or(absent)?;
        let keeper = Id::new(Channel::new()?)?;
        keeper.bind(id.local().ok_or(absent)?)?;
        if keeper.context() != Some(context) {
            return Err(absent.into());
        }
        let context = context.as_ptr();
        let api = api().map_err(io::Error::other)?;
        // SAFETY: it is open as long as the identifiers are.
        let (name, caps) = unsafe { (name(context), caps(api, context)?) };
        Ok(Self {
            api,
            context,
            name,
            caps,
            notices: Mutex::default(),
            _keeper: keeper,
        })
    }

    pub(crate) fn context(&self) -> *mut Context {
        self.context
    }

    /// The error of a function that takes something back, unless it only says that the device is gone. Then nothing
    /// works on its context any more. The kernel took back all that was there before it said so, and nobody reaches any
    /// memory through it.
    pub(crate) fn taken_back(&self, result: i32) -> io::Result<()> {
        // SAFETY: the context is open for ever, also without its device.
        let ask = || unsafe { attributes(self.api, self.context) };
        match check(result) {
            Err(e) if says_gone(&e, ask) => Ok(()),
            result => result,
        }
    }

    /// Has a queue pair's troubles told.
    pub(crate) fn watch(&self, qp: *mut Qp, port: u8) -> Arc<Notice> {
        let notice = Arc::new(Notice::new(port));
        self.notices.lock().insert(qp.addr(), Arc::clone(&notice));
        notice
    }

    /// The queue pair is about to go.
    pub(crate) fn forget(&self, qp: *mut Qp) {
        self.notices.lock().remove(&qp.addr());
    }

    /// Tells those whom an event of the device concerns.
    pub(crate) fn heard(&self, event: &AsyncEvent) {
        let notices = self.notices.lock();
        let trouble = match event.event_type {
            sys::EVENT_QP_FATAL | sys::EVENT_QP_REQ_ERR => Trouble::BadRequest,
            sys::EVENT_QP_ACCESS_ERR => Trouble::BadAccess,
            sys::EVENT_PORT_ERR => {
                // The number of the port is in the lowest octets of the union.
                let port = u8::try_from(event.element.addr() & 0xff).unwrap_or(0);
                tracing::warn!(device = %self.name, port, "the port is down");
                let here = notices.values().filter(|notice| notice.port == port);
                return here.for_each(|notice| notice.tell(Trouble::Down));
            }
            sys::EVENT_DEVICE_FATAL => {
                tracing::error!(device = %self.name, "the device has failed");
                return notices
                    .values()
                    .for_each(|notice| notice.tell(Trouble::Down));
            }
            _ => return,
        };
        if let Some(notice) = notices.get(&event.element.addr()) {
            notice.tell(trouble);
        }
    }
}

/// A context without its device answers everything with EIO. Firmware in trouble may say so of single requests.
fn says_gone<T>(failed: &io::Error, ask: impl FnOnce() -> io::Result<T>) -> bool {
    const EIO: i32 = 5;
    let is_eio = |e: &io::Error| e.raw_os_error() == Some(EIO);
    is_eio(failed) && ask().err().is_some_and(|e| is_eio(&e))
}

/// What a device says of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Trouble {
    /// The peer asked for what it must not.
    BadRequest = 1,
    /// The peer reached for memory that it must not touch.
    BadAccess = 2,
    /// The port is down, or the device is gone.
    Down = 3,
}

impl Trouble {
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::BadAccess => Fault::WrongRights,
            Self::BadRequest | Self::Down => Fault::Protocol,
        }
    }
}

/// Where the device's thread leaves word for the task of a connection.
#[derive(Debug)]
pub(crate) struct Notice {
    port: u8,
    trouble: AtomicU8,
    waker: AtomicWaker,
}

impl Notice {
    fn new(port: u8) -> Self {
        Self {
            port,
            trouble: AtomicU8::new(0),
            waker: AtomicWaker::new(),
        }
    }

    fn tell(&self, trouble: Trouble) {
        // The worst is remembered.
        self.trouble.fetch_max(trouble as u8, Ordering::Release);
        self.waker.wake();
    }

    /// What was said, if anything; the task is woken when something is.
    pub(crate) fn look(&self, cx: &std::task::Context<'_>) -> Option<Trouble> {
        self.waker.register(cx.waker());
        self.heard()
    }

    /// What was said, if anything.
    pub(crate) fn heard(&self) -> Option<Trouble> {
        match self.trouble.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Trouble::BadRequest),
            2 => Some(Trouble::BadAccess),
            _ => Some(Trouble::Down),
        }
    }
}

/// # Safety
/// The context is open.
unsafe fn caps(api: &Api, context: *mut Context) -> io::Result<Caps> {
    // SAFETY: as the caller promises.
    let attr = unsafe { attributes(api, context)? };
    let mut request_bytes_max = REQUEST_BYTES_MAX;
    for number in 1..=attr.phys_port_cnt {
        // SAFETY: as the caller promises.
        let port = unsafe { port(api, context, number)? };
        if port.max_msg_sz > 0 {
            request_bytes_max = request_bytes_max.min(port.max_msg_sz);
        }
    }
    let count = |n: i32| u32::try_from(n).unwrap_or(0);
    let reads = |n: i32| u8::try_from(n.clamp(0, 255)).unwrap_or(u8::MAX);
    // SAFETY: an open context has a device.
    let is_iwarp = unsafe { (*(*context).device).transport_type } == sys::TRANSPORT_IWARP;
    Ok(Caps {
        is_iwarp,
        queue_max: count(attr.max_qp_wr),
        // On iWARP a message without a receive ends its connection: none may wait for what another has taken.
        shared_max: if attr.max_srq > 0 && !is_iwarp {
            count(attr.max_srq_wr)
        } else {
            0
        },
        completions_max: count(attr.max_cqe),
        pieces_max: count(attr.max_sge).clamp(1, PIECES_MAX),
        ird_max: reads(attr.max_qp_rd_atom),
        ord_max: reads(attr.max_qp_init_rd_atom),
        invalidates: attr.device_cap_flags & sys::DEVICE_MEM_MGT_EXTENSIONS != 0,
        request_bytes_max,
    })
}

#[cfg(test)]
mod tests {
    //! Goal: memory is given back without its device's word only where there is no device.
    use super::*;

    #[test]
    fn only_a_context_that_answers_nothing_has_no_device() {
        let e = io::Error::from_raw_os_error;
        for (failed, asked, is_gone) in [
            (5, Err(e(5)), true),
            (5, Ok(()), false),
            (5, Err(e(11)), false),
            (16, Err(e(5)), false),
        ] {
            assert_eq!(says_gone(&e(failed), || asked), is_gone, "{failed}");
        }
    }
}
