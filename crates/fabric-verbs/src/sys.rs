//! The binary interface of rdma-core: what its functions take and give, as laid out in memory.
//!
//! Written from the documented interface of libibverbs and librdmacm (`IBVERBS_1.1`, `RDMACM_1.0`). What is used here
//! has not changed since 2008. Only the fields that are used have their names; the rest is room. Sizes and offsets are
//! those that a C compiler gives for the public headers on 64-bit Linux. They are asserted at the end of this file, so
//! a slip does not compile. The verbs of the data path (`ibv_post_send`, `ibv_post_recv`, `ibv_post_srq_recv`,
//! `ibv_poll_cq`, `ibv_req_notify_cq`) are no symbols of the library. The C header defines them as calls through the
//! table in [`Context`], and so does this crate.

use std::ffi::{c_char, c_int, c_void};

/// An opened device.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut Device,
    pub(crate) ops: ContextOps,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
}

type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
type ReqNotifyCq = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;
type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
type PostRecv = unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int;
type PostSrqRecv = unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int;

/// The functions of a device's driver. Each is there for every driver, but what is for shared receive queues: the library puts something
/// that only fails where a driver has none.
#[repr(C)]
pub(crate) struct ContextOps {
    before_poll_cq: [*mut c_void; 11],
    pub(crate) poll_cq: PollCq,
    pub(crate) req_notify_cq: ReqNotifyCq,
    before_post_srq_recv: [*mut c_void; 7],
    pub(crate) post_srq_recv: Option<PostSrqRecv>,
    before_post_send: [*mut c_void; 4],
    pub(crate) post_send: PostSend,
    pub(crate) post_recv: PostRecv,
    after_post_recv: [*mut c_void; 5],
}

/// A device of this machine.
#[repr(C)]
pub(crate) struct Device {
    ops: [*mut c_void; 2],
    pub(crate) node_type: c_int,
    pub(crate) transport_type: c_int,
    pub(crate) name: [c_char; 64],
    dev_name: [c_char; 64],
    dev_path: [c_char; 256],
    pub(crate) ibdev_path: [c_char; 256],
}

/// `transport_type` of iWARP devices.
pub(crate) const TRANSPORT_IWARP: c_int = 1;

/// What a device can do at most.
#[repr(C)]
pub(crate) struct DeviceAttr {
    pub(crate) fw_ver: [c_char; 64],
    guids: [u64; 2],
    pub(crate) max_mr_size: u64,
    page_size_cap: u64,
    pub(crate) vendor_id: u32,
    vendor_part_id: u32,
    hw_ver: u32,
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    pub(crate) device_cap_flags: u32,
    pub(crate) max_sge: c_int,
    max_sge_rd: c_int,
    max_cq: c_int,
    pub(crate) max_cqe: c_int,
    pub(crate) max_mr: c_int,
    max_pd: c_int,
    pub(crate) max_qp_rd_atom: c_int,
    ee_and_res: [c_int; 2],
    pub(crate) max_qp_init_rd_atom: c_int,
    rest: [c_int; 13],
    pub(crate) max_srq: c_int,
    pub(crate) max_srq_wr: c_int,
    max_srq_sge: c_int,
    max_pkeys: u16,
    local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

/// In [`DeviceAttr::device_cap_flags`]: Send with invalidation, local invalidation and fast registration, which come together.
pub(crate) const DEVICE_MEM_MGT_EXTENSIONS: u32 = 1 << 21;

/// A port of a device.
#[repr(C)]
#[derive(Default)]
pub(crate) struct PortAttr {
    pub(crate) state: c_int,
    max_mtu: c_int,
    pub(crate) active_mtu: c_int,
    gid_tbl_len: c_int,
    port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    counters: [u32; 2],
    pkey_tbl_len: u16,
    lids: [u16; 2],
    lmc: u8,
    max_vl_num: u8,
    sm_sl: u8,
    subnet_timeout: u8,
    init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    pub(crate) phys_state: u8,
    link_layer: u8,
    flags: u8,
}

/// [`PortAttr::state`] of a port that carries traffic.
pub(crate) const PORT_ACTIVE: c_int = 4;

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    context: *mut Context,
    handle: u32,
}

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    context: *mut Context,
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

pub(crate) const ACCESS_LOCAL_WRITE: c_int = 1;
pub(crate) const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(crate) const ACCESS_REMOTE_READ: c_int = 1 << 2;

/// Where completion queues say that something has arrived.
#[repr(C)]
pub(crate) struct CompChannel {
    context: *mut Context,
    pub(crate) fd: c_int,
    refcnt: c_int,
}

/// A completion queue. The driver has more after this.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) context: *mut Context,
}

/// A queue pair. The library has more after this.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) context: *mut Context,
    pub(crate) qp_context: *mut c_void,
    pd: *mut Pd,
    cqs_and_srq: [*mut c_void; 3],
    handle: u32,
    pub(crate) qp_num: u32,
}

