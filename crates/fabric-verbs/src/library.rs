//! libibverbs and librdmacm, loaded when first asked for, so that a program that never uses RDMA starts without them.
//!
//! They stay loaded as long as the process lives: drivers start threads and the kernel holds queues of theirs.

use crate::sys::{
    AsyncEvent, CmEvent, CmId, CompChannel, ConnParam, Context, Cq, Device, DeviceAttr,
    EventChannel, Mr, Pd, PortAttr, Qp, QpAttr, QpInitAttr, RecvWr, SendWr, SockaddrStorage, Srq,
    SrqAttr, SrqInitAttr, Wc,
};
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// Names of the libraries: those of their binary interface, not of a release.
const VERBS: &str = "libibverbs.so.1";
const CM: &str = "librdmacm.so.1";

macro_rules! functions {
    ($(#[$doc:meta])* $name:ident { $($field:ident: fn($($argument:ty),*) $(-> $result:ty)?;)+ }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl $name {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the symbol is a function of the documented interface, whose parameters and result
                    // are written down here; the library is never unloaded.
                    $($field: unsafe { *library.get(concat!(stringify!($field), "\0").as_bytes())? },)+
                })
            }
        }
    };
}

functions! {
    /// Functions of libibverbs. Those that give an integer give 0 or an error number, unless their caller says otherwise.
    Verbs {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut Device;
        ibv_free_device_list: fn(*mut *mut Device);
        ibv_open_device: fn(*mut Device) -> *mut Context;
        ibv_close_device: fn(*mut Context) -> c_int;
        ibv_query_device: fn(*mut Context, *mut DeviceAttr) -> c_int;
        ibv_query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int;
        ibv_alloc_pd: fn(*mut Context) -> *mut Pd;
        ibv_dealloc_pd: fn(*mut Pd) -> c_int;
        ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
        ibv_dereg_mr: fn(*mut Mr) -> c_int;
        ibv_create_comp_channel: fn(*mut Context) -> *mut CompChannel;
        ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int;
        ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
        ibv_destroy_cq: fn(*mut Cq) -> c_int;
        ibv_get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut Cq, u32);
        ibv_create_srq: fn(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
        ibv_modify_srq: fn(*mut Srq, *mut SrqAttr, c_int) -> c_int;
        ibv_destroy_srq: fn(*mut Srq) -> c_int;
        ibv_modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
        ibv_query_qp: fn(*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int;
        ibv_get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int;
        ibv_ack_async_event: fn(*mut AsyncEvent);
    }
}

functions! {
    /// Functions of librdmacm. Those that give an integer give 0, or -1 and set the error number.
    Cm {
        rdma_create_event_channel: fn() -> *mut EventChannel;
        rdma_destroy_event_channel: fn(*mut EventChannel);
        rdma_create_id: fn(*mut EventChannel, *mut *mut CmId, *mut c_void, c_int) -> c_int;
        rdma_destroy_id: fn(*mut CmId) -> c_int;
        rdma_bind_addr: fn(*mut CmId, *mut SockaddrStorage) -> c_int;
        rdma_listen: fn(*mut CmId, c_int) -> c_int;
        rdma_resolve_addr: fn(*mut CmId, *mut SockaddrStorage, *mut SockaddrStorage, c_int) -> c_int;
        rdma_resolve_route: fn(*mut CmId, c_int) -> c_int;
        rdma_create_qp: fn(*mut CmId, *mut Pd, *mut QpInitAttr) -> c_int;
        rdma_destroy_qp: fn(*mut CmId);
        rdma_connect: fn(*mut CmId, *mut ConnParam) -> c_int;
        rdma_accept: fn(*mut CmId, *mut ConnParam) -> c_int;
        rdma_reject: fn(*mut CmId, *const c_void, u8) -> c_int;
        rdma_disconnect: fn(*mut CmId) -> c_int;
        rdma_get_cm_event: fn(*mut EventChannel, *mut *mut CmEvent) -> c_int;
        rdma_ack_cm_event: fn(*mut CmEvent) -> c_int;
        rdma_migrate_id: fn(*mut CmId, *mut EventChannel) -> c_int;
        rdma_get_src_port: fn(*mut CmId) -> u16;
    }
}

/// Both libraries.
pub(crate) struct Api {
    pub(crate) verbs: Verbs,
    pub(crate) cm: Cm,
}

/// Both libraries, or why they cannot be used, in one line.
pub(crate) fn api() -> Result<&'static Api, &'static str> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(String::as_str)
}

