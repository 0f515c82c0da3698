//! Channel attributes (RFC 8881 §18.36.3) and how a server answers those that a client asks for.
//!
//! Owns the clamping rules only. A session keeps the outcome.

use nfs4::NfsStatus;

/// Most slots of one session's fore channel, whatever the configuration says.
pub const SLOTS_PER_SESSION_MAX: u32 = 1024;
/// Smallest request or response size, in bytes, with which a session is of any use: RPC header, SEQUENCE and one
/// small operation. Below it no reply could be sent (RFC 8881 §18.36.3).
pub const CHANNEL_BYTES_MIN: u32 = 256;

/// `channel_attrs4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelAttrs {
    /// `ca_headerpadsize`: bytes of padding in front of a WRITE's data.
    pub header_pad_bytes: u32,
    /// `ca_maxrequestsize`: longest request in bytes, RPC header included.
    pub request_bytes_max: u32,
    /// `ca_maxresponsesize`: longest reply in bytes, RPC header included.
    pub response_bytes_max: u32,
    /// `ca_maxresponsesize_cached`: longest reply in bytes that the reply cache keeps.
    pub response_cached_bytes_max: u32,
    /// `ca_maxoperations`: most operations in one COMPOUND.
    pub operations_max: u32,
    /// `ca_maxrequests`: number of slots.
    pub requests_max: u32,
    /// `ca_rdma_ird`, if given.
    pub rdma_ird: Option<u32>,
}

/// What this server grants at most; the configuration of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelLimits {
    /// Longest request in bytes.
    pub request_bytes_max: u32,
    /// Longest reply in bytes.
    pub response_bytes_max: u32,
    /// Longest cached reply in bytes; the reply cache of a session is at most this times its slots.
    pub response_cached_bytes_max: u32,
    /// Most operations in one COMPOUND. Linux refuses a session that grants fewer than it asked for,
    /// so keep this well above what clients use.
    pub operations_max: u32,
    /// Most fore slots, at most [`SLOTS_PER_SESSION_MAX`].
    pub fore_slots_max: u32,
    /// Most callbacks under way at once.
    pub back_slots_max: u32,
}

impl Default for ChannelLimits {
    fn default() -> Self {
        Self {
            request_bytes_max: (1 << 20) + 4096,
            response_bytes_max: (1 << 20) + 4096,
            response_cached_bytes_max: 4096,
            operations_max: 128,
            fore_slots_max: 128,
            back_slots_max: 16,
        }
    }
}

impl ChannelLimits {
    /// Answers the fore channel that a client asks for: nothing is ever raised.
    ///
    /// # Errors
    /// `TooSmall` for sizes with which no request could work, `Inval` for no slot or operation.
    pub fn fore(&self, asked: &ChannelAttrs) -> Result<ChannelAttrs, NfsStatus> {
        if asked.requests_max == 0 || asked.operations_max == 0 {
            return Err(NfsStatus::Inval);
        }
        if asked.request_bytes_max < CHANNEL_BYTES_MIN
            || asked.response_bytes_max < CHANNEL_BYTES_MIN
        {
            return Err(NfsStatus::TooSmall);
        }
        let response = asked.response_bytes_max.min(self.response_bytes_max);
        Ok(ChannelAttrs {
            header_pad_bytes: 0,
            request_bytes_max: asked.request_bytes_max.min(self.request_bytes_max),
            response_bytes_max: response,
            response_cached_bytes_max: asked
                .response_cached_bytes_max
                .min(self.response_cached_bytes_max)
                .min(response),
            operations_max: asked.operations_max.min(self.operations_max),
            requests_max: asked
                .requests_max
                .min(self.fore_slots_max)
                .clamp(1, SLOTS_PER_SESSION_MAX),
            rdma_ird: asked.rdma_ird,
        })
    }

    /// Answers the back channel that a client offers. Sizes, operations and slots are the client's own and
    /// come back unchanged (RFC 8881 §18.36.3 says MUST of the last two). We may use fewer slots, see
    /// [`ChannelLimits::back_slots`], and never ask the client to cache a reply.
    #[must_use]
    pub fn back(&self, offered: &ChannelAttrs) -> ChannelAttrs {
        ChannelAttrs {
            header_pad_bytes: 0,
            response_cached_bytes_max: 0,
            ..*offered
        }
    }

    /// How many of the offered slots are used for callbacks.
    #[must_use]
    pub fn back_slots(&self, offered: &ChannelAttrs) -> u32 {
        offered.requests_max.min(self.back_slots_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> ChannelAttrs {
        ChannelAttrs {
            header_pad_bytes: 64,
            request_bytes_max: 1 << 21,
            response_bytes_max: 65_536,
            response_cached_bytes_max: 65_536,
            operations_max: 8,
            requests_max: 64,
            rdma_ird: None,
        }
    }

    #[test]
    fn fore_channel_is_clamped_and_never_raised() {
        let granted = ChannelLimits::default().fore(&asked()).unwrap();
        assert_eq!(granted.header_pad_bytes, 0);
        assert_eq!(granted.request_bytes_max, (1 << 20) + 4096);
        assert_eq!(granted.response_bytes_max, 65_536);
        assert_eq!(granted.response_cached_bytes_max, 4096);
        assert_eq!((granted.operations_max, granted.requests_max), (8, 64));
        let one = ChannelLimits::default().fore(&ChannelAttrs {
            requests_max: 1,
            ..asked()
        });
        assert_eq!(one.unwrap().requests_max, 1);
    }

    #[test]
    fn fore_channel_too_small_to_work_is_refused() {
        let limits = ChannelLimits::default();
        for (attrs, status) in [
            (
                ChannelAttrs {
                    request_bytes_max: CHANNEL_BYTES_MIN - 1,
                    ..asked()
                },
                NfsStatus::TooSmall,
            ),
            (
                ChannelAttrs {
                    response_bytes_max: 0,
                    ..asked()
                },
                NfsStatus::TooSmall,
            ),
            (
                ChannelAttrs {
                    requests_max: 0,
                    ..asked()
                },
                NfsStatus::Inval,
            ),
            (
                ChannelAttrs {
                    operations_max: 0,
                    ..asked()
                },
                NfsStatus::Inval,
            ),
        ] {
            assert_eq!(limits.fore(&attrs), Err(status));
        }
    }

    #[test]
    fn back_channel_keeps_what_the_client_gave() {
        let offered = ChannelAttrs {
            request_bytes_max: 4096,
            response_bytes_max: 4096,
            response_cached_bytes_max: 512,
            operations_max: 2,
            requests_max: 64,
            ..asked()
        };
        let granted = ChannelLimits::default().back(&offered);
        assert_eq!(granted.request_bytes_max, 4096);
        assert_eq!(granted.response_bytes_max, 4096);
        assert_eq!(granted.response_cached_bytes_max, 0);
        assert_eq!((granted.operations_max, granted.requests_max), (2, 64));
        assert_eq!(ChannelLimits::default().back_slots(&offered), 16);
    }
}
