//! `RECLAIM_COMPLETE` (RFC 8881 §18.51).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{ReclaimCompleteArgs, ReclaimCompleteRes};

impl<R: Role> Nfsd<R> {
    pub(super) async fn reclaim_complete(
        &self,
        cx: &Compound<'_, R>,
        args: ReclaimCompleteArgs,
    ) -> Result<ReclaimCompleteRes, NfsStatus> {
        let client = cx.client()?;
        if args.one_fs {
            // Only meaningful after a migration, which this server never offers.
            cx.fh()?;
            return Ok(ReclaimCompleteRes {});
        }
        let now_ms = self.now_ms();
        self.clients().reclaim_complete(client, now_ms)?;
        R::reclaim_complete(self, client).await?;
        Ok(ReclaimCompleteRes {})
    }
}
