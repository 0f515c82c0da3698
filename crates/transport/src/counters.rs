//! What the transport counts, and the reasons for which connections end.
//!
//! Counters are plain relaxed atomics. Give each worker its own set ([`crate::Context::sibling`])
//! and add the snapshots up, so that cores do not share their cache lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The peer closed it between two records.
    PeerClosed,
    /// The peer closed it inside a record.
    PeerTruncated,
    /// The socket failed, for example by a reset.
    Io,
    /// A record was longer, or in more fragments, than allowed, or empty.
    MalformedRecord,
    /// A record holds no RPC message.
    MalformedMessage,
    /// The peer did not read for `write_stall`.
    WriteStalled,
    /// The peer read below the least pace while others waited for memory.
    WriteSlow,
    /// Replies that the peer does not read would have taken more memory than there is for them.
    Unread,
    /// The peer sent nothing for `read_stall` within a record.
    ReadStalled,
    /// The peer sent a record below the least pace while others waited for memory.
    ReadSlow,
    /// No request for `idle`.
    Idle,
    /// A file was shorter than the reply that had promised its bytes.
    FileShort,
    /// A file could not be read while a reply was being sent.
    FileFailed,
    /// [`crate::ConnHandle::close`] was called by the program above.
    Asked,
    /// The server shuts down.
    Shutdown,
    /// The TLS handshake failed or took too long.
    TlsHandshake,
    /// A fault was injected by a test.
    Injected,
    /// The service panicked: a bug of ours. Other connections live on.
    ServicePanicked,
}

impl CloseReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 18] = [
        Self::PeerClosed,
        Self::PeerTruncated,
        Self::Io,
        Self::MalformedRecord,
        Self::MalformedMessage,
        Self::WriteStalled,
        Self::WriteSlow,
        Self::Unread,
        Self::ReadStalled,
        Self::ReadSlow,
        Self::Idle,
        Self::FileShort,
        Self::FileFailed,
        Self::Asked,
        Self::Shutdown,
        Self::TlsHandshake,
        Self::Injected,
        Self::ServicePanicked,
    ];

    /// A name for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PeerClosed => "peer_closed",
            Self::PeerTruncated => "peer_truncated",
            Self::Io => "io",
            Self::MalformedRecord => "malformed_record",
            Self::MalformedMessage => "malformed_message",
            Self::WriteStalled => "write_stalled",
            Self::WriteSlow => "write_slow",
            Self::Unread => "unread",
            Self::ReadStalled => "read_stalled",
            Self::ReadSlow => "read_slow",
            Self::Idle => "idle",
            Self::FileShort => "file_short",
            Self::FileFailed => "file_failed",
            Self::Asked => "asked",
            Self::Shutdown => "shutdown",
            Self::TlsHandshake => "tls_handshake",
            Self::Injected => "injected",
            Self::ServicePanicked => "service_panicked",
        }
    }

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
        #[derive(Debug, Default)]
        pub struct Counters {
            $( $(#[$meta])* pub(crate) $name: AtomicU64, )*
            closes: [AtomicU64; CloseReason::ALL.len()],
        }

        /// Counters at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct CountersSnapshot {
            $( $(#[$meta])* pub $name: u64, )*
            /// Connections ended, by the index of the reason in [`CloseReason::ALL`].
            pub closes: [u64; CloseReason::ALL.len()],
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
    /// Connections refused because `connections_max` was reached.
    connections_refused,
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
    /// Payload bytes sent from memory.
    payload_memory_bytes,
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