/// A shared receive queue. The library has more after this.
#[repr(C)]
pub(crate) struct Srq {
    pub(crate) context: *mut Context,
}

#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(crate) struct SrqAttr {
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

#[repr(C)]
pub(crate) struct SrqInitAttr {
    pub(crate) srq_context: *mut c_void,
    pub(crate) attr: SrqAttr,
}

/// Of [`SrqAttr`], only [`SrqAttr::srq_limit`] counts.
pub(crate) const SRQ_LIMIT: c_int = 1 << 1;

#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(crate) struct QpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

#[repr(C)]
pub(crate) struct QpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut Srq,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: c_int,
    pub(crate) sq_sig_all: c_int,
}

/// `qp_type` of reliable connections.
pub(crate) const QPT_RC: c_int = 2;

/// State of a queue pair. The library writes no more than the 144 bytes of its own.
#[repr(C)]
pub(crate) struct QpAttr {
    pub(crate) qp_state: c_int,
    cur_qp_state: c_int,
    before_min_rnr_timer: [u64; 15],
    pub(crate) min_rnr_timer: u8,
    rest: [u8; 15],
}

impl QpAttr {
    pub(crate) fn with_state(qp_state: c_int) -> Self {
        Self {
            qp_state,
            cur_qp_state: 0,
            before_min_rnr_timer: [0; 15],
            min_rnr_timer: 0,
            rest: [0; 15],
        }
    }
}

pub(crate) const QP_STATE: c_int = 1;
pub(crate) const QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(crate) const QPS_ERR: c_int = 6;
pub(crate) const QPS_SQE: c_int = 5;

/// A piece of registered memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// A work request of the send queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SendWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut SendWr,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: c_int,
    pub(crate) send_flags: u32,
    pub(crate) invalidate_rkey: u32,
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    rest: [u32; 19],
}

impl SendWr {
    /// A request that moves nothing; the caller fills in what it does.
    pub(crate) const EMPTY: Self = Self {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 0,
        opcode: 0,
        send_flags: 0,
        invalidate_rkey: 0,
        remote_addr: 0,
        rkey: 0,
        rest: [0; 19],
    };
}

pub(crate) const WR_RDMA_WRITE: c_int = 0;
pub(crate) const WR_SEND: c_int = 2;
pub(crate) const WR_RDMA_READ: c_int = 4;
pub(crate) const WR_SEND_WITH_INV: c_int = 9;

pub(crate) const SEND_SIGNALED: u32 = 1 << 1;
pub(crate) const SEND_INLINE: u32 = 1 << 3;

/// A work request of the receive queue.
#[repr(C)]
pub(crate) struct RecvWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut RecvWr,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: c_int,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Wc {
    pub(crate) wr_id: u64,
    pub(crate) status: c_int,
    pub(crate) opcode: c_int,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_or_invalidated: u32,
    qp_num: u32,
    src_qp: u32,
    pub(crate) wc_flags: u32,
    rest: [u16; 4],
}

pub(crate) const WC_SUCCESS: c_int = 0;
pub(crate) const WC_LOC_LEN_ERR: c_int = 1;
pub(crate) const WC_LOC_QP_OP_ERR: c_int = 2;
pub(crate) const WC_WR_FLUSH_ERR: c_int = 5;
pub(crate) const WC_REM_INV_REQ_ERR: c_int = 9;
pub(crate) const WC_REM_ACCESS_ERR: c_int = 10;
pub(crate) const WC_REM_OP_ERR: c_int = 11;
pub(crate) const WC_RETRY_EXC_ERR: c_int = 12;
pub(crate) const WC_RNR_RETRY_EXC_ERR: c_int = 13;

/// Something that happened to a device, a port or a queue pair.
#[repr(C)]
pub(crate) struct AsyncEvent {
    /// A queue pair, a completion queue, a shared receive queue or the number of a port, as the type says.
    pub(crate) element: *mut c_void,
    pub(crate) event_type: c_int,
}

pub(crate) const EVENT_QP_FATAL: c_int = 1;
pub(crate) const EVENT_QP_REQ_ERR: c_int = 2;
pub(crate) const EVENT_QP_ACCESS_ERR: c_int = 3;
pub(crate) const EVENT_DEVICE_FATAL: c_int = 8;
pub(crate) const EVENT_PORT_ERR: c_int = 10;
pub(crate) const EVENT_SRQ_ERR: c_int = 14;
pub(crate) const EVENT_SRQ_LIMIT_REACHED: c_int = 15;

/// Where connection managers report.
#[repr(C)]
pub(crate) struct EventChannel {
    pub(crate) fd: c_int,
}

/// Room for a socket address.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct SockaddrStorage {
    pub(crate) bytes: [u8; 128],
}

