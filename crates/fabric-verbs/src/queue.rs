//! A queue pair and its completion queue: the verbs of the data path.
//!
//! # Ownership
//! Memory that was posted belongs to the device until its completion is taken or the queue pair is destroyed
//! ([`Queue::into_id`], or dropping it). Destroying waits until the device has let go. Receives that are shared stay
//! with their queue ([`crate::shared`]).

use crate::cm::{Id, set_nonblocking};
use crate::context::check;
use crate::device::Notice;
use crate::library::Verbs;
use crate::memory::Domain;
use crate::shared::SharedReceives;
use crate::sys::{
    self, CompChannel, Cq, Qp, QpAttr, QpCap, QpInitAttr, RecvWr, SendWr, Sge, Srq, Wc,
};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use tokio::io::unix::AsyncFd;

/// Bytes that are asked to fit into a work request itself.
const INLINE_BYTES: u32 = 64;
/// How long a peer whose message found no receive waits before it tries again, in InfiniBand's code for 0.64 ms. The least that is asked
/// for by default is 655 ms.
const MIN_RNR_TIMER: u8 = 12;
/// Completions taken at a time while a queue pair goes away.
const TAKEN_TOGETHER: usize = 16;
/// Announcements that are acknowledged together: each acknowledgement takes a lock.
const ACKNOWLEDGED_TOGETHER: u32 = 64;

/// Sizes of a queue pair, as the device gave them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    /// Pieces of one work request of the send queue.
    pub(crate) pieces: u32,
    /// Bytes that fit into one.
    pub(crate) inline_bytes: u32,
}

/// A queue pair, with all that belongs to it.
pub(crate) struct Queue {
    qp: NonNull<Qp>,
    completions: Completions,
    /// `None` once it was handed on.
    id: Option<Id>,
    notice: Arc<Notice>,
    domain: Arc<Domain>,
    pub(crate) sizes: Sizes,
    /// Held until the queue pair is gone.
    shared: Option<Arc<SharedReceives>>,
}

// SAFETY: libibverbs takes calls on one queue pair from any thread, and this is the only handle of it.
unsafe impl Send for Queue {}

impl Queue {
    /// A queue pair for `id`, whose device is chosen, in a domain of that device. It has receives of its own, unless it takes them from
    /// those that are `shared`: then there is room for so many completions.
    pub(crate) fn new(
        id: Id,
        domain: Arc<Domain>,
        (sends, receives): (u32, u32),
        shared: Option<Arc<SharedReceives>>,
    ) -> io::Result<Self> {
        let device = domain.device();
        let caps = device.caps;
        let sends = sends.min(caps.queue_max).max(1);
        let receives = receives.min(caps.queue_max).max(1);
        let entries = sends.saturating_add(receives).min(caps.completions_max);
        let completions = Completions::new(&domain, entries)?;
        let mut sizes = Sizes {
            sends,
            receives,
            pieces: caps.pieces_max,
            inline_bytes: INLINE_BYTES,
        };
        let srq = shared.as_ref().map(|shared| shared.raw());
        let mut created = create(&id, &domain, &completions, sizes, srq);
        if created.is_err() {
            sizes.inline_bytes = 0;
            created = create(&id, &domain, &completions, sizes, srq);
        }
        created?;
        // SAFETY: the identifier is live.
        let qp = unsafe { (*id.raw()).qp };
        let qp = NonNull::new(qp).ok_or(io::ErrorKind::Other)?;
        let notice = device.watch(qp.as_ptr(), id.port());
        Ok(Self {
            qp,
            completions,
            id: Some(id),
            notice,
            domain,
            sizes,
            shared,
        })
    }

    /// Has a peer whose message finds no receive try again soon. To be said once the connection is made.
    pub(crate) fn hurry_peer(&self) {
        let mut attr = QpAttr::with_state(0);
        attr.min_rnr_timer = MIN_RNR_TIMER;
        let device = self.domain.device();
        let modify = device.api.verbs.ibv_modify_qp;
        // SAFETY: the queue pair is live; the function reads what is told.
        let told = unsafe { modify(self.qp.as_ptr(), &raw mut attr, sys::QP_MIN_RNR_TIMER) };
        if let Err(e) = check(told) {
            tracing::debug!(device = %device.name, "peers wait long for receives: {e}");
        }
    }

