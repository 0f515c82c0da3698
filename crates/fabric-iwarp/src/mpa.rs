//! MPA: the frames that start a connection, and the framing of what follows.
//!
//! RFC 5044 §7.1 (revision 1) and RFC 6581 (revision 2: read depths and who sends first). The set-up is
//! values in and values out: [`Request`] and [`Reply`] are what goes over the wire, [`respond`] and
//! [`conclude`] decide. Markers are never asked for and a peer that asks for them is refused.

use crate::term::Term;

/// Octets before the private data of a set-up frame.
pub const SETUP_HEADER_BYTES: usize = 20;
/// Most octets of private data, enhanced data included (RFC 5044 §7.1.1).
pub const PRIVATE_DATA_BYTES_MAX: usize = 512;
/// Octets that the enhanced set-up takes of the private data (RFC 6581 §9).
pub const ENHANCED_BYTES: usize = 4;
/// A depth that the peer wants left to the upper layer (RFC 6581 §9.1).
pub const DEPTH_UNNEGOTIATED: u16 = 0x3fff;
/// Largest ULPDU: its length has 16 bits (RFC 5044 §4.1).
pub const ULPDU_BYTES_MAX: usize = 65_535;
/// What a frame adds to its ULPDU: length, padding and CRC (RFC 5044 §4.1).
pub const FPDU_OVERHEAD_BYTES_MAX: usize = 2 + 3 + 4;
/// No MULPDU is smaller (RFC 5044 §4.5).
pub const MULPDU_BYTES_MIN: usize = 128;

const KEY_REQUEST: &[u8; 16] = b"MPA ID Req Frame";
const KEY_REPLY: &[u8; 16] = b"MPA ID Rep Frame";
const FLAG_MARKERS: u8 = 0x80;
const FLAG_CRC: u8 = 0x40;
const FLAG_REJECT: u8 = 0x20;
const FLAG_ENHANCED: u8 = 0x10;
const HIGH_FLAG: u16 = 0x8000;
const LOW_FLAG: u16 = 0x4000;

/// The enhanced data of RFC 6581 §9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enhanced {
    /// A: the initiator announces by an RTR indication that it is ready.
    pub peer_to_peer: bool,
    /// B: a zero-length Send may be that indication.
    pub rtr_send: bool,
    /// C: a zero-length Write may be.
    pub rtr_write: bool,
    /// D: a zero-length Read may be.
    pub rtr_read: bool,
    /// Inbound read depth of the sender, 14 bits.
    pub ird: u16,
    /// Outbound read depth of the sender, 14 bits.
    pub ord: u16,
}

impl Enhanced {
    fn decode(bytes: [u8; ENHANCED_BYTES]) -> Self {
        let high = u16::from_be_bytes([bytes[0], bytes[1]]);
        let low = u16::from_be_bytes([bytes[2], bytes[3]]);
        Self {
            peer_to_peer: high & HIGH_FLAG != 0,
            rtr_send: high & LOW_FLAG != 0,
            rtr_write: low & HIGH_FLAG != 0,
            rtr_read: low & LOW_FLAG != 0,
            ird: high & DEPTH_UNNEGOTIATED,
            ord: low & DEPTH_UNNEGOTIATED,
        }
    }

    fn encode(self) -> [u8; ENHANCED_BYTES] {
        let flag = |on: bool, bit: u16| if on { bit } else { 0 };
        let depth = |depth: u16| depth.min(DEPTH_UNNEGOTIATED);
        let high = flag(self.peer_to_peer, HIGH_FLAG) | flag(self.rtr_send, LOW_FLAG);
        let low = flag(self.rtr_write, HIGH_FLAG) | flag(self.rtr_read, LOW_FLAG);
        let [a, b] = (high | depth(self.ird)).to_be_bytes();
        let [c, d] = (low | depth(self.ord)).to_be_bytes();
        [a, b, c, d]
    }
}

/// A set-up frame: the request of who connects, or the reply to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// A reply, not a request.
    pub is_reply: bool,
    /// M: frames to its sender must carry markers.
    pub markers: bool,
    /// C: its sender wants CRCs.
    pub crc: bool,
    /// R, in a reply: no connection.
    pub rejected: bool,
    /// Revision of MPA.
    pub revision: u8,
    /// S: the enhanced data.
    pub enhanced: Option<Enhanced>,
    /// What the upper layers say.
    pub private_data: Vec<u8>,
}

/// A set-up frame that is wrong. There is no answer to it but closing (RFC 5044 §7.1.2).
pub type Malformed = &'static str;

