//! A transport within the process, for tests and the simulator. Whole records go between named ends, under a fault
//! function that may delay, lose or double them or cut the connection.
//!
//! Messages are flattened to bytes, so that both ends run the same code as over a socket. Time is
//! `tokio::time`, so it may be simulated. Records of one direction keep their order, as on TCP.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use crate::accept::{Host, Tasks};
use crate::end::End;
use crate::handle::ConnInfo;
use crate::link::{Link, Received, StallTimer};
use crate::workers::ShutdownSignal;
use crate::{
    Address, BoxFuture, CloseReason, ConnHandle, ConnectError, Connector, Context, Counters,
    DynService, Endpoint, Message, TransportKind, engine,
};

/// Records on their way in one direction of a connection; beyond it the sender waits.
const PIPE_RECORDS_MAX: usize = 256;
/// Connections that wait to be accepted by one listener.
const BACKLOG: usize = 128;

/// A record about to travel.
#[derive(Debug)]
pub struct Passage<'a> {
    /// Name of the sending end.
    pub from: &'a str,
    /// Name of the receiving end.
    pub to: &'a str,
    /// Whether it goes from the end that connected to the one that listens.
    pub to_listener: bool,
    /// Records sent before in this direction of this connection.
    pub number: u64,
    /// The record.
    pub bytes: &'a [u8],
}

/// What happens to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at once.
    Deliver,
    /// It arrives later; those after it wait behind it.
    Delay(Duration),
    /// It never arrives, and the connection lives on.
    Lose,
    /// It arrives twice.
    Double,
    /// It is lost, and both ends see the connection break.
    Cut,
}

/// Decides on faults; seeded by its maker, so that a run can be repeated.
pub trait Faults: Send + Sync + 'static {
    /// What happens to a record.
    fn fate(&self, passage: &Passage<'_>) -> Fate;

    /// Whether a connection may be made now.
    fn may_connect(&self, _from: &str, _to: &str) -> bool {
        true
    }
}

struct NoFaults;

impl Faults for NoFaults {
    fn fate(&self, _passage: &Passage<'_>) -> Fate {
        Fate::Deliver
    }
}

/// Named listeners of one process. Cheap to clone.
#[derive(Clone)]
pub struct MemoryNetwork {
    listeners: Arc<Mutex<HashMap<String, mpsc::Sender<MemoryLink>>>>,
    faults: Arc<dyn Faults>,
}

impl std::fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryNetwork").finish_non_exhaustive()
    }
}

impl Default for MemoryNetwork {
    fn default() -> Self {
        Self::new(Arc::new(NoFaults))
    }
}

impl MemoryNetwork {
    /// A network with the given faults. `MemoryNetwork::default()` has none.
    #[must_use]
    pub fn new(faults: Arc<dyn Faults>) -> Self {
        Self {
            listeners: Arc::default(),
            faults,
        }
    }

    /// Begins to listen under `name`; connections wait until [`Listener::serve`] runs. Dropping
    /// the listener, as a crash would, frees the name.
    ///
    /// # Errors
    /// `AddrInUse` when the name is taken.
    pub fn listen(&self, name: &str) -> io::Result<Listener> {
        let mut listeners = self.listeners.lock();
        if listeners.contains_key(name) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, incoming) = mpsc::channel(BACKLOG);
        listeners.insert(name.to_owned(), sender);
        Ok(Listener {
            network: self.clone(),
            name: name.to_owned(),
            incoming,
        })
    }

    /// A connector whose end of each connection is called `name`.
    #[must_use]
    pub fn connector(&self, name: &str, context: Context) -> MemoryConnector {
        MemoryConnector {
            network: self.clone(),
            name: name.into(),
            context,
        }
    }

    fn connect(
        &self,
        from: &Arc<str>,
        to: &str,
        reverse: Arc<dyn DynService>,
        context: &Context,
    ) -> Result<ConnHandle, ConnectError> {
        let refused = || ConnectError::Io(io::ErrorKind::ConnectionRefused.into());
        if !self.faults.may_connect(from, to) {
            return Err(refused());
        }
        let admission = context.admit().ok_or(ConnectError::TooMany)?;
        let listener = self.listeners.lock().get(to).cloned().ok_or_else(refused)?;
        let to: Arc<str> = to.into();
        let pipes = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
        let end = |outbound: &Arc<Pipe>, inbound: &Arc<Pipe>, local: &Arc<str>, peer: &Arc<str>| {
            MemoryLink {
                outbound: Arc::clone(outbound),
                inbound: Arc::clone(inbound),
                local: Arc::clone(local),
                peer: Arc::clone(peer),
                from_connector: Arc::ptr_eq(local, from),
                faults: Arc::clone(&self.faults),
                context: context.clone(),
                out: VecDeque::new(),
                sent: 0,
                arrival: None,
                write_stall: StallTimer::new(context.limits().write_stall),
            }
        };
        let ours = end(&pipes.0, &pipes.1, from, &to);
        listener
            .try_send(end(&pipes.1, &pipes.0, &to, from))
            .map_err(|_| refused())?;
        Counters::add(&context.counters().connections_made, 1);
        let conn = ConnHandle::new(ours.info(), context.clone());
        tokio::spawn(engine::run(ours, conn.clone(), reverse, admission));
        Ok(conn)
    }
}

