//! What the transport counts, and the reasons for which connections end.
//!
//! Counters are plain relaxed atomics. Give each worker its own set ([`crate::Context::sibling`])
//! and add the snapshots up, so that cores do not share their cache lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! reasons {
    ($( $(#[$meta:meta])* $variant:ident = $text:literal, )*) => {
        /// Why a connection ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum CloseReason { $( $(#[$meta])* $variant, )* }

        impl CloseReason {
            /// Every reason, in the order of the counters.
            pub const ALL: [Self; [$( $text, )*].len()] = [$( Self::$variant, )*];

            /// A name for metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
        }
    };
}

reasons! {
    /// The peer closed it between two records.
    PeerClosed = "peer_closed",
    /// The peer closed it inside a record.
    PeerTruncated = "peer_truncated",
    /// The socket failed, for example by a reset.
    Io = "io",
    /// A record was longer, or in more fragments, than allowed, or empty.
    MalformedRecord = "malformed_record",
    /// A record holds no RPC message.
    MalformedMessage = "malformed_message",
    /// The peer did not read for `write_stall`.
    WriteStalled = "write_stalled",
    /// The peer read below the least pace while others waited for memory.
    WriteSlow = "write_slow",
    /// Replies that the peer does not read would have taken more memory than there is for them.
    Unread = "unread",
    /// The peer sent nothing for `read_stall` within a record.
    ReadStalled = "read_stalled",
    /// The peer sent a record below the least pace while others waited for memory.
    ReadSlow = "read_slow",
    /// No request for `idle`.
    Idle = "idle",
    /// A file was shorter than the reply that had promised its bytes.
    FileShort = "file_short",
    /// A file could not be read while a reply was being sent.
    FileFailed = "file_failed",
    /// [`crate::ConnHandle::close`] was called by the program above.
    Asked = "asked",
    /// The server shuts down.
    Shutdown = "shutdown",
    /// The TLS handshake failed or took too long.
    TlsHandshake = "tls_handshake",
    /// A fault was injected by a test.
    Injected = "injected",
    /// The service panicked: a bug of ours. Other connections live on.
    ServicePanicked = "service_panicked",
    /// The peer refused an access to its memory that its own chunks had named, or a message of ours: a bad steering tag,
    /// for example. The log says what it objects to.
    RdmaAccessRefused = "rdma_access_refused",
    /// The peer named a key (steering tag) that names nothing of ours.
    RdmaBadKey = "rdma_bad_key",
    /// The peer reached beyond the memory that it was given.
    RdmaOutOfBounds = "rdma_out_of_bounds",
    /// The peer wrote what it may only read, or read what it may only write.
    RdmaWrongRights = "rdma_wrong_rights",
    /// The peer sent more messages than there are receives: more than its credits allow.
    RdmaNoReceive = "rdma_no_receive",
    /// The peer sent a message above the inline size.
    RdmaReceiveTooSmall = "rdma_receive_too_small",
    /// The peer had more reads outstanding than were agreed.
    RdmaTooManyReads = "rdma_too_many_reads",
    /// The peer invalidated what is not exposed to it.
    RdmaCannotInvalidate = "rdma_cannot_invalidate",
    /// Bytes of the peer were damaged on their way.
    RdmaDamaged = "rdma_damaged",
    /// The peer broke the protocol of the fabric in another way.
    RdmaProtocol = "rdma_protocol",
    /// The peer placed a result that its reply does not have.
    RdmaBadReply = "rdma_bad_reply",
    /// The peer did not answer an RDMA Read.
    RdmaUnanswered = "rdma_unanswered",
    /// The peer sent more calls than its credits allow.
    RdmaCreditFlood = "rdma_credit_flood",
    /// The peer kept credits that it did not use while others lacked some, though it was asked for them.
    RdmaCreditsKept = "rdma_credits_kept",
    /// The peer sent a call with the transaction id of one that is not answered yet.
    RdmaDuplicateXid = "rdma_duplicate_xid",
    /// The peer invalidated memory that does not belong to the call that it replied to.
    RdmaForeignInvalidation = "rdma_foreign_invalidation",
    /// The peer sent too many messages that belong to nothing.
    RdmaStrayMessages = "rdma_stray_messages",
}

impl CloseReason {
    /// Whether the end tells of a faulty or hostile peer or of trouble here, so that it is worth a
    /// line in the log.
    #[must_use]
    pub const fn is_noteworthy(self) -> bool {
        !matches!(
            self,
            Self::PeerClosed
                | Self::Io
                | Self::Idle
                | Self::Asked
                | Self::Shutdown
                | Self::Injected
        )
    }
}

macro_rules! counters {
    ($( $(#[$meta:meta])* $name:ident, )*) => {
        /// Live counters of one [`crate::Context`].
        #[derive(Debug)]
        pub struct Counters {
            $( $(#[$meta])* pub(crate) $name: AtomicU64, )*
            closes: [AtomicU64; CloseReason::ALL.len()],
        }

        /// Counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct CountersSnapshot {
            $( $(#[$meta])* pub $name: u64, )*
            /// Connections ended, by the index of the reason in [`CloseReason::ALL`].
            pub closes: [u64; CloseReason::ALL.len()],
        }

        impl Default for Counters {
            fn default() -> Self {
                Self {
                    $( $name: AtomicU64::new(0), )*
                    closes: std::array::from_fn(|_| AtomicU64::new(0)),
                }
            }
        }

        impl Default for CountersSnapshot {
            fn default() -> Self {
                Self { $( $name: 0, )* closes: [0; CloseReason::ALL.len()] }
            }
        }

        impl Counters {
            /// Reads every counter.
            #[must_use]
            pub fn snapshot(&self) -> CountersSnapshot {
                CountersSnapshot {
                    $( $name: self.$name.load(Relaxed), )*
                    closes: std::array::from_fn(|i| self.closes[i].load(Relaxed)),
                }
            }
        }

        impl std::ops::AddAssign for CountersSnapshot {
            fn add_assign(&mut self, other: Self) {
                $( self.$name += other.$name; )*
                for (sum, n) in self.closes.iter_mut().zip(other.closes) {
                    *sum += n;
                }
            }
        }

        impl CountersSnapshot {
            /// Names and values, for metrics; closes are not included.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$( (stringify!($name), self.$name), )*]
            }
        }
    };
}

counters! {
    /// Connections accepted from peers.
    connections_accepted,
    /// Connections made to peers.
    connections_made,
    /// Connections to peers that were made over another transport because RDMA did not come up.
    rdma_fallbacks,
    /// Connections refused because `connections_max` was reached.
    connections_refused,
    /// Connections refused because their address had `connections_per_address_max` already.
    connections_refused_by_address,
    /// Connections closed at once because the service admits no such peer.
    connections_not_admitted,
    /// Failures of accept itself, for example for want of file descriptors.
    accept_errors,
    /// Records received.
    records_in,
    /// Records sent whole.
    records_out,
    /// Bytes received, record marks included, before TLS.
    bytes_in,
    /// Bytes sent, record marks included, before TLS.
    bytes_out,
    /// Payload bytes sent from files by sendfile.
    payload_sendfile_bytes,
    /// Payload bytes sent from files by copy.
    payload_copy_bytes,
    /// Payload bytes sent from memory over a stream.
    payload_memory_bytes,
    /// Bytes of large records that were copied once more in memory on stream connections, what stands in front of their bulk not counted.
    stream_copied_bytes,
    /// Waits for a record without sleeping ([`crate::TransportLimits::busy_poll`]) that ended with one.
    busy_polls,
    /// Those that ended without.
    busy_polls_vain,
    /// RPC-over-RDMA connections that were set up.
    rdma_connections,
    /// Bytes received inside RDMA Sends, transport headers included.
    rdma_inline_bytes_in,
    /// Bytes sent inside RDMA Sends, transport headers included.
    rdma_inline_bytes_out,
    /// Bytes of the peers' calls that we fetched from their memory by RDMA Read.
    rdma_read_chunk_bytes_in,
    /// Bytes of our calls that we offered to be fetched by RDMA Read.
    rdma_read_chunk_bytes_out,
    /// Bytes of results that peers placed into our memory by RDMA Write.
    rdma_write_chunk_bytes_in,
    /// Bytes of results that we placed into the peers' memory by RDMA Write.
    rdma_write_chunk_bytes_out,
    /// Bytes of whole replies that peers placed into our memory by RDMA Write.
    rdma_reply_chunk_bytes_in,
    /// Bytes of whole replies that we placed into the peers' memory by RDMA Write.
    rdma_reply_chunk_bytes_out,
    /// Payload bytes of our replies that were read from files into registered memory: one copy.
    rdma_file_bytes,
    /// Payload bytes of our replies that the provider sent straight out of files: no copy.
    rdma_sent_file_bytes,
    /// Payload bytes of RDMA connections that this process copied once more in memory. They are results put together
    /// with their reply, scattered arguments gathered, and what the provider itself copied.
    rdma_copied_bytes,
    /// Slabs of memory that were registered with an RDMA device. The data path of a server registers none once it has what it
    /// needs.
    rdma_registrations,
    /// Pieces of our memory that RDMA peers were let into, each for one use: what calls of ours expose.
    rdma_exposures,
    /// Calls of ours that waited for a credit of the peer.
    rdma_credit_stalls,
    /// Replies that granted a peer fewer credits than it makes use of, since others have them: its calls waited there.
    rdma_credits_short,
    /// Calls of peers that waited for their turn to be fetched by RDMA Read.
    rdma_read_stalls,
    /// Calls of peers that RPC-over-RDMA answered with an error.
    rdma_calls_refused,
    /// Messages of peers that belong to nothing and were dropped.
    rdma_discarded,
    /// Replies that no call waited for.
    replies_unmatched,
    /// Our calls that got no reply in time.
    calls_timed_out,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Relaxed);
    }

    /// As `add`, without touching the counter for nothing.
    pub(crate) fn add_some(counter: &AtomicU64, n: usize) {
        if n > 0 {
            Self::add(counter, n);
        }
    }

    pub(crate) fn closed(&self, reason: CloseReason) {
        self.closes[reason as usize].fetch_add(1, Relaxed);
    }
}

impl CountersSnapshot {
    /// Connections that ended for `reason`.
    #[must_use]
    pub const fn closes_for(&self, reason: CloseReason) -> u64 {
        self.closes[reason as usize]
    }
}
