//! VERIFY and NVERIFY (RFC 8881 §18.31, §18.15).

use crate::cx::{self, Cx};
use crate::{Mds, attrs};
use nfs4::attr::{RDATTR_ERROR, WRITE_ONLY};
use nfs4::ops::{NVerifyArgs, NVerifyRes, VerifyArgs, VerifyRes};
use nfs4::{Fattr, NfsStatus};

pub(super) async fn verify(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &VerifyArgs<'_>,
) -> Result<VerifyRes, NfsStatus> {
    if same(mds, cx, &args.attrs).await? {
        Ok(VerifyRes {})
    } else {
        Err(NfsStatus::NotSame)
    }
}

pub(super) async fn nverify(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &NVerifyArgs<'_>,
) -> Result<NVerifyRes, NfsStatus> {
    if same(mds, cx, &args.attrs).await? {
        Err(NfsStatus::Same)
    } else {
        Ok(NVerifyRes {})
    }
}

/// Compares the encoded values: both sides encode alike.
async fn same(mds: &Mds, cx: &mut Cx<'_>, given: &Fattr<'_>) -> Result<bool, NfsStatus> {
    cx::current(mds, cx)?;
    let supported = attrs::supported(cx.minor_version);
    if given.mask.contains(RDATTR_ERROR) || !given.mask.intersection(&WRITE_ONLY).is_empty() {
        return Err(NfsStatus::Inval);
    }
    if !given.mask.difference(&supported).is_empty() {
        return Err(NfsStatus::AttrNotSupp);
    }
    given.attrs().map_err(|e| e.status())?;
    let known = super::getattr::known(mds, cx, &given.mask).await?;
    let mut ours = attrs::of_fresh(mds, &known, &given.mask, cx.minor_version);
    ours.retain(&given.mask);
    Ok(Fattr::new(&ours).values == given.values)
}