fn load() -> Result<Api, String> {
    let verbs = open(VERBS)?;
    let cm = open(CM)?;
    let lacks =
        |name: &str, e: libloading::Error| format!("{name} is not the one that is known: {e}");
    let api = Api {
        verbs: Verbs::find(&verbs).map_err(|e| lacks(VERBS, e))?,
        cm: Cm::find(&cm).map_err(|e| lacks(CM, e))?,
    };
    std::mem::forget((verbs, cm));
    Ok(api)
}

fn open(name: &str) -> Result<Library, String> {
    // SAFETY: the initialisers of rdma-core's libraries ask nothing of who loads them.
    unsafe { Library::new(name) }.map_err(|e| format!("{name} cannot be loaded: {e}"))
}

impl Verbs {
    /// Takes up to as many completions as there is room for.
    ///
    /// # Safety
    /// `cq` is a live completion queue.
    pub(crate) unsafe fn poll_cq(cq: *mut Cq, room: &mut [Wc]) -> c_int {
        let count = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
        // SAFETY: a live queue has a live context, whose table has this function.
        let poll = unsafe { (*(*cq).context).ops.poll_cq };
        // SAFETY: as the caller promises; `room` takes `count` completions.
        unsafe { poll(cq, count, room.as_mut_ptr()) }
    }

    /// Has the next completion announced.
    ///
    /// # Safety
    /// `cq` is a live completion queue.
    pub(crate) unsafe fn req_notify_cq(cq: *mut Cq) -> c_int {
        // SAFETY: a live queue has a live context, whose table has this function.
        let notify = unsafe { (*(*cq).context).ops.req_notify_cq };
        // SAFETY: as the caller promises.
        unsafe { notify(cq, 0) }
    }

    /// Posts a list of work requests.
    ///
    /// # Safety
    /// `qp` is a live queue pair; `first` begins a list of requests with live pieces, whose memory stays until they have
    /// completed.
    pub(crate) unsafe fn post_send(qp: *mut Qp, first: *mut SendWr) -> c_int {
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue pair has a live context, whose table has this function.
        let post = unsafe { (*(*qp).context).ops.post_send };
        // SAFETY: as the caller promises.
        unsafe { post(qp, first, &raw mut bad) }
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// As for [`Verbs::post_send`].
    pub(crate) unsafe fn post_recv(qp: *mut Qp, first: *mut RecvWr) -> c_int {
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue pair has a live context, whose table has this function.
        let post = unsafe { (*(*qp).context).ops.post_recv };
        // SAFETY: as the caller promises.
        unsafe { post(qp, first, &raw mut bad) }
    }

    /// Posts a receive that connections share.
    ///
    /// # Safety
    /// As for [`Verbs::post_send`], with a live shared receive queue.
    pub(crate) unsafe fn post_srq_recv(srq: *mut Srq, first: *mut RecvWr) -> c_int {
        /// Linux's number of "not supported".
        const EOPNOTSUPP: c_int = 95;
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue has a live context, whose table has this function or nothing.
        let Some(post) = (unsafe { (*(*srq).context).ops.post_srq_recv }) else {
            return EOPNOTSUPP;
        };
        // SAFETY: as the caller promises.
        unsafe { post(srq, first, &raw mut bad) }
    }
}
