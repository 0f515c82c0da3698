//! `DESTROY_CLIENTID` (RFC 8881 §18.50).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{DestroyClientIdArgs, DestroyClientIdRes};

impl<R: Role> Nfsd<R> {
    pub(super) async fn destroy_clientid(
        &self,
        _cx: &Compound<'_, R>,
        args: DestroyClientIdArgs,
    ) -> Result<DestroyClientIdRes, NfsStatus> {
        let removed = self
            .clients()
            .destroy_client(args.clientid, |c| self.role().has_state(c))?;
        R::client_removed(self, removed).await;
        Ok(DestroyClientIdRes {})
    }
}
