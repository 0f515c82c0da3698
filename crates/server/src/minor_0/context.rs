//! What a COMPOUND of NFSv4.0 has in place of a session.

use nfs4::ClientId;

/// Who acts in operations that name no client. None has this id, and it holds nothing.
pub const NOBODY: ClientId = ClientId { value: 0 };
/// Largest reply in bytes: the largest READ and what goes around it.
pub(crate) const REPLY_BYTES_MAX: usize = (1 << 20) + (64 << 10);

/// What a COMPOUND of NFSv4.0 has in place of a session.
#[derive(Debug, Clone, Copy)]
pub struct Minor0Context {
    /// The client of the last operation that named one, or [`NOBODY`].
    pub client: ClientId,
    /// The OPEN in execution is the first one of its owner, which must confirm it (RFC 7530 §9.1.11).
    pub must_confirm: bool,
}

impl Default for Minor0Context {
    fn default() -> Self {
        Self {
            client: NOBODY,
            must_confirm: false,
        }
    }
}