/// A connection, or a listener.
#[repr(C)]
pub(crate) struct CmId {
    pub(crate) verbs: *mut Context,
    channel: *mut EventChannel,
    context: *mut c_void,
    pub(crate) qp: *mut Qp,
    pub(crate) src: SockaddrStorage,
    pub(crate) dst: SockaddrStorage,
    ib_addr: [u64; 5],
    paths: [u64; 2],
    ps: c_int,
    pub(crate) port_num: u8,
}

/// The port space of reliable connections.
pub(crate) const PS_TCP: c_int = 0x0106;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ConnParam {
    pub(crate) private_data: *const c_void,
    pub(crate) private_data_len: u8,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) srq: u8,
    pub(crate) qp_num: u32,
}

#[repr(C)]
pub(crate) struct CmEvent {
    pub(crate) id: *mut CmId,
    pub(crate) listen_id: *mut CmId,
    pub(crate) event: c_int,
    pub(crate) status: c_int,
    pub(crate) conn: ConnParam,
}

pub(crate) const CM_ADDR_RESOLVED: c_int = 0;
pub(crate) const CM_ROUTE_RESOLVED: c_int = 2;
pub(crate) const CM_CONNECT_REQUEST: c_int = 4;
pub(crate) const CM_UNREACHABLE: c_int = 7;
pub(crate) const CM_REJECTED: c_int = 8;
pub(crate) const CM_ESTABLISHED: c_int = 9;
pub(crate) const CM_DISCONNECTED: c_int = 10;
pub(crate) const CM_DEVICE_REMOVAL: c_int = 11;

/// InfiniBand's reason of a rejection that the peer's program asked for.
pub(crate) const REJECT_CONSUMER_DEFINED: c_int = 28;

// What a C compiler says of the public headers of rdma-core 44 (`sizeof`, `offsetof`) on 64-bit Linux.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("the layouts of this crate are those of 64-bit machines");

macro_rules! offsets {
    ($($type:ident { $($($field:ident).+ = $offset:literal),+ })+) => {
        $($(const _: () = assert!(std::mem::offset_of!($type, $($field).+) == $offset);)+)+
    };
}

macro_rules! sizes {
    ($($type:ident = $size:literal),+) => {
        $(const _: () = assert!(size_of::<$type>() == $size);)+
    };
}

sizes! {
    ContextOps = 256, Device = 664, DeviceAttr = 232, Pd = 16, Mr = 48, CompChannel = 16, QpCap = 20, QpInitAttr = 64, SrqAttr = 12,
    SrqInitAttr = 24,
    QpAttr = 144, Sge = 16, SendWr = 128, RecvWr = 32, Wc = 48, AsyncEvent = 16, EventChannel = 4, ConnParam = 24
}

offsets! {
    Context {
        ops = 8, ops.poll_cq = 96, ops.req_notify_cq = 104, ops.post_srq_recv = 168, ops.post_send = 208,
        ops.post_recv = 216, cmd_fd = 264, async_fd = 268, num_comp_vectors = 272
    }
    Device { node_type = 16, transport_type = 20, name = 24, ibdev_path = 408 }
    DeviceAttr {
        max_mr_size = 80, vendor_id = 96, max_qp = 108, max_qp_wr = 112, device_cap_flags = 116, max_sge = 120,
        max_cqe = 132, max_mr = 136, max_qp_rd_atom = 144, max_qp_init_rd_atom = 156, max_srq = 212,
        max_srq_wr = 216, phys_port_cnt = 227
    }
    PortAttr {
        state = 0, active_mtu = 8, max_msg_sz = 20, active_width = 43, active_speed = 44, phys_state = 45,
        link_layer = 46
    }
    Mr { lkey = 36, rkey = 40 }
    CompChannel { fd = 8 }
    Cq { context = 0 }
    Qp { context = 0, qp_num = 52 }
    Srq { context = 0 }
    SrqAttr { max_wr = 0, max_sge = 4, srq_limit = 8 }
    SrqInitAttr { attr = 8 }
    QpInitAttr { send_cq = 8, recv_cq = 16, srq = 24, cap = 32, qp_type = 52, sq_sig_all = 56 }
    QpAttr { qp_state = 0, min_rnr_timer = 128 }
    Sge { length = 8, lkey = 12 }
    SendWr {
        next = 8, sg_list = 16, num_sge = 24, opcode = 28, send_flags = 32, invalidate_rkey = 36, remote_addr = 40,
        rkey = 48
    }
    RecvWr { next = 8, sg_list = 16, num_sge = 24 }
    Wc { status = 8, opcode = 12, vendor_err = 16, byte_len = 20, imm_or_invalidated = 24, wc_flags = 36 }
    AsyncEvent { event_type = 8 }
    CmId { verbs = 0, qp = 24, src = 32, dst = 160, ps = 344, port_num = 348 }
    ConnParam { private_data_len = 8, rnr_retry_count = 13, qp_num = 16 }
    CmEvent { id = 0, listen_id = 8, event = 16, status = 20, conn = 24 }
}
// The library writes as much of a port as it knows; the headers' own form has 52 octets.
const _: () = assert!(size_of::<PortAttr>() >= 48);
