//! One connection: a send queue, a receive queue, exposed memory, and the completions of all three.

use crate::{Buffer, Completion, Fault, Memory, Refused, Remote, Work};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// How large the queues of an endpoint are. A provider may lower what is above its [`ProviderLimits`](crate::ProviderLimits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Most work requests posted and not complete.
    pub send_depth: u32,
    /// Most receives posted and not complete.
    pub receive_depth: u32,
    /// Most memory exposed at a time, in keys.
    pub exposed_max: u32,
    /// Most reads of the peer that this side serves at a time (inbound read depth).
    pub ird: u32,
    /// Most reads that this side has outstanding (outbound read depth); more of them wait their turn.
    pub ord: u32,
    /// Checksum over every frame. A fabric that has a choice does without only when both sides say false.
    pub crc: bool,
    /// What the peer may write is scratch after what it has written. These bytes may change too: a provider may read
    /// payload into its place before it knows where a message ends.
    pub exposed_is_scratch: bool,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            send_depth: 256,
            receive_depth: 128,
            exposed_max: 1024,
            ird: 32,
            ord: 32,
            crc: true,
            exposed_is_scratch: false,
        }
    }
}

/// What both sides agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// Reads of the peer that this side serves at a time.
    pub ird: u32,
    /// Reads that this side has outstanding at most.
    pub ord: u32,
    /// Whether frames carry a checksum of the fabric.
    pub crc: bool,
    /// Whether this side takes [`Work::WriteFile`].
    pub files: bool,
}

/// How to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// What was posted completes first, unless the connection fails before; new work is refused.
    Drain,
    /// At once; what was posted is flushed.
    Now,
}

/// Bytes of payload that an endpoint has moved, headers not counted, and what its memory has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Sent: messages, writes and answers to reads.
    pub sent_bytes: u64,
    /// Received into their place.
    pub received_bytes: u64,
    /// Of writes and reads in both directions, what this process copied once more in memory on its way.
    pub copied_bytes: u64,
    /// Slabs that were registered as a whole, because a buffer of theirs was used here first. Connections whose domain is one
    /// count each of them once together. None where the provider registers nothing.
    pub registrations: u64,
    /// Pieces of memory that the peer was let into, each for one use: on devices a registration each. Besides what was exposed
    /// these are the sinks of reads, where a device has the peer answer them by writes (iWARP).
    pub exposures: u64,
}

/// What a peer kept this side waiting for. An idle connection waits for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stall {
    /// The rest of what it had begun to send.
    MidFrame,
    /// The answer to a read.
    Unanswered,
    /// Taking what this side sends.
    Unread,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MidFrame => "it stopped in the middle of a frame",
            Self::Unanswered => "it does not answer a read",
            Self::Unread => "it does not take what is sent",
        })
    }
}

/// Why a connection is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// This side closed it.
    Closed,
    /// The peer closed it.
    PeerClosed,
    /// The peer did this, and was cut off.
    Faulted(Fault),
    /// The peer says that this side did this.
    Accused(Fault),
    /// The peer is there and does not go on.
    Stalled(Stall),
    /// A file that was to be sent is shorter than was promised.
    FileShort,
    /// The network failed.
    Lost(io::ErrorKind),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "closed"),
            Self::PeerClosed => write!(f, "closed by the peer"),
            Self::Faulted(fault) => write!(f, "the peer broke a rule: {fault}"),
            Self::Accused(fault) => write!(f, "the peer says that we broke a rule: {fault}"),
            Self::Stalled(stall) => write!(f, "the peer stalls: {stall}"),
            Self::FileShort => write!(f, "a file is shorter than was promised"),
            Self::Lost(kind) => write!(f, "connection lost: {kind}"),
        }
    }
}

impl std::error::Error for Ended {}

/// One connection. It makes progress only inside [`ring`](Self::ring) and
/// [`poll_completions`](Self::poll_completions); dropping it closes it at once.
///
/// # Ordering
/// Work requests start and complete in the order posted. The peer sees a [`Work::Send`] after every write
/// posted before it. A read may see what was posted after it: wait for its completion if that matters.
/// Receives are filled in the order posted.
pub trait Endpoint: Send {
    /// Accepts a work request. `signalled` asks for a completion also when it succeeds; a failure, a read and
    /// an invalidation always complete. Unsignalled work that succeeded may keep its place in the queue
    /// until later signalled work has completed.
    ///
    /// # Errors
    /// The work, whole, when it was not accepted.
    fn post(&mut self, id: u64, work: Work, signalled: bool) -> Result<(), Refused<Work>>;

    /// Accepts a buffer for one message of the peer, of up to the buffer's length.
    ///
    /// # Errors
    /// The buffer, when the queue is full or the connection is closed.
    fn post_receive(&mut self, id: u64, buffer: Buffer) -> Result<(), Refused<Buffer>>;

    /// So many more messages of the peer may come, and take receives of the queue that this connection shares. Returns how many they
    /// are: fewer when the queue has no memory, none when the connection has receives of its own.
    fn admit(&mut self, _messages: u32) -> u32 {
        0
    }

    /// So many of the admitted messages are not expected any more: others may have their receives. What comes all the same is not
    /// admitted, but may be excused.
    ///
    /// Returns how many were taken back. That is none where the connection has receives of its own, and where a message that is
    /// not admitted waits ([`ProviderLimits::holds_back`](crate::ProviderLimits::holds_back)). There, all that may still come
    /// stays admitted: a waiting message delays later ones, and a receive that is only set aside costs no memory.
    fn retract(&mut self, _messages: u32) -> u32 {
        0
    }

    /// From now on up to so many messages of the peer may come beyond those that are admitted, without ending the
    /// connection. The peer had begun them before it heard that it may send less. They have no receives of their own
    /// and may have to wait. Where everything that is not admitted waits anyway
    /// ([`ProviderLimits::holds_back`](crate::ProviderLimits::holds_back)) this is nothing.
    fn excuse(&mut self, _messages: u32) {}

    /// Lets the peer touch this memory under a new key, until it is invalidated by either side.
    ///
    /// # Errors
    /// The memory, when there are too many, it is too long, or the connection is closed.
    fn expose(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>>;

    /// Starts what was posted: one doorbell for a batch.
    fn ring(&mut self);

    /// Moves the connection forward and appends what has completed.
    ///
    /// Ready with Ok when `completions` grew and there may be more at once. Ready with the end once everything that was
    /// owned has come back, and again on each later call. Pending otherwise, though `completions` may have grown then
    /// too. The task is woken for more, as long as nothing is posted or closed before the next call.
    fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Ended>>;

    /// Closes. Completions still have to be polled for, until the end is reported.
    fn close(&mut self, how: Close);

    /// Work requests that could be posted now.
    fn send_room(&self) -> usize;

    /// The address at the other end.
    fn peer(&self) -> SocketAddr;

    /// What both sides agreed on.
    fn negotiated(&self) -> Negotiated;

    /// Payload moved so far.
    fn counters(&self) -> Counters;

    /// Whether something of the peer has begun to come and is not counted yet, where the provider can tell.
    fn is_receiving(&self) -> bool {
        false
    }
}
