//! What calls and replies begin with (RFC 5531 §9).

/// The RPC version that RFC 5531 defines.
pub const RPC_VERSION: u32 = 2;

xdr::xdr_enum! {
    /// Direction of a message (RFC 5531 §9).
    pub enum MessageType {
        /// A request.
        Call = 0,
        /// Its answer.
        Reply = 1,
    }
}
