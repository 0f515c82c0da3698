//! `SECINFO_NO_NAME` (RFC 8881 §18.45): any credential will do, because handles decide.

use nfs4::NfsStatus;
use nfs4::ops::{
    FLAVOR_NONE, FLAVOR_SYS, SecInfo, SecInfoNoNameArgs, SecInfoNoNameRes, SecInfoStyle,
};
use server::Compound;

/// The current handle is consumed (RFC 8881 §2.6.3.1.1.8).
pub(super) fn secinfo_no_name(
    cx: &mut Compound<'_, ()>,
    args: SecInfoNoNameArgs,
) -> Result<SecInfoNoNameRes, NfsStatus> {
    cx.fh()?;
    if args.style == SecInfoStyle::Parent {
        return Err(NfsStatus::NoEnt);
    }
    cx.current_fh = None;
    cx.current_stateid = None;
    Ok(SecInfoNoNameRes {
        flavors: vec![SecInfo::Flavor(FLAVOR_SYS), SecInfo::Flavor(FLAVOR_NONE)].into(),
    })
}