/// A name that connections can be made to.
#[derive(Debug)]
pub struct Listener {
    network: MemoryNetwork,
    name: String,
    incoming: mpsc::Receiver<MemoryLink>,
}

impl Listener {
    /// Serves connections until the shutdown signal, then drains them. Dropping the future cuts
    /// them all, as a crash would.
    pub async fn serve(
        mut self,
        service: Arc<dyn DynService>,
        context: Context,
        shutdown: ShutdownSignal,
    ) {
        let host = Host::new(context, service);
        let mut tasks = Tasks::new(host.clone());
        let mut stop = pin!(shutdown.wait());
        loop {
            let incoming = tokio::select! {
                biased;
                () = &mut stop => break,
                incoming = self.incoming.recv() => incoming,
            };
            let Some(mut link) = incoming else { break };
            let peer = Endpoint::Memory(Arc::clone(&link.peer));
            if !host.service.admits_peer(&peer) {
                host.context.not_admitted(&peer);
                continue;
            }
            let Some(admission) = host.context.admit_peer(&peer) else {
                continue;
            };
            Counters::add(&host.context.counters().connections_accepted, 1);
            link.context = host.context.clone();
            link.write_stall = StallTimer::new(host.context.limits().write_stall);
            let conn = ConnHandle::new(link.info(), host.context.clone());
            tasks.spawn(host.clone().run(link, conn, admission));
        }
        drop(self);
        tasks.shut_down().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.network.listeners.lock().remove(&self.name);
    }
}

/// Connects within a [`MemoryNetwork`].
#[derive(Debug, Clone)]
pub struct MemoryConnector {
    network: MemoryNetwork,
    name: Arc<str>,
    context: Context,
}

impl Connector for MemoryConnector {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            match address {
                Address::Memory(to) => self.network.connect(&self.name, to, reverse, &self.context),
                _ => Err(ConnectError::Unsupported),
            }
        })
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe(Mutex<PipeState>);

#[derive(Default)]
struct PipeState {
    /// Records on their way and when each arrives.
    records: VecDeque<(Instant, Bytes)>,
    end: Option<CloseReason>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn finish(&self, reason: CloseReason) {
        let mut state = self.0.lock();
        if reason == CloseReason::Injected {
            state.records.clear();
        }
        state.end.get_or_insert(reason);
        for waker in [state.reader.take(), state.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

/// One end of a connection.
struct MemoryLink {
    outbound: Arc<Pipe>,
    inbound: Arc<Pipe>,
    local: Arc<str>,
    peer: Arc<str>,
    from_connector: bool,
    faults: Arc<dyn Faults>,
    context: Context,
    out: VecDeque<Message>,
    sent: u64,
    arrival: Option<Pin<Box<Sleep>>>,
    write_stall: StallTimer,
}

impl std::fmt::Debug for MemoryLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryLink({} to {})", self.local, self.peer)
    }
}

impl MemoryLink {
    fn info(&self) -> ConnInfo {
        ConnInfo {
            kind: TransportKind::Memory,
            peer: Endpoint::Memory(Arc::clone(&self.peer)),
            local: Endpoint::Memory(Arc::clone(&self.local)),
            tls: None,
        }
    }

