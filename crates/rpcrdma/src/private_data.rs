//! The CM private data (RFC 8797): eight bytes that each side gives the other while the connection
//! is set up.
//!
//! They may stand anywhere among the private data of other layers (§5.2). Without them a peer has
//! the defaults of RFC 8166 §3.3.3: 1024 bytes each way and no remote invalidation.

/// Format identifier, in network byte order at the start of the message.
pub const PRIVATE_DATA_MAGIC: u32 = 0xf6ab_0e18;
/// Bytes of the message.
pub const PRIVATE_DATA_BYTES: usize = 8;
/// Smallest inline size, and the unit in which sizes are counted.
pub const INLINE_BYTES_MIN: u32 = 1024;
/// Largest inline size that the message can say.
pub const INLINE_BYTES_MAX: u32 = 256 * INLINE_BYTES_MIN;

const VERSION: u8 = 1;
const FLAG_REMOTE_INVALIDATION: u8 = 1;

/// What one side says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateData {
    /// R: each steering tag that it offers may be invalidated by a reply to the same XID.
    pub remote_invalidation: bool,
    /// Most bytes that it sends in one Send.
    pub send_bytes: u32,
    /// Most bytes that it takes in one Receive.
    pub receive_bytes: u32,
}

impl Default for PrivateData {
    /// A peer that said nothing.
    fn default() -> Self {
        Self {
            remote_invalidation: false,
            send_bytes: INLINE_BYTES_MIN,
            receive_bytes: INLINE_BYTES_MIN,
        }
    }
}

impl PrivateData {
    /// The message. Sizes are rounded down to what it can express.
    #[must_use]
    pub fn encode(&self) -> [u8; PRIVATE_DATA_BYTES] {
        let [a, b, c, d] = PRIVATE_DATA_MAGIC.to_be_bytes();
        let flags = if self.remote_invalidation {
            FLAG_REMOTE_INVALIDATION
        } else {
            0
        };
        let [send, receive] = [self.send_bytes, self.receive_bytes].map(encode_size);
        [a, b, c, d, VERSION, flags, send, receive]
    }

    /// Finds and reads the message of a peer; the defaults when there is none that we understand.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let magic = PRIVATE_DATA_MAGIC.to_be_bytes();
        let found = bytes.windows(magic.len()).position(|w| w == magic);
        let message = found.and_then(|at| bytes.get(at..at + PRIVATE_DATA_BYTES));
        match message {
            Some(&[_, _, _, _, VERSION, flags, send, receive]) => Self {
                remote_invalidation: flags & FLAG_REMOTE_INVALIDATION != 0,
                send_bytes: decode_size(send),
                receive_bytes: decode_size(receive),
            },
            _ => Self::default(),
        }
    }
}

fn encode_size(bytes: u32) -> u8 {
    let kib = bytes.clamp(INLINE_BYTES_MIN, INLINE_BYTES_MAX) / INLINE_BYTES_MIN;
    u8::try_from(kib - 1).expect("256 KiB is the largest size")
}

fn decode_size(size: u8) -> u32 {
    (u32::from(size) + 1) * INLINE_BYTES_MIN
}
