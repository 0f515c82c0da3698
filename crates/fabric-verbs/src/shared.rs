//! Receives that the connections of a device share (SRQ): one queue for a device and a [`ReceiveQueue`].
//!
//! A device takes the next receive for whoever sends first, so no single connection can be held back in front of it.
//! Instead each connection has a [`Share`] that counts. A message that was neither admitted nor excused ends its
//! connection. Until that is seen it has taken one of the [`RESERVE`].
//!
//! # Invariant
//! As many receives are posted as messages are admitted to all connections together, and [`RESERVE`] more. The queue
//! and the pool must have room for them. The queue may still be short, if a peer sends faster than its completions are
//! looked at. Then the device asks its peers to wait and try again, without end. Nobody loses a connection by it.
//!
//! # Ownership
//! A posted receive is the device's until a completion names it, or until the queue is destroyed, after every queue pair on it. A
//! connection that ends does not give back receives, they stay posted; what it still was admitted is for others. What it has taken and
//! nobody saw is found in its completions before and after its queue pair goes ([`crate::queue::Queue::into_id`]).
//!
//! # Failure
//! A device may lose a completion of a queue pair that goes away while a message arrives: its receive counts as posted for ever. That the
//! queue has run low then says the device ([`SharedReceives::ran_low`]), and others are posted beyond the books. A queue that is half
//! full of such is not used for new connections.

use crate::context::check;
use crate::library::Verbs;
use crate::memory::{Domain, local_key};
use crate::sys::{self, RecvWr, Sge, Srq, SrqAttr, SrqInitAttr};
use fabric::{Buffer, ReceiveQueue};
use parking_lot::Mutex;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Marks the numbers of receives.
pub(crate) const RECEIVE: u64 = 1 << 63;
/// Receives that are posted beyond what is admitted.
pub(crate) const RESERVE: u32 = 32;
/// Receives below which the device is to say that the queue has run low.
const LOW: u32 = RESERVE / 2;
/// Most places of a queue: with the sizes that are lent by default enough for 12,000 connections. Where they are more, there are more queues.
const PLACES_MAX: u32 = 32_768;

/// A shared receive queue.
pub(crate) struct SharedReceives {
    srq: NonNull<Srq>,
    domain: Arc<Domain>,
    queue: ReceiveQueue,
    places: u32,
    has_failed: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// Messages that all connections together may send.
    admitted: u32,
    /// Receives that the device has.
    posted: u32,
    /// Their buffers, by the number of the request; `None` of numbers that are free.
    buffers: Vec<Option<Buffer>>,
    free: Vec<u32>,
}

// SAFETY: libibverbs takes calls on one queue from any thread; the rest is guarded.
unsafe impl Send for SharedReceives {}
// SAFETY: as above.
unsafe impl Sync for SharedReceives {}

impl SharedReceives {
    /// A queue of this device with receives of `queue`.
    pub(crate) fn new(domain: Arc<Domain>, queue: ReceiveQueue) -> io::Result<Arc<Self>> {
        let device = domain.device();
        let places = device.caps.shared_max.min(PLACES_MAX);
        let mut attr = SrqInitAttr {
            srq_context: std::ptr::null_mut(),
            attr: SrqAttr {
                max_wr: places,
                max_sge: 1,
                srq_limit: 0,
            },
        };
        // SAFETY: the domain is live; the function reads what is asked for and writes what it gave.
        let srq = unsafe { (device.api.verbs.ibv_create_srq)(domain.pd(), &raw mut attr) };
        let srq = NonNull::new(srq).ok_or_else(io::Error::last_os_error)?;
        let shared = Self {
            srq,
            domain,
            queue,
            places,
            has_failed: AtomicBool::new(false),
            books: Mutex::default(),
        };
        shared.fill(&mut shared.books.lock(), RESERVE);
        shared.watch();
        Ok(Arc::new(shared))
    }

    pub(crate) fn raw(&self) -> *mut Srq {
        self.srq.as_ptr()
    }

    /// Where the device's word of it names it.
    pub(crate) fn address(&self) -> usize {
        self.srq.as_ptr().addr()
    }

    pub(crate) fn is_of(&self, queue: &ReceiveQueue) -> bool {
        self.queue.is(queue)
    }

    /// Whether a connection that begins with so many messages may join. Half of the places are for what those that are here get later.
    pub(crate) fn takes(&self, messages: u32) -> bool {
        let books = self.books.lock();
        let taken = books.posted.max(books.admitted);
        let has_room = taken.saturating_add(messages) <= self.places / 2;
        has_room && !self.has_failed.load(Ordering::Relaxed)
    }

    /// The queue is of no use any more; its connections hear so by themselves.
    pub(crate) fn failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The device has fewer receives than [`LOW`]. Whether they are on their way here or were lost it cannot tell, so others are posted: they
    /// are used up before further ones are.
    pub(crate) fn ran_low(&self) {
        {
            let mut books = self.books.lock();
            let wanted = books.posted.saturating_add(RESERVE);
            self.fill(&mut books, wanted);
        }
        self.watch();
    }

    /// Has the device say when it runs low, once.
    fn watch(&self) {
        let mut attr = SrqAttr {
            srq_limit: LOW,
            ..SrqAttr::default()
        };
        let modify = self.domain.device().api.verbs.ibv_modify_srq;
        // SAFETY: the queue is live.
        let told = check(unsafe { modify(self.raw(), &raw mut attr, sys::SRQ_LIMIT) });
        if let Err(e) = told {
            let device = &self.domain.device().name;
            tracing::debug!(%device, "it does not say when receives run low: {e}");
        }
    }

