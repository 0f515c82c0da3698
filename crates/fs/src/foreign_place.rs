//! Where a new file of a foreign tree goes.
//!
//! May call: `foreign`.

use foreign::{Foreign, MayLack, NoPlace};
use namespace::{LayoutPolicy, Placement};
use nfs4::NfsStatus;

/// Where a new file of a foreign tree goes.
///
/// # Errors
/// `Delay` while too few servers are up; `NoSpc`; `Io` when the store fails.
pub(crate) fn place(
    foreign: &Foreign,
    policy: LayoutPolicy,
    stripe_unit: u32,
    allowed: MayLack,
) -> Result<Placement, NfsStatus> {
    let picked = foreign.pick(policy.stripe_count, policy.copies.max(1), allowed);
    let group = picked
        .inspect_err(|error| tracing::error!(%error, "groups of foreign servers"))
        .map_err(|_| NfsStatus::Io)?
        .map_err(|why| match why {
            NoPlace::NotYet => NfsStatus::Delay,
            NoPlace::Full => NfsStatus::NoSpc,
        })?;
    Ok(Placement {
        group,
        stripe_unit,
        first_index: 0,
    })
}