    pub(crate) fn id(&self) -> &Id {
        self.id.as_ref().expect("it was not handed on")
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    pub(crate) fn notice(&self) -> &Notice {
        &self.notice
    }

    /// Takes completions that are there.
    pub(crate) fn poll(&mut self, room: &mut [Wc]) -> io::Result<usize> {
        // SAFETY: the completion queue is live.
        let count = unsafe { Verbs::poll_cq(self.completions.cq.as_ptr(), room) };
        usize::try_from(count).map_err(|_| io::Error::from(io::ErrorKind::Other))
    }

    /// Ready when there may be completions; else the task is woken when there are.
    pub(crate) fn poll_announced(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.completions.poll_announced(cx)
    }

    /// Posts requests as one list. Where their pieces begin in `pieces` is in `starts`.
    ///
    /// # Safety
    /// The memory of the pieces stays until the completion, unless it goes inline.
    pub(crate) unsafe fn post_sends(
        &mut self,
        requests: &mut [SendWr],
        starts: &[usize],
        pieces: &mut [Sge],
    ) -> io::Result<()> {
        let list = pieces.as_mut_ptr();
        for (request, start) in requests.iter_mut().zip(starts) {
            // SAFETY: pieces of a request begin inside of the list, or it has none and this is at most its end.
            request.sg_list = unsafe { list.add(*start) };
        }
        let first = requests.as_mut_ptr();
        for next in 1..requests.len() {
            // SAFETY: both are inside the slice.
            unsafe { (*first.add(next - 1)).next = first.add(next) };
        }
        if requests.is_empty() {
            return Ok(());
        }
        // SAFETY: the queue pair is live, the list whole; the memory stays, as the caller promises.
        check(unsafe { Verbs::post_send(self.qp.as_ptr(), first) })
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// The memory stays until the completion, and nobody else uses it.
    pub(crate) unsafe fn post_receive(&mut self, id: u64, mut piece: Sge) -> io::Result<()> {
        let mut request = RecvWr {
            wr_id: id,
            next: std::ptr::null_mut(),
            sg_list: &raw mut piece,
            num_sge: 1,
        };
        // SAFETY: the queue pair is live, the list whole; the memory stays, as the caller promises.
        check(unsafe { Verbs::post_recv(self.qp.as_ptr(), &raw mut request) })
    }

    /// Whether the queue pair is in an error state. Not every driver can tell.
    pub(crate) fn is_in_error(&self) -> bool {
        let api = &self.domain.device().api.verbs;
        let mut attr = QpAttr::with_state(0);
        let mut init = empty_init_attr();
        // SAFETY: the queue pair is live; both take what is told.
        let result = unsafe {
            (api.ibv_query_qp)(
                self.qp.as_ptr(),
                &raw mut attr,
                sys::QP_STATE,
                &raw mut init,
            )
        };
        result == 0 && [sys::QPS_ERR, sys::QPS_SQE].contains(&attr.qp_state)
    }

    /// Ends the queue pair: the device has let go of all memory. The identifier remains. What it completed of receives
    /// that are shared goes to `last`, before it is destroyed and after. Some drivers then forget its completions;
    /// others complete until then.
    pub(crate) fn into_id(mut self, mut last: impl FnMut(&Wc)) -> Id {
        self.take_last(&mut last);
        self.destroy();
        self.take_last(&mut last);
        self.id.take().expect("it was not handed on")
    }

    fn take_last(&mut self, last: &mut impl FnMut(&Wc)) {
        let mut room = [Wc::default(); TAKEN_TOGETHER];
        while self.shared.is_some() {
            let count = self.poll(&mut room).unwrap_or(0);
            room[..count].iter().for_each(&mut *last);
            if count == 0 {
                break;
            }
        }
    }

    fn destroy(&mut self) {
        let Some(id) = &self.id else {
            return;
        };
        let device = self.domain.device();
        // First: another queue pair could be at the same address right after.
        device.forget(self.qp.as_ptr());
        // SAFETY: the identifier is live and has this queue pair, which is not used any more.
        unsafe { (device.api.cm.rdma_destroy_qp)(id.raw()) };
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.destroy();
    }
}

fn empty_init_attr() -> QpInitAttr {
    QpInitAttr {
        qp_context: std::ptr::null_mut(),
        send_cq: std::ptr::null_mut(),
        recv_cq: std::ptr::null_mut(),
        srq: std::ptr::null_mut(),
        cap: QpCap::default(),
        qp_type: sys::QPT_RC,
        sq_sig_all: 0,
    }
}

fn create(
    id: &Id,
    domain: &Domain,
    completions: &Completions,
    sizes: Sizes,
    srq: Option<*mut Srq>,
) -> io::Result<()> {
    let cq = completions.cq.as_ptr();
    let own = u32::from(srq.is_none());
    let mut attr = QpInitAttr {
        send_cq: cq,
        recv_cq: cq,
        srq: srq.unwrap_or(std::ptr::null_mut()),
        cap: QpCap {
            max_send_wr: sizes.sends,
            max_recv_wr: own * sizes.receives,
            max_send_sge: sizes.pieces,
            max_recv_sge: own,
            max_inline_data: sizes.inline_bytes,
        },
        ..empty_init_attr()
    };
    let api = &domain.device().api.cm;
    // SAFETY: identifier, domain and completion queue are live and of one device.
    match unsafe { (api.rdma_create_qp)(id.raw(), domain.pd(), &raw mut attr) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A completion queue with a channel of its own.
struct Completions {
    cq: NonNull<Cq>,
    channel: NonNull<CompChannel>,
    /// `None` only while it is dropped.
    ready: Option<AsyncFd<OwnedFd>>,
    /// The next completion will be announced.
    is_armed: bool,
    /// Announcements that are not acknowledged.
    announced: u32,
    domain: Arc<Domain>,
}

impl Completions {
    fn new(domain: &Arc<Domain>, entries: u32) -> io::Result<Self> {
        let api = &domain.device().api.verbs;
        let context = domain.device().context();
        // SAFETY: the context is open for ever.
        let channel = unsafe { (api.ibv_create_comp_channel)(context) };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let nothing = std::ptr::null_mut();
        // SAFETY: context and channel are live.
        let cq = unsafe { (api.ibv_create_cq)(context, entries, nothing, channel.as_ptr(), 0) };
        let Some(cq) = NonNull::new(cq) else {
            let e = io::Error::last_os_error();
            // SAFETY: it is live, and nothing reports there.
            unsafe { (api.ibv_destroy_comp_channel)(channel.as_ptr()) };
            return Err(e);
        };
        let mut completions = Self {
            cq,
            channel,
            ready: None,
            is_armed: false,
            announced: 0,
            domain: Arc::clone(domain),
        };
        // SAFETY: the channel is live, and its descriptor open.
        let fd = unsafe { BorrowedFd::borrow_raw(channel.as_ref().fd) };
        set_nonblocking(fd)?;
        let fd = fd.try_clone_to_owned()?;
        // SAFETY: the descriptor is owned, and so open as long as it is registered.
        completions.ready = Some(unsafe { AsyncFd::register(fd)? });
        Ok(completions)
    }

    fn poll_announced(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if !self.is_armed {
            // SAFETY: the completion queue is live.
            check(unsafe { Verbs::req_notify_cq(self.cq.as_ptr()) })?;
            self.is_armed = true;
            // What came just before is not announced.
            return Poll::Ready(Ok(()));
        }
        let Some(fd) = &self.ready else {
            return Poll::Pending;
        };
        loop {
            let mut ready = ready!(fd.poll_read_ready(cx))?;
            let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
            let api = &self.domain.device().api.verbs;
            let channel = self.channel.as_ptr();
            // SAFETY: the channel is live; both take what is announced.
            let got = unsafe { (api.ibv_get_cq_event)(channel, &raw mut cq, &raw mut context) };
            if got == 0 {
                break;
            }
            let e = io::Error::last_os_error();
            match e.kind() {
                io::ErrorKind::WouldBlock => ready.clear_ready(),
                io::ErrorKind::Interrupted => {}
                _ => return Poll::Ready(Err(e)),
            }
        }
        self.is_armed = false;
        self.announced += 1;
        if self.announced >= ACKNOWLEDGED_TOGETHER {
            self.acknowledge();
        }
        Poll::Ready(Ok(()))
    }

    fn acknowledge(&mut self) {
        let count = std::mem::take(&mut self.announced);
        // SAFETY: the completion queue is live, and so many announcements of it were got.
        unsafe { (self.domain.device().api.verbs.ibv_ack_cq_events)(self.cq.as_ptr(), count) };
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        self.ready = None;
        // Destroying waits for it.
        self.acknowledge();
        let api = &self.domain.device().api.verbs;
        // SAFETY: both are live until here, and the queue pair that reported there is gone.
        unsafe {
            (api.ibv_destroy_cq)(self.cq.as_ptr());
            (api.ibv_destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}
