//! `RECLAIM_COMPLETE` (RFC 8881 §18.51).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{ReclaimCompleteArgs, ReclaimCompleteRes};

impl<R: Role> Nfsd<R> {
    pub(super) async fn reclaim_complete(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: ReclaimCompleteArgs,
    ) -> Result<ReclaimCompleteRes, NfsStatus> {
        let client = cx.client()?;
        if args.one_fs {
            // Only meaningful after a migration, which this server never offers.
            cx.fh()?;
            return Ok(ReclaimCompleteRes {});
        }
        let now_ms = self.clients().now_ms();
        self.clients().lock().reclaim_complete(client, now_ms)?;
        self.role().reclaim_complete(client).await?;
        Ok(ReclaimCompleteRes {})
    }
}