/// Octets of private data that follow a header. Checks whatever the header says.
///
/// # Errors
/// What is wrong with it.
pub fn private_data_bytes(
    header: &[u8; SETUP_HEADER_BYTES],
    is_reply: bool,
) -> Result<usize, Malformed> {
    let key = if is_reply { KEY_REPLY } else { KEY_REQUEST };
    if &header[..16] != key {
        return Err("not the MPA key");
    }
    if header[17] == 0 || header[17] > 2 {
        return Err("MPA revision other than 1 or 2");
    }
    let len = usize::from(u16::from_be_bytes([header[18], header[19]]));
    if len > PRIVATE_DATA_BYTES_MAX {
        return Err("more than 512 octets of private data");
    }
    let enhanced = header[17] == 2 && header[16] & FLAG_ENHANCED != 0;
    if enhanced && len < ENHANCED_BYTES {
        return Err("enhanced set-up without its data");
    }
    Ok(len)
}

impl Setup {
    /// Reads a whole frame, its private data and nothing else after the header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(frame: &[u8], is_reply: bool) -> Result<Self, Malformed> {
        let Some((header, data)) = frame.split_first_chunk::<SETUP_HEADER_BYTES>() else {
            return Err("a set-up frame is cut off");
        };
        if private_data_bytes(header, is_reply)? != data.len() {
            return Err("the private data are not as long as announced");
        }
        let flags = header[16];
        let revision = header[17];
        let enhanced = revision == 2 && flags & FLAG_ENHANCED != 0;
        let (enhanced, data) = match data.split_first_chunk::<ENHANCED_BYTES>() {
            Some((first, rest)) if enhanced => (Some(Enhanced::decode(*first)), rest),
            _ => (None, data),
        };
        Ok(Self {
            is_reply,
            markers: flags & FLAG_MARKERS != 0,
            crc: flags & FLAG_CRC != 0,
            rejected: is_reply && flags & FLAG_REJECT != 0,
            revision,
            enhanced,
            private_data: data.to_vec(),
        })
    }

    /// The frame; `None` when there is too much private data.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let enhanced = self.enhanced.map(Enhanced::encode);
        let len = self.private_data.len() + enhanced.map_or(0, |e| e.len());
        let len16 = u16::try_from(len)
            .ok()
            .filter(|_| len <= PRIVATE_DATA_BYTES_MAX)?;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let mut frame = Vec::with_capacity(SETUP_HEADER_BYTES + len);
        frame.extend_from_slice(if self.is_reply {
            KEY_REPLY
        } else {
            KEY_REQUEST
        });
        frame.push(
            flag(self.markers, FLAG_MARKERS)
                | flag(self.crc, FLAG_CRC)
                | flag(self.rejected, FLAG_REJECT)
                | flag(self.enhanced.is_some(), FLAG_ENHANCED),
        );
        frame.push(self.revision);
        frame.extend_from_slice(&len16.to_be_bytes());
        if let Some(enhanced) = enhanced {
            frame.extend_from_slice(&enhanced);
        }
        frame.extend_from_slice(&self.private_data);
        Some(frame)
    }
}

/// The first message of the initiator when the responder waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rtr {
    /// Whatever comes first: client and server (RFC 5044 §7.1.2 rule 4).
    None,
    /// A zero-length Write.
    Write,
    /// A zero-length Read.
    Read,
}

/// What one side wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Inbound read depth.
    pub ird: u16,
    /// Outbound read depth.
    pub ord: u16,
    /// CRCs.
    pub crc: bool,
}

/// What both sides agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Inbound read depth of this side.
    pub ird: u16,
    /// Outbound read depth of this side.
    pub ord: u16,
    /// Whether frames carry CRCs.
    pub crc: bool,
    /// What the initiator sends first.
    pub rtr: Rtr,
}

/// The request of who connects: revision 2, ready to announce itself by a Write or a Read, so that either
/// side may send first.
#[must_use]
pub fn request(wish: Wish, private_data: &[u8]) -> Setup {
    Setup {
        is_reply: false,
        markers: false,
        crc: wish.crc,
        rejected: false,
        revision: 2,
        enhanced: Some(Enhanced {
            peer_to_peer: true,
            rtr_send: false,
            rtr_write: true,
            rtr_read: wish.ord > 0,
            ird: wish.ird,
            ord: wish.ord,
        }),
        private_data: private_data.to_vec(),
    }
}

/// The request of revision 1, for a responder that knows no other. This side speaks first, and each side chooses its
/// read depths (RFC 6581 §10).
#[must_use]
pub fn plain_request(wish: Wish, private_data: &[u8]) -> Setup {
    Setup {
        revision: 1,
        enhanced: None,
        ..request(wish, private_data)
    }
}

/// A reply without a connection, in the form of the request.
#[must_use]
pub fn rejection(request: &Setup, private_data: &[u8]) -> Setup {
    Setup {
        is_reply: true,
        markers: false,
        crc: request.crc,
        rejected: true,
        revision: request.revision,
        enhanced: request.enhanced.map(|e| Enhanced {
            peer_to_peer: e.peer_to_peer,
            ..Enhanced::default()
        }),
        private_data: private_data.to_vec(),
    }
}

