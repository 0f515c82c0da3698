//! An RPC message that is to be sent, and its payload stream as a list of pieces.
//!
//! # Ownership
//! Payloads are shared slices: every operation that carries a part of one owns such a slice until the
//! provider has completed it. Payload bytes are neither looked at nor copied here. A result may also stay with the host
//! until it is placed ([`HostBytes`]).

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use xdr::{PayloadSpan, padding};

/// A result that the host keeps, in a form of its own, until it is placed. Equal is what is the same.
#[derive(Clone)]
pub struct HostBytes(pub Arc<dyn Any + Send + Sync>);

impl std::fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostBytes")
    }
}

impl PartialEq for HostBytes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostBytes {}

/// A payload and its place.
#[derive(Debug, Clone)]
pub struct Item {
    /// Where it belongs in the head, and how long it is.
    pub span: PayloadSpan,
    /// The bytes, in pieces that follow each other; none when it is held.
    pub payload: Vec<Bytes>,
    /// Where the bytes are instead.
    pub held: Option<HostBytes>,
    /// Whether the upper-layer binding lets it travel in a chunk of its own (RFC 8166 §3.4.2).
    pub ddp_eligible: bool,
}

/// An outgoing call or reply.
#[derive(Debug, Clone)]
pub struct Message {
    head: Bytes,
    items: Vec<Item>,
}

impl Message {
    /// A message of XDR bytes and one DDP-eligible payload for each span in them.
    ///
    /// # Panics
    /// When payloads and spans differ in number or length, or the head has no XID and direction.
    #[must_use]
    pub fn new(head: impl Into<Bytes>, spans: Vec<PayloadSpan>, payloads: Vec<Bytes>) -> Self {
        let payloads = payloads.into_iter().map(|payload| vec![payload]);
        Self::gathered(head, spans, payloads.collect())
    }

    /// The same, of payloads in pieces.
    ///
    /// # Panics
    /// As [`Message::new`].
    #[must_use]
    pub fn gathered(
        head: impl Into<Bytes>,
        spans: Vec<PayloadSpan>,
        payloads: Vec<Vec<Bytes>>,
    ) -> Self {
        let head = head.into();
        assert!(head.len() >= 8, "a message begins with XID and direction");
        assert_eq!(spans.len(), payloads.len(), "one payload for each span");
        let item = |(span, payload): (PayloadSpan, Vec<Bytes>)| {
            let bytes = pieces_bytes(&payload);
            assert_eq!(
                u64::from(span.len),
                bytes,
                "a payload is as long as its span"
            );
            Item {
                span,
                payload,
                held: None,
                ddp_eligible: true,
            }
        };
        Self {
            head,
            items: spans.into_iter().zip(payloads).map(item).collect(),
        }
    }

    /// A reply whose only result stays with the host. Not for replies of which the result is not placed
    /// ([`Engine::result_room`](crate::Engine::result_room)).
    ///
    /// # Panics
    /// When the head has no XID and direction.
    #[must_use]
    pub fn with_held(head: impl Into<Bytes>, span: PayloadSpan, held: HostBytes) -> Self {
        let mut message = Self::new(head, Vec::new(), Vec::new());
        message.items.push(Item {
            span,
            payload: Vec::new(),
            held: Some(held),
            ddp_eligible: true,
        });
        message
    }

    /// The same, with payload `index` kept out of chunks of its own: its binding does not make it
    /// DDP-eligible.
    ///
    /// # Panics
    /// When there is no such payload.
    #[must_use]
    pub fn without_ddp(mut self, index: usize) -> Self {
        self.items[index].ddp_eligible = false;
        self
    }

    /// XID of the message.
    #[must_use]
    pub fn xid(&self) -> u32 {
        let xid = [self.head[0], self.head[1], self.head[2], self.head[3]];
        u32::from_be_bytes(xid)
    }

    /// The XDR bytes, payloads not included.
    #[must_use]
    pub const fn head(&self) -> &Bytes {
        &self.head
    }

    /// The payloads, in the order of the stream.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Bytes of the payload stream when the items chosen by `reduced` are left out.
    pub(crate) fn stream_bytes(&self, reduced: impl Fn(usize) -> bool) -> u64 {
        let kept = self.items.iter().enumerate().filter(|(i, _)| !reduced(*i));
        let kept = kept.map(|(_, item)| padded_bytes(item.span.len));
        self.head.len() as u64 + kept.sum::<u64>()
    }

    /// Payload bytes in the stream when the items chosen by `reduced` are left out.
    pub(crate) fn kept_payload_bytes(&self, reduced: impl Fn(usize) -> bool) -> u64 {
        let kept = self.items.iter().enumerate().filter(|(i, _)| !reduced(*i));
        kept.map(|(_, item)| u64::from(item.span.len)).sum()
    }

    /// Where each item begins in the unreduced payload stream (RFC 8166 §3.4.5).
    pub(crate) fn positions(&self) -> Vec<u64> {
        let mut before = 0;
        let position = |item: &Item| {
            let at = item.span.at as u64 + before;
            before += padded_bytes(item.span.len);
            at
        };
        self.items.iter().map(position).collect()
    }

    /// Appends the payload stream without the items chosen by `reduced`.
    pub(crate) fn stream(&self, reduced: impl Fn(usize) -> bool, out: &mut Vec<Bytes>) {
        let mut push = |piece: Bytes| {
            if !piece.is_empty() {
                out.push(piece);
            }
        };
        let mut at = 0;
        for (index, item) in self.items.iter().enumerate() {
            if !reduced(index) {
                assert!(item.held.is_none(), "what is held is placed");
                push(self.head.slice(at..item.span.at));
                item.payload.iter().cloned().for_each(&mut push);
                push(pad(item.span.len as usize));
                at = item.span.at;
            }
        }
        push(self.head.slice(at..));
    }
}

/// XDR padding after `len` bytes.
pub(crate) fn pad(len: usize) -> Bytes {
    Bytes::from_static(&[0; 3][..padding(len)])
}

/// `len` rounded up to a multiple of four.
pub(crate) fn padded_bytes(len: u32) -> u64 {
    u64::from(len).next_multiple_of(4)
}

/// Bytes in all of `pieces`.
pub(crate) fn pieces_bytes(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Takes the first `wanted` bytes off the front of `pieces`, which has them.
pub(crate) fn take(
    pieces: &mut std::collections::VecDeque<Bytes>,
    mut wanted: usize,
) -> Vec<Bytes> {
    let mut out = Vec::new();
    while wanted > 0 {
        let mut piece = pieces.pop_front().expect("the pieces have enough bytes");
        let taken = piece.split_to(piece.len().min(wanted));
        wanted -= taken.len();
        out.push(taken);
        if !piece.is_empty() {
            pieces.push_front(piece);
        }
    }
    out
}
