//! The proof that a caller is a data server of the cluster.
//!
//! The callee says a challenge; the caller answers with a MAC under a signing key that both have. So an answer that was
//! overheard is of no use. Who changes bytes on the wire is not kept out: that is the transport's.

use layout::SigningKey;

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 16;
const CONTEXT: &[u8] = b"ropewalk parts open\0";

/// What both ends say of a stream. The MAC covers all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The cluster.
    pub cluster_id: u64,
    /// The data server that calls.
    pub from: u32,
    /// Its process.
    pub from_nonce: u64,
    /// The data server that is called.
    pub to: u32,
    /// Its process.
    pub to_nonce: u64,
    /// The stream of the calling process: a later one begins with number 0 again.
    pub stream: u64,
    /// What the called one has said.
    pub challenge: [u8; CHALLENGE_BYTES],
}

impl Opening {
    /// The MAC under a key.
    #[must_use]
    pub fn mac(&self, key: &SigningKey) -> [u8; layout::MAC_BYTES] {
        let mut bytes = CONTEXT.to_vec();
        for number in [self.cluster_id, self.from_nonce, self.to_nonce, self.stream] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.from.to_be_bytes());
        bytes.extend_from_slice(&self.to.to_be_bytes());
        bytes.extend_from_slice(&self.challenge);
        key.mac_of(&bytes)
    }

    /// Whether a MAC is that of a key, in a time that does not tell where they differ.
    #[must_use]
    pub fn is_proved(&self, key: &SigningKey, mac: &[u8; layout::MAC_BYTES]) -> bool {
        let differing = (self.mac(key).iter().zip(mac)).fold(0, |d, (a, b)| d | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}