/// The responder's decision on a request that it likes: the reply, and what holds from then on.
///
/// # Errors
/// When the peer wants markers: it is to get a [`rejection`].
pub fn respond(
    request: &Setup,
    wish: Wish,
    private_data: &[u8],
) -> Result<(Setup, Agreed), Malformed> {
    if request.markers {
        return Err("the peer wants markers");
    }
    let crc = wish.crc || request.crc;
    let (mut ird, mut ord, mut rtr) = (wish.ird, wish.ord, Rtr::None);
    let enhanced = request.enhanced.map(|peer| {
        let mut reply = Enhanced {
            peer_to_peer: peer.peer_to_peer,
            rtr_send: false,
            // With no flag in common any that we support is named (RFC 6581 §9.2), so Write always is unless Read serves.
            rtr_write: peer.peer_to_peer && (peer.rtr_write || !peer.rtr_read),
            rtr_read: peer.peer_to_peer && peer.rtr_read && !peer.rtr_write,
            ird: DEPTH_UNNEGOTIATED,
            ord: DEPTH_UNNEGOTIATED,
        };
        if peer.ord != DEPTH_UNNEGOTIATED {
            // A Read as RTR indication needs a place in the queue even when nobody plans another.
            ird = wish.ird.min(peer.ord).max(u16::from(reply.rtr_read));
            reply.ird = ird;
        }
        if peer.ird != DEPTH_UNNEGOTIATED {
            ord = wish.ord.min(peer.ird);
            reply.ord = ord;
        }
        rtr = match (reply.rtr_write, reply.rtr_read) {
            (true, _) => Rtr::Write,
            (false, true) => Rtr::Read,
            (false, false) => Rtr::None,
        };
        reply
    });
    let reply = Setup {
        is_reply: true,
        markers: false,
        crc,
        rejected: false,
        revision: request.revision,
        enhanced,
        private_data: private_data.to_vec(),
    };
    let agreed = Agreed { ird, ord, crc, rtr };
    Ok((reply, agreed))
}

/// Why the initiator gives up after a reply that is no rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// To be closed.
    Malformed(Malformed),
    /// To be told by a Terminate message (RFC 6581 §8), then closed.
    Terminate(Term),
}

/// The initiator's decision on a reply to its [`plain_request`] that is no rejection.
///
/// # Errors
/// How to give up.
pub fn conclude_plain(wish: Wish, reply: &Setup) -> Result<Agreed, Unusable> {
    if reply.markers {
        return Err(Unusable::Malformed("the peer wants markers"));
    }
    if reply.enhanced.is_some() {
        return Err(Unusable::Malformed("an enhanced reply to a plain request"));
    }
    Ok(Agreed {
        ird: wish.ird,
        ord: wish.ord,
        crc: wish.crc || reply.crc,
        rtr: Rtr::None,
    })
}

/// The initiator's decision on a reply to its [`request`] that is no rejection.
///
/// # Errors
/// How to give up.
pub fn conclude(wish: Wish, reply: &Setup) -> Result<Agreed, Unusable> {
    if reply.markers {
        return Err(Unusable::Malformed("the peer wants markers"));
    }
    let Some(peer) = reply.enhanced else {
        return Err(Unusable::Malformed(
            "no enhanced reply to an enhanced request",
        ));
    };
    let mut ord = wish.ord;
    if peer.ord != DEPTH_UNNEGOTIATED && peer.ord > wish.ird {
        return Err(Unusable::Terminate(Term::INSUFFICIENT_IRD));
    }
    if peer.ird != DEPTH_UNNEGOTIATED {
        ord = wish.ord.min(peer.ird);
    }
    let rtr = match (peer.peer_to_peer, peer.rtr_write, peer.rtr_read && ord > 0) {
        (false, _, _) => Rtr::None,
        (true, true, _) => Rtr::Write,
        (true, false, true) => Rtr::Read,
        (true, false, false) => return Err(Unusable::Terminate(Term::NO_MATCHING_RTR)),
    };
    Ok(Agreed {
        ird: wish.ird,
        ord,
        crc: wish.crc || reply.crc,
        rtr,
    })
}

/// Octets of padding after a ULPDU: the frame without its CRC is a multiple of four (RFC 5044 §4.1).
#[must_use]
pub const fn pad_bytes(ulpdu_bytes: usize) -> usize {
    (2 + ulpdu_bytes).wrapping_neg() & 3
}

/// Largest ULPDU whose frame fits into a TCP segment (RFC 5044 §4.5).
#[must_use]
pub fn mulpdu_for_segment(segment_bytes: usize) -> usize {
    segment_bytes
        .saturating_sub(6 + segment_bytes % 4)
        .clamp(MULPDU_BYTES_MIN, ULPDU_BYTES_MAX)
}