    /// So many more messages may come; fewer when the pool is dry.
    fn admit(&self, messages: u32) -> u32 {
        let mut books = self.books.lock();
        books.admitted = books.admitted.saturating_add(messages);
        let wanted = books.admitted.saturating_add(RESERVE);
        if self.fill(&mut books, wanted) {
            return messages;
        }
        let lacking = books.admitted.saturating_sub(books.posted).min(messages);
        books.admitted -= lacking;
        messages - lacking
    }

    /// So many messages will not come.
    fn retract(&self, messages: u32) {
        self.books.lock().admitted -= messages;
    }

    /// What the device has used for a message that was admitted, or for something else.
    fn take(&self, number: u32, was_admitted: bool) -> Option<Buffer> {
        let mut books = self.books.lock();
        books.admitted -= u32::from(was_admitted);
        let at = usize::try_from(number).ok()?;
        let buffer = books.buffers.get_mut(at)?.take()?;
        books.free.push(number);
        books.posted -= 1;
        let wanted = books.admitted.saturating_add(RESERVE);
        self.fill(&mut books, wanted);
        Some(buffer)
    }

    /// Posts receives until there are so many, or the queue is full; `false` when the pool is dry.
    fn fill(&self, books: &mut Books, wanted: u32) -> bool {
        while books.posted < wanted.min(self.places) {
            let Some(mut buffer) = self.queue.receive() else {
                return false;
            };
            let number = books.free.pop().unwrap_or_else(|| {
                books.buffers.push(None);
                u32::try_from(books.buffers.len() - 1).expect("no more than there are places")
            });
            let at = usize::try_from(number).expect("usize has 32 bits at least");
            if let Err(e) = self.post(number, &mut buffer) {
                // The device is about to tell its connections.
                tracing::warn!(device = %self.domain.device().name, "a receive cannot be posted: {e}");
                books.free.push(number);
                return true;
            }
            books.buffers[at] = Some(buffer);
            books.posted += 1;
        }
        true
    }

    fn post(&self, number: u32, buffer: &mut Buffer) -> io::Result<()> {
        let addr = buffer.as_mut_ptr().expose_provenance();
        let length = u32::try_from(buffer.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let lkey = local_key(&self.domain, addr, length)?;
        let mut piece = Sge {
            addr: addr as u64,
            length,
            lkey,
        };
        let mut request = RecvWr {
            wr_id: RECEIVE | u64::from(number),
            next: std::ptr::null_mut(),
            sg_list: &raw mut piece,
            num_sge: 1,
        };
        // SAFETY: the queue is live, the list whole; the buffer is kept until a completion names it or the queue is gone.
        check(unsafe { Verbs::post_srq_recv(self.raw(), &raw mut request) })
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        let device = self.domain.device();
        // SAFETY: it is live until here, and the queue pairs on it are gone: they hold it.
        let result = unsafe { (device.api.verbs.ibv_destroy_srq)(self.raw()) };
        if let Err(e) = device.taken_back(result) {
            // The device may still write there; losing the memory is the lesser harm.
            tracing::error!(device = %device.name, "a shared receive queue is left behind: {e}");
            std::mem::forget(std::mem::take(&mut self.books.get_mut().buffers));
        }
    }
}

/// What one connection may take from a queue. Dropping it leaves to others what has not come.
pub(crate) struct Share {
    receives: Arc<SharedReceives>,
    admitted: u32,
    excused: u32,
}

/// A message came that was neither admitted nor excused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Share {
    /// A share in which so many messages are admitted.
    pub(crate) fn new(receives: Arc<SharedReceives>, messages: u32) -> Self {
        let mut share = Self {
            receives,
            admitted: 0,
            excused: 0,
        };
        share.admit(messages);
        share
    }

    pub(crate) fn receives(&self) -> &Arc<SharedReceives> {
        &self.receives
    }

    pub(crate) fn admit(&mut self, messages: u32) -> u32 {
        let count = self.receives.admit(messages);
        self.admitted += count;
        count
    }

    pub(crate) fn retract(&mut self, messages: u32) -> u32 {
        let count = messages.min(self.admitted);
        if count > 0 {
            self.admitted -= count;
            self.receives.retract(count);
        }
        count
    }

    pub(crate) fn excuse(&mut self, messages: u32) {
        self.excused = messages;
    }

    /// A message came into the receive of this request; `None` when that is not known.
    pub(crate) fn came(&mut self, id: u64) -> Result<Option<Buffer>, TooMany> {
        let was_admitted = self.admitted > 0;
        let buffer = self.receives.take(number(id), was_admitted);
        if was_admitted {
            self.admitted -= 1;
        } else {
            self.excused = self.excused.checked_sub(1).ok_or(TooMany)?;
        }
        Ok(buffer)
    }

    /// The device has used the receive of this request for nothing, or nobody wants the message any more.
    pub(crate) fn lost(&self, id: u64) {
        drop(self.receives.take(number(id), false));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.retract(self.admitted);
    }
}

/// The number of a receive, from that of its request.
fn number(id: u64) -> u32 {
    u32::try_from(id & !RECEIVE).unwrap_or(u32::MAX)
}