    /// Sends the first message, if the pipe has room for it.
    fn poll_send(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>> {
        let Some(message) = self.out.front() else {
            return Poll::Ready(Ok(()));
        };
        let mut pipe = self.outbound.0.lock();
        if let Some(reason) = pipe.end {
            return Poll::Ready(Err(reason.into()));
        }
        if pipe.records.len() >= PIPE_RECORDS_MAX {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = message.flatten().map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => End::with(CloseReason::FileShort, e),
            _ => End::with(CloseReason::FileFailed, e),
        })?;
        let fate = self.faults.fate(&Passage {
            from: &self.local,
            to: &self.peer,
            to_listener: self.from_connector,
            number: self.sent,
            bytes: &bytes,
        });
        self.sent += 1;
        let counters = self.context.counters();
        Counters::add(&counters.records_out, 1);
        Counters::add(&counters.bytes_out, bytes.len());
        let bytes = Bytes::from(bytes);
        let now = Instant::now();
        // Nothing overtakes: the last record on its way is the earliest that this may arrive.
        let earliest = pipe.records.back().map_or(now, |(due, _)| (*due).max(now));
        match fate {
            Fate::Deliver => pipe.records.push_back((earliest, bytes)),
            Fate::Delay(delay) => pipe.records.push_back((earliest.max(now + delay), bytes)),
            Fate::Double => pipe
                .records
                .extend([(earliest, bytes.clone()), (earliest, bytes)]),
            Fate::Lose => {}
            Fate::Cut => {
                drop(pipe);
                self.outbound.finish(CloseReason::Injected);
                self.inbound.finish(CloseReason::Injected);
                return Poll::Ready(Err(CloseReason::Injected.into()));
            }
        }
        if let Some(waker) = pipe.reader.take() {
            waker.wake();
        }
        drop(pipe);
        self.out.pop_front();
        Poll::Ready(Ok(()))
    }
}

impl Link for MemoryLink {
    fn poll_recv(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Received, End>> {
        let mut pipe = self.inbound.0.lock();
        let Some((due, _)) = pipe.records.front() else {
            if let Some(reason) = pipe.end {
                return Poll::Ready(Err(reason.into()));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        if *due > Instant::now() {
            let due = *due;
            // An end of the connection is heard before the record would have arrived.
            pipe.reader = Some(cx.waker().clone());
            let sleep = self
                .arrival
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.arrival = None;
        let (_, bytes) = pipe.records.pop_front().expect("a first record was seen");
        if let Some(waker) = pipe.writer.take() {
            waker.wake();
        }
        drop(pipe);
        let limit = self.context.limits().record_bytes_max as usize;
        if bytes.len() > limit {
            let detail = format!("record of {} bytes, above {limit}", bytes.len());
            return Poll::Ready(Err(End::with(CloseReason::MalformedRecord, detail)));
        }
        let counters = self.context.counters();
        Counters::add(&counters.records_in, 1);
        Counters::add(&counters.bytes_in, bytes.len());
        Poll::Ready(Ok(Received {
            bytes,
            charge: None,
        }))
    }

    fn has_buffered(&self) -> bool {
        false
    }

    /// Records come whole.
    fn is_busy(&self) -> bool {
        false
    }

    fn arrived_bytes(&self) -> u64 {
        0
    }

    fn busy_poll(&mut self) -> bool {
        false
    }

    fn queue(&mut self, message: Message) {
        self.out.push_back(message);
    }

    fn queue_reply(&mut self, message: Message) {
        self.queue(message);
    }

    fn unanswered(&mut self, _xid: u32) {}

    /// What is queued here is not counted.
    fn queued_reply_bytes(&self) -> usize {
        0
    }

    fn queued(&self) -> usize {
        self.out.len()
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>> {
        while !self.out.is_empty() {
            match self.poll_send(cx) {
                Poll::Ready(sent) => sent?,
                Poll::Pending if self.write_stall.poll_stalled(cx) => {
                    return Poll::Ready(Err(CloseReason::WriteStalled.into()));
                }
                Poll::Pending => return Poll::Pending,
            }
            self.write_stall.progress();
        }
        self.write_stall.disarm();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, _cx: &mut TaskContext<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Drop for MemoryLink {
    fn drop(&mut self) {
        self.outbound.finish(CloseReason::PeerClosed);
        self.inbound.finish(CloseReason::PeerClosed);
    }
}
