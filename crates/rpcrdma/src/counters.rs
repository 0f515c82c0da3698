//! What one engine counts, and the reasons for which it ends a connection or refuses a message.

macro_rules! reasons {
    ($(
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$vmeta:meta])* $variant:ident = $text:literal, )* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$vmeta])* $variant, )* }

        impl $name {
            /// Every one, in the order of its counters.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// A name for metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
        }
    )*};
}

reasons! {
    /// Why an engine ends its connection: the peer breaks the protocol in a way that has no answer.
    pub enum FailReason {
        /// It sent more calls than it was ever allowed to.
        CreditFlood = "credit_flood",
        /// It sent a call with the XID of one that is not answered yet.
        DuplicateXid = "duplicate_xid",
        /// It invalidated memory that does not belong to the call it replied to, or without having
        /// been told that it may.
        ForeignInvalidation = "foreign_invalidation",
        /// It sent too many messages that no credit covers.
        StrayMessages = "stray_messages",
    }

    /// Why a call was answered with RDMA_ERROR.
    pub enum RefuseReason {
        /// A version other than 1.
        Version = "version",
        /// The header does not decode, or is above a limit.
        Header = "header",
        /// RDMA_MSGP.
        Padded = "padded",
        /// The XID in the header is not that of the message.
        XidDiffers = "xid_differs",
        /// Read chunks that make no record.
        Chunks = "chunks",
        /// A write chunk is shorter than its result (RFC 8166 §4.5.3).
        WriteChunkShort = "write_chunk_short",
        /// The reply fits neither inline nor into a reply chunk.
        ReplyTooLong = "reply_too_long",
        /// The upper layer refused it, for example for a chunk that is not DDP-eligible.
        UpperLayer = "upper_layer",
    }

    /// Why a received message was discarded without an answer.
    pub enum DiscardReason {
        /// Shorter than a header.
        Short = "short",
        /// RDMA_DONE.
        Done = "done",
        /// A reply, or an error, to no call of ours.
        UnknownXid = "unknown_xid",
        /// A reply with a header that does not decode.
        ReplyHeader = "reply_header",
    }
}

/// Sums over the life of one connection. A message is counted when it is handed to the provider, or
/// received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls of ours that were sent.
    pub calls_out: u64,
    /// Replies of ours that were sent, errors included.
    pub replies_out: u64,
    /// Calls of the peer that were delivered.
    pub calls_in: u64,
    /// Replies to calls of ours, errors included.
    pub replies_in: u64,
    /// RDMA Sends.
    pub sends: u64,
    /// RDMA Writes.
    pub writes: u64,
    /// RDMA Reads.
    pub reads: u64,
    /// Invalidations that we made ourselves.
    pub invalidations_local: u64,
    /// Sends of ours that invalidated memory of the peer.
    pub invalidations_sent: u64,
    /// Regions of ours that a reply had invalidated.
    pub invalidations_received: u64,
    /// Bytes sent in Sends, headers included.
    pub inline_bytes_out: u64,
    /// Bytes received in Sends, headers included.
    pub inline_bytes_in: u64,
    /// Read chunks of the peer's calls, those at position zero included.
    pub read_chunks_in: u64,
    /// Bytes pulled from them.
    pub read_chunk_bytes_in: u64,
    /// Write chunks of the peer that were used.
    pub write_chunks_out: u64,
    /// Bytes pushed to them.
    pub write_chunk_bytes_out: u64,
    /// Reply chunks of the peer that were used.
    pub reply_chunks_out: u64,
    /// Bytes pushed to them.
    pub reply_chunk_bytes_out: u64,
    /// Read chunks that we offered, those at position zero included.
    pub read_chunks_out: u64,
    /// Bytes in them.
    pub read_chunk_bytes_out: u64,
    /// Write chunks of ours that came back used.
    pub write_chunks_in: u64,
    /// Bytes in them.
    pub write_chunk_bytes_in: u64,
    /// Reply chunks of ours that came back used.
    pub reply_chunks_in: u64,
    /// Bytes in them.
    pub reply_chunk_bytes_in: u64,
    /// Payload bytes that were sent inside Sends, which the provider copies.
    pub payload_inline_bytes_out: u64,
    /// Payload bytes copied by [`crate::Engine::reassemble`].
    pub payload_reassembled_bytes: u64,
    /// Calls of ours that had to wait for a credit.
    pub credit_stalls: u64,
    /// Replies that granted the peer fewer credits than it makes use of, since others have them.
    pub grants_short: u64,
    /// Calls of the peer that had to wait for a share of the RDMA Reads in progress.
    pub read_stalls: u64,
    /// Grants of 0, which count as 1.
    pub zero_grants: u64,
    refused: [u64; RefuseReason::ALL.len()],
    discarded: [u64; DiscardReason::ALL.len()],
}

impl Counters {
    /// Calls answered with RDMA_ERROR for `reason`.
    #[must_use]
    pub const fn refused_for(&self, reason: RefuseReason) -> u64 {
        self.refused[reason as usize]
    }

    /// Messages discarded for `reason`.
    #[must_use]
    pub const fn discarded_for(&self, reason: DiscardReason) -> u64 {
        self.discarded[reason as usize]
    }

    pub(crate) const fn refused(&mut self, reason: RefuseReason) {
        self.refused[reason as usize] += 1;
    }

    pub(crate) const fn discarded(&mut self, reason: DiscardReason) {
        self.discarded[reason as usize] += 1;
    }
}
