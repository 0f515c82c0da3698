//! FENCE, FLOORS and KEYS (rules R5, R6, R13).

use control::{FenceArgs, FloorsArgs, KeysArgs, Status};

use crate::ds::Ds;

/// Raises floors; answered when they are durable and no I/O that they forbid is going on.
pub(super) async fn fence(ds: &Ds, args: FenceArgs) -> Result<(), Status> {
    ds.fence(&args.floors.0).await
}

/// One page of missed floors. After the last one, and after what an earlier tenure let in has ended, I/O is served.
pub(super) async fn page(ds: &Ds, args: FloorsArgs) -> Result<(), Status> {
    let tenure = ds.gate.tenure();
    if !ds.gate.expects_page(args.page) {
        return Err(Status::Invalid);
    }
    ds.raise_floors(&args.floors.0).await?;
    ds.gate.took_page(tenure, args.page);
    if args.last {
        ds.gate.drain_all().await;
        ds.gate.serve(tenure);
    }
    Ok(())
}

/// Replaces the keys.
pub(super) fn keys(ds: &Ds, args: &KeysArgs) -> Result<(), Status> {
    let ring = args.keys.ring().map_err(|e| {
        tracing::error!("keys of the MDS: {e}");
        Status::Invalid
    })?;
    ds.take_keys(ring)
}
