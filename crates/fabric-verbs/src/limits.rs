//! What every device can do.

use crate::copies;
use fabric::{Blame, PRIVATE_DATA_BYTES_PORTABLE, ProviderLimits};

/// What holds on every device. What differs is that of a device that has no more than it must.
pub(crate) const LIMITS: ProviderLimits = ProviderLimits {
    private_data_bytes_max: PRIVATE_DATA_BYTES_PORTABLE,
    send_bytes_max: copies::COPY_BYTES_MAX,
    transfer_bytes_max: 1 << 30,
    depth_max: 65_536,
    exposed_max: 65_536,
    reads_max: 255,
    waits_for_receives: false,
    shares_receives: false,
    holds_back: false,
    pads_private_data: true,
    peers_invalidate: false,
    counts_peers_work: false,
    blame: Blame::Nobody,
};
